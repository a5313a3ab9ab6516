// SPDX-License-Identifier: MIT
/* Looks after a policy from outside: by the eyes of waiters that wake by themselves. */
#ifndef HEADWAY_SCHEDULE_WATCHDOG_H
#define HEADWAY_SCHEDULE_WATCHDOG_H

#include "schedule/sched.h"

/* Of a hold, what no policy is to blame for: all of it where it is so long that it must be a call
 * of C that cannot let go. */
int64_t hw__watchdog_stuck_ns(int64_t held_ns);

/* What is wrong with the policy, found by a waiter that has slept and was not called; NULL:
 * nothing. */
const char *hw__watchdog_finds(struct hw__sched *sched, const struct hw__runner *runner,
                               int64_t now_ns);

/* Says in one line on stderr, without stdio, that the policy is removed and why. */
void hw__watchdog_say(const struct hw__sched *sched, const struct hw__runner *runner,
                      const char *why);

#endif
