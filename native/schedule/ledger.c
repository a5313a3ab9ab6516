// SPDX-License-Identifier: MIT
#include "schedule/ledger.h"

#include <assert.h>
#include <string.h>

#include "schedule/habits.h"
#include "schedule/watchdog.h"

/* Waiters wake up more often than this. If none has done so for this time, the whole process was
 * stopped (SIGSTOP, a paused container). */
#define STOPPED_NS 500000000

/* A grace that ends within this time is no loss, since two hand-offs would take longer. */
#define FREE_OF_CHARGE_NS 1500

/* The most that the budget is charged for one grace. */
#define CHARGE_MOST_NS 2000000

void hw__ledger_begin(struct hw__ledger *ledger, const struct hw_policy *policy,
                      const int64_t *options, const struct hw__settings *settings, int64_t clock_ns,
                      int64_t interval_ns) {
    struct hw__waiter **first = ledger->lanes[0].members, **second = ledger->lanes[1].members;
    *ledger = (struct hw__ledger){.lanes = {{.members = first}, {.members = second}},
                                  .policy = policy,
                                  .settings = *settings,
                                  .phase = HW__PHASE_STRANGE};
    memcpy(ledger->view.options, options, sizeof ledger->view.options);
    ledger->view.interval_ns = interval_ns;
    ledger->budget_at_ns = hw__ledger_time(ledger, clock_ns);
    ledger->idle_at_ns = ledger->budget_at_ns; /* a policy may begin idle */
}

void hw__ledger_end(struct hw__ledger *ledger) {
    ledger->policy = NULL;
    hw__ledger_rest(ledger);
}

/* Tells whether a waiter of this lane that was called is late: it has left the queue, and still
 * waits. */
static bool one_is_late(const struct hw__ledger *ledger, int lane) {
    return ledger->coming[lane] != NULL &&
           ledger->view.now_ns - ledger->coming_ns[lane] >= HW__CALLED_NS;
}

/* Tells the policy how many threads wait. */
static void count_lanes(struct hw__ledger *ledger) {
    for (int lane = 0; lane < HW_POLICY_LANES; lane++) {
        ledger->view.in_lane[lane] =
            ledger->lanes[lane].count + (one_is_late(ledger, lane) ? 1 : 0);
    }
}

int64_t hw__ledger_time(struct hw__ledger *ledger, int64_t clock_ns) {
    int64_t since_ns = clock_ns - ledger->view.now_ns;
    if (since_ns > 0) {
        ledger->view.now_ns = clock_ns;
    }
    /* A gap has two causes: the process was stopped, or no thread waited for this GIL. In the
     * second case all waits began later than went_on_ns, so the watchdog excuses none. */
    if (since_ns > STOPPED_NS) {
        ledger->went_on_ns = clock_ns;
    }
    if (ledger->coming[0] != NULL || ledger->coming[1] != NULL) {
        count_lanes(ledger); /* one may be late by now */
    }
    return ledger->view.now_ns;
}

void hw__ledger_forget(struct hw__waiter *waiter) {
    memset(&waiter->seen, 0, sizeof waiter->seen);
    waiter->stage = HW__STAGE_AWAY;
    hw__habits_forget(waiter);
}

void hw__ledger_forget_last(struct hw__waiter *waiter) {
    waiter->stage = HW__STAGE_AWAY;
    waiter->left_ns = 0;
    waiter->seen.run_ns = 0;
    waiter->seen.released_ns = 0;
    waiter->seen.flags &= ~HW_THREAD_FORCED;
}

void hw__ledger_leave(struct hw__ledger *ledger, struct hw__waiter *waiter) {
    hw__ledger_dequeue(ledger, waiter);
    hw__ledger_has_come(ledger, waiter);
    waiter->stage = HW__STAGE_AWAY;
}

/* ---------------------------------------------------------------- the queue */
uint32_t hw__ledger_waiting(const struct hw__ledger *ledger) {
    return ledger->lanes[0].count + ledger->lanes[1].count;
}

struct hw__waiter *hw__ledger_next(struct hw__ledger *ledger) {
    bool both = ledger->lanes[0].count > 0 && ledger->lanes[1].count > 0;
    bool second = ledger->lanes[0].count == 0;
    if (both && ledger->policy != NULL && ledger->policy->lane != NULL) {
        second = ledger->policy->lane(&ledger->view) != 0;
    }
    return hw__waiters_first(&ledger->lanes[second ? 1 : 0]);
}

void hw__ledger_enqueue(struct hw__ledger *ledger, struct hw__waiter *waiter) {
    waiter->lane = waiter->seen.lane == 0 ? 0 : 1; /* a policy may have set any number */
    waiter->stage = HW__STAGE_QUEUED;
    hw__waiters_push(&ledger->lanes[waiter->lane], waiter);
    count_lanes(ledger);
}

void hw__ledger_dequeue(struct hw__ledger *ledger, struct hw__waiter *waiter) {
    if (waiter->place != 0) {
        hw__waiters_remove(&ledger->lanes[waiter->lane], waiter);
        count_lanes(ledger);
        waiter->stage = HW__STAGE_WANTS;
    }
}

void hw__ledger_want(struct hw__ledger *ledger, struct hw__waiter *waiter, int64_t now_ns) {
    waiter->stage = HW__STAGE_WANTS;
    waiter->spun = false;
    waiter->order = ++ledger->arrivals;
    waiter->releases = ledger->releases;
    waiter->stuck_ns = ledger->stuck_ns;
    waiter->guard_ns = HW__GUARD_NS;
    waiter->seen.ready_ns = now_ns;
    hw__watchdog_crowd(ledger, hw__ledger_waiting(ledger) + 1, now_ns);
    ledger->policy->ready(&ledger->view, &waiter->seen);
}

void hw__ledger_has_come(struct hw__ledger *ledger, struct hw__waiter *waiter) {
    if (waiter->stage == HW__STAGE_CALLED) {
        waiter->stage = HW__STAGE_WANTS;
    }
    if (ledger->called == waiter) {
        ledger->called = NULL;
    }
    if (ledger->coming[waiter->lane] == waiter) {
        ledger->coming[waiter->lane] = NULL;
        count_lanes(ledger);
    }
}

void hw__ledger_call(struct hw__ledger *ledger, struct hw__waiter *waiter, int64_t now_ns) {
    hw__ledger_dequeue(ledger, waiter);
    ledger->passed_over = false;
    ledger->called_ns = now_ns;
    ledger->counts.granted++;
    waiter->called_after = ledger->releases;
    waiter->stage = HW__STAGE_CALLED;
    ledger->called = ledger->coming[waiter->lane] = waiter;
    ledger->coming_ns[waiter->lane] = now_ns;
    count_lanes(ledger);
}

/* ---------------------------------------------------------------- calls of the policy */
static void tell_acquired(struct hw__ledger *ledger) {
    if (ledger->policy->acquired != NULL) {
        ledger->policy->acquired(&ledger->view, &ledger->holder->seen);
    }
}

int64_t hw__ledger_patience(struct hw__ledger *ledger, struct hw__waiter *waiter) {
    bool woken = waiter->woken_by == ledger->holder; /* the ledger has a holder */
    waiter->seen.flags = (waiter->seen.flags & ~HW_THREAD_WOKEN) | (woken ? HW_THREAD_WOKEN : 0);
    uint32_t *in_lane = &ledger->view.in_lane[waiter->seen.lane == 0 ? 0 : 1];
    /* A waiter that is awake is in no queue. */
    bool late = ledger->coming[waiter->lane] == waiter && one_is_late(ledger, (int)waiter->lane);
    uint32_t apart = waiter->place == 0 && !late ? 1 : 0;
    *in_lane += apart;
    int64_t patience_ns =
        ledger->policy->patience(&ledger->view, &waiter->seen, &ledger->holder->seen);
    *in_lane -= apart;
    return patience_ns;
}

bool hw__ledger_is_plain(const struct hw__ledger *ledger) {
    return (ledger->policy->flags & HW_POLICY_PLAIN) != 0;
}

bool hw__ledger_may_give_grace(const struct hw__ledger *ledger) {
    return ledger->policy->grace != NULL && !hw__ledger_is_plain(ledger);
}

int64_t hw__ledger_grace(struct hw__ledger *ledger, const struct hw__waiter *next,
                         const struct hw__waiter *releaser) {
    return hw__ledger_may_give_grace(ledger)
               ? ledger->policy->grace(&ledger->view, &next->seen, &releaser->seen)
               : 0;
}

bool hw__ledger_is_idle(struct hw__ledger *ledger, int64_t now_ns) {
    if (ledger->policy->idle == NULL || now_ns < ledger->idle_at_ns) {
        return false;
    }
    ledger->idle_at_ns = now_ns + HW__IDLE_EVERY_NS;
    return ledger->policy->idle(&ledger->view);
}

/* ---------------------------------------------------------------- the GIL changes hands */
static void set_holder(struct hw__ledger *ledger, enum hw__phase phase, struct hw__waiter *holder) {
    ledger->phase = phase;
    ledger->holder = holder;
    ledger->view.holder = holder == NULL ? NULL : &holder->seen;
}

void hw__ledger_notice(struct hw__ledger *ledger, int64_t now_ns) {
    if (ledger->phase == HW__PHASE_HELD) {
        return;
    }
    if (ledger->phase == HW__PHASE_ALONE) {
        struct hw_policy_thread *seen = &ledger->holder->seen;
        ledger->phase = HW__PHASE_HELD;
        seen->run_ns += hw__waiter_goes_on(ledger->holder) ? now_ns - seen->acquired_ns : 0;
        seen->acquired_ns = now_ns;
        tell_acquired(ledger);
        return;
    }
    ledger->phase = HW__PHASE_STRANGE;
    if (ledger->stranger_ns == 0) {
        ledger->stranger_ns = now_ns;
    }
}

bool hw__ledger_is_wanted(const struct hw__ledger *ledger, const struct hw__waiter *waiter) {
    return ledger->called != NULL || hw__ledger_waiting(ledger) > 0 || waiter == NULL ||
           hw__waiter_waits(waiter);
}

static void begin_hold(struct hw__ledger *ledger) {
    ledger->counts.acquires++;
    ledger->free_ns = ledger->stranger_ns = 0;
    ledger->request.by_ns = ledger->request.late_ns = 0;
    ledger->request.made = false;
    ledger->request.early = NULL;
}

void hw__ledger_take_alone(struct hw__ledger *ledger, struct hw__waiter *waiter, int32_t core,
                           int64_t now_ns) {
    waiter->seen.ready_ns = 0;
    waiter->seen.acquired_ns = now_ns;
    waiter->left_ns = 0;
    waiter->core = core;
    begin_hold(ledger);
    ledger->last = waiter; /* no thread waits, so the time of a switch does not matter */
    set_holder(ledger, HW__PHASE_ALONE, waiter);
    ledger->alone++;
}

static void count_worst(struct hw__ledger *ledger, int64_t wait_ns) {
    struct hw_schedule_counts *counts = &ledger->counts;
    counts->worst_wait_ns = wait_ns > counts->worst_wait_ns ? wait_ns : counts->worst_wait_ns;
}

void hw__ledger_cut_short(struct hw__ledger *ledger, const struct hw__waiter *waiter) {
    if (hw__waiter_waits(waiter)) {
        count_worst(ledger, ledger->view.now_ns - waiter->seen.ready_ns);
    }
}

/* Adds a wait that ends to the counts. Returns whether the policy has shortened it. */
static bool count_wait(struct hw__ledger *ledger, const struct hw__waiter *waiter, int64_t now_ns) {
    int64_t wait_ns = now_ns - waiter->seen.ready_ns;
    struct hw_schedule_counts *counts = &ledger->counts;
    counts->wait_ns += wait_ns;
    count_worst(ledger, wait_ns);
    bool early = ledger->request.early == waiter;
    counts->early += early;
    counts->early_wait_ns += early ? wait_ns : 0;
    return early;
}

/* Counts the time for which the GIL was free while a thread wanted it. If that was in grace, also
 * charges it to the budget of grace. */
static void count_free(struct hw__ledger *ledger, int64_t now_ns) {
    bool wanted = ledger->called != NULL || hw__ledger_waiting(ledger) > 0;
    if (wanted && ledger->free_ns != 0) {
        int64_t free_ns = now_ns - ledger->free_ns;
        int64_t charge_ns = hw__least(free_ns - FREE_OF_CHARGE_NS, CHARGE_MOST_NS);
        ledger->counts.idle_ns += free_ns;
        ledger->budget_ns -= ledger->phase == HW__PHASE_GRACE && charge_ns > 0 ? charge_ns : 0;
    }
}

bool hw__ledger_take(struct hw__ledger *ledger, struct hw__waiter *waiter, int64_t now_ns,
                     int32_t core) {
    ledger->alone = 0;
    count_free(ledger, now_ns);
    ledger->passed_over = ledger->called != NULL && ledger->called != waiter;
    ledger->switched_ns = waiter == ledger->last ? ledger->switched_ns : now_ns;
    ledger->last = waiter;
    if (waiter == NULL) {
        begin_hold(ledger);
        set_holder(ledger, HW__PHASE_STRANGE, NULL);
        return false;
    }
    hw__ledger_dequeue(ledger, waiter);
    hw__ledger_has_come(ledger, waiter);
    hw__habits_learn(waiter, now_ns);
    bool early = false;
    if (hw__waiter_waits(waiter)) {
        early = count_wait(ledger, waiter, now_ns);
    } else {
        waiter->seen.ready_ns = 0;
    }
    begin_hold(ledger);
    set_holder(ledger, HW__PHASE_HELD, waiter);
    waiter->stage = HW__STAGE_AWAY;
    waiter->core = core;
    waiter->seen.acquired_ns = now_ns;
    tell_acquired(ledger);
    return early;
}

/* Ends the thread's burst: it releases the GIL by itself. */
static void end_burst(struct hw_policy_thread *seen) {
    seen->burst_ns += (seen->run_ns - seen->burst_ns) / 4;
    seen->run_ns = 0;
}

bool hw__ledger_drop_alone(struct hw__ledger *ledger, struct hw__waiter *waiter, int64_t now_ns) {
    if (ledger->phase != HW__PHASE_ALONE || ledger->holder != waiter) {
        return false;
    }
    ledger->releases++;
    if (hw__waiter_goes_on(waiter)) {
        waiter->seen.run_ns += now_ns - waiter->seen.acquired_ns;
        end_burst(&waiter->seen);
    }
    waiter->seen.released_ns = 0;
    waiter->seen.flags &= ~HW_THREAD_FORCED;
    set_holder(ledger, HW__PHASE_FREE, NULL);
    return true;
}

void hw__ledger_meet(struct hw__ledger *ledger, struct hw__waiter *waiter) {
    if (waiter == NULL) {
        ledger->stuck_ns += hw__watchdog_stuck_ns(ledger->view.now_ns - ledger->stranger_ns);
        return;
    }
    waiter->stage = HW__STAGE_AWAY;
    waiter->seen.ready_ns = 0;
    waiter->seen.acquired_ns = ledger->stranger_ns;
    ledger->last = waiter;
    set_holder(ledger, HW__PHASE_HELD, waiter);
    tell_acquired(ledger);
}

/* Adds the hold that ends to the holder's account, and tells the policy of the release. */
static void settle(struct hw__ledger *ledger, struct hw__waiter *waiter, int64_t now_ns) {
    struct hw_policy_thread *seen = &waiter->seen;
    bool forced = ledger->request.made;
    int64_t held_ns = now_ns - seen->acquired_ns;
    ledger->stuck_ns += hw__watchdog_stuck_ns(held_ns);
    seen->used_ns += held_ns;
    seen->run_ns += held_ns;
    seen->flags = (seen->flags & ~HW_THREAD_FORCED) | (forced ? HW_THREAD_FORCED : 0);
    if (ledger->policy->released != NULL) {
        ledger->policy->released(&ledger->view, seen, held_ns);
    }
    seen->released_ns = now_ns;
    if (!forced) {
        end_burst(seen);
    }
}

struct hw__waiter *hw__ledger_drop(struct hw__ledger *ledger, struct hw__waiter *waiter,
                                   int64_t now_ns) {
    ledger->releases++;
    ledger->free_ns = now_ns;
    bool known = ledger->phase == HW__PHASE_HELD && ledger->holder == waiter && waiter != NULL;
    if (known) {
        settle(ledger, waiter, now_ns);
    }
    ledger->stranger_ns = 0;
    return known ? waiter : NULL;
}

void hw__ledger_dropped(struct hw__ledger *ledger) {
    set_holder(ledger, HW__PHASE_FREE, NULL);
    ledger->request.made = false;
}

void hw__ledger_rest(struct hw__ledger *ledger) {
    ledger->alone = 0;
    ledger->called = ledger->coming[0] = ledger->coming[1] = NULL;
    count_lanes(ledger);
    ledger->request.made = false;
    ledger->stranger_ns = 0;
    set_holder(ledger, HW__PHASE_STRANGE, NULL);
}

void hw__ledger_rouse(struct hw__ledger *ledger, int64_t now_ns) {
    ledger->idle_at_ns = now_ns + HW__IDLE_EVERY_NS;
    set_holder(ledger, HW__PHASE_STRANGE, NULL);
    ledger->stranger_ns = now_ns - ledger->view.interval_ns;
    ledger->request.made = true;
    ledger->request.at_ns = now_ns;
    ledger->request.again_ns = HW__ASK_AGAIN_NS;
    ledger->counts.asked++;
}

void hw__ledger_check(const struct hw__ledger *ledger) {
#ifndef NDEBUG
    bool has_holder = ledger->phase == HW__PHASE_HELD || ledger->phase == HW__PHASE_ALONE;
    assert(ledger->phase < HW__PHASES);
    assert(has_holder == (ledger->holder != NULL));
    assert(ledger->view.holder == (has_holder ? &ledger->holder->seen : NULL));
    assert(!has_holder || ledger->holder->place == 0);
    assert(ledger->phase == HW__PHASE_STRANGE || ledger->stranger_ns == 0);
    assert(!ledger->request.made || ledger->phase == HW__PHASE_HELD ||
           ledger->phase == HW__PHASE_STRANGE);
    assert(ledger->called == NULL || ledger->called->stage == HW__STAGE_CALLED);
    for (int lane = 0; lane < HW_POLICY_LANES; lane++) {
        const struct hw__waiter *coming = ledger->coming[lane];
        assert(coming == NULL || coming->stage == HW__STAGE_CALLED);
        assert(ledger->view.in_lane[lane] ==
               ledger->lanes[lane].count + (one_is_late(ledger, lane) ? 1 : 0));
        const struct hw__waiter *first = hw__waiters_first(&ledger->lanes[lane]);
        assert(first == NULL || (first->stage == HW__STAGE_QUEUED && first->place == 1));
    }
#else
    (void)ledger;
#endif
}
