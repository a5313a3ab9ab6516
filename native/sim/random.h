// SPDX-License-Identifier: MIT
/* Random numbers of the simulator: one stream for each run, from its seed. */
#ifndef HEADWAY_SIM_RANDOM_H
#define HEADWAY_SIM_RANDOM_H

#include <stdint.h>

#include "headway/simulate.h"

struct hw__random {
    uint64_t state;
};

void hw__random_seed(struct hw__random *random, uint64_t seed);

/* Returns 64 random bits. */
uint64_t hw__random_next(struct hw__random *random);

/* Returns a number that is evenly distributed from 0 to below 1. */
double hw__random_unit(struct hw__random *random);

/* Returns an exponentially distributed number with this mean. */
double hw__random_exponential(struct hw__random *random, double mean);

/* Returns a value of the distribution; between two quantiles it is evenly distributed. */
int64_t hw__random_of(struct hw__random *random, const struct hw_sim_dist *dist);

#endif
