// SPDX-License-Identifier: MIT
/* The due times of the open model's requests. */
#ifndef HEADWAY_LOAD_ARRIVALS_H
#define HEADWAY_LOAD_ARRIVALS_H

#include <stdint.h>

/* A schedule that is computed as it is read; nothing is stored per request. */
struct hw__arrivals {
    int kind;         /* HW_LOAD_UNIFORM or HW_LOAD_POISSON */
    double gap_ns;    /* the mean gap */
    int64_t start_ns; /* uniform: when the first request is due; Poisson: one gap before that */
    int64_t index;    /* uniform: the index of the next request */
    double offset_ns; /* Poisson: from start_ns to the last request that was returned */
    uint64_t random;  /* Poisson: the generator's state */
};

/* Starts a schedule at `start_ns`. This function can't fail. */
void hw__arrivals_start(struct hw__arrivals *arrivals, int kind, double rate_per_s, uint64_t seed,
                        int64_t start_ns);

/* Moves on by one request.
 *
 * Returns when that request is due, on hw_now_ns()'s clock; never before the previous request. This
 * function can't fail. */
int64_t hw__arrivals_next(struct hw__arrivals *arrivals);

#endif
