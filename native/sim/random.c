// SPDX-License-Identifier: MIT
#include "sim/random.h"

#include <math.h>

/* splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). */
uint64_t hw__random_next(struct hw__random *random) {
    uint64_t z = (random->state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

void hw__random_seed(struct hw__random *random, uint64_t seed) {
    random->state = seed;
    (void)hw__random_next(random);
}

double hw__random_unit(struct hw__random *random) {
    return (double)(hw__random_next(random) >> 11) * 0x1p-53;
}

double hw__random_exponential(struct hw__random *random, double mean) {
    return -mean * log1p(-hw__random_unit(random));
}

int64_t hw__random_of(struct hw__random *random, const struct hw_sim_dist *dist) {
    if (dist->count == 1) {
        return (int64_t)dist->quantiles[0];
    }
    double place = hw__random_unit(random) * (dist->count - 1);
    int32_t below = (int32_t)place;
    double part = place - below;
    double value = dist->quantiles[below] * (1 - part) + dist->quantiles[below + 1] * part;
    return value < 0 ? 0 : (int64_t)value;
}
