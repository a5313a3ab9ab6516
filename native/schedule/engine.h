// SPDX-License-Identifier: MIT
/* What the hooks do while a policy is on: the waits are ours, and so is whom a release wakes. */
#ifndef HEADWAY_SCHEDULE_ENGINE_H
#define HEADWAY_SCHEDULE_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/ticks.h"
#include "gil/gil.h"
#include "headway/schedule.h"
#include "schedule/waiters.h"

/* Of a GIL, at the same index as its record; lives as long as the process. Guarded by the GIL's
 * mutex. */
struct hw__sched {
    const struct hw_policy *policy; /* NULL: none */
    uint32_t generation;            /* of all that have been on */
    struct hw__gil_memory *memory;
    struct hw__waiters queue;
    struct hw_policy_gil view; /* what the policy sees */
    struct hw__runner *holder; /* NULL: nobody, or one without a record */
    struct hw__runner *called; /* has been told that it is its turn, and has not come yet */
    int64_t called_ns;
    bool asked;       /* the holder has been asked to let go ... */
    int64_t asked_ns; /* ... then, and is to be asked again ... */
    int64_t again_ns; /* ... after so long */
    bool graced;      /* it is free and nobody was called */
    int64_t free_ns;  /* since when it is free */
    int64_t budget_ns;
    int64_t budget_at_ns;
    uint64_t takes, releases, arrivals;
    int missed; /* times in a row that a waiter found the GIL free by itself */
    struct hw__ticks ticks;
    struct hw_schedule_counts counts;
};

/* The engine's own options; written while no policy is on, though a thread may still be waking from
 * the last one. */
struct hw__sched_options {
    _Atomic int64_t spin_ns;
    _Atomic int64_t watchdog_ns;
};
extern struct hw__sched_options hw__sched_options;

/* Makes the table of queues. Returns 0 or a negative errno. */
int hw__sched_init(void);

struct hw__sched *hw__sched_of(const struct hw__gil *gil);

/* Begins and ends for one GIL, whose mutex must be held. */
void hw__sched_begin(struct hw__gil *gil, const struct hw_policy *policy, const int64_t *options);
void hw__sched_end(struct hw__gil *gil);

/* Its memory has come to life, with its mutex held; or is about to end. */
void hw__sched_adopt(struct hw__gil *gil);
void hw__sched_forget(struct hw__gil *gil);

/* The thread that calls has the GIL, and had it before the policy began. */
void hw__sched_found_holding(struct hw__sched *sched);

/* The policy that is on, also for GILs that come to life; NULL: none. Any thread. */
const struct hw_policy *hw__sched_policy(void);
void hw__sched_set_policy(const struct hw_policy *policy, const int64_t *options);

/* In the hooks, instead of the functions of the C library. In timedwait() and signal() the GIL's
 * mutex is held, in wait() its switch_mutex. */
int hw__sched_timedwait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex,
                        const struct timespec *deadline);
void hw__sched_release(struct hw__gil *gil);
void hw__sched_acquire(struct hw__gil *gil);
int hw__sched_wait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex);

/* After a mutex was unlocked: wakes whom this thread has called while it held it. */
void hw__sched_unlocked(pthread_mutex_t *mutex);

/* This is the main GIL's mutex. */
bool hw__sched_is_mutex(const pthread_mutex_t *mutex);

/* Locks a GIL's mutex. */
void hw__sched_lock(pthread_mutex_t *mutex);

/* Whether hw__sched_unlocked() is called; else who is called is woken with the mutex held. */
void hw__sched_unlocks(bool hooked);

/* A thread ends. */
void hw__sched_leave(struct hw__runner *runner);

/* In a forked child. */
void hw__sched_after_fork(void);

/* Says one line on stderr, without stdio. */
void hw__sched_say(const char *text);

#endif
