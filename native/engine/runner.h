// SPDX-License-Identifier: MIT
/* One record for each thread that acquires GILs under a policy. The memory of a record lives as
 * long as the process, so that a late wake-up writes to nothing else's memory. */
#ifndef HEADWAY_ENGINE_RUNNER_H
#define HEADWAY_ENGINE_RUNNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "schedule/waiter.h"

/* The largest number of threads with a record at one time; fewer if memory is limited (RLIMIT_AS).
 * Further threads wait as under CPython. */
#define HW__MAX_RUNNERS 65536

struct hw__sched;

/* The values of `word` of a runner. */
enum {
    HW__AWAKE,    /* the thread runs: it spins, or has not gone to sleep yet */
    HW__SLEEPING, /* the thread sleeps in futex(2) */
    HW__CALLED    /* woken, called by the ledger or not: the thread must look at the GIL */
};

/* The mutex of the GIL that the thread waits for or holds protects the record, except the atomics
 * and the fields that only the thread itself uses, also without the mutex: `sched`, `lean`,
 * `no_yield_until_ns`, `waiter.forced`, `waiter.left_ns`, and those that say so. */
struct hw__runner {
    /* The futex word on which the thread sleeps. Written by the thread and by the thread that wakes
     * it. */
    _Alignas(64) _Atomic uint32_t word;
    /* The thread spins in its wait, and counts as a spinner (wake.c). Written by the thread and by
     * the thread that wakes it. */
    atomic_bool spinning;
    struct hw__waiter waiter; /* the thread at the GIL `sched`, as the ledger sees it */
    struct hw__sched *sched;  /* the GIL at which the thread was last seen */
    uint32_t generation;      /* sched->generation when `waiter` was reset */
    int64_t rests;            /* how often that GIL had rested when the thread was last seen */
    /* The thread that posted the semaphore for which this thread last waited; NULL: none since its
     * last release of a GIL, or not known. Used by the thread only. */
    struct hw__runner *poster;
    int32_t priority; /* set by hw_schedule_hint(); used by the thread only */
    bool urgent;      /* set by hw_schedule_hint(); used by the thread only */
    int64_t spin_ns;  /* how long the thread spins when it waits again after a request */
    /* The thread yields its core if it wakes before this time; 0: it does not. Set by its waker. */
    _Atomic int64_t gives_way_until_ns;
    int64_t no_yield_until_ns; /* the thread does not yield before: its last yield cost too much */
    /* Waits for the main GIL that an early request shortened, under the present policy and in this
     * process; any thread reads it. */
    _Atomic int64_t early;
    int8_t lean; /* balance of its waits: below 0 CPU-bound, above 0 not (hw__help_note()) */
    /* The help that the operating system gives the thread (help.c). Written by the thread, and by
     * the one that ends the policy. */
    _Atomic int helped;
    /* The operating system has confirmed that the thread's time slice is short. Written by the
     * thread, and by the one that ends the policy. */
    atomic_bool has_slice;
    /* The thread had SCHED_FLAG_RESET_ON_FORK before it was helped. Written by the thread. */
    atomic_bool was_reset;
    pid_t tid;
    _Atomic bool used; /* the record belongs to a live thread */
};

/* Returns the record that contains `waiter`. */
static inline struct hw__runner *hw__runner_of(struct hw__waiter *waiter) {
    return (struct hw__runner *)((uintptr_t)waiter - offsetof(struct hw__runner, waiter));
}

/* Makes the table of records; does nothing if it is there.
 *
 * Returns 0, or a negative errno: -EMFILE if the process has used up the keys for thread-specific
 * data that need no allocation, without which the end of a thread goes unnoticed. */
int hw__runners_init(void);

/* Returns the calling thread's record, which it makes if there is none; NULL: there is no room.
 * Async-signal-safe if the thread has a record. */
struct hw__runner *hw__runner_self(void);

/* Returns the calling thread's record, or NULL if it has none. */
struct hw__runner *hw__runner_known(void);

/* Frees the records of all other threads. Call it in a forked child, where only the calling thread
 * is left. */
void hw__runners_after_fork(void);

/* Calls `visit` with each thread's record. Threads may begin and end at the same time. */
void hw__runners_each(void (*visit)(struct hw__runner *runner));

/* Returns the number of threads that have a record. */
int hw__runners_count(void);

#endif
