// SPDX-License-Identifier: MIT
#ifndef HEADWAY_POLICY_H
#define HEADWAY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A scheduling policy for the GIL: a few functions that decide which waiter goes next, and when the
 * holder (the thread that has the GIL) gets a request to release it. The engine does everything
 * else: waiting, waking, CPython's protocol and the watchdog.
 *
 * A policy of your own is a shared library that defines
 *
 *     const struct hw_policy headway_policy = {.abi = HW_POLICY_ABI, .name = "mine", ...};
 *
 * and is named by its path: `headway run --policy ./mine.so app.py`. `headway simulate` takes the
 * library as well, so a policy can be tried in virtual time first.
 *
 * RULES. The engine calls a policy's functions with the GIL's own mutex held, in any thread, in the
 * middle of an acquire or a release of the GIL. The functions must not block, allocate, print, keep
 * state outside of `own`, or call any function of Python. The simulator calls them, too, for
 * several GILs and several runs, so a policy must take the time from its arguments only. All times
 * are in nanoseconds.
 *
 * STATE when a function is called:
 *
 *  - always: `gil->now_ns` is the time of the call and never goes back.
 *  - ready(): gil->holder is the holder, or NULL. The thread is not queued, and its `ready_ns` is
 *    now. ready() may also be called within the release of a preempted thread that wants the GIL
 *    back at once; gil->holder is then that thread.
 *  - acquired(): gil->holder is the thread. The thread is not queued. Its `acquired_ns` is now, or
 *    earlier if the engine learns only at the release which thread had the GIL. It may have had the
 *    GIL for longer: see the end of this comment.
 *  - released(): gil->holder is still the thread. Its `run_ns` and `used_ns` have grown by
 *    `held_ns`, HW_THREAD_FORCED is that of this release, and `released_ns` is that of the
 *    previous release, or 0 if the policy has learned nothing of the hold before.
 *  - patience(): gil->holder is the holder. The waiter is counted in `in_lane`, though it may be
 *    awake and in no queue.
 *  - lane(): gil->holder is any thread or NULL. Both lanes have a waiter. The engine may also call
 *    this function between other calls, and several times at one time.
 *  - grace(): gil->holder is NULL. `next` is first in the queue, and `releaser` has just released
 *    the GIL.
 *  - idle(): gil->holder is the thread that has just acquired the GIL.
 *
 * The engine calls none of these functions for a thread that acquires the GIL while no other thread
 * wants it, and releases it before another thread does. The policy learns neither that thread's
 * hold nor its time. If another thread wants the GIL during such a hold, the hold begins for the
 * policy at that time: `acquired_ns`, `held_ns` and `used_ns` count from there. Only `run_ns` has
 * what went before, if the thread was preempted and has not released the GIL by itself since. */

/* Must be increased by one when a struct in this file changes. */
#define HW_POLICY_ABI 2

/* A policy with more options is refused. */
#define HW_POLICY_MAX_OPTIONS 8

/* A time that never comes. */
#define HW_NEVER INT64_MAX

/* The number of lanes. Each waiter is queued in one lane; if both lanes have waiters, the policy
 * chooses the lane that goes next. */
#define HW_POLICY_LANES 2

/* Flags of a thread. */
#define HW_THREAD_FORCED 1u /* its last release was forced by a request */
#define HW_THREAD_URGENT 2u /* the program says that the latency of this thread matters most */
#define HW_THREAD_WOKEN 4u  /* the holder has woken this waiter: see patience() */

/* A thread at one GIL. The struct is zeroed when the thread is new at this GIL. The engine writes
 * all fields except `key`, `lane` and `own`. */
struct hw_policy_thread {
    int64_t key;         /* set by ready(): the waiter with the least key goes next in its lane */
    int64_t ready_ns;    /* when the thread began to wait, or 0 */
    int64_t acquired_ns; /* when the last hold began that another thread met, or 0 */
    int64_t released_ns; /* when it last released the GIL; 0: no other thread met that hold */
    int64_t run_ns;   /* the sum of its holds since it last yielded; only holds that have ended */
    int64_t burst_ns; /* average of how long it holds the GIL from one yield to the next */
    int64_t used_ns;  /* the sum of its holds, each from when another thread met it */
    int32_t priority; /* set by the program, as for nice(2): -20 is most favoured, 19 least */
    uint32_t flags;   /* HW_THREAD_* */
    uint32_t lane;    /* set by ready(): 0 or 1 */
    uint32_t unused;
    int64_t own[6]; /* for the policy's own use */
};

/* A GIL. The struct is zeroed when the policy begins. The engine writes all fields except `own`. */
struct hw_policy_gil {
    int64_t now_ns;                         /* the time of this call */
    int64_t interval_ns;                    /* the switch interval (sys.setswitchinterval()) */
    const struct hw_policy_thread *holder;  /* NULL: the GIL is free, or its holder is not known */
    uint32_t in_lane[HW_POLICY_LANES];      /* the number of waiters of each lane: those in the
                                             * queue, and one that was called 1 ms ago or earlier
                                             * and has not come, as it has no core */
    int64_t options[HW_POLICY_MAX_OPTIONS]; /* the values, in the order of the policy's list */
    int64_t own[8];                         /* for the policy's own use */
};

struct hw_policy_option {
    const char *name;            /* includes the unit: "slice_us"; NULL ends the list */
    int64_t least, most, preset; /* the preset must be within the limits */
    const char *about;           /* a description of one line */
};

/* Flag of a policy: the engine leaves out what CPython does not do, so that the policy can be a
 * reference for others. No thread spins or yields its core; a thread that comes or is woken
 * acquires the GIL if it finds it free; a preempted thread waits for the hand-off and not in the
 * queue; patience() alone says when a request is due; and grace() is not called. */
#define HW_POLICY_PLAIN 1u

/* A policy. `abi`, `name`, `options`, `ready` and `patience` are required. The list of a policy
 * without options has one entry, whose name is NULL. */
struct hw_policy {
    uint32_t abi;   /* HW_POLICY_ABI */
    uint32_t flags; /* HW_POLICY_PLAIN, or 0 */
    const char *name;
    const char *about, *good_for, *bad_at; /* descriptions of one line each */
    const struct hw_policy_option *options;

    /* Called when the thread begins to wait. Must set its `key` and its `lane`. */
    void (*ready)(struct hw_policy_gil *gil, struct hw_policy_thread *thread);

    /* NULL, or called when the thread has the GIL and is gil->holder. The hold began at
     * `acquired_ns`: the engine may have missed the acquire, and then makes this call when the
     * thread releases the GIL. */
    void (*acquired)(struct hw_policy_gil *gil, struct hw_policy_thread *thread);

    /* NULL, or called when the thread has released the GIL after a hold of `held_ns`.
     * HW_THREAD_FORCED tells whether a request forced the release. */
    void (*released)(struct hw_policy_gil *gil, struct hw_policy_thread *thread, int64_t held_ns);

    /* Returns how long from now on `waiter` must wait before `holder` gets a request to release the
     * GIL; 0 or less: the request is due now. The engine calls this when the waiter begins to wait,
     * waits again or wakes up by itself, and for the next waiter at an acquire. So count from
     * waiter->ready_ns or holder->acquired_ns, and subtract gil->now_ns: an answer that is the same
     * at each call is never due, and the watchdog removes a policy that puts the request off.
     *
     * The waiter has HW_THREAD_WOKEN if `holder` itself has woken it, by a lock that it released,
     * an item that it put, or a future that it completed. Without the flag, the waiter came from
     * outside (a socket, a timer), another thread has woken it, or that is not known. */
    int64_t (*patience)(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder);

    /* Returns the lane that goes next if both lanes have waiters. NULL: lane 0. */
    int32_t (*lane)(struct hw_policy_gil *gil);

    /* NULL, or returns how long `next` may be left asleep after `releaser` released the GIL for a
     * call that the engine expects to return at once. */
    int64_t (*grace)(struct hw_policy_gil *gil, const struct hw_policy_thread *next,
                     const struct hw_policy_thread *releaser);

    /* NULL, or tells whether the policy would now do the same as CPython does by itself. If so, the
     * engine leaves the GIL to CPython until a thread has held it for a switch interval while
     * another one waited. */
    bool (*idle)(struct hw_policy_gil *gil);
};

/* Returns the weight of a priority relative to priority 0, times 1024. A step towards
 * the favoured is a quarter more, a step away a fifth less, as in Linux (sched_prio_to_weight in
 * kernel/sched/core.c). */
static inline int64_t hw_policy_weight(int32_t priority) {
    int64_t weight = 1024;
    for (; priority < 0; priority++) {
        weight = weight * 5 / 4;
    }
    for (; priority > 0; priority--) {
        weight = weight * 4 / 5;
    }
    return weight;
}

#endif
