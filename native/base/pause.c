// SPDX-License-Identifier: MIT
#include "base/pause.h"

#include <time.h>

#define SPINS 100 /* rounds, each of ... */
#define SPIN 32   /* ... so many pauses of the core: about a microsecond */
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
    /* Returns its error, and leaves errno. */
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
}
