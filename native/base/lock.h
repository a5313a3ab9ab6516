// SPDX-License-Identifier: MIT
/* Mutexes whose use is checked in debug builds: locking a mutex twice, or unlocking a mutex that
 * another thread holds, fails an assertion (PTHREAD_MUTEX_ERRORCHECK). A release build has neither
 * the checks nor their cost. */
#ifndef HEADWAY_BASE_LOCK_H
#define HEADWAY_BASE_LOCK_H

#include <pthread.h>

/* Makes an unlocked mutex. The caller destroys it with pthread_mutex_destroy().
 *
 * Returns 0 or a negative errno. */
int hw__mutex_init(pthread_mutex_t *mutex);

/* Locks the mutex, and waits for it as long as necessary. The caller must not hold the mutex.
 *
 * This function can't fail. */
void hw__mutex_lock(pthread_mutex_t *mutex);

/* Unlocks the mutex, which the caller must hold.
 *
 * This function can't fail. */
void hw__mutex_unlock(pthread_mutex_t *mutex);

#endif
