// SPDX-License-Identifier: MIT
#include "engine/ending.h"

#include "base/lease.h"
#include "base/say.h"
#include "base/text.h"
#include "engine/help.h"
#include "engine/wake.h"
#include "schedule/watchdog.h"

#define MS 1000000

/* Ends the policy from within a hook: at this GIL now, at each other GIL when a hook next runs
 * there. The hooks stay installed and do nothing.
 *
 * Returns whether the policy has ended: false if another thread is starting or stopping a policy or
 * a trace at this moment. */
static bool end_policy(struct hw__gil *gil, pthread_mutex_t *mutex, int64_t why, const char *text) {
    if (!hw__sched_remove(hw__sched_of(gil), why)) {
        return false;
    }
    hw__sched_end(gil);
    /* The following steps take long, and CPython must not wait for the mutex meanwhile. */
    pthread_mutex_unlock(mutex);
    hw__wake_unlocked(mutex);
    hw__help_end();
    if (text != NULL) {
        hw__say(text);
    }
    hw__wake_lock(mutex);
    return true;
}

bool hw__ending_abandoned(struct hw__gil *gil, pthread_mutex_t *mutex, int64_t now_ns) {
    return hw__lease_over(&hw__leases[HW__LEASE_SCHEDULE], now_ns) &&
           end_policy(gil, mutex, HW__LEASE_EXPIRED, NULL);
}

bool hw__ending_removed(struct hw__gil *gil, pthread_mutex_t *mutex, struct hw__runner *runner,
                        const struct hw__moment *moment) {
    struct hw__ledger *ledger = &hw__sched_of(gil)->ledger;
    const char *why = hw__watchdog_finds(ledger, &runner->waiter, moment->now_ns, moment->locked);
    if (why == NULL) {
        return false;
    }
    char text[HW__SAY_BYTES] = "";
    hw__text_append(text, sizeof text, "the policy ");
    hw__text_append(text, sizeof text, ledger->policy->name);
    hw__text_append(text, sizeof text, " is removed, CPython schedules again: ");
    hw__text_append(text, sizeof text, why);
    hw__text_append(text, sizeof text, " (thread ");
    hw__text_append_number(text, sizeof text, runner->tid);
    hw__text_append(text, sizeof text, ", ");
    int64_t waited_ns = moment->now_ns - runner->waiter.seen.ready_ns;
    hw__text_append_number(text, sizeof text, waited_ns / MS);
    hw__text_append(text, sizeof text, " ms)");
    hw__ledger_cut_short(ledger, &runner->waiter); /* it is awake, and in no queue */
    return end_policy(gil, mutex, HW__LEASE_WATCHDOG, text);
}
