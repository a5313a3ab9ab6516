// SPDX-License-Identifier: MIT
/* The policies, a file each. Pure functions of what they are told, so that a simulation can call
 * them, too. */
#ifndef HEADWAY_POLICY_POLICIES_H
#define HEADWAY_POLICY_POLICIES_H

#include "headway/policy.h"

extern const struct hw_policy hw__policy_stock;
extern const struct hw_policy hw__policy_priority;
extern const struct hw_policy hw__policy_bfs;
extern const struct hw_policy hw__policy_fair;

/* Used by policies whose patience is CPython's: an interval from when the waiter began to wait, or
 * from when the holder got the GIL where that is later. */
static inline int64_t hw__policy_interval(struct hw_policy_gil *gil,
                                          const struct hw_policy_thread *waiter,
                                          const struct hw_policy_thread *holder) {
    int64_t since = waiter->ready_ns > holder->acquired_ns ? waiter->ready_ns : holder->acquired_ns;
    return since + gil->interval_ns - gil->now_ns;
}

/* Used by policies that count who came first. */
static inline int64_t hw__policy_turn(struct hw_policy_gil *gil) { return ++gil->own[0]; }

#endif
