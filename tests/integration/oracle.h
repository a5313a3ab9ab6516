// SPDX-License-Identifier: MIT
/* The clock and the busy loop of both oracles, which know nothing of the recorder. */
#ifndef ORACLE_H
#define ORACLE_H

#include <stdint.h>
#include <time.h>

/* The time that one thread waited, and how often it acquired the GIL or a lock. */
struct waited {
    int64_t total_ns, count;
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

#endif
