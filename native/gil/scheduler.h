// SPDX-License-Identifier: MIT
/* The calls with which the hooks of gil/ leave decisions to a scheduler. They are declared here,
 * where they are called, and defined in engine/. So engine/ includes gil/ and not the other way
 * round, and each is a direct call, which link-time optimisation makes part of the hook. */
#ifndef HEADWAY_GIL_SCHEDULER_H
#define HEADWAY_GIL_SCHEDULER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <time.h>

#include "gil/gil.h"

/* ---------------------------------------------------------------- a GIL that a policy has */
/* The hooks call these functions in place of those of the C library, or, at a release and an
 * acquire, before the C library's signal(). In timedwait(), release and acquire the caller must
 * hold the GIL's mutex, in wait() its switch_mutex. hw__sched_timedwait() returns 0 or ETIMEDOUT,
 * whereupon CPython makes a request; hw__sched_wait() returns 0. */
int hw__sched_timedwait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex,
                        const struct timespec *deadline);
void hw__sched_release(struct hw__gil *gil);
void hw__sched_acquire(struct hw__gil *gil);
int hw__sched_wait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex);

/* The calling thread has locked the GIL's mutex, to release the GIL or to acquire it. A thread that
 * wants the GIL, and is in the queue already, does not acquire a free GIL while another waiter was
 * woken for it and is on its way: it waits here, in the queue. */
void hw__sched_locked(struct hw__gil *gil);

/* ---------------------------------------------------------------- who wakes a waiter */
/* hw__sched_posts(): the calling thread is about to post the semaphore. hw__sched_was_posted(): the
 * calling thread has waited for it, and another thread has posted it. Both are async-signal-safe,
 * need no lock, and leave errno alone. */
void hw__sched_posts(const sem_t *semaphore);
void hw__sched_was_posted(const sem_t *semaphore);

/* ---------------------------------------------------------------- a GIL that rests */
/* Tells whether the thread that is about to wait for a GIL that rests, because its policy is idle,
 * may wait in the C library. */
bool hw__sched_stays_idle(const struct hw__gil *gil);

/* The GIL no longer rests: a thread has held it for a switch interval, and CPython is about to make
 * a request to that thread. */
void hw__sched_is_asked(struct hw__gil *gil);

/* ---------------------------------------------------------------- what a recorder is told */
/* The longest text of a policy's options, with its NUL. */
#define HW__POLICY_OPTIONS_BYTES 512

/* Returns the options of the policy that is on, as hw__header.policy_options has them (format.h);
 * "": there is no policy, or its options are longer than HW__POLICY_OPTIONS_BYTES. The text changes
 * when a policy starts, with the registry's lock held. */
const char *hw__sched_options(void);

/* ---------------------------------------------------------------- GILs come and go */
/* Begins to schedule this GIL, if a policy is on. The caller must hold the GIL's mutex. Does
 * nothing where another thread starts or stops a policy or a session at this moment; the GIL's next
 * acquire tries again. */
void hw__sched_try_adopt(struct hw__gil *gil);

/* The GIL's memory is about to be freed: ends the scheduling of this GIL. No thread uses the GIL.
 */
void hw__sched_forget(struct hw__gil *gil);

/* ---------------------------------------------------------------- wake-ups */
/* Locks a GIL's mutex. The caller spins for a short time before it sleeps, since a thread that
 * holds such a mutex holds it for a fraction of a microsecond, which is less than a sleep takes. */
void hw__wake_lock(pthread_mutex_t *mutex);

/* Tells whether the calling thread has chosen a waiter that it must wake at an unlock. */
bool hw__wake_pending(void);

/* Wakes the waiters that the calling thread has chosen while it held this mutex. The caller must
 * have just unlocked the mutex. */
void hw__wake_unlocked(pthread_mutex_t *mutex);

/* Sets whether hw__wake_unlocked() is called at each unlock. If not, a waiter is woken as soon as
 * it is chosen. */
void hw__wake_unlocks(bool hooked);

#endif
