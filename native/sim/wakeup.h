// SPDX-License-Identifier: MIT
/* Wake-ups: where a task goes that wakes, and whom it interrupts there. */
#ifndef HEADWAY_SIM_WAKEUP_H
#define HEADWAY_SIM_WAKEUP_H

#include "sim/machine.h"

/* The idle core comes out of that. `here`: from which core; NULL: from outside. Returns whether
 * that is another one. */
bool hw__wakeup_core(struct hw__machine *machine, struct hw__core *core,
                     const struct hw__core *here, bool in_interrupt);

/* try_to_wake_up(). Returns whether another core had to be told. `near`: who wakes it is about to
 * sleep. */
bool hw__wakeup_task(struct hw__machine *machine, struct hw__task *task, struct hw__core *here,
                     bool near, bool in_interrupt);

/* Takes the task out of the list of the futex that it waits for, if it does. */
void hw__wakeup_leave_list(struct hw__task *task);

#endif
