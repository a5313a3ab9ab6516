// SPDX-License-Identifier: MIT
/* A team: threads that are made, placed and prepared first. Then all start at the same time, and
 * each is timed. */
#ifndef HEADWAY_LIMITS_TEAM_H
#define HEADWAY_LIMITS_TEAM_H

#include <stdint.h>

/* The work of each member. Both functions run on the member's own thread, after it was pinned, with
 * all signals blocked. */
struct hw__job {
    int (*prepare)(void *context,
                   int index);             /* untimed; returns 0 or a negative errno; may be NULL */
    void (*run)(void *context, int index); /* timed; starts once every member is prepared */
    void *context;                         /* passed to both; must outlive the call */
};

/* The time of one member in `run`. */
struct hw__span {
    int64_t start_ns; /* hw_now_ns() when the member left the barrier */
    int64_t end_ns;   /* hw_now_ns() when its `run` returned */
};

/* Runs the job on `size` new threads (at least 1) and joins them all. Everything that a `prepare`
 * wrote is visible to every `run`, and everything that a `run` wrote is visible to the caller.
 *
 * cpus:  NULL, or `size` CPU numbers; HW__UNPINNED is allowed.
 * spans: room for `size` spans; filled on success.
 *
 * Returns 0, or the negative errno of the first member that could not be made, pinned or prepared.
 * Then no `run` was called at all. */
int hw__team_run(const struct hw__job *job, int size, const int *cpus, struct hw__span *spans);

#endif
