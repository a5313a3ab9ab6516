// SPDX-License-Identifier: MIT
/* A core and the task that it runs: its steps, interrupts, and the switch to the next one. */
#ifndef HEADWAY_SIM_CORE_H
#define HEADWAY_SIM_CORE_H

#include "sim/machine.h"

/* The core's current task does not go on for the moment: what it has spent counts. */
void hw__core_pause(struct hw__machine *machine, struct hw__task *task);

/* The current task goes on with what it spends. */
void hw__core_go_on(struct hw__machine *machine, struct hw__core *core);

/* An interrupt takes time from the current task. */
void hw__core_steal(struct hw__machine *machine, struct hw__core *core, int64_t ns);

/* The core whose current task has spent its time first; NULL: none has an end. */
struct hw__core *hw__core_first_step(const struct hw__machine *machine);

void hw__core_plan_tick(struct hw__machine *machine, struct hw__core *core);

/* schedule(): the task that is to run goes on. */
void hw__core_schedule(struct hw__machine *machine, struct hw__core *core);

/* At the end of an interrupt: user code is preempted at once, the kernel's when it returns to it.
 */
void hw__core_end_interrupt(struct hw__machine *machine, struct hw__core *core);

#endif
