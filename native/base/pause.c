// SPDX-License-Identifier: MIT
#include "base/pause.h"

#include <sched.h>
#include <time.h>

#include "base/allowed.h"

#define YIELDS 100
#define SHORTEST_NS 50000
#define LONGEST_NS 1000000

void hw__pause(unsigned *rounds) {
    unsigned sleeps = *rounds < YIELDS ? 0 : *rounds - YIELDS + 1;
    if (*rounds < YIELDS + LONGEST_NS / SHORTEST_NS) {
        ++*rounds;
    }
    if (sleeps == 0 && hw__allowed(HW__CALL_YIELD)) {
        (void)sched_yield(); /* never fails on Linux */
        return;
    }
    struct timespec span = {0, (long)(sleeps == 0 ? 1 : sleeps) * SHORTEST_NS};
    /* Returns its error, and leaves errno. */
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
}
