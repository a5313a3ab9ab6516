// SPDX-License-Identifier: MIT
/* The built-in policies, one file each. Their functions read and change only their arguments, so
 * that the simulator can call them, too. */
#ifndef HEADWAY_POLICY_POLICIES_H
#define HEADWAY_POLICY_POLICIES_H

#include "headway/policy.h"

extern const struct hw_policy hw__policy_stock;
extern const struct hw_policy hw__policy_priority;
extern const struct hw_policy hw__policy_bfs;
extern const struct hw_policy hw__policy_fair;

/* CPython's patience: a request is due one switch interval after the waiter began to wait or the
 * holder acquired the GIL, whichever is later. Returns in how many nanoseconds that is. */
static inline int64_t hw__policy_interval(struct hw_policy_gil *gil,
                                          const struct hw_policy_thread *waiter,
                                          const struct hw_policy_thread *holder) {
    int64_t since = waiter->ready_ns > holder->acquired_ns ? waiter->ready_ns : holder->acquired_ns;
    return since + gil->interval_ns - gil->now_ns;
}

/* Returns the number of this arrival, which is the key of a policy that serves first come, first
 * served. Counts in own[0] of the GIL. */
static inline int64_t hw__policy_turn(struct hw_policy_gil *gil) { return ++gil->own[0]; }

#endif
