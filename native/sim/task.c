// SPDX-License-Identifier: MIT
/* The functions that a task's own code calls to spend time, sleep, yield and end. */
#include <stdlib.h>

#include "sim/core.h"
#include "sim/fair.h"
#include "sim/timers.h"
#include "sim/wakeup.h"

static void leave(struct hw__task *task, enum hw__spends spends, int64_t ns) {
    task->spends = spends;
    task->left_ns = ns;
    hw__fiber_leave(&task->fiber);
}

/* Lets time pass without a switch to the machine's loop, if nothing else happens meanwhile. Returns
 * whether it did. */
static bool spend_alone(struct hw__task *task, int64_t ns, bool in_user_code) {
    struct hw__machine *machine = task->machine;
    int64_t end_ns = machine->now_ns + task->extra_ns + ns;
    if ((task->core->need_resched && in_user_code) || end_ns > machine->stop_ns ||
        end_ns >= hw__events_next_ns(&machine->events)) {
        return false;
    }
    const struct hw__core *other =
        hw__core_first_step(machine); /* never this core: it has no end */
    if (other != NULL && end_ns >= other->step_ns) {
        return false;
    }
    machine->now_ns = end_ns;
    machine->steps++;
    task->extra_ns = 0;
    task->user_ns += in_user_code ? ns : 0;
    return true;
}

void hw__task_user(struct hw__task *task, int64_t ns) {
    if (!spend_alone(task, ns, true)) {
        leave(task, HW__SPENDS_USER, ns);
    }
}

void hw__task_kernel(struct hw__task *task, int64_t ns) {
    if (ns > 0 && !spend_alone(task, ns, false)) {
        leave(task, HW__SPENDS_KERNEL, ns);
    }
}

int64_t hw__task_until(struct hw__task *task, int64_t ns, const bool *flag) {
    if (*flag) {
        return 0;
    }
    int64_t before_ns = task->user_ns;
    if (!spend_alone(task, ns, true)) {
        leave(task, HW__SPENDS_UNTIL, ns < HW__FOREVER ? ns : HW__FOREVER);
    }
    return task->user_ns - before_ns;
}

static void enlist(struct hw__task *task, struct hw__sim_futex *futex) {
    task->before = futex->last;
    task->after = NULL;
    *(futex->last == NULL ? &futex->first : &futex->last->after) = task;
    futex->last = task;
    task->waits_for = futex;
    task->popped = task->timed_out = false;
    task->sleep++;
}

bool hw__task_sleep(struct hw__task *task, struct hw__sim_futex *futex, int64_t deadline_ns,
                    int64_t enter_ns) {
    struct hw__machine *machine = task->machine;
    enlist(task, futex);
    hw__task_kernel(task, enter_ns);
    struct hw__core *armed = NULL;
    int64_t hard_ns = 0;
    if (deadline_ns >= 0) { /* the timer is set after the task has entered the list */
        hard_ns = deadline_ns + hw__cost(machine, HW_SIM_COST_TIMER_SLACK);
        armed = task->core;
        if (hw__timers_is_earliest(armed, task, hard_ns)) {
            hw__task_kernel(task, hw__cost(machine, HW_SIM_COST_TIMER_ARM));
        }
        if (!task->popped && hard_ns <= machine->now_ns) {
            hw__wakeup_leave_list(task);
            return false;
        }
        if (!task->popped) {
            hw__timers_add(machine, armed,
                           (struct hw__timer){.task = task,
                                              .sleep = task->sleep,
                                              .soft_ns = deadline_ns,
                                              .hard_ns = hard_ns});
        }
    }
    if (!task->popped) {
        leave(task, HW__BLOCKS, 0);
    }
    task->sleep++; /* the timer is void */
    if (armed != NULL && !task->timed_out && armed == task->core && hard_ns > machine->now_ns &&
        hw__timers_is_earliest(armed, task, hard_ns)) {
        hw__task_kernel(task, hw__cost(machine, HW_SIM_COST_TIMER_ARM));
    }
    return !task->timed_out;
}

void hw__task_block(struct hw__task *task, struct hw__sim_futex *futex, int64_t until_ns) {
    enlist(task, futex);
    hw__machine_plan(task->machine, (struct hw__planned){.time_ns = until_ns,
                                                         .kind = HW__EVENT_OUTSIDE,
                                                         .task = task,
                                                         .serial = task->sleep});
    leave(task, HW__BLOCKS, 0);
}

int64_t hw__task_user_ns(const struct hw__task *task) {
    int64_t passed_ns = task->running ? task->machine->now_ns - task->started_ns : 0;
    bool counts_now = task->spends == HW__SPENDS_USER || task->spends == HW__SPENDS_UNTIL;
    return task->user_ns +
           (counts_now && passed_ns > task->extra_ns ? passed_ns - task->extra_ns : 0);
}

int64_t hw__task_cpu_ns(const struct hw__task *task) {
    bool is_current = task->core->current == task;
    return task->cpu_ns + (is_current ? task->machine->now_ns - task->counted_ns : 0);
}

void hw__task_yield(struct hw__task *task) { leave(task, HW__YIELDS, 0); }

void hw__task_end(struct hw__task *task) {
    leave(task, HW__ENDS, 0);
    abort();
}
