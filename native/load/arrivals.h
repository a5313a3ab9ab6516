// SPDX-License-Identifier: MIT
/* When the requests of the open model are due. */
#ifndef HEADWAY_LOAD_ARRIVALS_H
#define HEADWAY_LOAD_ARRIVALS_H

#include <stdint.h>

/* A schedule that is made as it is read: nothing is stored per request. */
struct hw__arrivals {
    int kind;         /* HW_LOAD_UNIFORM or HW_LOAD_POISSON */
    double gap_ns;    /* the mean one */
    int64_t start_ns; /* uniform: when the first is due; Poisson: one gap before that */
    int64_t index;    /* uniform: of the next */
    double offset_ns; /* Poisson: from the start to the one before the next */
    uint64_t random;  /* Poisson: the generator's state */
};

/* Starts a schedule at `start_ns`.
 *
 * This function can't fail. */
void hw__arrivals_start(struct hw__arrivals *arrivals, int kind, double rate_per_s, uint64_t seed,
                        int64_t start_ns);

/* Moves on by one request.
 *
 * Returns when it is due, on hw_now_ns()'s clock; never before the one before it. This function
 * can't fail. */
int64_t hw__arrivals_next(struct hw__arrivals *arrivals);

#endif
