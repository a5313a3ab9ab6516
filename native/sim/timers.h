// SPDX-License-Identifier: MIT
/* The timers of a core. A timer may expire from its time on, with any interrupt. At the end of its
 * slack, it has an interrupt of its own. */
#ifndef HEADWAY_SIM_TIMERS_H
#define HEADWAY_SIM_TIMERS_H

#include "sim/machine.h"

/* Wakes the tasks of the timers that are due. */
void hw__timers_expire(struct hw__machine *machine, struct hw__core *core);

/* Tells whether a timer at `hard_ns` would be the core's next interrupt. If so, the hardware must
 * be programmed. */
bool hw__timers_is_earliest(const struct hw__core *core, const struct hw__task *task,
                            int64_t hard_ns);

/* Adds a timer, and plans its interrupt. */
void hw__timers_add(struct hw__machine *machine, struct hw__core *core, struct hw__timer timer);

#endif
