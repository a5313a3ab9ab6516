// SPDX-License-Identifier: MIT
#ifndef HEADWAY_POLICY_H
#define HEADWAY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A scheduling policy for the GIL: a few functions that say which waiter goes next and when the
 * thread that has the GIL, the holder, is to be asked for it. Everything else (waiting, waking,
 * CPython's protocol, the watchdog) is done for it.
 *
 * A policy of your own is a shared library that defines
 *
 *     const struct hw_policy headway_policy = {.abi = HW_POLICY_ABI, .name = "mine", ...};
 *
 * and is named by its path: `headway run --policy ./mine.so app.py`. `headway simulate` takes it as
 * well: try it in virtual time first.
 *
 * WHERE IT RUNS. Its functions are called with the GIL's own mutex held, in any thread, in the
 * middle of taking or dropping the GIL. They must not block, allocate, print, keep anything
 * outside `own`, or call anything of Python. The simulator calls them, too, for several GILs and
 * runs: what a policy knows of time is what it is told. All times are in nanoseconds.
 *
 * WHAT HOLDS when a function is called; `gil->now_ns` is always the time of the call, and never
 * goes back:
 *
 *     function  holder                 the thread that it is about
 *     ready     whoever has the GIL,   not queued; `ready_ns` is now. After a forced release it is
 *               or NULL                still the holder: it queues up before the next one is chosen
 *     acquired  the thread             not queued; `acquired_ns` is now, or earlier where nobody
 *                                      wanted the GIL when it was taken
 *     released  the thread, still      `run_ns` and `used_ns` have grown by `held_ns`;
 *                                      HW_THREAD_FORCED is that of this release; `released_ns` is
 *                                      that of the last one
 *     patience  the holder             the waiter counts in `in_lane`, though it may be awake and
 *                                      stand in no queue
 *     lane      anybody or NULL        -; both lanes have a waiter. Also between other calls, and
 *                                      several times at one time
 *     grace     NULL                   `next` is first in the queue, `releaser` has just let go
 *     idle      the thread that has    -
 *               just acquired
 *
 * A thread that takes a GIL which nobody else wants, and lets it go before anybody does, is told to
 * the policy by none of these calls: neither its hold nor its time. */

/* Grows by one when a struct here changes. */
#define HW_POLICY_ABI 2

#define HW_POLICY_MAX_OPTIONS 8

/* A time that does not come. */
#define HW_NEVER INT64_MAX

/* A waiter stands in one of so many lanes; where both have somebody, the policy says which is next.
 */
#define HW_POLICY_LANES 2

/* Flags of a thread. */
#define HW_THREAD_FORCED 1u /* it let the GIL go last because it was asked to */
#define HW_THREAD_URGENT 2u /* the program says that its latency matters most */

/* A thread, at one GIL. Zeroed when it is new there; the engine writes all but `key`, `lane`
 * and `own`. */
struct hw_policy_thread {
    int64_t key;         /* set by ready(): the one with the least goes next in its lane */
    int64_t ready_ns;    /* when it began to wait, or 0 */
    int64_t acquired_ns; /* when it got the GIL last, or 0 */
    int64_t released_ns; /* when it let it go last, or 0 */
    int64_t run_ns;      /* how long it has held since it last let go unasked, ended holds only */
    int64_t burst_ns;    /* how long it mostly holds from one unasked release to the next */
    int64_t used_ns;     /* how long it has held in all */
    int32_t priority;    /* what the program says, as nice(2): -20 the most favoured, 0, 19 */
    uint32_t flags;
    uint32_t lane; /* set by ready(): 0, or 1 */
    uint32_t unused;
    int64_t own[6]; /* the policy's */
};

/* A GIL. Zeroed when the policy begins; the engine writes all but `own`. */
struct hw_policy_gil {
    int64_t now_ns;                         /* the time of this call */
    int64_t interval_ns;                    /* sys.setswitchinterval() */
    const struct hw_policy_thread *holder;  /* NULL: nobody has it, or nobody that is known */
    uint32_t in_lane[HW_POLICY_LANES];      /* how many wait there */
    int64_t options[HW_POLICY_MAX_OPTIONS]; /* in the order of the policy's list */
    int64_t own[8];                         /* the policy's */
};

struct hw_policy_option {
    const char *name; /* with its unit: "slice_us"; NULL ends the list */
    int64_t least, most, preset;
    const char *about; /* one line */
};

/* The engine does as CPython does, and no more: no spinning, no grace, a forced release waits until
 * another thread has taken over. */
#define HW_POLICY_PLAIN 1u

struct hw_policy {
    uint32_t abi; /* HW_POLICY_ABI */
    uint32_t flags;
    const char *name;
    const char *about, *good_for, *bad_at; /* a line each */
    const struct hw_policy_option *options;

    /* The thread begins to wait: sets its `key`, and its `lane`. */
    void (*ready)(struct hw_policy_gil *gil, struct hw_policy_thread *thread);

    /* NULL, or: the thread has the GIL; gil->holder is it. `acquired_ns` tells since when: nobody
     * may have seen it take the GIL, and then this is called when it lets go. */
    void (*acquired)(struct hw_policy_gil *gil, struct hw_policy_thread *thread);

    /* NULL, or: the thread has let it go after `held_ns`; HW_THREAD_FORCED tells whether it was
     * asked to. */
    void (*released)(struct hw_policy_gil *gil, struct hw_policy_thread *thread, int64_t held_ns);

    /* How long from now on `waiter` is to wait before `holder` is asked: 0 or less is now. The
     * engine asks again when the GIL changes hands. */
    int64_t (*patience)(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder);

    /* Which lane is next, where both have somebody. NULL: lane 0. */
    int32_t (*lane)(struct hw_policy_gil *gil);

    /* NULL, or how long `next` may be left asleep after `releaser` let the GIL go for a call that
     * the engine expects to return at once. */
    int64_t (*grace)(struct hw_policy_gil *gil, const struct hw_policy_thread *next,
                     const struct hw_policy_thread *releaser);

    /* NULL, or whether what it would do now is what CPython does by itself: then the GIL is left to
     * that until a thread has held it for a switch interval while another one waited. */
    bool (*idle)(struct hw_policy_gil *gil);
};

/* The share that a priority is worth beside 0, times 1024: a quarter more or less each step, as
 * Linux has it (sched_prio_to_weight in kernel/sched/core.c). */
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
