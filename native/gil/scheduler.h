// SPDX-License-Identifier: MIT
/* What the hooks of gil/ leave to a scheduler. Declared here, where it is called, and defined in
 * engine/: so engine/ includes gil/ and not the other way round, and each is a direct call, which
 * the optimisation across files makes part of the hook. */
#ifndef HEADWAY_GIL_SCHEDULER_H
#define HEADWAY_GIL_SCHEDULER_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "gil/gil.h"

/* ---------------------------------------------------------------- a GIL that a policy has */
/* Instead of the functions of the C library. In timedwait() and signal(), which a release and an
 * acquire call, the GIL's mutex is held, in wait() its switch_mutex. */
int hw__sched_timedwait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex,
                        const struct timespec *deadline);
void hw__sched_release(struct hw__gil *gil);
void hw__sched_acquire(struct hw__gil *gil);
int hw__sched_wait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex);

/* The GIL's mutex was locked, by one that lets the GIL go or one that wants it. Of the latter, one
 * that stands in the queue already does not take a free GIL from the one that was called. */
void hw__sched_locked(struct hw__gil *gil);

/* ---------------------------------------------------------------- a GIL that rests */
/* Of a GIL that rests as its policy is idle: whether the thread that is about to wait may do so in
 * the C library. */
bool hw__sched_stays_idle(const struct hw__gil *gil);

/* The GIL rests no more, as a thread has had it for a switch interval, and CPython is about to ask
 * that thread. */
void hw__sched_is_asked(struct hw__gil *gil);

/* ---------------------------------------------------------------- GILs come and go */
/* The policy that is on, if any, begins at this GIL. Does nothing where somebody starts or stops
 * something; the next acquire tries again. */
void hw__sched_try_adopt(struct hw__gil *gil);

/* The GIL's memory is about to end: nobody uses it. */
void hw__sched_forget(struct hw__gil *gil);

/* ---------------------------------------------------------------- wake-ups */
/* Locks a GIL's mutex. Who holds one does so for a fraction of a microsecond: less than a sleep
 * would take. */
void hw__wake_lock(pthread_mutex_t *mutex);

/* The calling thread has called a waiter, to be woken at an unlock. */
bool hw__wake_pending(void);

/* A mutex was unlocked by this thread: wakes the waiters that it has called while it held that one.
 */
void hw__wake_unlocked(pthread_mutex_t *mutex);

/* Whether hw__wake_unlocked() is called at each unlock; else a waiter is woken as soon as it is
 * called. */
void hw__wake_unlocks(bool hooked);

#endif
