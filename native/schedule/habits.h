// SPDX-License-Identifier: MIT
/* Predicts what a thread will do from what it did before. */
#ifndef HEADWAY_SCHEDULE_HABITS_H
#define HEADWAY_SCHEDULE_HABITS_H

#include <stdbool.h>
#include <stdint.h>

#include "schedule/ledger.h"

/* A thread comes back "at once" if it wants the GIL within this time after a release. */
#define AT_ONCE_NS 12000

/* Updates the predictions for a thread that wants the GIL, from what it did since its last release.
 */
void hw__habits_learn(struct hw__waiter *waiter, int64_t now_ns);

/* Tells whether the thread usually holds the GIL for less than 60 us from one yield to the next
 * and, since its last yield, has not held it for longer. The present hold counts. */
bool hw__habits_short(const struct hw__ledger *ledger, const struct hw__waiter *waiter);

/* Tells whether the thread is CPU-bound: it usually holds the GIL for longer than 5 ms from one
 * yield to the next, or has done so since its last yield. The present hold does not count. */
bool hw__habits_computes(const struct hw__waiter *waiter);

/* Returns how many nanoseconds after its acquire the holder may go on, since it is expected to
 * release the GIL by itself: 300 us, also for a new thread. Returns 0 if it usually holds the GIL
 * for longer from one yield to the next, or has done so since its last yield; the present hold does
 * not count.
 *
 * Threads that use locks and queues together release the GIL often. If one of them is preempted
 * while it has such a lock, the others queue up for the lock, and then all of them run in step for
 * long (Blasgen et al., "The convoy phenomenon", 1979). That costs much more than the wait. */
int64_t hw__habits_lets_go_after(const struct hw__waiter *holder);

/* Returns how many nanoseconds after its release the thread is expected to want the GIL back; 50 us
 * at most. The last three yields form a pattern, and the prediction is the average time away after
 * that pattern (two-level adaptive prediction, Yeh and Patt 1991). */
int64_t hw__habits_away_ns(const struct hw__waiter *waiter);

/* Resets the predictions: the thread comes to another GIL, or under another policy. */
void hw__habits_forget(struct hw__waiter *waiter);

/* Tells whether the thread, if it is preempted, is expected to want the GIL back at once. Such a
 * thread is CPU-bound. */
bool hw__habits_waits_on(const struct hw__waiter *waiter);

#endif
