// SPDX-License-Identifier: MIT
/* A GIL under a policy on the simulated machine: does what engine/ does with real threads. It uses
 * the same ledger and the same decisions, and carries them out with simulated futexes and cores. */
#include "schedule/carry_out.h"
#include "schedule/decide.h"
#include "schedule/habits.h"
#include "sim/gil.h"
#include "sim/world.h"

enum { AWAKE, SLEEPING, CALLED };

/* The time of one try to lock a mutex. */
#define TRY_NS 15

static struct hw__worker *worker_of(struct hw__waiter *waiter) {
    return (struct hw__worker *)((char *)waiter - offsetof(struct hw__worker, waiter));
}

static int64_t ledger_time(struct hw__worker *worker) {
    return hw__ledger_time(&worker->gil->ledger, hw__now(worker) + 1); /* 0 is never */
}

static struct hw__moment moment_of(struct hw__worker *worker) {
    return (struct hw__moment){.now_ns = ledger_time(worker),
                               .core = worker->task->core->id,
                               .locked = worker->gil->locked};
}

/* ---------------------------------------------------------------- waking (engine/wake.c) */
static void end_spin(struct hw__worker *worker) {
    if (worker->spinning) {
        worker->spinning = false;
        worker->gil->spinners--;
    }
}

static void wake_now(struct hw__worker *worker, struct hw__worker *called) {
    end_spin(called);
    uint32_t was = called->word.value;
    called->word.value = CALLED;
    called->is_called = true;
    if (was == SLEEPING) {
        hw__sim_futex_wake(worker->task, &called->word, 1);
    } else {
        hw__task_interrupt(called->task, hw__cost(called->task->machine, HW_SIM_COST_CACHE_LINE));
    }
}

static void wake_all(struct hw__worker *worker) {
    for (int i = 0; i < 2; i++) {
        struct hw__worker *called = worker->to_wake[i];
        worker->to_wake[i] = NULL;
        if (called != NULL) {
            wake_now(worker, called);
        }
    }
}

/* Wakes the worker once the mutex is unlocked. */
static void wake_later(struct hw__worker *worker, struct hw__worker *called) {
    if (worker->to_wake[1] != NULL) {
        wake_all(worker);
    }
    worker->to_wake[worker->to_wake[0] == NULL ? 0 : 1] = called;
}

void hw__scheduled_unlocked(struct hw__worker *worker) {
    if (worker->to_wake[0] != NULL) {
        wake_all(worker);
    }
}

void hw__scheduled_lock(struct hw__worker *worker) {
    struct hw__sim_mutex *mutex = &worker->gil->mutex;
    for (int i = 0; i < HW__LOCK_TRIES && worker->task->machine->core_count > 1; i++) {
        if (hw__sim_mutex_try(worker->task, mutex)) {
            return;
        }
        hw__task_user(worker->task, TRY_NS);
    }
    hw__sim_mutex_lock(worker->task, mutex);
}

/* ---------------------------------------------------------------- waiting (engine/doze.c) */
static int64_t may_spin(struct hw__worker *worker, int64_t spin_ns) {
    int32_t cores = __builtin_popcountll(worker->task->allowed);
    if (spin_ns == 0 || worker->gil->spinners >= cores - 1) {
        return 0;
    }
    worker->gil->spinners++;
    worker->spinning = true;
    hw__decide_spun(&worker->waiter);
    return spin_ns;
}

/* hw__wake_sleep() */
static void sleep_on_word(struct hw__worker *worker, int64_t spin_ns, int64_t sleep_ns) {
    if (spin_ns > 0) {
        hw__task_until(worker->task, spin_ns, &worker->is_called);
        end_spin(worker);
        return;
    }
    if (worker->word.value != AWAKE) {
        return;
    }
    worker->word.value = SLEEPING;
    hw__sim_futex_wait(worker->task, &worker->word, SLEEPING, hw__now(worker) + sleep_ns);
}

/* Yields the core. Returns how long that took, or 0 if the worker did not yield. */
static int64_t yield(struct hw__worker *worker) {
    int64_t before_ns = hw__now(worker);
    if (before_ns < worker->no_yield_until_ns) {
        return 0;
    }
    hw__task_yield(worker->task);
    return hw__now(worker) - before_ns;
}

static void look_awake(struct hw__worker *worker) {
    worker->word.value = AWAKE;
    worker->is_called = false;
}

static void doze(struct hw__worker *worker, int64_t spin_ns, int64_t longest_ns) {
    struct hw__gil_sim *gil = worker->gil;
    do {
        hw__sim_mutex_unlock(worker->task, &gil->mutex);
        hw__scheduled_unlocked(worker);
        sleep_on_word(worker, spin_ns, longest_ns);
        int64_t yield_ns = hw__now(worker) < worker->gives_way_until_ns ? yield(worker) : 0;
        hw__scheduled_lock(worker);
        if (gil->ledger.releases == worker->waiter.called_after && yield_ns > HW__LONG_YIELD_NS) {
            worker->no_yield_until_ns = hw__now(worker) + HW__LONG_YIELD_SHARE * yield_ns;
        }
        look_awake(worker);
        spin_ns = longest_ns = 0;
        if (worker->waiter.stage == HW__STAGE_QUEUED) {
            struct hw__moment moment = moment_of(worker);
            longest_ns = hw__decide_doze_on(&gil->ledger, &worker->waiter, &moment);
        }
    } while (longest_ns > 0);
}

static void prepare(struct hw__worker *worker) {
    look_awake(worker);
    worker->gives_way_until_ns = 0;
}

/* ---------------------------------------------------------------- rest (gil/hooks.c) */
static void call_all(struct hw__worker *worker) {
    struct hw__ledger *ledger = &worker->gil->ledger;
    for (int lane = 0; lane < HW_POLICY_LANES; lane++) {
        while (ledger->lanes[lane].count > 0) {
            struct hw__waiter *first = hw__waiters_first(&ledger->lanes[lane]);
            hw__ledger_dequeue(ledger, first);
            wake_later(worker, worker_of(first));
        }
    }
    wake_all(worker);
}

static void rest(struct hw__worker *worker, bool idle) {
    struct hw__gil_sim *gil = worker->gil;
    call_all(worker);
    hw__ledger_rest(&gil->ledger);
    gil->ledger.counts.rests++;
    gil->rests = true;
    gil->rests_idle = idle;
}

/* Waits as in stock CPython, because the policy is idle. Returns whether the worker was
 * signalled. A worker that comes too late each time, while one other has the GIL again and again,
 * ends the rest (wait_at_rest() of gil/hooks.c). */
static bool wait_at_rest(struct hw__worker *worker, int64_t deadline_ns) {
    struct hw__gil_sim *gil = worker->gil;
    uint64_t switches = gil->switches;
    if (worker->rest_switches != switches) {
        worker->rest_switches = switches;
        worker->rest_deadline_ns = deadline_ns;
    } else if (deadline_ns - worker->rest_deadline_ns >= gil->interval_ns) {
        worker->rest_switches = 0;
        gil->rests = false;
        hw__ledger_rouse(&gil->ledger, ledger_time(worker));
        return true;
    }
    bool signalled = hw__sim_cond_wait(worker->task, &gil->cond, &gil->mutex, deadline_ns);
    if (!signalled && gil->locked && gil->switches == switches && gil->rests) {
        gil->rests = false;
        hw__ledger_rouse(&gil->ledger, ledger_time(worker));
    }
    return signalled;
}

/* ---------------------------------------------------------------- the hooks (engine/engine.c) */
static void meet(struct hw__worker *worker) {
    struct hw__gil_sim *gil = worker->gil;
    if (worker->rests != gil->ledger.counts.rests) {
        hw__ledger_forget_last(&worker->waiter);
        worker->poster = NULL;
        worker->rests = gil->ledger.counts.rests;
    }
    worker->waiter.seen.priority = worker->role->priority;
    worker->waiter.seen.flags = (worker->waiter.seen.flags & ~HW_THREAD_URGENT) |
                                (worker->role->urgent ? HW_THREAD_URGENT : 0);
}

static bool returns(struct hw__worker *worker, const struct hw__turn *turn) {
    if (turn->what == HW__DO_ASK) {
        worker->spin_ns = may_spin(worker, turn->spin_ns);
        return false;
    }
    return true;
}

static bool wakes(struct hw__worker *worker, bool spun, uint64_t switches) {
    struct hw__gil_sim *gil = worker->gil;
    if (worker->waiter.place == 0) {
        hw__decide_called(&gil->ledger, &worker->waiter);
        return true;
    }
    hw__ledger_dequeue(&gil->ledger, &worker->waiter);
    struct hw__moment moment = moment_of(worker);
    bool switched = gil->switches != switches;
    struct hw__turn turn = hw__decide_woken(&gil->ledger, &worker->waiter, &moment, spun, switched);
    return returns(worker, &turn);
}

bool hw__scheduled_wait(struct hw__worker *worker, int64_t deadline_ns) {
    struct hw__gil_sim *gil = worker->gil;
    if (gil->rests && gil->rests_idle) {
        return wait_at_rest(worker, deadline_ns);
    }
    gil->rests = false;
    meet(worker);
    uint64_t switches = gil->switches;
    struct hw__turn turn;
    int64_t spin_ns;
    if (worker->waiter.stage == HW__STAGE_ASKING) {
        turn = hw__decide_wait_on(&gil->ledger, &worker->waiter);
        spin_ns = worker->spin_ns;
    } else {
        struct hw__moment moment = moment_of(worker);
        worker->waiter.woken_by = worker->poster == NULL ? NULL : &worker->poster->waiter;
        turn = hw__decide_wait(&gil->ledger, &worker->waiter, &moment);
        if (turn.what == HW__DO_ASK) {
            return returns(worker, &turn);
        }
        spin_ns = may_spin(worker, turn.spin_ns);
    }
    prepare(worker);
    doze(worker, spin_ns, turn.sleep_ns);
    return wakes(worker, spin_ns > 0, switches);
}

static void wait_in_queue(struct hw__worker *worker) {
    hw__gil_waits(worker);
    struct hw__moment moment = moment_of(worker);
    struct hw__turn turn = hw__decide_queue(&worker->gil->ledger, &worker->waiter, &moment);
    doze(worker, may_spin(worker, turn.spin_ns), turn.sleep_ns);
}

void hw__scheduled_locked(struct hw__worker *worker) {
    if (worker->waiter.place == 0) {
        return;
    }
    struct hw__moment moment = moment_of(worker);
    if (hw__decide_leaves_it(&worker->gil->ledger, &worker->waiter, &moment)) {
        wait_in_queue(worker);
        if (worker->waiter.left_ns != 0) {
            worker->waiter.left_ns = ledger_time(worker);
        }
    }
}

void hw__scheduled_wait_switch(struct hw__worker *worker) {
    struct hw__gil_sim *gil = worker->gil;
    if ((gil->ledger.policy->flags & HW_POLICY_PLAIN) != 0 ||
        !hw__habits_waits_on(&worker->waiter)) {
        hw__sim_cond_wait(worker->task, &gil->switch_cond, &gil->switch_mutex,
                          hw__now(worker) + HW__HAND_OVER_NS);
        worker->waiter.left_ns = ledger_time(worker);
        return;
    }
    hw__sim_mutex_unlock(worker->task, &gil->switch_mutex);
    hw__scheduled_lock(worker);
    if (worker->waiter.place != 0) {
        wait_in_queue(worker);
    }
    worker->waiter.left_ns = ledger_time(worker);
    hw__sim_mutex_unlock(worker->task, &gil->mutex);
    hw__scheduled_unlocked(worker);
    hw__sim_mutex_lock(worker->task, &gil->switch_mutex);
}

static void hand_over(struct hw__worker *worker, struct hw__waiter *releaser, int64_t now_ns) {
    struct hw__ledger *ledger = &worker->gil->ledger;
    struct hw__waiter *next = hw__ledger_next(ledger);
    if (next == NULL) {
        return;
    }
    struct hw__moment moment = {.now_ns = now_ns, .core = worker->task->core->id, .locked = false};
    struct hw__call call =
        hw__decide_hand_over(ledger, releaser, next, &moment, worker_of(next)->spinning);
    if (call.next != NULL) {
        int64_t until_ns = call.next_yields ? now_ns + HW__GIVES_WAY_NS : 0;
        worker_of(call.next)->gives_way_until_ns = until_ns;
        wake_later(worker, worker_of(call.next));
    }
}

void hw__scheduled_release(struct hw__worker *worker) {
    struct hw__ledger *ledger = &worker->gil->ledger;
    worker->poster = NULL;
    worker->waiter.woken_by = NULL;
    if (worker->gil->rests || hw__ledger_drop_alone(ledger, &worker->waiter, ledger_time(worker))) {
        return;
    }
    int64_t now_ns = ledger_time(worker);
    if (ledger->stranger_ns != 0) {
        meet(worker);
        hw__ledger_meet(ledger, &worker->waiter);
    }
    struct hw__waiter *known = hw__ledger_drop(ledger, &worker->waiter, now_ns);
    if (known != NULL && hw__decide_wait_at_once(ledger, known, now_ns)) {
        prepare(worker);
    }
    hw__ledger_dropped(ledger);
    hand_over(worker, known, now_ns);
    hw__ledger_check(ledger);
}

void hw__scheduled_acquire(struct hw__worker *worker) {
    struct hw__gil_sim *gil = worker->gil;
    struct hw__ledger *ledger = &gil->ledger;
    if (gil->rests) {
        return;
    }
    int32_t core = worker->task->core->id;
    meet(worker);
    if (!hw__ledger_is_wanted(ledger, &worker->waiter)) {
        hw__ledger_take_alone(ledger, &worker->waiter, core, ledger_time(worker));
        if (hw__decide_rest(ledger)) {
            rest(worker, false);
        }
        return;
    }
    int64_t now_ns = ledger_time(worker);
    (void)hw__ledger_take(ledger, &worker->waiter, now_ns, core);
    if (hw__ledger_is_idle(ledger, now_ns) && !worker->world->any_urgent) {
        rest(worker, true);
        return;
    }
    struct hw__waiter *next = hw__decide_look_sooner(ledger, &worker->waiter, now_ns);
    if (next != NULL) {
        wake_later(worker, worker_of(next));
    }
    hw__ledger_check(ledger);
}
