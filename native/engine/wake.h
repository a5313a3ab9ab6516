// SPDX-License-Identifier: MIT
/* How a waiter sleeps, and how it is woken: each on a word of its own, futex(2). */
#ifndef HEADWAY_ENGINE_WAKE_H
#define HEADWAY_ENGINE_WAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/runner.h"
#include "gil/scheduler.h" /* wake-ups at an unlock */

/* Looks how many cores there are. While no policy is on. */
void hw__wake_prepare(void);

/* Has a waiter look, when the calling thread has unlocked `mutex`, which it holds: the other one
 * wants that at once. Async-signal-safe. */
void hw__wake(struct hw__runner *runner, pthread_mutex_t *mutex);

/* Has the calling thread yield its core when it has woken whom it called last; not where unlocks
 * are not hooked. */
void hw__wake_then_yield(struct hw__runner *self);

/* Wakes them now. */
void hw__wake_called(void);

/* Whether there is a core to spin on. Who may must then call hw__wake_sleep() with a time to spin.
 */
bool hw__wake_may_spin(struct hw__runner *runner);

/* It does not spin any more, or not after all. Any thread. */
void hw__wake_spin_ends(struct hw__runner *runner);

/* Returns when called, or after `sleep_ns`; with `spin_ns` above 0 it spins for that long instead,
 * and does not sleep after it. Without any mutex. */
void hw__wake_sleep(struct hw__runner *runner, int64_t spin_ns, int64_t sleep_ns);

/* In a forked child. */
void hw__wake_after_fork(void);

#endif
