// SPDX-License-Identifier: MIT
#include "sim/gil.h"

#include "sim/world.h"

static bool is_scheduled(const struct hw__gil_sim *gil) { return gil->ledger.policy != NULL; }

static int64_t cost(const struct hw__worker *worker, enum hw_sim_cost which) {
    return hw__cost(worker->task->machine, which);
}

static void lock(struct hw__worker *worker) {
    struct hw__gil_sim *gil = worker->gil;
    if (is_scheduled(gil) && !gil->rests) {
        hw__scheduled_lock(worker);
        hw__scheduled_locked(worker);
    } else {
        hw__sim_mutex_lock(worker->task, &gil->mutex);
    }
}

static void unlock(struct hw__worker *worker) {
    hw__sim_mutex_unlock(worker->task, &worker->gil->mutex);
    hw__scheduled_unlocked(worker);
}

/* ---------------------------------------------------------------- what is counted and traced */
/* Returns the flags for the share of the time since the last acquire or release in which the task
 * was on a core. */
static uint16_t ran(const struct hw__worker *worker) {
    int64_t length_ns = hw__now(worker) - worker->told_ns;
    if (worker->told_ns == 0 || length_ns <= 0) {
        return 0;
    }
    int64_t ran_ns = hw__task_cpu_ns(worker->task) - worker->told_cpu_ns;
    int64_t share = (ran_ns * HW_SIM_EVENT_RAN_ALL + length_ns / 2) / length_ns;
    share = share < HW_SIM_EVENT_RAN_ALL ? share : HW_SIM_EVENT_RAN_ALL;
    return (uint16_t)((share + 1) << HW_SIM_EVENT_RAN_SHIFT);
}

static void tell_turn(struct hw__worker *worker, uint8_t kind, unsigned flags, uint32_t where) {
    hw__world_tell(worker, kind, (uint16_t)flags, where);
    worker->told_ns = hw__now(worker);
    worker->told_cpu_ns = hw__task_cpu_ns(worker->task);
}

void hw__gil_waits(struct hw__worker *worker) {
    if (worker->waiting_since == 0) {
        worker->waiting_since = hw__now(worker);
        hw__world_tell(worker, HW_SIM_EVENT_WAIT, ran(worker), worker->where);
    }
}

static void begin_hold(struct hw__worker *worker) {
    struct hw__world *world = worker->world;
    struct hw_sim_role_result *result = &world->results[worker->role_index];
    if (worker->waiting_since != 0 && hw__world_counts(world)) {
        int64_t wait_ns = hw__now(worker) - worker->waiting_since;
        result->waited_ns += hw__world_part_ns(world, worker->waiting_since);
        result->waits++;
        result->worst_wait_ns = wait_ns > result->worst_wait_ns ? wait_ns : result->worst_wait_ns;
    }
    worker->gil->result.acquires += hw__world_counts(world);
    uint16_t away = worker->waiting_since == 0 ? ran(worker) : 0;
    worker->waiting_since = 0;
    worker->since_ns = hw__now(worker);
    worker->gil->asked = false;
    tell_turn(worker, HW_SIM_EVENT_ACQUIRE, away, 0);
}

static void end_hold(struct hw__worker *worker) {
    struct hw__world *world = worker->world;
    int64_t held_ns = hw__world_part_ns(world, worker->since_ns);
    bool forced = worker->gil->asked;
    world->results[worker->role_index].held_ns += held_ns;
    worker->gil->result.held_ns += held_ns;
    worker->gil->result.forced += forced && hw__world_counts(world);
    tell_turn(worker, HW_SIM_EVENT_RELEASE, ran(worker) | (forced ? HW_SIM_EVENT_FORCED : 0),
              worker->where);
}

/* ---------------------------------------------------------------- asking */
/* Returns the time until the holder's code looks for a request. */
static int64_t answer_ns(const struct hw__worker *holder) {
    struct hw__machine *machine = holder->task->machine;
    int32_t answers = holder->role->answers;
    if (answers == 0) {
        return hw__cost(machine, HW_SIM_COST_CHECK);
    }
    int64_t value_ns = hw__random_of(&machine->random, &holder->world->spec.dists[answers - 1]);
    if (!holder->role->in_calls || value_ns <= 0) {
        return value_ns;
    }
    /* A request that comes sooner does not end the call sooner. */
    return value_ns - (hw__now(holder) - holder->since_ns) % value_ns;
}

void hw__gil_ask(struct hw__gil_sim *gil, const struct hw__worker *from) {
    struct hw__worker *holder = gil->last;
    if (!holder->drop) {
        holder->drop = true;
        int64_t delay_ns = answer_ns(holder);
        if (holder->task->core != from->task->core) {
            delay_ns += hw__cost(holder->task->machine, HW_SIM_COST_CACHE_LINE);
        }
        hw__task_interrupt(holder->task, delay_ns);
    }
}

static void tell_request(struct hw__worker *worker) {
    if (!worker->gil->asked) {
        worker->gil->asked = true;
        worker->gil->result.requests += hw__world_counts(worker->world);
        hw__world_tell(worker, HW_SIM_EVENT_REQUEST, 0, 0);
    }
}

/* ---------------------------------------------------------------- take_gil() */
/* Waits once. Returns whether the waiter must make a request to the holder. */
static bool wait_once(struct hw__worker *worker) {
    struct hw__gil_sim *gil = worker->gil;
    uint64_t switches = gil->switches;
    int64_t deadline_ns = hw__now(worker) + gil->interval_ns;
    hw__gil_waits(worker);
    bool signalled = is_scheduled(gil)
                         ? hw__scheduled_wait(worker, deadline_ns)
                         : hw__sim_cond_wait(worker->task, &gil->cond, &gil->mutex, deadline_ns);
    return !signalled && gil->locked && gil->switches == switches;
}

void hw__gil_take(struct hw__worker *worker) {
    struct hw__gil_sim *gil = worker->gil;
    if (gil == NULL) {
        return;
    }
    worker->want_ns = worker->checks ? worker->want_ns : hw__now(worker);
    if (!gil->enabled) {
        gil->in_python++;
        worker->since_ns = hw__now(worker);
        return;
    }
    hw__task_user(worker->task, cost(worker, HW_SIM_COST_LOCK));
    lock(worker);
    while (gil->locked) {
        if (wait_once(worker)) {
            tell_request(worker);
            hw__gil_ask(gil, worker);
        }
    }
    hw__sim_mutex_lock(worker->task, &gil->switch_mutex);
    gil->locked = true;
    gil->switches += gil->last != worker;
    gil->last = worker;
    begin_hold(worker);
    if (is_scheduled(gil)) {
        hw__scheduled_acquire(worker);
    }
    hw__sim_cond_signal(worker->task, &gil->switch_cond);
    hw__sim_mutex_unlock(worker->task, &gil->switch_mutex);
    worker->drop = false;
    unlock(worker);
}

/* ---------------------------------------------------------------- drop_gil() */
static void end_turn(struct hw__worker *worker) {
    if (worker->role->turns != 0 && !worker->checks) {
        hw__world_done(worker->world, worker->role_index, hw__now(worker) - worker->want_ns);
    }
}

void hw__gil_drop(struct hw__worker *worker) {
    struct hw__gil_sim *gil = worker->gil;
    if (gil == NULL) {
        return;
    }
    end_turn(worker);
    if (!gil->enabled) {
        gil->in_python--;
        return;
    }
    hw__task_user(worker->task, cost(worker, HW_SIM_COST_LOCK));
    gil->last = worker;
    lock(worker);
    gil->locked = false;
    end_hold(worker);
    if (worker->checks) { /* preempted: it wants the GIL from now on, as in a recording */
        hw__gil_waits(worker);
    }
    if (is_scheduled(gil)) {
        hw__scheduled_release(worker);
    }
    hw__sim_cond_signal(worker->task, &gil->cond);
    unlock(worker);
    if (!worker->drop) {
        return;
    }
    /* FORCE_SWITCHING: waits until another thread has acquired the GIL. */
    hw__sim_mutex_lock(worker->task, &gil->switch_mutex);
    if (gil->last == worker) {
        worker->drop = false;
        if (is_scheduled(gil)) {
            hw__scheduled_wait_switch(worker);
        } else {
            hw__sim_cond_wait(worker->task, &gil->switch_cond, &gil->switch_mutex, HW__NO_DEADLINE);
        }
    }
    hw__sim_mutex_unlock(worker->task, &gil->switch_mutex);
}

void hw__gil_check(struct hw__worker *worker) {
    if (!worker->drop || worker->gil == NULL || !worker->gil->enabled) {
        return;
    }
    int64_t cold_ns = hw__cold_ns(worker->task, HW__COLD_PENDING, HW_SIM_COST_COLD_PENDING);
    hw__task_user(worker->task, cost(worker, HW_SIM_COST_PENDING) + cold_ns);
    worker->checks = true;
    hw__gil_drop(worker);
    hw__gil_take(worker);
    worker->checks = false;
}
