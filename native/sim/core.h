// SPDX-License-Identifier: MIT
/* A core and the task that it runs: the task's steps, interrupts, and the switch to the next
 * task. */
#ifndef HEADWAY_SIM_CORE_H
#define HEADWAY_SIM_CORE_H

#include "sim/machine.h"

/* Stops the core's current task for the moment, and accounts for the time that it has spent. Does
 * nothing if the task is stopped already. */
void hw__core_pause(struct hw__machine *machine, struct hw__task *task);

/* Lets the current task go on with what it spends its time on. */
void hw__core_go_on(struct hw__machine *machine, struct hw__core *core);

/* Takes time from the current task, for an interrupt. */
void hw__core_steal(struct hw__machine *machine, struct hw__core *core, int64_t ns);

/* Returns the core whose current task is the first to have spent its time, or NULL if no current
 * task has an end. */
struct hw__core *hw__core_first_step(const struct hw__machine *machine);

/* Plans the core's next tick, if none is planned. */
void hw__core_plan_tick(struct hw__machine *machine, struct hw__core *core);

/* schedule(): switches to the next task, and lets it go on. */
void hw__core_schedule(struct hw__machine *machine, struct hw__core *core);

/* Must be called at the end of an interrupt. User code is preempted at once; a system call is
 * preempted when it returns to user code. */
void hw__core_end_interrupt(struct hw__machine *machine, struct hw__core *core);

#endif
