// SPDX-License-Identifier: MIT
/* DESIGN. In CPython a thread acquires the GIL when it finds it free; nothing else decides which
 * thread is next. The engine controls three things: the sleep of a thread that finds the GIL held
 * (pthread_cond_timedwait()), the wake-up that a release makes (pthread_cond_signal()), and the
 * wait for the hand-off after a preemption (pthread_cond_wait()).
 * - Each waiter sleeps on a futex word of its own.
 * - A release chooses one waiter by the policy and wakes it.
 * - A waiter that must make a request returns ETIMEDOUT, before or after a sleep; CPython then
 *   makes the request.
 *
 * The decisions and their reasons are in schedule/decide.c, the state in schedule/ledger.c. This
 * file carries the decisions out, with mutexes, futexes and yields.
 *
 * The GIL's own mutex, with which CPython calls the first two functions, protects the ledger and
 * most of a thread's record (runner.h). No thread waits in the queue while it holds the mutex, and
 * system calls are rare then: for a thread's first record, at the begin and end of a policy, and at
 * an idle policy's rest. Other wake-ups are done after the unlock if it is hooked
 * (hw__wake_unlocked()): on a core that both threads share, the woken thread would otherwise block
 * on the mutex.
 *
 * A wake-up can be lost: a woken thread ends, or a policy errs. Therefore every sleep has an end,
 * within 50 ms or, in a crowd, within 1 s (decide.c), and a thread that wakes looks at the GIL. */
#include <errno.h>
#include <sched.h>

#include "base/lease.h"
#include "base/rare.h"
#include "engine/accounts.h"
#include "engine/doze.h"
#include "engine/ending.h"
#include "engine/help.h"
#include "engine/wake.h"
#include "gil/recorder.h"
#include "gil/scheduler.h"
#include "headway/clock.h"
#include "schedule/carry_out.h"
#include "schedule/habits.h"

/* ---------------------------------------------------------------- the hooks: waiting */
/* Converts a decision into the return value of the hook. On ETIMEDOUT, CPython makes a request. */
static int returns(struct hw__runner *runner, const struct hw__turn *turn) {
    if (turn->what == HW__DO_ASK) {
        runner->spin_ns = hw__doze_may_spin(runner, turn->spin_ns);
        return ETIMEDOUT;
    }
    return 0;
}

/* Returns the hook's result for a thread that has slept or spun in the queue. */
static int wakes(struct hw__gil *gil, pthread_mutex_t *mutex, struct hw__runner *runner, bool spun,
                 unsigned long switches) {
    struct hw__sched *sched = hw__sched_of(gil);
    if (runner->waiter.place == 0) { /* another thread has taken it out of the queue and woken it */
        hw__decide_called(&sched->ledger, &runner->waiter);
        hw__ledger_check(&sched->ledger);
        return 0;
    }
    hw__ledger_dequeue(&sched->ledger, &runner->waiter);
    if (!hw__sched_is_on(gil, sched)) {
        return 0;
    }
    struct hw__moment moment = hw__doze_moment(sched);
    if (hw__ending_abandoned(gil, mutex, moment.now_ns) ||
        hw__ending_removed(gil, mutex, runner, &moment)) {
        return 0;
    }
    bool switched = HW__READ(sched->memory->switch_number) != switches;
    struct hw__turn turn =
        hw__decide_woken(&sched->ledger, &runner->waiter, &moment, spun, switched);
    hw__ledger_check(&sched->ledger);
    return returns(runner, &turn);
}

/* This code is out of line (HW__APART): a hook that only records does not load it into the cache.
 */
HW__APART int hw__sched_timedwait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *deadline) {
    struct hw__sched *sched = hw__sched_of(gil);
    struct hw__runner *runner = hw__sched_is_on(gil, sched) ? hw__sched_runner(sched) : NULL;
    if (runner == NULL) {
        return hw__real.timedwait(cond, mutex, deadline);
    }
    struct hw__waiter *waiter = &runner->waiter;
    unsigned long switches = HW__READ(sched->memory->switch_number);
    struct hw__turn turn;
    int64_t spin_ns;
    if (waiter->stage == HW__STAGE_ASKING) {
        /* The request was made just now, and the holder is about to want the mutex. So the waiter
         * reads no clock and decides nothing. */
        turn = hw__decide_wait_on(&sched->ledger, waiter);
        spin_ns = runner->spin_ns;
    } else {
        hw__sched_read_interval(sched);
        struct hw__moment moment = hw__doze_moment(sched);
        if (hw__ending_abandoned(gil, mutex, moment.now_ns)) {
            return 0; /* CPython waits again, without a policy */
        }
        waiter->woken_by = runner->poster == NULL ? NULL : &runner->poster->waiter;
        turn = hw__decide_wait(&sched->ledger, waiter, &moment);
        if (turn.begins) {
            hw__help_note(runner, hw__habits_computes(waiter));
        }
        if (turn.what == HW__DO_ASK) {
            hw__ledger_check(&sched->ledger);
            return returns(runner, &turn);
        }
        spin_ns = hw__doze_may_spin(runner, turn.spin_ns);
    }
    hw__doze_prepare(runner);
    hw__ledger_check(&sched->ledger);
    hw__doze(sched, runner, spin_ns, turn.sleep_ns);
    return wakes(gil, mutex, runner, spin_ns > 0, switches);
}

/* Lets the calling thread, which is in the queue, wait there before CPython makes it wait for the
 * GIL. */
static void wait_in_queue(struct hw__gil *gil, struct hw__sched *sched, struct hw__runner *runner) {
    if (hw__gil_enter(gil, sched->memory)) {
        hw__on_wait(gil);
        hw__gil_leave(gil);
    }
    struct hw__moment moment = hw__doze_moment(sched);
    struct hw__turn turn = hw__decide_queue(&sched->ledger, &runner->waiter, &moment);
    hw__ledger_check(&sched->ledger);
    hw__doze(sched, runner, hw__doze_may_spin(runner, turn.spin_ns), turn.sleep_ns);
}

void hw__sched_locked(struct hw__gil *gil) {
    struct hw__runner *runner = hw__runner_known();
    struct hw__sched *sched = hw__sched_of(gil);
    /* The place is under the mutex of the GIL in whose queue the thread is, so the thread first
     * makes sure that it is this GIL's. */
    if (runner == NULL || runner->sched != sched || runner->waiter.place == 0 ||
        !hw__sched_is_on(gil, sched)) {
        return;
    }
    struct hw__moment moment = hw__doze_moment(sched);
    if (hw__decide_leaves_it(&sched->ledger, &runner->waiter, &moment)) {
        wait_in_queue(gil, sched, runner);
        if (runner->waiter.left_ns != 0) {
            /* The thread wanted the GIL all the time: this wait extends the one for the hand-off.
             */
            runner->waiter.left_ns = hw_now_ns();
        }
    }
}

int hw__sched_wait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex) {
    struct hw__sched *sched = hw__sched_of(gil);
    struct hw__runner *runner = hw__runner_known();
    const struct hw_policy *policy = hw__sched_policy();
    /* Only at the main GIL can the release have put the thread into the queue
     * (hw__sched_release()). */
    if (policy == NULL || (policy->flags & HW_POLICY_PLAIN) != 0 || !gil->main || runner == NULL ||
        runner->sched != sched || !hw__habits_waits_on(&runner->waiter)) {
        hw__doze_plainly(cond, mutex);
        if (runner != NULL) {
            runner->waiter.left_ns = hw_now_ns();
        }
        return 0;
    }
    /* Not gil->memory: without the GIL's mutex, the record may have been emptied. */
    struct hw__gil_memory *memory = hw__gil_of_switch_cond(cond);
    pthread_mutex_unlock(mutex);
    hw__wake_lock(&memory->mutex);
    /* Without a place, another thread has woken it, or the ledger knew of no request. */
    if (runner->waiter.place != 0 && hw__sched_is_on(gil, sched)) {
        wait_in_queue(gil, sched, runner);
    }
    runner->waiter.left_ns = hw_now_ns();
    pthread_mutex_unlock(&memory->mutex);
    hw__wake_unlocked(&memory->mutex); /* hw__sched_is_on() wakes all if the policy has ended */
    pthread_mutex_lock(mutex);
    return 0;
}

/* ---------------------------------------------------------------- the hooks: at rest */
bool hw__sched_stays_idle(const struct hw__gil *gil) {
    struct hw__sched *sched = hw__sched_of(gil);
    int64_t interval_ns = hw__gil_interval_ns(sched->memory);
    return sched->ledger.policy != NULL && interval_ns == sched->ledger.view.interval_ns &&
           !atomic_load_explicit(&hw__sched_any_urgent, memory_order_relaxed) &&
           !hw__lease_over_now(&hw__leases[HW__LEASE_SCHEDULE]);
}

void hw__sched_is_asked(struct hw__gil *gil) {
    struct hw__sched *sched = hw__sched_of(gil);
    if (hw__sched_is_on(gil, sched)) {
        hw__ledger_rouse(&sched->ledger, hw__sched_time(sched));
        hw__ledger_check(&sched->ledger);
    }
}

/* --------------------------------------------------------- the hooks: release and acquire */
/* Wakes the waiter that was called. */
static void wake(struct hw__sched *sched, struct hw__runner *releaser, const struct hw__call *call,
                 int64_t now_ns) {
    struct hw__runner *next = hw__runner_of(call->next);
    int64_t until_ns = call->next_yields ? now_ns + HW__GIVES_WAY_NS : 0;
    atomic_store_explicit(&next->gives_way_until_ns, until_ns, memory_order_relaxed);
    hw__wake(next, &sched->memory->mutex);
    if (call->caller_may_yield && hw__help_is_short(next)) {
        hw__wake_then_yield(releaser);
    }
}

static void hand_over(struct hw__sched *sched, struct hw__runner *releaser, int64_t now_ns) {
    struct hw__ledger *ledger = &sched->ledger;
    struct hw__waiter *next = hw__ledger_next(ledger);
    if (next == NULL) {
        return;
    }
    struct hw__moment moment = {.now_ns = now_ns, .core = sched_getcpu(), .locked = false};
    bool spins = atomic_load_explicit(&hw__runner_of(next)->spinning, memory_order_relaxed);
    struct hw__call call = hw__decide_hand_over(ledger, releaser == NULL ? NULL : &releaser->waiter,
                                                next, &moment, spins);
    if (call.next != NULL) {
        wake(sched, releaser, &call, now_ns);
    }
}

void hw__sched_release(struct hw__gil *gil) {
    struct hw__sched *sched = hw__sched_of(gil);
    struct hw__ledger *ledger = &sched->ledger;
    if (HW__READ(sched->memory->locked) != 0 || !hw__sched_is_on(gil, sched)) {
        return;
    }
    struct hw__runner *runner = hw__runner_known();
    struct hw__waiter *waiter = runner == NULL ? NULL : &runner->waiter;
    if (runner != NULL) {
        runner->poster = NULL;
        waiter->woken_by = NULL;
    }
    if (hw__ledger_drop_alone(ledger, waiter, hw__accounts_burst_time(sched, waiter))) {
        hw__ledger_check(ledger);
        return;
    }
    int64_t now_ns = hw__sched_time(sched);
    if (ledger->stranger_ns != 0) {
        runner = hw__sched_runner(sched);
        waiter = runner == NULL ? NULL : &runner->waiter;
        hw__ledger_meet(ledger, waiter);
    }
    waiter = hw__ledger_drop(ledger, waiter, now_ns);
    if (waiter != NULL && gil->main && ledger->request.made) {
        hw__sched_heed(runner);
        if (hw__decide_wait_at_once(ledger, waiter, now_ns)) {
            hw__help_note(runner, true);
            hw__doze_prepare(runner);
        }
    }
    hw__ledger_dropped(ledger);
    hand_over(sched, waiter == NULL ? NULL : runner, now_ns);
    hw__ledger_check(ledger);
}

/* Tells whether the policy is idle and the GIL may rest. It may not if a thread is urgent: an idle
 * policy considers CPU-bound threads only. */
static bool is_idle(const struct hw__gil *gil, struct hw__sched *sched, int64_t now_ns) {
    return gil->main && !atomic_load_explicit(&hw__sched_any_urgent, memory_order_relaxed) &&
           hw__ledger_is_idle(&sched->ledger, now_ns);
}

void hw__sched_acquire(struct hw__gil *gil) {
    struct hw__sched *sched = hw__sched_of(gil);
    struct hw__ledger *ledger = &sched->ledger;
    if (!hw__sched_is_on(gil, sched)) {
        return;
    }
    struct hw__runner *runner = hw__sched_runner(sched);
    if (!hw__ledger_is_wanted(ledger, runner == NULL ? NULL : &runner->waiter)) {
        hw__accounts_acquired_alone(gil, sched, runner);
        return;
    }
    hw__sched_read_interval(sched);
    int64_t now_ns = hw__sched_time(sched);
    if (runner == NULL) {
        (void)hw__ledger_take(ledger, NULL, now_ns, -1);
        hw__ledger_check(ledger);
        return;
    }
    if (hw__ledger_take(ledger, &runner->waiter, now_ns, sched_getcpu())) {
        hw__accounts_early(gil, runner);
    }
    if (is_idle(gil, sched, now_ns)) {
        hw__sched_stand_by(gil, sched);
        hw__ledger_check(ledger);
        return;
    }
    struct hw__waiter *next = hw__decide_look_sooner(ledger, &runner->waiter, now_ns);
    if (next != NULL) {
        hw__sched_call(sched, hw__runner_of(next));
    }
    hw__ledger_check(ledger);
}
