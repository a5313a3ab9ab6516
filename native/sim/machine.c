// SPDX-License-Identifier: MIT
#include "sim/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/core.h"
#include "sim/fair.h"
#include "sim/timers.h"
#include "sim/wakeup.h"

/* The most steps that may be made without time passing, and as many more for each task. All tasks
 * may begin at the same time and each make some steps, but then time must pass. */
#define MOST_AT_ONCE 300000
#define MOST_EACH_AT_ONCE 1000

/* ---------------------------------------------------------------- the loop */
void hw__machine_plan(struct hw__machine *machine, struct hw__planned event) {
    if (!hw__events_push(&machine->events, event)) {
        machine->error = -ENOMEM;
    }
}

void hw__machine_plan_core(struct hw__machine *machine, struct hw__core *core,
                           enum hw__event_kind kind, int64_t time_ns) {
    hw__machine_plan(machine, (struct hw__planned){.time_ns = time_ns, .kind = kind, .core = core});
}

/* Puts the current task to sleep. */
static void block(struct hw__machine *machine, struct hw__core *core) {
    struct hw__task *task = core->current;
    task->blocked = true;
    task->spends = HW__SPENDS_KERNEL;
    task->left_ns = 0;
    hw__fair_account(core, machine->now_ns);
    bool eligible = hw__fair_average(core) >= task->vruntime;
    core->current = NULL;
    if (!eligible) {
        task->delayed = true;
        hw__fair_put(core, task);
    } else {
        core->current = task;
        hw__fair_keep_lag(core, task);
        core->current = NULL;
        task->on_queue = false;
    }
    hw__core_schedule(machine, core);
}

/* yield_task_fair(): gives up the rest of the current task's slice. */
static void yield(struct hw__machine *machine, struct hw__core *core) {
    struct hw__task *task = core->current;
    task->spends = HW__SPENDS_KERNEL;
    task->left_ns = 0;
    hw__fair_account(core, machine->now_ns);
    if (hw__fair_all(core) > 1 && hw__fair_average(core) >= task->vruntime) {
        task->vruntime = task->deadline;
        task->deadline += task->slice_ns;
        hw__fair_renew_least(core);
    }
    task->protected_until = 0;
    hw__core_schedule(machine, core);
}

/* Runs the current task's code until it spends time or blocks. */
static void run_code(struct hw__machine *machine, struct hw__core *core) {
    struct hw__task *task = core->current;
    for (;;) {
        task->spends = HW__SPENDS_NOTHING;
        hw__fiber_enter(&task->fiber);
        switch (task->spends) {
        case HW__SPENDS_USER:
        case HW__SPENDS_UNTIL:
            if (core->need_resched) { /* the task returns from the kernel */
                hw__core_schedule(machine, core);
                return;
            }
            hw__core_go_on(machine, core);
            return;
        case HW__SPENDS_KERNEL:
            hw__core_go_on(machine, core);
            return;
        case HW__BLOCKS:
            block(machine, core);
            return;
        case HW__YIELDS:
            yield(machine, core);
            return;
        default:
            task->on_queue = false;
            hw__fair_account(core, machine->now_ns);
            core->current = NULL;
            hw__core_schedule(machine, core);
            return;
        }
    }
}

static void timer(struct hw__machine *machine, struct hw__planned event) {
    struct hw__core *core = event.core;
    if (event.serial != event.task->sleep) {
        return;
    }
    if (core->current == NULL && !core->waking && !event.again) { /* the core must wake first */
        event.time_ns = machine->now_ns + hw__cost(machine, HW_SIM_COST_TIMER_LATE_IDLE);
        event.again = true;
        hw__machine_plan(machine, event);
        return;
    }
    hw__core_steal(machine, core, hw__cost(machine, HW_SIM_COST_TIMER_INTERRUPT));
    hw__timers_expire(machine, core);
}

static void outside(struct hw__machine *machine, const struct hw__planned *event) {
    if (event->serial == event->task->sleep && event->task->blocked) {
        hw__wakeup_leave_list(event->task);
        hw__wakeup_task(machine, event->task, NULL, false, true);
    }
}

static void tick(struct hw__machine *machine, struct hw__core *core) {
    core->ticks = false;
    if (core->current == NULL) {
        return; /* an idle core has no ticks */
    }
    hw__core_plan_tick(machine, core);
    hw__core_steal(machine, core, hw__cost(machine, HW_SIM_COST_TICK_INTERRUPT));
    hw__fair_account(core, machine->now_ns);
    hw__timers_expire(machine, core);
    for (int32_t i = 0; i < machine->core_count && hw__fair_runnable(core) >= 2; i++) {
        struct hw__core *other = &machine->cores[i];
        if (hw__core_is_idle(other)) { /* nohz_balancer_kick() */
            hw__wakeup_core(machine, other, core, false);
        }
    }
    hw__core_end_interrupt(machine, core);
}

static void happen(struct hw__machine *machine, const struct hw__planned *event) {
    switch (event->kind) {
    case HW__EVENT_TIMER:
        timer(machine, *event);
        break;
    case HW__EVENT_TICK:
        tick(machine, event->core);
        break;
    case HW__EVENT_RESCHED:
        hw__core_end_interrupt(machine, event->core);
        break;
    case HW__EVENT_WAKE_CORE:
        event->core->waking = false;
        if (event->core->current == NULL) {
            hw__core_schedule(machine, event->core);
        }
        break;
    case HW__EVENT_OUTSIDE:
        outside(machine, event);
        break;
    case HW__EVENT_BEGIN:
        hw__wakeup_task(machine, event->task, NULL, false, false);
        break;
    }
}

/* Lets the next event or step happen, if it is due by `until_ns`. Of those at one time, steps come
 * last. Returns whether there was one. */
static bool happen_next(struct hw__machine *machine, int64_t until_ns) {
    struct hw__core *core = hw__core_first_step(machine);
    int64_t event_ns = hw__events_next_ns(&machine->events);
    if (event_ns <= until_ns && (core == NULL || event_ns <= core->step_ns)) {
        struct hw__planned event = hw__events_pop(&machine->events);
        machine->now_ns = event.time_ns;
        happen(machine, &event);
        return true;
    }
    if (core == NULL || core->step_ns > until_ns) {
        return false;
    }
    machine->now_ns = core->step_ns;
    hw__core_pause(machine, core->current);
    run_code(machine, core);
    return true;
}

/* Ends the run if time does not pass. If operations cost nothing, a policy or a program may
 * loop. */
static void watch_time(struct hw__machine *machine) {
    if (machine->moved_ns != machine->now_ns) {
        machine->moved_ns = machine->now_ns;
        machine->moved_at = machine->steps;
    } else if (machine->steps - machine->moved_at >
               MOST_AT_ONCE + MOST_EACH_AT_ONCE * (int64_t)machine->task_count) {
        machine->error = -EPROTO;
    }
}

int hw__machine_run(struct hw__machine *machine, int64_t until_ns) {
    machine->stop_ns = until_ns;
    while (machine->error == 0 && !machine->stops && happen_next(machine, until_ns)) {
        machine->steps++;
        watch_time(machine);
    }
    if (machine->error == 0 && machine->stops) {
        return 0; /* now_ns stays the time of the end */
    }
    if (machine->error == 0 && machine->events.count == 0 && hw__core_first_step(machine) == NULL) {
        return -EDEADLK;
    }
    machine->now_ns = until_ns;
    return machine->error;
}

/* ---------------------------------------------------------------- making and freeing */
bool hw__machine_make(struct hw__machine *machine, const struct hw_sim_spec *spec) {
    memset(machine, 0, sizeof *machine);
    machine->tick_ns = spec->tick_ns;
    machine->slice_ns = spec->slice_ns;
    machine->migration_ns = spec->migration_ns;
    hw__random_seed(&machine->random, spec->seed);
    machine->cores = calloc((size_t)spec->core_count, sizeof *machine->cores);
    machine->core_count = machine->cores == NULL ? 0 : spec->core_count;
    for (int32_t i = 0; i < machine->core_count; i++) {
        struct hw__core *core = &machine->cores[i];
        core->id = i;
        core->step_ns = INT64_MAX;
    }
    return machine->cores != NULL;
}

/* Makes room for one more task: each core's queue must have room for all tasks. */
static bool make_room(struct hw__machine *machine) {
    size_t room = (size_t)machine->task_count + 1;
    struct hw__task **tasks = realloc(machine->tasks, room * sizeof *tasks);
    if (tasks == NULL) {
        return false;
    }
    machine->tasks = tasks;
    for (int32_t i = 0; i < machine->core_count; i++) {
        struct hw__task **queue = realloc(machine->cores[i].queue, room * sizeof *queue);
        if (queue == NULL) {
            return false;
        }
        machine->cores[i].queue = queue;
    }
    return true;
}

struct hw__task *hw__machine_add(struct hw__machine *machine, void (*entry)(void *task),
                                 void *owner, uint64_t cores, int64_t begin_ns) {
    struct hw__task *task = make_room(machine) ? calloc(1, sizeof *task) : NULL;
    if (task == NULL) {
        return NULL;
    }
    if (!hw__fiber_make(&task->fiber, entry, task)) {
        free(task);
        return NULL;
    }
    uint64_t all =
        machine->core_count == 64 ? UINT64_MAX : (UINT64_C(1) << machine->core_count) - 1;
    task->machine = machine;
    task->owner = owner;
    task->allowed = cores == 0 ? all : cores & all;
    /* At first, tasks are spread over the cores that they may run on, as fork() would do. */
    for (int32_t i = 0; i < machine->core_count; i++) {
        int32_t nth = (machine->task_count + i) % machine->core_count;
        struct hw__core *core = &machine->cores[nth];
        if ((task->allowed >> nth & 1) != 0 &&
            (task->core == NULL || core->begun < task->core->begun)) {
            task->core = core;
        }
    }
    task->core->begun++;
    task->slice_ns = machine->slice_ns;
    task->spends = HW__SPENDS_KERNEL;
    task->blocked = true;
    machine->tasks[machine->task_count++] = task;
    hw__machine_plan(
        machine, (struct hw__planned){.time_ns = begin_ns, .kind = HW__EVENT_BEGIN, .task = task});
    return task;
}

void hw__machine_free(struct hw__machine *machine) {
    for (int32_t i = 0; i < machine->task_count; i++) {
        hw__fiber_free(&machine->tasks[i]->fiber);
        free(machine->tasks[i]);
    }
    for (int32_t i = 0; i < machine->core_count; i++) {
        free(machine->cores[i].queue);
        free(machine->cores[i].timers);
    }
    free(machine->tasks);
    free(machine->cores);
    hw__costs_free(machine);
    hw__events_free(&machine->events);
}
