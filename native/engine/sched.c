// SPDX-License-Identifier: MIT
#include "engine/sched.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/lease.h"
#include "base/room.h"
#include "base/say.h"
#include "engine/help.h"
#include "engine/wake.h"
#include "gil/hooks.h"
#include "gil/recorder.h"
#include "gil/scheduler.h"
#include "schedule/habits.h"

static struct hw__sched scheds[HW__MAX_GILS];

/* The policy that is on, also for GILs to come, with its options and settings. Written with the
 * registry's lock held. The options do not change while a policy is on. */
static const struct hw_policy *_Atomic current;
static int64_t current_options[HW_POLICY_MAX_OPTIONS];
static struct hw__settings current_settings;
static _Atomic uint32_t generation; /* incremented whenever `current` is set */

struct hw__sched *hw__sched_of(const struct hw__gil *gil) { return &scheds[gil->index]; }

const struct hw_policy *hw__sched_policy(void) { return atomic_load(&current); }

uint32_t hw__sched_generation(void) { return atomic_load(&generation); }

void hw__sched_set_policy(const struct hw_policy *policy, const int64_t *options,
                          const struct hw__settings *settings) {
    if (policy != NULL) {
        memcpy(current_options, options, sizeof current_options);
        current_settings = *settings;
        hw__wake_prepare();
    }
    atomic_fetch_add(&generation, 1);
    atomic_store(&current, policy);
}

void hw__sched_call(struct hw__sched *sched, struct hw__runner *runner) {
    hw__ledger_dequeue(&sched->ledger, &runner->waiter);
    hw__wake(runner, &sched->memory->mutex);
}

int64_t hw__sched_time(struct hw__sched *sched) {
    return hw__ledger_time(&sched->ledger, hw__ticks_now(&sched->ticks));
}

/* Resets the record of a thread that comes to this GIL, or under this policy, for the first time.
 */
static void meet(struct hw__sched *sched, struct hw__runner *runner) {
    if (runner->sched != sched) {
        /* The thread may still stand in the queue of the other GIL. A release for a call in C,
         * while a request is pending, puts it there if it is expected back at once; but it may come
         * here instead. */
        hw__sched_leave(runner);
    }
    hw__ledger_forget(&runner->waiter);
    runner->sched = sched;
    runner->generation = sched->generation;
    runner->lean = 0;
    runner->poster = NULL;
    runner->rests = sched->ledger.counts.rests;
    /* It may count as a spinner: it was about to spin when the last policy ended. */
    hw__wake_spin_ends(runner);
}

struct hw__runner *hw__sched_runner(struct hw__sched *sched) {
    struct hw__runner *runner = hw__runner_self();
    if (runner == NULL) {
        sched->ledger.counts.without++;
        return NULL;
    }
    if (runner->sched != sched || runner->generation != sched->generation) {
        meet(sched, runner);
    } else if (runner->rests != sched->ledger.counts.rests) {
        hw__ledger_forget_last(&runner->waiter);
        runner->poster = NULL; /* at rest, no release has cleared it */
        runner->rests = sched->ledger.counts.rests;
    }
    hw__sched_heed(runner);
    return runner;
}

void hw__sched_heed(struct hw__runner *runner) {
    struct hw_policy_thread *seen = &runner->waiter.seen;
    seen->priority = runner->priority;
    seen->flags = (seen->flags & ~HW_THREAD_URGENT) | (runner->urgent ? HW_THREAD_URGENT : 0);
}

void hw__sched_read_interval(struct hw__sched *sched) {
    sched->ledger.view.interval_ns = hw__gil_interval_ns(sched->memory);
}

bool hw__sched_is_on(struct hw__gil *gil, struct hw__sched *sched) {
    if (sched->ledger.policy == NULL) {
        return false;
    }
    if (atomic_load_explicit(&generation, memory_order_relaxed) != sched->generation) {
        hw__sched_end(gil);
        return false;
    }
    return true;
}

static void call_all(struct hw__sched *sched) {
    for (int lane = 0; lane < HW_POLICY_LANES; lane++) {
        struct hw__waiters *waiters = &sched->ledger.lanes[lane];
        while (waiters->count > 0) {
            hw__sched_call(sched, hw__runner_of(hw__waiters_first(waiters)));
        }
    }
    /* The wake-ups are not deferred to an unlock: the caller may go to sleep in the C library,
     * whose unlock is not hooked. */
    hw__wake_called();
}

/* Allocates the queue's memory at the first policy of a GIL; it is kept. Pages that are not used
 * take no memory. Returns whether the GIL has a queue. */
static bool have_queue(struct hw__sched *sched) {
    static atomic_bool said;
    if (sched->ledger.lanes[0].members == NULL) {
        size_t bytes = (size_t)HW_POLICY_LANES * HW__MAX_RUNNERS * sizeof(struct hw__waiter *);
        int saved = errno;
        struct hw__waiter **memory = MAP_FAILED;
        if (hw__room_for(bytes)) {
            memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        }
        errno = saved;
        if (memory == MAP_FAILED) {
            hw__say_once(&said,
                         "no memory for the queue of an interpreter's GIL: it is not scheduled");
            return false;
        }
        sched->ledger.lanes[0].members = memory;
        sched->ledger.lanes[1].members = memory + HW__MAX_RUNNERS;
    }
    return true;
}

_Atomic int64_t hw__sched_early_elsewhere;

static void forget_early(struct hw__runner *runner) { atomic_store(&runner->early, 0); }

static void begin(struct hw__gil *gil, const struct hw_policy *policy, const int64_t *options) {
    struct hw__sched *sched = hw__sched_of(gil);
    if (!have_queue(sched)) {
        return;
    }
    if (gil->main) {
        hw__runners_each(forget_early);
        atomic_store(&hw__sched_early_elsewhere, 0);
    }
    call_all(sched); /* waiters that still sleep under an earlier policy */
    sched->generation = atomic_load(&generation);
    sched->memory = atomic_load(&gil->memory);
    sched->ticks = (struct hw__ticks){0};
    int64_t interval_ns = hw__gil_interval_ns(sched->memory);
    hw__ledger_begin(&sched->ledger, policy, options, &current_settings,
                     hw__ticks_now(&sched->ticks), interval_ns);
    hw__ledger_check(&sched->ledger);
    atomic_store(&gil->scheduled, true);
}

void hw__sched_found_holding(struct hw__sched *sched) {
    struct hw__ledger *ledger = &sched->ledger;
    if (ledger->policy == NULL) {
        return; /* the policy did not begin: there was no memory for the queue */
    }
    struct hw__runner *runner = hw__sched_runner(sched);
    if (runner != NULL) {
        ledger->stranger_ns = hw__sched_time(sched);
        hw__ledger_meet(ledger, &runner->waiter);
        ledger->stranger_ns = 0;
    }
    hw__ledger_check(ledger);
}

void hw__sched_end(struct hw__gil *gil) {
    struct hw__sched *sched = hw__sched_of(gil);
    for (int lane = 0; lane < HW_POLICY_LANES; lane++) {
        for (uint32_t i = 0; i < sched->ledger.lanes[lane].count; i++) {
            hw__ledger_cut_short(&sched->ledger, sched->ledger.lanes[lane].members[i]);
        }
    }
    call_all(sched);
    hw__ledger_end(&sched->ledger);
    hw__ledger_check(&sched->ledger);
    atomic_store(&gil->scheduled, false);
}

static bool rest(struct hw__gil *gil, struct hw__sched *sched, bool idle) {
    bool rests = hw__hooks_rest(atomic_load(&gil->memory), idle);
    if (rests) {
        call_all(sched); /* under an idle policy: the waiters go on in the C library */
        hw__ledger_rest(&sched->ledger);
        sched->ledger.counts.rests++;
    }
    return rests;
}

void hw__sched_rest(struct hw__gil *gil, struct hw__sched *sched) { (void)rest(gil, sched, false); }

atomic_bool hw__sched_any_urgent;

void hw__sched_stand_by(struct hw__gil *gil, struct hw__sched *sched) {
    (void)rest(gil, sched, true);
}

void hw__sched_leave(struct hw__runner *runner) {
    /* The thread can only stand in the queue of the main GIL, whose memory lives as long as the
     * process. The interpreter may have destroyed that GIL's mutex, but then no policy has the GIL.
     */
    struct hw__sched *sched = runner->sched;
    if (sched == &scheds[0] && atomic_load(&hw__gils[0].scheduled)) {
        pthread_mutex_t *mutex = &sched->memory->mutex;
        hw__wake_lock(mutex);
        hw__ledger_leave(&sched->ledger, &runner->waiter);
        pthread_mutex_unlock(mutex);
    }
}

void hw__sched_adopt(struct hw__gil *gil) {
    const struct hw_policy *policy = atomic_load(&current);
    if (policy != NULL) {
        begin(gil, policy, current_options);
    }
}

void hw__sched_try_adopt(struct hw__gil *gil) {
    if (atomic_load_explicit(&current, memory_order_relaxed) != NULL && hw__registry_trylock()) {
        hw__sched_adopt(gil);
        hw__registry_unlock();
    }
}

bool hw__sched_remove(const struct hw__sched *sched, int64_t why) {
    if (!hw__registry_trylock()) {
        return false;
    }
    bool same = atomic_load(&generation) == sched->generation;
    if (same) {
        hw__on_policy_end();
        hw__sched_set_policy(NULL, NULL, NULL);
        hw__lease_expire(&hw__leases[HW__LEASE_SCHEDULE], why);
    }
    hw__registry_unlock();
    return same;
}

void hw__sched_forget(struct hw__gil *gil) {
    if (atomic_load(&gil->scheduled)) {
        hw__sched_end(gil);
    }
}

void hw__sched_before_fork(void) { hw__registry_before_fork(); }

void hw__sched_after_fork_in_parent(void) { hw__registry_after_fork(false); }

void hw__sched_after_fork_in_child(void) {
    int saved = errno;
    hw__registry_after_fork(true);
    hw__say_after_fork();
    hw__leases_after_fork_in_child();
    hw__runners_after_fork();
    hw__wake_after_fork();
    hw__help_after_fork();
    hw__hooks_after_fork();
    for (int i = 0; i < hw__gil_count(); i++) {
        struct hw__sched *sched = &scheds[i];
        /* The waiters do not exist in the child. */
        sched->ledger.lanes[0].count = sched->ledger.lanes[1].count = 0;
        if (sched->ledger.policy == NULL) {
            continue;
        }
        if (i > 0 || sched->generation != atomic_load(&generation)) {
            /* Either this is a sub-interpreter's GIL, whose memory may be gone, since CPython does
             * not announce its end; the policy begins again at its next acquire. Or the policy was
             * removed at another GIL. */
            hw__sched_end(&hw__gils[i]);
            continue;
        }
        const struct hw_policy *policy = sched->ledger.policy;
        int64_t options[HW_POLICY_MAX_OPTIONS];
        memcpy(options, sched->ledger.view.options, sizeof options);
        begin(&hw__gils[i], policy, options);
    }
    struct hw__runner *self = hw__runner_known();
    if (self != NULL) {
        self->sched = NULL;
    }
    errno = saved;
}
