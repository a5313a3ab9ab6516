// SPDX-License-Identifier: MIT
#include "sim/core.h"

#include "sim/fair.h"

void hw__core_pause(struct hw__machine *machine, struct hw__task *task) {
    if (!task->running) {
        return;
    }
    int64_t passed_ns = machine->now_ns - task->started_ns;
    task->running = false;
    task->core->step_ns = INT64_MAX;
    if (passed_ns < task->extra_ns) {
        task->extra_ns -= passed_ns;
        return;
    }
    passed_ns -= task->extra_ns;
    task->extra_ns = 0;
    if (task->spends == HW__SPENDS_USER || task->spends == HW__SPENDS_UNTIL) {
        task->user_ns += passed_ns;
    }
    if (task->left_ns < HW__FOREVER) {
        task->left_ns = passed_ns < task->left_ns ? task->left_ns - passed_ns : 0;
    }
}

void hw__core_go_on(struct hw__machine *machine, struct hw__core *core) {
    struct hw__task *task = core->current;
    task->running = true;
    task->started_ns = machine->now_ns;
    if (task->left_ns < HW__FOREVER) {
        core->step_ns = machine->now_ns + task->extra_ns + task->left_ns;
    }
}

void hw__core_steal(struct hw__machine *machine, struct hw__core *core, int64_t ns) {
    if (core->current != NULL && core->current->running) {
        hw__core_pause(machine, core->current);
        core->current->extra_ns += ns;
        hw__core_go_on(machine, core);
    }
}

struct hw__core *hw__core_first_step(const struct hw__machine *machine) {
    struct hw__core *first = NULL;
    for (int32_t i = 0; i < machine->core_count; i++) {
        struct hw__core *core = &machine->cores[i];
        if (core->step_ns < (first == NULL ? INT64_MAX : first->step_ns)) {
            first = core;
        }
    }
    return first;
}

void hw__core_plan_tick(struct hw__machine *machine, struct hw__core *core) {
    if (!core->ticks) {
        core->ticks = true;
        hw__machine_plan_core(machine, core, HW__EVENT_TICK,
                              (machine->now_ns / machine->tick_ns + 1) * machine->tick_ns);
    }
}

/* sched_balance_newidle(): a core that is about to idle takes a task that waits on another core and
 * has not run there for migration_ns. Returns whether it took one. */
static bool pull(struct hw__machine *machine, struct hw__core *core) {
    for (int32_t i = 0; i < machine->core_count; i++) {
        struct hw__core *other = &machine->cores[i];
        if (other == core || hw__fair_runnable(other) < 2) {
            continue;
        }
        for (int32_t j = 0; j < other->queued; j++) {
            struct hw__task *task = other->queue[j];
            if (!task->delayed && (task->allowed >> core->id & 1) != 0 &&
                machine->now_ns - task->counted_ns >= machine->migration_ns) {
                hw__fair_account(other, machine->now_ns);
                hw__fair_keep_lag(other, task);
                task->deadline -= task->vruntime;
                task->relative_deadline = true;
                hw__fair_remove(other, task);
                task->core = core;
                hw__fair_place(core, task);
                hw__fair_put(core, task);
                return true;
            }
        }
    }
    return false;
}

/* Returns the next task, or NULL if there is none. A task whose dequeue was delayed leaves the
 * queue when it would be next. */
static struct hw__task *pick_runnable(struct hw__machine *machine, struct hw__core *core) {
    bool pulled = false;
    for (;;) {
        if (hw__fair_all(core) == 0) {
            if (pulled || !pull(machine, core)) {
                return NULL;
            }
            pulled = true;
        }
        struct hw__task *task = hw__fair_pick(core);
        if (!task->delayed) {
            return task;
        }
        hw__fair_keep_lag(core, task);
        task->lag = task->lag > 0 ? 0 : task->lag;
        hw__fair_remove(core, task);
        task->on_queue = task->delayed = false;
    }
}

void hw__core_schedule(struct hw__machine *machine, struct hw__core *core) {
    struct hw__task *previous = core->current;
    if (previous != NULL) {
        hw__core_pause(machine, previous);
        hw__fair_account(core, machine->now_ns);
    }
    core->need_resched = false;
    struct hw__task *next = pick_runnable(machine, core);
    if (next != NULL && next == previous) {
        hw__core_go_on(machine, core);
        return;
    }
    if (previous != NULL && previous->on_queue) {
        hw__fair_put(core, previous);
    }
    core->current = NULL;
    if (next == NULL) {
        core->idle_since_ns = machine->now_ns;
        return;
    }
    hw__fair_remove(core, next);
    core->current = next;
    next->counted_ns = machine->now_ns;
    next->protected_until = next->deadline;
    next->extra_ns += hw__cost(machine, HW_SIM_COST_SWITCH);
    hw__core_go_on(machine, core);
    hw__core_plan_tick(machine, core);
}

static bool in_user_code(const struct hw__machine *machine, const struct hw__task *task) {
    return machine->now_ns - task->started_ns >= task->extra_ns &&
           (task->spends == HW__SPENDS_USER || task->spends == HW__SPENDS_UNTIL);
}

void hw__core_end_interrupt(struct hw__machine *machine, struct hw__core *core) {
    struct hw__task *task = core->current;
    if (!core->need_resched) {
        return;
    }
    if (task == NULL) {
        if (!core->waking) {
            hw__core_schedule(machine, core);
        }
    } else if (in_user_code(machine, task)) {
        hw__core_schedule(machine, core);
    } else if (machine->now_ns - task->started_ns < task->extra_ns &&
               (task->spends == HW__SPENDS_USER || task->spends == HW__SPENDS_UNTIL)) {
        hw__machine_plan_core(machine, core, HW__EVENT_RESCHED, task->started_ns + task->extra_ns);
    }
}
