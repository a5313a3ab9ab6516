// SPDX-License-Identifier: MIT
/* A team: threads that are made, placed and prepared first, then all let go at once and timed one
 * by one. */
#ifndef HEADWAY_LIMITS_TEAM_H
#define HEADWAY_LIMITS_TEAM_H

#include <stdint.h>

/* What each member does. Both run on the member's own thread, after it was pinned, with all signals
 * blocked. */
struct hw__job {
    int (*prepare)(void *context, int index); /* untimed; 0 or a negative errno; may be NULL */
    void (*run)(void *context, int index);    /* timed; starts once every member is prepared */
    void *context;                            /* passed to both; outlives the call */
};

/* One member's time in `run`. */
struct hw__span {
    int64_t start_ns; /* hw_now_ns() as it left the barrier */
    int64_t end_ns;   /* hw_now_ns() as its `run` returned */
};

/* Runs the job on `size` new threads (at least 1) and joins them all.
 *
 * Everything a `prepare` wrote is visible to every `run`, and everything a `run` wrote to the
 * caller. cpus:  NULL, or `size` CPU numbers (HW__UNPINNED allowed). spans: `size` of them; filled
 * on success.
 *
 * Returns 0, or the negative errno of the first member that could not be made, pinned or prepared;
 * then no `run` was called at all. */
int hw__team_run(const struct hw__job *job, int size, const int *cpus, struct hw__span *spans);

#endif
