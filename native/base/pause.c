// SPDX-License-Identifier: MIT
#include "base/pause.h"

#include <time.h>

#define SPINS 100 /* rounds that keep the core */
#define SPIN 32   /* pauses of the core in each of these rounds: about a microsecond */
#define SHORTEST_NS 50000
#define LONGEST_NS 1000000

void hw__pause(unsigned *rounds) {
    unsigned sleeps = *rounds < SPINS ? 0 : *rounds - SPINS + 1;
    if (*rounds < SPINS + LONGEST_NS / SHORTEST_NS) {
        ++*rounds;
    }
    if (sleeps == 0) {
        for (int i = 0; i < SPIN; i++) {
            hw__pause_core();
        }
        return;
    }
    struct timespec span = {0, (long)sleeps * SHORTEST_NS};
    /* clock_nanosleep() returns its error and leaves errno alone. */
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
}
