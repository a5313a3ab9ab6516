// SPDX-License-Identifier: MIT
/* What the hooks do while a policy is on: the waits are ours, and so is whom a release wakes. */
#ifndef HEADWAY_ENGINE_ENGINE_H
#define HEADWAY_ENGINE_ENGINE_H

#include "engine/sched.h"

/* In the hooks, instead of the functions of the C library. In timedwait() and signal() the GIL's
 * mutex is held, in wait() its switch_mutex. */
int hw__sched_timedwait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex,
                        const struct timespec *deadline);
void hw__sched_release(struct hw__gil *gil);
void hw__sched_acquire(struct hw__gil *gil);
int hw__sched_wait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex);

/* Of a GIL that rests as its policy is idle: whether who is about to wait may do so in the C
 * library. */
bool hw__sched_stays_idle(const struct hw__gil *gil);

/* It rests no more, as somebody has had the GIL for a switch interval, and CPython is about to ask
 * the holder. */
void hw__sched_is_asked(struct hw__gil *gil);

/* The GIL's mutex was locked, by one that lets the GIL go or one that wants it. Of the latter, one
 * that stands in the queue already does not take a free GIL from the one that was called. */
void hw__sched_locked(struct hw__gil *gil);

#endif
