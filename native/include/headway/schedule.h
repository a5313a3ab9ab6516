// SPDX-License-Identifier: MIT
#ifndef HEADWAY_SCHEDULE_H
#define HEADWAY_SCHEDULE_H

#include <stdint.h>

#include "headway/api.h"
#include "headway/policy.h"

/* Scheduling the GILs of this process by a policy. One policy at a time, for all its GILs. Unless a
 * function says otherwise it is called with the GIL of the main interpreter held. */

/* What becomes of a policy, and of who waits under it. Counted since it began. */
struct hw_schedule_counts {
    int64_t acquires;      /* times a thread got a GIL */
    int64_t asked;         /* times the one that had it was asked for it */
    int64_t granted;       /* times a waiting thread was told that it is its turn */
    int64_t barged;        /* times another one took it first */
    int64_t graced;        /* times nobody was woken, as the GIL would be back at once */
    int64_t idle_ns;       /* while a GIL was free and somebody wanted it */
    int64_t wait_ns;       /* all waits */
    int64_t worst_wait_ns; /* the longest */
    int64_t threads;       /* that are known now */
    int64_t without;       /* times a thread found no room and waited as without us */
    int64_t rests; /* times the GIL was left alone, as nobody had had to wait for it for long:
                    * until somebody has to, nothing is counted */
    int64_t early; /* waits that ended since the holder was asked sooner than by CPython ... */
    int64_t early_wait_ns; /* ... and how long they were, in all */
};

/* The policies that are built in, from 0 on. Any thread may call it.
 *
 * Returns NULL behind the last one. */
HW_API const struct hw_policy *hw_policy_at(int index);

/* Finds a policy by its name, or loads the library at a path (with a slash in it).
 *
 * Returns NULL where there is none; `problem`, of `room` bytes, then says why. */
HW_API const struct hw_policy *hw_policy_find(const char *name, char *problem, int room);

/* The engine's own options, for every policy, each told in its `about`. The list ends with a name
 * of NULL. */
HW_API const struct hw_policy_option *hw_policy_engine_options(void);

/* Has a policy schedule all GILs from now on. The GIL is released for a moment.
 *
 * options: "name=value" each, with one space between; NULL or "": as preset.
 *
 * Returns 0 or a negative errno, with everything as it was: -EALREADY when there is a policy,
 * -EINVAL for an option (`problem` says which), -EMFILE when the process has no key for
 * thread-specific data left that takes no allocation, and those of hw_trace_start(). */
HW_API int hw_schedule_start(const struct hw_policy *policy, const char *options, char *problem,
                             int room);

/* Puts CPython's own behaviour back. Returns 0, or -ESRCH when there is no policy. */
HW_API int hw_schedule_stop(void);

/* The name of the policy that is on, "" where there is none: none was started, it was stopped, or
 * the watchdog has removed it. Any thread may call it. */
HW_API const char *hw_schedule_active(void);

/* Fills in the counts of the main interpreter's GIL. Returns 0, or -ESRCH when there is no policy
 * and was none. */
HW_API int hw_schedule_counts(struct hw_schedule_counts *counts);

/* Of the threads that are alive, the one for which the holder was asked sooner most often.
 *
 * early: receives how often. Returns its id, or 0 where there is none. Any thread may call it. */
HW_API int hw_schedule_gainer(int64_t *early);

/* What the program says of the calling thread: priority from -20 to 19 as nice(2), and whether it
 * is urgent. Holds from when it next takes a GIL or waits for one until said anew, also for a
 * policy that begins later.
 *
 * Returns 0, -EINVAL for another priority, -ENOSPC when there is no room for the thread. */
HW_API int hw_schedule_hint(int priority, int urgent);

#endif
