// SPDX-License-Identifier: MIT
/* A thread at one GIL, as the ledger knows it: plain data, without a clock, a lock or an address of
 * the operating system. The engine keeps one in the record of each real thread, the simulator in
 * each simulated one. */
#ifndef HEADWAY_SCHEDULE_WAITER_H
#define HEADWAY_SCHEDULE_WAITER_H

#include <stdbool.h>
#include <stdint.h>

#include "headway/policy.h"

/* Where a thread is on its way to the GIL. */
enum hw__stage {
    HW__STAGE_AWAY,   /* has the GIL, or does not want it */
    HW__STAGE_WANTS,  /* wants the GIL and is awake: about to look, or to wait */
    HW__STAGE_QUEUED, /* stands in a lane of the queue */
    HW__STAGE_ASKING, /* has just had the holder asked, and waits again at once */
    HW__STAGE_CALLED  /* has been told that it is its turn, and has not come yet */
};

/* Histories of three releases, of two bits each (habits.c). */
#define HW__PASTS 64

struct hw__waiter {
    struct hw_policy_thread seen; /* what the policy sees */
    enum hw__stage stage;
    uint32_t place;        /* in the heap of its lane, from 1 on; 0: not queued */
    uint32_t lane;         /* the lane that it is queued in */
    uint64_t order;        /* of arrival; decides among equal keys */
    int32_t core;          /* where it took the GIL last; -1: not known */
    bool spun;             /* it has spun in this wait */
    int64_t wake_at_ns;    /* when it wakes by itself */
    int64_t guard_ns;      /* its longest sleep while the GIL may come free unannounced */
    uint64_t releases;     /* of the GIL, when it began to wait */
    int64_t stuck_ns;      /* ledger.stuck_ns, when it began to wait */
    uint64_t called_after; /* releases of the GIL, when it was called */
    int64_t left_ns;       /* when it ended its wait for a hand-over; 0: not since */
    uint8_t forced;        /* a guess, 0 to 3: after a forced release it wants the GIL at once */
    uint8_t past;          /* its last three releases, and how soon it was back */
    uint16_t away_ns[HW__PASTS]; /* by `past`: how soon it is mostly back */
};

/* The thread has begun to wait and has not taken the GIL since. */
static inline bool hw__waiter_waits(const struct hw__waiter *waiter) {
    return waiter->stage != HW__STAGE_AWAY;
}

#endif
