// SPDX-License-Identifier: MIT
/* Mutexes that check their use in debug builds: there, locking twice or unlocking what another
 * thread holds fails an assertion (PTHREAD_MUTEX_ERRORCHECK). In a release build that is free. */
#ifndef HEADWAY_BASE_LOCK_H
#define HEADWAY_BASE_LOCK_H

#include <pthread.h>

/* Makes an unlocked mutex; destroy it with pthread_mutex_destroy().
 *
 * Returns 0 or a negative errno. */
int hw__mutex_init(pthread_mutex_t *mutex);

/* Locks, waiting as long as it takes. The caller must not hold the mutex.
 *
 * This function can't fail. */
void hw__mutex_lock(pthread_mutex_t *mutex);

/* Unlocks. The caller must hold the mutex.
 *
 * This function can't fail. */
void hw__mutex_unlock(pthread_mutex_t *mutex);

#endif
