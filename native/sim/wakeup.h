// SPDX-License-Identifier: MIT
/* Wake-ups: the core that a woken task goes to, and the task that it preempts there. */
#ifndef HEADWAY_SIM_WAKEUP_H
#define HEADWAY_SIM_WAKEUP_H

#include "sim/machine.h"

/* Wakes an idle core. `here` is the core of the waker; NULL: the wake-up is from outside the
 * machine. Returns whether that is another core. */
bool hw__wakeup_core(struct hw__machine *machine, struct hw__core *core,
                     const struct hw__core *here, bool in_interrupt);

/* try_to_wake_up(): makes the task runnable. `near`: the waker is about to sleep. Returns whether
 * another core had to be told. */
bool hw__wakeup_task(struct hw__machine *machine, struct hw__task *task, struct hw__core *here,
                     bool near, bool in_interrupt);

/* Removes the task from the list of the futex that it waits for, if it is in one. */
void hw__wakeup_leave_list(struct hw__task *task);

#endif
