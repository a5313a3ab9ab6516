// SPDX-License-Identifier: MIT
#include "sim/wakeup.h"

#include "sim/core.h"
#include "sim/fair.h"

/* A core that was idle for longer is in a deeper sleep. On a virtual machine, the host has stopped
 * polling for the core; KVM does so after 0.2 ms by default. */
#define MIDDLE_IDLE_NS 200000
#define LONG_IDLE_NS 2000000

/* select_idle_cpu() searches as many cores as SIS_UTIL allows: the more the cores are used, the
 * fewer it searches. Of two cores with one in use, it searched none in 85 to 100 of 100 wake-ups
 * (docs/internals/simulator.md). */
#define LEAST_CORES_TO_SEARCH 3

static struct hw__core *any_idle(struct hw__machine *machine, const struct hw__task *task) {
    if (machine->core_count < LEAST_CORES_TO_SEARCH) {
        return NULL;
    }
    for (int32_t i = 0; i < machine->core_count; i++) {
        if ((task->allowed >> i & 1) != 0 && hw__core_is_idle(&machine->cores[i])) {
            return &machine->cores[i];
        }
    }
    return NULL;
}

/* wake_affine() chooses between the waker's core and the task's last one. */
static struct hw__core *near_core(struct hw__task *task, struct hw__core *here, bool near) {
    struct hw__core *last = task->core;
    if (here == last || (task->allowed >> here->id & 1) == 0) {
        return last;
    }
    if (hw__core_is_idle(here)) {
        return hw__core_is_idle(last) ? last : here;
    }
    if (near && hw__fair_runnable(here) == 1) {
        return here;
    }
    if (hw__core_is_idle(last)) {
        return last;
    }
    int32_t load = hw__fair_runnable(here) - (near ? 1 : 0);
    return (load + 1) * 100 < hw__fair_runnable(last) * 108 ? here : last;
}

/* select_task_rq_fair() */
static struct hw__core *choose_core(struct hw__machine *machine, struct hw__task *task,
                                    struct hw__core *here, bool near) {
    if ((task->allowed & (task->allowed - 1)) == 0) {
        return task->core;
    }
    struct hw__core *target = near_core(task, here == NULL ? task->core : here, near);
    if (hw__core_is_idle(target)) {
        return target;
    }
    if (hw__core_is_idle(task->core)) {
        return task->core;
    }
    struct hw__core *idle = any_idle(machine, task);
    return idle != NULL ? idle : target;
}

static int64_t wake_core_ns(struct hw__machine *machine, const struct hw__core *core) {
    int64_t idle_ns = machine->now_ns - core->idle_since_ns;
    return hw__cost(machine, idle_ns > LONG_IDLE_NS     ? HW_SIM_COST_WAKE_IDLE_LONG
                             : idle_ns > MIDDLE_IDLE_NS ? HW_SIM_COST_WAKE_IDLE_MIDDLE
                                                        : HW_SIM_COST_WAKE_IDLE);
}

/* check_preempt_wakeup_fair(), and the interrupt that tells another core. Returns whether an
 * interrupt was sent. */
static bool preempt(struct hw__machine *machine, struct hw__core *core, struct hw__task *task,
                    const struct hw__core *here, bool in_interrupt, bool was_told) {
    hw__fair_account(core, machine->now_ns);
    if (!core->need_resched && hw__fair_pick(core) == task) {
        core->need_resched = true;
    }
    if (!core->need_resched || was_told) {
        return false;
    }
    if (here != core) {
        hw__machine_plan_core(machine, core, HW__EVENT_RESCHED,
                              machine->now_ns + hw__cost(machine, HW_SIM_COST_PREEMPT_OTHER));
        return true;
    }
    if (in_interrupt) {
        hw__machine_plan_core(machine, core, HW__EVENT_RESCHED, machine->now_ns);
    }
    return false;
}

bool hw__wakeup_core(struct hw__machine *machine, struct hw__core *core,
                     const struct hw__core *here, bool in_interrupt) {
    if (!core->waking) {
        core->waking = true;
        int64_t in_ns = in_interrupt && here == core ? 0 : wake_core_ns(machine, core);
        hw__machine_plan_core(machine, core, HW__EVENT_WAKE_CORE, machine->now_ns + in_ns);
    }
    return here != core;
}

/* Ends the delay of a delayed dequeue: the task is still in its queue. */
static void undelay(struct hw__core *core, struct hw__task *task) {
    hw__fair_remove(core, task);
    task->delayed = false;
    hw__fair_keep_lag(core, task);
    if (task->lag > 0) {
        task->lag = 0;
        hw__fair_place(core, task);
    }
    hw__fair_put(core, task);
}

bool hw__wakeup_task(struct hw__machine *machine, struct hw__task *task, struct hw__core *here,
                     bool near, bool in_interrupt) {
    task->blocked = false;
    task->sleep++;
    bool stays = task->on_queue && task->delayed;
    struct hw__core *core = stays ? task->core : choose_core(machine, task, here, near);
    bool was_told = core->need_resched; /* before this wake-up demanded a reschedule */
    if (stays) {
        hw__fair_account(core, machine->now_ns);
        undelay(core, task);
    } else {
        hw__fair_account(core, machine->now_ns);
        task->core = core;
        hw__fair_place(core, task);
        task->on_queue = true;
        task->delayed = false;
        hw__fair_put(core, task);
    }
    if (core->current == NULL) {
        return hw__wakeup_core(machine, core, here, in_interrupt);
    }
    return preempt(machine, core, task, here, in_interrupt, was_told);
}

void hw__wakeup_leave_list(struct hw__task *task) {
    struct hw__sim_futex *futex = task->waits_for;
    if (futex == NULL) {
        return;
    }
    *(task->before == NULL ? &futex->first : &task->before->after) = task->after;
    *(task->after == NULL ? &futex->last : &task->after->before) = task->before;
    task->waits_for = NULL;
    task->before = task->after = NULL;
}

bool hw__machine_wake(struct hw__machine *machine, struct hw__task *waker,
                      struct hw__sim_futex *futex, bool near, bool *idle) {
    struct hw__task *task = futex->first;
    *idle = false;
    if (task == NULL) {
        return false;
    }
    hw__wakeup_leave_list(task);
    task->popped = true;
    if (task->blocked) {
        *idle =
            hw__wakeup_task(machine, task, waker == NULL ? NULL : waker->core, near, waker == NULL);
    }
    return true;
}

void hw__task_interrupt(struct hw__task *task, int64_t delay_ns) {
    struct hw__machine *machine = task->machine;
    if (task->spends == HW__SPENDS_UNTIL) {
        bool runs = task->running && task->core->current == task;
        if (runs) {
            hw__core_pause(machine, task);
        }
        task->left_ns = task->left_ns < delay_ns ? task->left_ns : delay_ns;
        if (runs) {
            hw__core_go_on(machine, task->core);
        }
    }
}
