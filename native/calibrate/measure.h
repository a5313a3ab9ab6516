// SPDX-License-Identifier: MIT
/* What all measurements share: the plan's check, the start of their threads, futexes, a connection.
 */
#ifndef HEADWAY_CALIBRATE_MEASURE_H
#define HEADWAY_CALIBRATE_MEASURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "headway/calibrate.h"

/* No two variables of different threads share a cache line, nor a pair of them, which some
 * processors fetch together. */
#define HW__CALIBRATE_APART 128

#define HW__CALIBRATE_MOST_NS INT64_C(1000000000) /* of a gap or a sleep */

/* A connection over loopback TCP, without Nagle's algorithm. */
struct hw__loopback {
    int near; /* sends; -1: there is none */
    int far;  /* receives */
};

/* Whether the plan can be carried out: 0, -EINVAL, or -ENODEV for a missing second core. */
int hw__plan_check(const struct hw_calibrate_plan *plan, bool needs_two);

/* Runs `run(context, index)` on so many new threads (at most 3), each pinned to its core, and joins
 * them.
 *
 * Returns 0 or a negative errno; then nothing was run. */
int hw__plan_run(void (*run)(void *, int), void *context, int threads, const int cores[]);

/* When no further sample may begin, if the measurement begins now. */
int64_t hw__plan_end_ns(const struct hw_calibrate_plan *plan);

/* Sleeps while the word is `value`, at most until then (hw_now_ns()); 0: for ever. May return
 * earlier. Returns 0 or a negative errno: -EAGAIN, -EINTR, -ETIMEDOUT. */
int hw__futex_sleep(_Atomic uint32_t *word, uint32_t value, int64_t until_ns);

/* Wakes one thread. */
void hw__futex_wake_one(_Atomic uint32_t *word);

/* Reads the clock until then. */
void hw__spin_until(int64_t until_ns);

/* Computes until `over` is set. */
void hw__compute_until(const atomic_bool *over);

/* Returns 0 or a negative errno, and then there is nothing to close. */
int hw__loopback_open(struct hw__loopback *loopback);

/* Sends a byte back and receives it.
 *
 * Returns 0 or a negative errno. */
int hw__loopback_reply(const struct hw__loopback *loopback);

/* This function can't fail. */
void hw__loopback_close(struct hw__loopback *loopback);

#endif
