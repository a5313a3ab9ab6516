// SPDX-License-Identifier: MIT
#include "base/lock.h"

#include <assert.h>

int hw__mutex_init(pthread_mutex_t *mutex) {
#ifdef NDEBUG
    return -pthread_mutex_init(mutex, NULL);
#else
    pthread_mutexattr_t attributes;
    int error = pthread_mutexattr_init(&attributes);
    if (error != 0) {
        return -error;
    }
    error = pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    if (error == 0) {
        error = pthread_mutex_init(mutex, &attributes);
    }
    pthread_mutexattr_destroy(&attributes);
    return -error;
#endif
}

void hw__mutex_lock(pthread_mutex_t *mutex) {
    int error = pthread_mutex_lock(mutex);
    assert(error == 0);
    (void)error;
}

void hw__mutex_unlock(pthread_mutex_t *mutex) {
    int error = pthread_mutex_unlock(mutex);
    assert(error == 0);
    (void)error;
}
