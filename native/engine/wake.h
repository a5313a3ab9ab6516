// SPDX-License-Identifier: MIT
/* Sleep and wake-up of waiters. Each waiter sleeps on a futex word of its own (futex(2)). */
#ifndef HEADWAY_ENGINE_WAKE_H
#define HEADWAY_ENGINE_WAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/runner.h"
#include "gil/scheduler.h" /* wake-ups at an unlock */

/* Reads how many cores the process may use. Call it while no policy is on. */
void hw__wake_prepare(void);

/* Wakes a waiter as soon as the calling thread has unlocked `mutex`, which it must hold: the woken
 * thread needs that mutex at once. Wakes it now if unlocks are not hooked (hw__wake_unlocks()).
 * Async-signal-safe. */
void hw__wake(struct hw__runner *runner, pthread_mutex_t *mutex);

/* Makes the calling thread yield its core after the wake-up that it has just deferred with
 * hw__wake(). Does nothing if unlocks are not hooked. */
void hw__wake_then_yield(struct hw__runner *self);

/* Does the calling thread's deferred wake-ups now. */
void hw__wake_called(void);

/* Tells whether there is a core for the runner to spin on. If so, the runner counts as a spinner,
 * and must call hw__wake_sleep() with a time to spin, or hw__wake_spin_ends(). */
bool hw__wake_may_spin(struct hw__runner *runner);

/* Records that the runner has stopped spinning, or does not begin to. Any thread may call it. */
void hw__wake_spin_ends(struct hw__runner *runner);

/* Sleeps until the runner is woken, for `sleep_ns` at most. If `spin_ns` is above 0, spins for that
 * long instead, and does not sleep afterwards. The caller must hold no mutex. */
void hw__wake_sleep(struct hw__runner *runner, int64_t spin_ns, int64_t sleep_ns);

/* Forgets deferred wake-ups and spinners. Call it in a forked child. */
void hw__wake_after_fork(void);

#endif
