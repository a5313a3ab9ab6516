// SPDX-License-Identifier: MIT
/* The engine's records of acquires, beside the decisions of the policy: waits that an early request
 * shortened, and bursts that go on while no other thread wants the GIL.
 *
 * The caller of each function must hold the GIL's mutex. */
#ifndef HEADWAY_ENGINE_ACCOUNTS_H
#define HEADWAY_ENGINE_ACCOUNTS_H

#include <stdint.h>

#include "engine/runner.h"
#include "engine/sched.h"
#include "gil/gil.h"

/* Returns the time if the thread's burst goes on, else 0: the clock need not be read. */
static inline int64_t hw__accounts_burst_time(struct hw__sched *sched,
                                              const struct hw__waiter *waiter) {
    return waiter != NULL && hw__waiter_goes_on(waiter) ? hw__sched_time(sched) : 0;
}

/* Records an acquire of a GIL that no other thread wants. The policy is not told. */
void hw__accounts_acquired_alone(struct hw__gil *gil, struct hw__sched *sched,
                                 struct hw__runner *runner);

/* Counts a wait of a thread for a GIL that an early request has shortened. */
void hw__accounts_early(const struct hw__gil *gil, struct hw__runner *runner);

#endif
