// SPDX-License-Identifier: MIT
/* The parts that all measurements share: the check of the plan, the start of the threads, futexes,
 * and a connection. */
#ifndef HEADWAY_CALIBRATE_MEASURE_H
#define HEADWAY_CALIBRATE_MEASURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "headway/calibrate.h"

/* The distance between variables of different threads: they share neither a cache line nor a pair
 * of cache lines, which some processors fetch together. */
#define HW__CALIBRATE_APART 128

#define HW__CALIBRATE_MOST_NS INT64_C(1000000000) /* the longest gap or sleep */

/* A connection over loopback TCP, without Nagle's algorithm. */
struct hw__loopback {
    int near; /* the end that sends; -1: there is none */
    int far;  /* the end that receives */
};

/* Checks a plan. Returns 0, -EINVAL, or -ENODEV if a second core is needed and missing. */
int hw__plan_check(const struct hw_calibrate_plan *plan, bool needs_two);

/* Runs `run(context, index)` on `threads` new threads (at most 3), each pinned to its core, and
 * joins them.
 *
 * Returns 0, or a negative errno if nothing was run. */
int hw__plan_run(void (*run)(void *, int), void *context, int threads, const int cores[]);

/* Returns the time after which no further sample may begin, if the measurement begins now. */
int64_t hw__plan_end_ns(const struct hw_calibrate_plan *plan);

/* Sleeps while the word is `value`, until `until_ns` (of hw_now_ns()) at most; 0: without a limit.
 * May return earlier. Returns 0, or a negative errno: -EAGAIN, -EINTR, -ETIMEDOUT. */
int hw__futex_sleep(_Atomic uint32_t *word, uint32_t value, int64_t until_ns);

/* Wakes one thread that sleeps on the word. */
void hw__futex_wake_one(_Atomic uint32_t *word);

/* Reads the clock until `until_ns`. */
void hw__spin_until(int64_t until_ns);

/* Computes until `over` is set. */
void hw__compute_until(const atomic_bool *over);

/* Opens a connection. Returns 0, or a negative errno with nothing to close. */
int hw__loopback_open(struct hw__loopback *loopback);

/* Sends a byte from `far` to `near`, and receives it there.
 *
 * Returns 0 or a negative errno. */
int hw__loopback_reply(const struct hw__loopback *loopback);

/* Closes both ends. This function can't fail. */
void hw__loopback_close(struct hw__loopback *loopback);

#endif
