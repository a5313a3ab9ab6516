// SPDX-License-Identifier: MIT
#ifndef HEADWAY_CALIBRATE_H
#define HEADWAY_CALIBRATE_H

#include <stdint.h>

#include "headway/api.h"

/* Measurements of what operations cost on this machine and its kernel. The simulator's costs are
 * derived from them (simulate.h; src/headway/sim/costs.py). The functions return raw samples, one
 * by one, and each sample includes the time of reading the clock.
 *
 * Each function runs its measurement on new threads, pinned to their cores, with all signals
 * blocked, and joins them. The calling thread's affinity and signal mask do not change, and a
 * signal does not end the measurement early. Samples are in ns, in the order in which they were
 * taken. */

/* The cores of a measurement, and how long it runs. */
struct hw_calibrate_plan {
    int32_t core;     /* the core of the measuring thread */
    int32_t other;    /* the core of its peer; -1: there is no second core */
    int64_t count;    /* samples to take, at least 1; each array must have room for as many */
    int64_t limit_ns; /* no sample after the first one begins later than this; at least 1 */
};

/* Calls of one thread by itself. */
enum hw_calibrate_call {
    HW_CALIBRATE_CLOCK,             /* hw_now_ns() */
    HW_CALIBRATE_FUTEX_CHECK,       /* futex(WAIT) that finds another value and returns */
    HW_CALIBRATE_FUTEX_WAKE_NONE,   /* futex(WAKE) with no sleeping thread */
    HW_CALIBRATE_YIELD,             /* sched_yield() with no other thread on the core */
    HW_CALIBRATE_LOCK,              /* locking and unlocking an uncontended mutex */
    HW_CALIBRATE_TIMER_SET_NEAR,    /* setting a timer that becomes the core's earliest one */
    HW_CALIBRATE_TIMER_CANCEL_NEAR, /* cancelling such a timer */
    HW_CALIBRATE_TIMER_SET_FAR,     /* setting a timer that is due after the next tick */
    HW_CALIBRATE_TIMER_CANCEL_FAR,  /* cancelling such a timer */
    HW_CALIBRATE_SEND,         /* send(2) of one byte over loopback TCP; no thread waits for it */
    HW_CALIBRATE_RECEIVE,      /* recv(2) of a byte that has already arrived */
    HW_CALIBRATE_RECEIVE_NONE, /* non-blocking recv(2) that finds no data */
    HW_CALIBRATE_CALLS
};

/* Two threads that take turns. */
enum hw_calibrate_pair {
    /* Both threads call sched_yield() on one core. The sample is the time of one's own call. */
    HW_CALIBRATE_PAIR_YIELD,
    /* Both threads run on one core and sleep on a futex each. The sample is a round trip. */
    HW_CALIBRATE_PAIR_FUTEX,
    /* As the FUTEX pair, but one thread waits with a time-out that never expires. */
    HW_CALIBRATE_PAIR_FUTEX_TIMED,
    /* As the FUTEX pair, but after 5 ms of computing before each round trip: how long the
     * caller's wake and the sleeps of both threads take with cold code. */
    HW_CALIBRATE_PAIR_FUTEX_COLD,
    /* Both threads spin on two cores and write to a cache line each. The sample is a round trip. */
    HW_CALIBRATE_PAIR_CACHE_LINE,
    HW_CALIBRATE_PAIRS
};

/* The ways to wake a sleeping thread. */
enum hw_calibrate_way { HW_CALIBRATE_BY_FUTEX, HW_CALIBRATE_BY_SOCKET, HW_CALIBRATE_WAYS };

/* Facts that the kernel reports about itself. */
struct hw_calibrate_facts {
    int64_t timer_slack_ns; /* the timer slack of the calling thread */
    int64_t slice_ns;       /* the fair scheduler's slice; Linux's default if not reported */
    int64_t tick_ns;        /* the period of the timer tick */
    int32_t slice_is_told;  /* 1: the kernel reported slice_ns (Linux 6.12 and later) */
    int32_t cores;          /* cores that are online */
};

/* Makes calls of one kind and times them. Short calls are timed in groups; the sample of a group is
 * its mean.
 *
 * Returns the number of samples, or a negative errno: -EINVAL for an argument out of range or a
 * core that the process may not use, -ENOMEM, or the error of the system call that failed. */
HW_API int64_t hw_calibrate_call(const struct hw_calibrate_plan *plan, int call,
                                 double *samples_ns);

/* Lets two threads take turns and times the turns. Round trips of cache lines are timed in groups.
 *
 * Returns the same as hw_calibrate_call(), and -ENODEV if a second core is needed and `other`
 * is -1. */
HW_API int64_t hw_calibrate_pair(const struct hw_calibrate_plan *plan, int pair,
                                 double *samples_ns);

/* Wakes a thread that sleeps on the core `other`, repeatedly.
 *
 * busy:         1: a third thread computes on that core; 0: the core is idle.
 * gap_ns:       the time that the waker spins between two wake-ups, from 0 to one second.
 * latencies_ns: receives the time from just before the call that wakes until the woken thread has
 *               returned from its own call.
 * calls_ns:     receives the duration of the call that wakes.
 *
 * Returns the same as hw_calibrate_pair(). */
HW_API int64_t hw_calibrate_wake(const struct hw_calibrate_plan *plan, int way, int busy,
                                 int64_t gap_ns, double *latencies_ns, double *calls_ns);

/* Sleeps on a futex until a time-out, repeatedly.
 *
 * busy:     1: another thread computes on the same core; 0: the core idles during the sleep.
 * sleep_ns: the length of a sleep, from 1 ns to one second.
 * late_ns:  receives how long after the time-out the thread runs again, timer slack included.
 *
 * Returns the same as hw_calibrate_call(). */
HW_API int64_t hw_calibrate_timer(const struct hw_calibrate_plan *plan, int busy, int64_t sleep_ns,
                                  double *late_ns);

/* Measures timer interrupts: lets timers that wake no thread expire while a thread reads the clock.
 * A sample is the time that one interrupt takes from that thread.
 *
 * Returns the same as hw_calibrate_call(). */
HW_API int64_t hw_calibrate_interrupt(const struct hw_calibrate_plan *plan, double *samples_ns);

/* Reads the clock in a loop and records each jump: ticks, other interrupts, other programs and, on
 * a virtual machine, its host.
 *
 * least_ns:   the shortest jump that is recorded; at least 1.
 * starts_ns:  receives hw_now_ns() before each jump.
 * lengths_ns: receives the length of each jump.
 * at_tick:    receives 1 for a jump if the kernel counted its tick during the jump or within 20 us
 *             of it, and no other thread ran meanwhile; else 0. The period and phase of the tick
 *             cannot tell a tick from other jumps, because the host of a virtual machine ticks,
 * too.
 *
 * Returns the same as hw_calibrate_call(), or 0 if there was no jump before the limit. */
HW_API int64_t hw_calibrate_gaps(const struct hw_calibrate_plan *plan, int64_t least_ns,
                                 int64_t *starts_ns, double *lengths_ns, int32_t *at_tick);

/* Reads the kernel's facts.
 *
 * Returns 0, or a negative errno with `facts` unchanged. */
HW_API int hw_calibrate_facts(struct hw_calibrate_facts *facts);

#endif
