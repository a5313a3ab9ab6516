// SPDX-License-Identifier: MIT
#ifndef HEADWAY_SCHEDULE_H
#define HEADWAY_SCHEDULE_H

#include <stdint.h>

#include "headway/api.h"
#include "headway/policy.h"

/* Schedules the GILs of this process by a policy. At most one policy is on, for all GILs of the
 * process. The caller must hold the GIL of the main interpreter, unless a function says
 * otherwise. */

/* Counters of one GIL under a policy, since the policy began. */
struct hw_schedule_counts {
    int64_t acquires;      /* acquires of the GIL */
    int64_t asked;         /* requests made to the holder */
    int64_t granted;       /* times a waiter was told that it is its turn */
    int64_t barged;        /* times another thread acquired the GIL before that waiter did */
    int64_t graced;        /* releases that woke no waiter: the GIL would be wanted back at once */
    int64_t idle_ns;       /* time during which the GIL was free and a thread wanted it */
    int64_t wait_ns;       /* the sum of all waits */
    int64_t worst_wait_ns; /* the longest wait; the end of the policy ends waits in the queue */
    int64_t threads;       /* threads known to the engine now */
    int64_t without;       /* times the engine had no room for a thread, which waited without it */
    int64_t rests;         /* times the GIL was left to CPython; nothing is counted during a rest */
    int64_t early;         /* waits whose request came sooner than CPython would have made it */
    int64_t early_wait_ns; /* the sum of the waits that `early` counts */
    int64_t early_elsewhere; /* as `early`, but at the GILs of other interpreters */
};

/* Returns the built-in policy with this index, from 0 on, or NULL after the last one. Any thread
 * may call this function. */
HW_API const struct hw_policy *hw_policy_at(int index);

/* Finds a built-in policy by its name, or loads the shared library at a path (a name with a slash).
 *
 * Returns NULL on failure; `problem`, which has room for `room` bytes, then says why. */
HW_API const struct hw_policy *hw_policy_find(const char *name, char *problem, int room);

/* Returns the options of the engine itself, which every policy has; each describes itself in
 * `about`. An option whose name is NULL ends the list. */
HW_API const struct hw_policy_option *hw_policy_engine_options(void);

/* Puts all GILs under a policy. Releases the GIL for a moment.
 *
 * options: "name=value" pairs, separated by one space; NULL or "": all options have their presets.
 *
 * Returns 0, or a negative errno with nothing changed: -EALREADY if a policy is on, or another
 * thread starts one at this moment, -EINVAL for a wrong option (`problem` says which), -EMFILE if
 * the process has no key for thread-specific data left that needs no allocation, and the errors of
 * hw_trace_start(). */
HW_API int hw_schedule_start(const struct hw_policy *policy, const char *options, char *problem,
                             int room);

/* Checks options as hw_schedule_start() does, and changes nothing. Returns 0, or -EINVAL for a
 * wrong option. Any thread may call this function. */
HW_API int hw_schedule_check(const struct hw_policy *policy, const char *options, char *problem,
                             int room);

/* Restores CPython's own behaviour. Returns 0, or -ESRCH if no policy is on. */
HW_API int hw_schedule_stop(void);

/* Returns the name of the policy that is on, or "" if there is none: none was started, it was
 * stopped, or the watchdog has removed it. Any thread may call this function. */
HW_API const char *hw_schedule_active(void);

/* Returns the number of the policy that is on, or 0 if there is none: each start of a policy has
 * another number. A forked child's policy keeps its number. Any thread may call this function. */
HW_API uint32_t hw_schedule_number(void);

/* Fills in the counters of the main interpreter's GIL. Returns 0, or -ESRCH if no policy is or was
 * on. */
HW_API int hw_schedule_counts(struct hw_schedule_counts *counts);

/* Returns the number of the policy that these counters are of: the one that is on, or the last one.
 */
HW_API uint32_t hw_schedule_counted(void);

/* Finds the living thread for which the engine most often made a request sooner than CPython would
 * have. Any thread may call this function.
 *
 * early: receives the number of these requests.
 *
 * Returns the native id of the thread, or 0 if there is none. */
HW_API int hw_schedule_gainer(int64_t *early);

/* Sets the priority of the calling thread, from -20 to 19 as for nice(2), and whether it is urgent.
 * The hint takes effect when the thread next acquires a GIL or waits for one. It holds until the
 * next call, also under a policy that begins later.
 *
 * Returns 0, -EINVAL for another priority, or -ENOSPC if there is no room for the thread. */
HW_API int hw_schedule_hint(int priority, int urgent);

#endif
