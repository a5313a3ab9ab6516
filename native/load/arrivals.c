// SPDX-License-Identifier: MIT
#include "load/arrivals.h"

#include <math.h>

#include "headway/load.h"

/* Returns 64 random bits from splitmix64 (Vigna; public domain), which takes any seed. This
 * function can't fail. */
static uint64_t draw(uint64_t *state) {
    uint64_t bits = *state += UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

void hw__arrivals_start(struct hw__arrivals *arrivals, int kind, double rate_per_s, uint64_t seed,
                        int64_t start_ns) {
    *arrivals = (struct hw__arrivals){
        .kind = kind, .gap_ns = 1e9 / rate_per_s, .start_ns = start_ns, .random = seed};
}

int64_t hw__arrivals_next(struct hw__arrivals *arrivals) {
    if (arrivals->kind == HW_LOAD_UNIFORM) {
        /* Computed from the index, not from the request before, so that rounding does not add
         * up. */
        return arrivals->start_ns + (int64_t)((double)arrivals->index++ * arrivals->gap_ns);
    }
    double uniform = ((double)(draw(&arrivals->random) >> 11) + 1) * 0x1p-53; /* above 0, up to 1 */
    arrivals->offset_ns -= log(uniform) * arrivals->gap_ns;
    return arrivals->start_ns + (int64_t)arrivals->offset_ns;
}
