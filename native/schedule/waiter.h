// SPDX-License-Identifier: MIT
/* A thread at one GIL, as the ledger sees it. The record is plain data: it has no clock, no lock
 * and no address of the operating system. The engine keeps one in the record of each real thread,
 * the simulator in the record of each simulated thread. */
#ifndef HEADWAY_SCHEDULE_WAITER_H
#define HEADWAY_SCHEDULE_WAITER_H

#include <stdbool.h>
#include <stdint.h>

#include "headway/policy.h"

/* Where a thread is on its way to the GIL. */
enum hw__stage {
    HW__STAGE_AWAY,   /* holds the GIL, or does not want it */
    HW__STAGE_WANTS,  /* wants the GIL and is awake, or is being woken without having been called */
    HW__STAGE_QUEUED, /* stands in a lane of the queue */
    HW__STAGE_ASKING, /* makes CPython send a request to the holder, then waits again at once */
    HW__STAGE_CALLED  /* was chosen to go next: is being woken, or is about to look at the GIL */
};

/* Number of histories of three releases: two bits for each release (habits.c). */
#define HW__PASTS 64

/* The first value of `guard_ns`. In decide.c it is also the shortest sleep by hw__decide_queue(),
 * the time after a grace within which the next waiter must wake up, and the least time by which
 * hw__decide_look_sooner() must shorten a sleep. */
#define HW__GUARD_NS 150000

struct hw__waiter {
    struct hw_policy_thread seen; /* the part that the policy sees */
    enum hw__stage stage;
    uint32_t place; /* position in the heap of its lane, from 1; 0: not queued */
    uint32_t lane;  /* the lane in which the thread is queued */
    /* The thread that has woken this one, for which it released a lock or put an item; NULL: none,
     * or not known. Compared only: that thread may be gone. */
    const struct hw__waiter *woken_by;
    uint64_t order; /* number of its arrival; the lower one goes first among equal keys */
    int32_t core;   /* the core on which it acquired the GIL last; -1: not known */
    bool spun;      /* the thread has spun since its wait began or another thread last woke it */
    int64_t wake_at_ns; /* when its sleep ends if nobody wakes it */
    /* Its longest sleep while the GIL may become free without a wake-up (grace), if it is CPU-bound
     * and goes next. It doubles with each sleep that no thread ended if the GIL is held then
     * (decide.c). */
    int64_t guard_ns;
    uint64_t releases;     /* ledger.releases when the wait began */
    int64_t stuck_ns;      /* ledger.stuck_ns when the wait began */
    uint64_t called_after; /* ledger.releases when the thread was last called */
    /* The end of its last wait for a hand-off; 0: it has waited for the GIL, or acquired it, since.
     */
    int64_t left_ns;
    /* A prediction, not a count: a two-bit counter of whether the thread wanted the GIL back at
     * once after it was preempted. 2 and 3: yes, it is expected to (habits.c). */
    uint8_t forced;
    uint8_t past; /* how soon it wanted the GIL back after its last three releases, 2 bits each */
    uint16_t away_ns[HW__PASTS]; /* for each value of `past`: how soon it usually is back */
};

/* Tells whether the thread has begun to wait and has not acquired the GIL since. */
static inline bool hw__waiter_waits(const struct hw__waiter *waiter) {
    return waiter->stage != HW__STAGE_AWAY;
}

#endif
