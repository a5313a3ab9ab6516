// SPDX-License-Identifier: MIT
/* Looks after a policy from outside: by the eyes of waiters that wake by themselves. */
#ifndef HEADWAY_SCHEDULE_WATCHDOG_H
#define HEADWAY_SCHEDULE_WATCHDOG_H

#include <stddef.h>

#include "schedule/sched.h"

/* Of a hold, what no policy is to blame for: all of it where it is so long that it must be a call
 * of C that cannot let go. */
int64_t hw__watchdog_stuck_ns(int64_t held_ns);

/* What is wrong with the policy, found by a waiter that has slept and was not called; NULL:
 * nothing. */
const char *hw__watchdog_finds(struct hw__sched *sched, const struct hw__runner *runner,
                               int64_t now_ns);

/* What is to be said of it, for hw__say(), while the policy is still there. The GIL's mutex must be
 * held. */
void hw__watchdog_text(const struct hw__sched *sched, const struct hw__runner *runner,
                       const char *why, char *text, size_t room);

#endif
