// SPDX-License-Identifier: MIT
/* The C library's functions through which CPython acquires and releases a GIL (Python/ceval_gil.c),
 * and the layout of a GIL's memory.
 *
 *     drop_gil: lock(mutex); locked = 0; signal(cond); unlock(mutex);
 *               after a request: lock(switch_mutex); wait(switch_cond); unlock(switch_mutex)
 *     take_gil: lock(mutex); while (locked) timedwait(cond, mutex, interval), and make a request;
 *               lock(switch_mutex); locked = 1; last_holder = me; signal(switch_cond); ...
 *               unlock(mutex)
 *
 * So signal(cond) is exactly a release and signal(switch_cond) exactly an acquire, and CPython
 * makes both calls with the GIL's mutex held. The sequence is the same in CPython 3.7 to 3.15;
 * docs/internals/gil.md lists the differences between the versions. */
#ifndef HEADWAY_GIL_PROTOCOL_H
#define HEADWAY_GIL_PROTOCOL_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* The only list of the hooked functions: X(name, symbol, required, pauses, parameters). `required`:
 * an interpreter that does not call the function cannot be patched. `pauses`: the interpreter also
 * calls the function where no thread waits, so the hook can be taken out for a while (elf/patch.h).
 * All of the functions return int. Declaration, look-up, patch and restore expand this list, so
 * they cannot disagree. `destroy` tells of a GIL's end; where an interpreter does not call it, the
 * end goes unnoticed. */
#define HW__GIL_FUNCTIONS(X)                                                                       \
    X(timedwait, pthread_cond_timedwait, 1, 0,                                                     \
      (pthread_cond_t * cond, pthread_mutex_t * mutex, const struct timespec *deadline))           \
    X(signal, pthread_cond_signal, 1, 1, (pthread_cond_t * cond))                                  \
    X(wait, pthread_cond_wait, 1, 0, (pthread_cond_t * cond, pthread_mutex_t * mutex))             \
    X(destroy, pthread_cond_destroy, 0, 0, (pthread_cond_t * cond))

/* The functions that a hook passes its calls on to. hw__hooks_install() sets them once, before any
 * hook can run; they never change after that. */
#define HW__DECLARE(name, symbol, required, pauses, parameters) int(*name) parameters;
struct hw__real {
    HW__GIL_FUNCTIONS(HW__DECLARE)
};
#undef HW__DECLARE
extern struct hw__real hw__real;

/* struct _gil_runtime_state (Include/internal/pycore_gil.h), from `interval` on. A free-threaded
 * build has `int enabled` in front of it. */
struct hw__gil_memory {
    unsigned long interval_us;
    const void *last_holder; /* PyThreadState */
    int locked;              /* -1: not initialised yet */
    unsigned long switch_number;
    pthread_cond_t cond;
    pthread_mutex_t mutex;
    pthread_cond_t switch_cond;
    pthread_mutex_t switch_mutex;
};

/* Reads one of these fields. The caller must hold `mutex`, which orders the read; for `interval_us`
 * the GIL itself does, too. The interpreter writes some of the fields atomically, so the read is
 * atomic, too. */
#define HW__READ(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

/* The longest switch interval that the scheduler works with: 73 years, so that no sum of times
 * overflows. */
#define HW__INTERVAL_MOST_NS (INT64_MAX / 4)

/* Returns the switch interval in microseconds, UINT32_MAX at most. sys.setswitchinterval() accepts
 * less than a microsecond, which take_gil() counts as one. */
static inline uint32_t hw__gil_interval_us(const struct hw__gil_memory *memory) {
    unsigned long interval_us = HW__READ(memory->interval_us);
    interval_us = interval_us > UINT32_MAX ? UINT32_MAX : interval_us;
    return interval_us == 0 ? 1 : (uint32_t)interval_us;
}

/* Returns the switch interval in nanoseconds, HW__INTERVAL_MOST_NS at most. */
static inline int64_t hw__gil_interval_ns(const struct hw__gil_memory *memory) {
    unsigned long interval_us = HW__READ(memory->interval_us);
    if (interval_us > HW__INTERVAL_MOST_NS / 1000) {
        return HW__INTERVAL_MOST_NS;
    }
    return interval_us == 0 ? 1000 : (int64_t)interval_us * 1000;
}

#endif
