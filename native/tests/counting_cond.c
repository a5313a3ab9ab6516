// SPDX-License-Identifier: MIT
/* A library that the loader searches before the C library, as LD_PRELOAD would have it. It replaces
 * one function of the C library and counts its calls. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

atomic_long counted_waits;

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *deadline) {
    static int (*_Atomic next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (next == NULL) {
        next = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))(
            uintptr_t)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    }
    atomic_fetch_add(&counted_waits, 1);
    return next(cond, mutex, deadline);
}
