// SPDX-License-Identifier: MIT
#ifndef HEADWAY_CALIBRATE_H
#define HEADWAY_CALIBRATE_H

#include <stdint.h>

#include "headway/api.h"

/* What this machine and its kernel take for the operations that the simulator's costs are derived
 * from (simulate.h; src/headway/sim/costs.py). Raw samples, one by one, with the time of reading
 * the clock still in them.
 *
 * Each function runs its measurement on new threads, pinned, with signals blocked, and joins them:
 * the calling thread's affinity and signal mask are not touched, and a signal does not cut it
 * short. Samples are in ns, in the order in which they were taken. */

/* Where, and how long. */
struct hw_calibrate_plan {
    int32_t core;     /* of the thread that measures */
    int32_t other;    /* of the one that it measures against; -1: there is no second core */
    int64_t count;    /* samples to take, at least 1; the room in each array */
    int64_t limit_ns; /* no sample but the first begins after so long; at least 1 */
};

/* One thread by itself. */
enum hw_calibrate_call {
    HW_CALIBRATE_CLOCK,             /* hw_now_ns() */
    HW_CALIBRATE_FUTEX_CHECK,       /* futex(WAIT) that finds another value */
    HW_CALIBRATE_FUTEX_WAKE_NONE,   /* futex(WAKE) where nobody sleeps */
    HW_CALIBRATE_YIELD,             /* sched_yield() where nobody else is on the core */
    HW_CALIBRATE_LOCK,              /* locking and unlocking a mutex that is free */
    HW_CALIBRATE_TIMER_SET_NEAR,    /* setting a timer that becomes the core's earliest */
    HW_CALIBRATE_TIMER_CANCEL_NEAR, /* ... and cancelling it */
    HW_CALIBRATE_TIMER_SET_FAR,     /* setting one behind the next tick */
    HW_CALIBRATE_TIMER_CANCEL_FAR,
    HW_CALIBRATE_SEND,         /* send(2) of a byte over loopback TCP where nobody waits for it */
    HW_CALIBRATE_RECEIVE,      /* recv(2) that finds it */
    HW_CALIBRATE_RECEIVE_NONE, /* recv(2) that finds nothing and does not wait */
    HW_CALIBRATE_CALLS
};

/* Two threads that take turns. */
enum hw_calibrate_pair {
    HW_CALIBRATE_PAIR_YIELD,       /* both call sched_yield() on one core: time of one's own call */
    HW_CALIBRATE_PAIR_FUTEX,       /* on one core, a futex each: a round trip */
    HW_CALIBRATE_PAIR_FUTEX_TIMED, /* the same, one of them waits with a time-out that never comes
                                    */
    HW_CALIBRATE_PAIR_FUTEX_COLD,  /* the same as FUTEX after 5 ms of computing: what the caller's
                                    * wake and both threads' sleeps take then */
    HW_CALIBRATE_PAIR_CACHE_LINE,  /* on two cores, a cache line each, spinning: a round trip */
    HW_CALIBRATE_PAIRS
};

/* How a sleeping thread is woken. */
enum hw_calibrate_way { HW_CALIBRATE_BY_FUTEX, HW_CALIBRATE_BY_SOCKET, HW_CALIBRATE_WAYS };

/* What the kernel says of itself. */
struct hw_calibrate_facts {
    int64_t timer_slack_ns; /* of the calling thread */
    int64_t slice_ns;       /* the fair scheduler's; as Linux sets it by default where not told */
    int64_t tick_ns;        /* from one timer tick to the next */
    int32_t slice_is_told;  /* the kernel told it (Linux 6.12 and later) */
    int32_t cores;          /* online */
};

/* Makes calls of one kind. Short ones are timed together, some at a time: their sample is the mean.
 *
 * Returns how many samples there are, or a negative errno: -EINVAL for an argument out of range and
 * for a core that the process may not use, -ENOMEM; else what the kernel refused. */
HW_API int64_t hw_calibrate_call(const struct hw_calibrate_plan *plan, int call,
                                 double *samples_ns);

/* Has two threads take turns; the round trips of cache lines are timed some at a time.
 *
 * Returns as hw_calibrate_call(), and -ENODEV where a second core is needed and `other` is -1. */
HW_API int64_t hw_calibrate_pair(const struct hw_calibrate_plan *plan, int pair,
                                 double *samples_ns);

/* Wakes a thread that sleeps on the core `other`, again and again.
 *
 * busy:         a third thread computes on that core; else it is idle.
 * gap_ns:       from one wake-up to the next, spent spinning; from 0 to a second.
 * latencies_ns: from before the call until the thread is back from its own.
 * calls_ns:     the call that wakes.
 *
 * Returns as hw_calibrate_pair(). */
HW_API int64_t hw_calibrate_wake(const struct hw_calibrate_plan *plan, int way, int busy,
                                 int64_t gap_ns, double *latencies_ns, double *calls_ns);

/* Sleeps on a futex until a time-out, again and again.
 *
 * busy:     another thread computes on the same core; else it is idle meanwhile.
 * sleep_ns: from 1 to a second.
 * late_ns:  how much later than asked the thread is back, the timer's slack included.
 *
 * Returns as hw_calibrate_call(). */
HW_API int64_t hw_calibrate_timer(const struct hw_calibrate_plan *plan, int busy, int64_t sleep_ns,
                                  double *late_ns);

/* Lets timers that wake nobody go off under a thread that reads the clock: what each takes from it.
 *
 * Returns as hw_calibrate_call(). */
HW_API int64_t hw_calibrate_interrupt(const struct hw_calibrate_plan *plan, double *samples_ns);

/* Reads the clock without end and notes where it jumped: ticks, other interrupts, other programs,
 * and on a virtual machine its host.
 *
 * least_ns:   of a jump; at least 1.
 * starts_ns:  hw_now_ns() before each jump.
 * lengths_ns: of each jump.
 * at_tick:    1 for a jump during which the kernel's tick was counted, or within 20 us of that, and
 *             no other thread ran. The tick's interval and phase do not tell: the host of a virtual
 *             machine has a tick, too.
 *
 * Returns as hw_calibrate_call(), but 0 where there was none before the limit. */
HW_API int64_t hw_calibrate_gaps(const struct hw_calibrate_plan *plan, int64_t least_ns,
                                 int64_t *starts_ns, double *lengths_ns, int32_t *at_tick);

/* Asks the kernel.
 *
 * Returns 0 or a negative errno, and then `facts` is as it was. */
HW_API int hw_calibrate_facts(struct hw_calibrate_facts *facts);

#endif
