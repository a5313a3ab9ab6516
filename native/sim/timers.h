// SPDX-License-Identifier: MIT
/* The timers of a core: each may expire from its time on, with any interrupt, and has one of its
 * own at the end of its slack. */
#ifndef HEADWAY_SIM_TIMERS_H
#define HEADWAY_SIM_TIMERS_H

#include "sim/machine.h"

/* Those whose time has come wake their tasks. */
void hw__timers_expire(struct hw__machine *machine, struct hw__core *core);

/* Whether a timer at `hard_ns` is the core's next interrupt: then the hardware has to be set. */
bool hw__timers_is_earliest(const struct hw__core *core, const struct hw__task *task,
                            int64_t hard_ns);

void hw__timers_add(struct hw__machine *machine, struct hw__core *core, struct hw__timer timer);

#endif
