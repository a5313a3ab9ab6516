// SPDX-License-Identifier: MIT
/* The threads that take GILs under a policy: a record each, which lives as long as the process, so
 * that a wake that comes late touches nothing of anybody else's. */
#ifndef HEADWAY_ENGINE_RUNNER_H
#define HEADWAY_ENGINE_RUNNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "schedule/waiter.h"

/* Alive at a time; fewer where memory is limited (RLIMIT_AS). Further ones wait as CPython has
 * them.
 */
#define HW__MAX_RUNNERS 65536

struct hw__sched;

/* What `word` of a runner says. */
enum {
    HW__AWAKE,    /* it runs: it spins, or has not gone to sleep yet */
    HW__SLEEPING, /* in futex(2) */
    HW__CALLED    /* it is to look */
};

/* Guarded by the mutex of the GIL that it waits for or has, but for what is marked. */
struct hw__runner {
    _Alignas(64) _Atomic uint32_t word; /* written by the thread and by whoever wakes it */
    atomic_bool spinning;               /* while it waits; likewise */
    struct hw__waiter waiter;           /* what the ledger knows of it at one GIL */
    struct hw__sched *sched;            /* that GIL, */
    uint32_t generation;                /* under that policy */
    int64_t rests;                      /* of that GIL, when the thread was last seen */
    int32_t priority;                   /* hw_schedule_hint(); the thread's own */
    bool urgent;                        /* likewise */
    int64_t spin_ns;           /* after it has had the holder asked, it is to spin for so long */
    atomic_bool gives_way;     /* it is to yield its core when it wakes; written by who calls it */
    int64_t no_yield_until_ns; /* it lost too much by the last one */
    _Atomic int64_t early;     /* holders were asked sooner for it so often; read by anybody */
    int8_t lean;               /* of its waits: less than 0 it computes (engine/help.h) */
    _Atomic int helped;        /* what the system does for it; written by whoever says so to it */
    atomic_bool has_slice;     /* the system said that its slice is short; likewise */
    atomic_bool was_reset;     /* its children started afresh anyway; written by the thread */
    pid_t tid;
    _Atomic bool used;
};

/* The record that this is part of. */
static inline struct hw__runner *hw__runner_of(struct hw__waiter *waiter) {
    return (struct hw__runner *)((uintptr_t)waiter - offsetof(struct hw__runner, waiter));
}

/* Makes the table. Returns 0 or a negative errno: -EMFILE when the process has used up the keys for
 * thread-specific data that take no allocation: nobody would tell us of a thread's end. */
int hw__runners_init(void);

/* The calling thread's record, or NULL: there is no room. Async-signal-safe but in a thread that
 * has none yet. */
struct hw__runner *hw__runner_self(void);

/* The calling thread's record if it has one. */
struct hw__runner *hw__runner_known(void);

/* In a forked child: only the calling thread is left. */
void hw__runners_after_fork(void);

/* Calls `visit` with each thread's record; threads may begin and end meanwhile. */
void hw__runners_each(void (*visit)(struct hw__runner *runner));

/* How many there are. */
int hw__runners_count(void);

#endif
