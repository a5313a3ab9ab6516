// SPDX-License-Identifier: MIT
/* What a thread is likely to do, by what it did. */
#ifndef HEADWAY_SCHEDULE_HABITS_H
#define HEADWAY_SCHEDULE_HABITS_H

#include <stdbool.h>
#include <stdint.h>

#include "schedule/ledger.h"

/* A call came back at once if it took no longer. */
#define AT_ONCE_NS 12000

/* The thread wants the GIL: learns from what it did since its last release. */
void hw__habits_learn(struct hw__waiter *waiter, int64_t now_ns);

/* It mostly holds for a moment only, also this time so far. */
bool hw__habits_short(const struct hw__ledger *ledger, const struct hw__waiter *waiter);

/* It mostly holds for long, or has held for long by now: it computes. */
bool hw__habits_computes(const struct hw__waiter *waiter);

/* After how long a holder will have let the GIL go by itself. 0: that is not known.
 *
 * Threads that meet in locks and queues let go often. To interrupt one that has such a lock makes
 * the others queue up for it, and then all of them go in step for long (Blasgen et al., "The convoy
 * phenomenon", 1979): which costs much more than to wait. */
int64_t hw__habits_lets_go_after(const struct hw__waiter *holder);

/* How soon after this release it will want the GIL back, 50 us at most: as it did the last times
 * after three releases like its last three (two-level adaptive prediction, Yeh and Patt 1991). */
int64_t hw__habits_away_ns(const struct hw__waiter *waiter);

/* It comes to another GIL, or under another policy: nothing is known of it. */
void hw__habits_forget(struct hw__waiter *waiter);

/* Made to let go, it wants the GIL back at once: it computes. */
bool hw__habits_waits_on(const struct hw__waiter *waiter);

#endif
