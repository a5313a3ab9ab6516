// SPDX-License-Identifier: MIT
/* The clock, the busy loop and the list of turns of both oracles, which know nothing of the recorder. */
#ifndef ORACLE_H
#define ORACLE_H

#include <stdint.h>
#include <time.h>

/* The turns of one thread, each with three times: the call that acquires begins, it has returned, the call that releases
 * begins. There are at most `room` turns. */
struct turns {
    int64_t room, count, (*times)[3];
};

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void busy(int64_t ns) {
    int64_t until = now_ns() + ns;
    while (now_ns() < until) {
    }
}

/* Sleeps; another thread can have the core. */
static inline void rest(int64_t ns) {
    struct timespec time = {0, ns};
    nanosleep(&time, 0);
}

/* Holds what was just acquired for `hold_ns` in `spend`, and adds the turn. Returns whether there is room for another. */
static int hold(int64_t begin_ns, void (*spend)(int64_t), int64_t hold_ns, struct turns *turns) {
    int64_t acquired_ns = now_ns();
    spend(hold_ns);
    int64_t *times = turns->times[turns->count++];
    times[0] = begin_ns;
    times[1] = acquired_ns;
    times[2] = now_ns();
    return turns->count < turns->room;
}

#endif
