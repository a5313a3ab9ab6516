// SPDX-License-Identifier: MIT
/* The C library's functions through which CPython takes and drops a GIL (Python/ceval_gil.c), and
 * what a GIL looks like in memory around them.
 *
 *     drop_gil: lock(mutex); locked = 0; signal(cond); unlock(mutex);
 *               when asked to drop: lock(switch_mutex); wait(switch_cond); unlock(switch_mutex)
 *     take_gil: lock(mutex); while (locked) timedwait(cond, mutex, interval), and ask for a drop;
 *               lock(switch_mutex); locked = 1; last_holder = me; signal(switch_cond); ...
 *               unlock(mutex)
 *
 * So signal(cond) is a release and signal(switch_cond) an acquire, exactly, and both come with the
 * GIL's mutex held. The same in CPython 3.7 to 3.15, with differences that ../shared/design/
 * gil-core.md lists. */
#ifndef HEADWAY_GIL_PROTOCOL_H
#define HEADWAY_GIL_PROTOCOL_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* The one list of hooked functions: X(name, symbol, must be there, is called also where nobody
 * waits, parameters). All return int. Declaration, look-up, patch and restore expand it, so they
 * cannot disagree. `destroy` tells a GIL's end; an interpreter that lacks the call goes without. */
#define HW__GIL_FUNCTIONS(X)                                                                       \
    X(timedwait, pthread_cond_timedwait, 1, 0,                                                     \
      (pthread_cond_t * cond, pthread_mutex_t * mutex, const struct timespec *deadline))           \
    X(signal, pthread_cond_signal, 1, 1, (pthread_cond_t * cond))                                  \
    X(wait, pthread_cond_wait, 1, 0, (pthread_cond_t * cond, pthread_mutex_t * mutex))             \
    X(destroy, pthread_cond_destroy, 0, 0, (pthread_cond_t * cond))

/* The C library's own functions: set once by hw__hooks_install(), before any hook can run, and
 * never changed. */
#define HW__DECLARE(name, symbol, required, pauses, parameters) int(*name) parameters;
struct hw__real {
    HW__GIL_FUNCTIONS(HW__DECLARE)
};
#undef HW__DECLARE
extern struct hw__real hw__real;

/* struct _gil_runtime_state (Include/internal/pycore_gil.h) from `interval` on; in front of it a
 * free-threaded build has `int enabled`. */
struct hw__gil_memory {
    unsigned long interval_us;
    const void *last_holder; /* PyThreadState */
    int locked;              /* -1: not made yet */
    unsigned long switch_number;
    pthread_cond_t cond;
    pthread_mutex_t mutex;
    pthread_cond_t switch_cond;
    pthread_mutex_t switch_mutex;
};

/* Reads of these fields are made with `mutex` held, which orders them; the interpreter writes some
 * of them atomically, so we read atomically too. */
#define HW__READ(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

#endif
