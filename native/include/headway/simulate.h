// SPDX-License-Identifier: MIT
#ifndef HEADWAY_SIMULATE_H
#define HEADWAY_SIMULATE_H

#include <stdint.h>

#include "headway/api.h"
#include "headway/policy.h"

/* A machine in virtual time. It has cores with Linux's fair scheduler, futexes, timers and sockets;
 * processes with CPython's GIL, stock or under a policy; and threads that each run a short program.
 * The simulator uses the same policies, ledger and decisions that schedule real threads
 * (native/schedule). The same specification with the same seed gives the same events.
 *
 * All times are in nanoseconds of virtual time, which begins at 0. */

/* The costs of the machine's operations. Each cost is a distribution, given as equally spaced
 * quantiles from the least to the greatest value; a single value is a constant. `headway calibrate`
 * measures the costs. */
enum hw_sim_cost {
    HW_SIM_COST_SWITCH,        /* a core switches from one thread to another */
    HW_SIM_COST_PREEMPT_OTHER, /* from a wake-up until its interrupt reaches another, busy core */
    HW_SIM_COST_WAKE_IDLE,     /* from a wake-up until an idle core runs the thread */
    HW_SIM_COST_WAKE_IDLE_MIDDLE, /* as WAKE_IDLE, for a core that was idle for more than 0.2 ms */
    HW_SIM_COST_WAKE_IDLE_LONG,   /* as WAKE_IDLE, for a core that was idle for more than 2 ms */
    HW_SIM_COST_TIMER_INTERRUPT,  /* time that a timer interrupt takes from the running thread */
    HW_SIM_COST_TIMER_LATE,       /* lateness of a timer on a busy core, in addition to the slack */
    HW_SIM_COST_TIMER_LATE_IDLE,  /* lateness on an idle core, until the core schedules */
    HW_SIM_COST_TIMER_ARM,        /* setting or cancelling the core's earliest timer */
    HW_SIM_COST_TIMER_SLACK,      /* time that the kernel adds to the end of a sleep */
    HW_SIM_COST_TICK_INTERRUPT,   /* time that a tick takes from the running thread */
    HW_SIM_COST_FUTEX_CHECK,      /* futex(WAIT) that finds another value and returns */
    HW_SIM_COST_FUTEX_SLEEP,      /* futex(WAIT) until the thread sleeps */
    HW_SIM_COST_FUTEX_SLEEP_TIMED, /* futex(WAIT) with a time-out, until the thread sleeps */
    HW_SIM_COST_FUTEX_WOKEN,       /* from running again until futex(WAIT) returns */
    HW_SIM_COST_FUTEX_WOKEN_TIMED, /* as FUTEX_WOKEN, for a futex(WAIT) with a time-out */
    HW_SIM_COST_FUTEX_WAKE,        /* futex(WAKE) until the wake-up */
    HW_SIM_COST_FUTEX_WAKE_END,    /* futex(WAKE) after the wake-up */
    HW_SIM_COST_FUTEX_WAKE_IDLE, /* extra time of futex(WAKE) if the wake-up goes to an idle core */
    HW_SIM_COST_FUTEX_WAKE_NONE, /* futex(WAKE) with no sleeping thread */
    HW_SIM_COST_SEND,            /* send(2) until the receiver is woken */
    HW_SIM_COST_SEND_END,        /* send(2) after the receiver was woken */
    HW_SIM_COST_SEND_IDLE,       /* extra time of send(2) if the receiver's core is idle */
    HW_SIM_COST_RECEIVE_READY,   /* recv(2) that finds its data */
    HW_SIM_COST_RECEIVE_SLEEP,   /* recv(2) until the thread sleeps */
    HW_SIM_COST_RECEIVE_WOKEN,   /* from running again until recv(2) returns */
    HW_SIM_COST_LOCK,            /* locking or unlocking an uncontended lock in user space */
    HW_SIM_COST_CACHE_LINE,      /* access to a cache line that another core wrote last */
    HW_SIM_COST_CHECK,           /* from a GIL request until the evaluation loop sees it */
    HW_SIM_COST_PENDING,         /* from then until the GIL is released */
    HW_SIM_COST_COLD_SEND,       /* extra time of a cold send(2): it did not run here recently */
    HW_SIM_COST_COLD_RECEIVE,    /* extra time of a cold recv(2) */
    HW_SIM_COST_COLD_FUTEX_WAKE, /* extra time of a cold futex(WAKE) */
    HW_SIM_COST_COLD_FUTEX_SLEEP, /* extra time of a cold futex(WAIT) that sleeps */
    HW_SIM_COST_COLD_PENDING,     /* extra time of HW_SIM_COST_PENDING with cold code */
    HW_SIM_COST_COLD_PYTHON,      /* extra time of the first hold after a wait */
    HW_SIM_COST_COLD_PYTHON_NEXT, /* extra time of the second hold after a wait */
    HW_SIM_COSTS
};

/* A distribution. A value between two quantiles is drawn evenly. */
struct hw_sim_dist {
    const double *quantiles; /* in ns, in rising order */
    int32_t count;           /* the number of quantiles, at least 1 */
    int32_t reserved;
};

/* The operations of a thread's program. `value` is the operation's value in ns. If HW_SIM_OF_DIST
 * is set, it is drawn from the distribution `index` instead. */
enum hw_sim_op_kind {
    /* Runs Python code for `value`, with the GIL. The thread sees requests to release the GIL. */
    HW_SIM_HOLD,
    /* Runs C code for `value` that keeps the GIL. The thread sees requests at its end. */
    HW_SIM_CALL,
    /* Runs Python code for ever. */
    HW_SIM_COMPUTE,
    /* Releases the GIL, runs for `value`, acquires the GIL. */
    HW_SIM_RUN,
    /* Releases the GIL, sleeps on a timer for `value`, acquires the GIL. */
    HW_SIM_SLEEP,
    /* Releases the GIL, blocks for `value` until a wake-up from outside the machine (without timer
     * slack), acquires the GIL. */
    HW_SIM_BLOCK,
    /* Releases the GIL, receives a message from port `index` (waits if there is none), acquires the
     * GIL. */
    HW_SIM_RECEIVE,
    /* Releases the GIL, sends to the client of the last message, acquires the GIL. */
    HW_SIM_REPLY,
    /* Releases the GIL, sends to a peer outside the machine, acquires the GIL. */
    HW_SIM_SEND,
    /* Releases the GIL, receives the answer of a peer outside the machine, acquires the GIL. The
     * answer arrives `value` after the thread's last HW_SIM_SEND; the thread waits until then. */
    HW_SIM_ANSWER,
    /* Decrements semaphore `index`. The thread releases the GIL only if it must wait for the
     * semaphore. */
    HW_SIM_TAKE,
    /* Increments semaphore `index`, with the GIL held. */
    HW_SIM_POST,
    /* Begins a piece of work. Without this operation, a piece begins at the last HW_SIM_DONE. */
    HW_SIM_BEGIN,
    /* Ends a piece of work. The piece is counted, with the time that it took. */
    HW_SIM_DONE,
    /* Repeats the operations up to the matching HW_SIM_END `value` times. */
    HW_SIM_LOOP,
    /* Ends the innermost loop. */
    HW_SIM_END,
    /* Ends the thread. A program that does not repeat ends its thread in the same way. */
    HW_SIM_EXIT,
    HW_SIM_OPS
};

/* Flag of an operation: its time, or its number of repetitions, is drawn from a distribution. */
#define HW_SIM_OF_DIST 1u

/* Flag of HW_SIM_RUN: the GIL is not acquired again, because the next operation is part of the same
 * call. That operation must be one that always releases the GIL: HW_SIM_RUN to HW_SIM_ANSWER. */
#define HW_SIM_GOES_ON 2u

/* Flag of HW_SIM_RECEIVE: any thread may answer the message.
 *
 * Flag of HW_SIM_REPLY: the reply goes to the oldest message of port `index` that was received and
 * not answered. If there is none, the operation acts as HW_SIM_SEND, and it counts as the answer to
 * the next message as soon as that is received. */
#define HW_SIM_OF_PORT 4u

/* Flag of HW_SIM_POST: the semaphore is a lock, and the operation unlocks it. To unlock a lock that
 * is not locked ends the run with -EPERM. */
#define HW_SIM_OF_LOCK 8u

/* Flag of HW_SIM_SLEEP and HW_SIM_BLOCK: the operation lasts until the thread's clock `index`
 * (below HW_SIM_CLOCKS) strikes. The clock strikes `value` after its last stroke, whenever the
 * thread got here; for the first time, `value` after the thread got here. A stroke that is past is
 * not waited for, and is not lost: a thread that is late catches up. */
#define HW_SIM_OF_CLOCK 16u
#define HW_SIM_CLOCKS 4

struct hw_sim_op {
    uint16_t kind;  /* HW_SIM_HOLD to HW_SIM_EXIT */
    uint16_t flags; /* HW_SIM_OF_DIST to HW_SIM_OF_CLOCK */
    uint32_t index; /* the index of a port, semaphore, distribution or clock */
    uint32_t where; /* free for the caller: `value` of this operation's events */
    uint32_t reserved;
    int64_t value; /* a time in ns, or a number of repetitions */
};

/* A role: threads that run the same program. */
struct hw_sim_role {
    const struct hw_sim_op *ops;
    int32_t op_count;
    int32_t repeats;   /* 1: the program begins again at its end, for ever */
    int32_t threads;   /* the number of threads */
    int32_t gil;       /* the index of their GIL; -1: none (C code, another program) */
    uint64_t cores;    /* a bit for each core that the threads may run on; 0: all cores */
    int32_t priority;  /* the priority of hw_schedule_hint() */
    int32_t urgent;    /* 1: urgent, as for hw_schedule_hint() */
    int32_t port_step; /* thread n of the role (from 0) adds n * port_step to the index of a port */
    int32_t start_at;  /* thread n begins n * start_at operations further on in the program */
    int64_t begin_ns;  /* when thread 0 starts */
    int64_t stagger_ns; /* the time between the starts of two successive threads */
    /* 1: a piece of work is a turn, from when the thread wants the GIL until it yields;
     * HW_SIM_BEGIN and HW_SIM_DONE are not needed then. */
    int32_t turns;
    /* 1 + the index of the distribution of the time from a request until a thread of the role
     * releases the GIL, for roles that keep it in calls of C; 0: the machine's cost. An operation
     * that ends earlier ends that call, too. */
    int32_t answers;
    /* 1: `answers` has the lengths of these calls. One begins with each hold, and the next one at
     * its end; a request is answered when the call ends that is going on. */
    int32_t in_calls;
};

/* One GIL: that of a process or of a sub-interpreter. */
struct hw_sim_gil {
    const struct hw_policy *policy; /* NULL: stock CPython */
    int64_t options[HW_POLICY_MAX_OPTIONS];
    int64_t spin_ns;     /* the engine's option spin_us, in ns; see `headway policies` */
    int32_t yields;      /* the engine's option yield */
    int32_t enabled;     /* 0: free-threaded: threads hold nothing and run in parallel */
    int64_t interval_ns; /* the switch interval */
    /* With the GIL off, how much longer Python code takes for each further thread that runs Python
     * code at the same time; 0.1 is a tenth longer. */
    double slow_down;
};

/* A client of a server, in another process: one event loop that drives all of its connections. */
struct hw_sim_client {
    int32_t connections;
    int32_t port;      /* the port of connection 0's requests */
    int32_t port_step; /* connection n sends its requests to port + n * port_step */
    int32_t think;     /* a distribution of the time from a reply to the next request; -1: none */
    double
        rate_per_s;  /* above 0: open loop, requests at random at this total rate; 0: closed loop */
    uint64_t cores;  /* a bit for each core that the client may run on; 0: all cores */
    int64_t work_ns; /* the time that the client itself computes for each request */
};

struct hw_sim_spec {
    uint64_t seed;
    int64_t end_ns;                  /* when the run ends */
    int64_t warm_ns;                 /* when the warm-up ends; nothing is counted before */
    const struct hw_sim_dist *costs; /* HW_SIM_COSTS distributions */
    int64_t tick_ns, slice_ns, migration_ns;
    int32_t core_count; /* from 1 to 64 */
    int32_t gil_count, role_count, client_count, port_count, semaphore_count, dist_count;
    const struct hw_sim_gil *gils;
    const struct hw_sim_role *roles;
    const struct hw_sim_client *clients;
    const int32_t *semaphores; /* the initial value of each semaphore */
    const struct hw_sim_dist *dists;
    int64_t max_events; /* events kept in the trace; later ones are counted as dropped; 0: none */
};

/* The kinds and the flag of an event are those of trace files (native/trace/format.h). */
enum {
    HW_SIM_EVENT_WAIT = 1,
    HW_SIM_EVENT_ACQUIRE = 2,
    HW_SIM_EVENT_RELEASE = 3,
    HW_SIM_EVENT_REQUEST = 4,
    HW_SIM_EVENT_EXIT = 5
};
#define HW_SIM_EVENT_FORCED 1u
/* One plus the share of a time in which the thread was on a core, as in a recording; 0: not known.
 */
#define HW_SIM_EVENT_RAN_SHIFT 8
#define HW_SIM_EVENT_RAN_ALL 254

/* An event of the trace. */
struct hw_sim_event {
    int64_t time_ns;
    uint32_t value;  /* `where` of the operation */
    uint32_t thread; /* the number of the thread, from 0, in the order of the roles */
    uint8_t kind;    /* HW_SIM_EVENT_WAIT to HW_SIM_EVENT_EXIT */
    uint8_t gil;     /* the index of the GIL; 255: the thread has none */
    uint16_t flags;  /* HW_SIM_EVENT_FORCED, and the share of HW_SIM_EVENT_RAN_ALL from bit 8 on */
    uint32_t reserved;
};

/* Totals of the threads of a role, or of the connections of a client, since the warm-up. */
struct hw_sim_role_result {
    int64_t done;          /* pieces of work that were done */
    int64_t held_ns;       /* time with the GIL */
    int64_t waited_ns;     /* time waiting for the GIL */
    int64_t cpu_ns;        /* time on a core */
    int64_t computed_ns;   /* time in HW_SIM_HOLD, HW_SIM_COMPUTE, HW_SIM_CALL and HW_SIM_RUN */
    int64_t ran_ns;        /* the part of computed_ns in HW_SIM_RUN, without the GIL */
    int64_t waits;         /* waits for the GIL that ended */
    int64_t worst_wait_ns; /* the longest wait for the GIL */
    /* The number of threads that wait in HW_SIM_TAKE, and have done so since the first half of the
     * time after the warm-up, or will do so for ever (hw_sim_stood_ns()). */
    int64_t stuck;
    int64_t stuck_at; /* `where` of the operation in which one of them waits */
    int64_t starved;  /* likewise, of threads that wait for the GIL */
};

/* Totals of a GIL since the warm-up. */
struct hw_sim_gil_result {
    int64_t held_ns; /* time that the GIL was held */
    int64_t acquires, forced, requests;
};

struct hw_sim;

/* Makes a machine. The specification is copied, except for the policies, which must outlive the
 * machine.
 *
 * Returns NULL if the specification is not valid or there is no memory; `problem`, which has room
 * for `room` bytes, then says why. */
HW_API struct hw_sim *hw_sim_new(const struct hw_sim_spec *spec, char *problem, int room);

/* Runs the machine until `until_ns` or until the end of the run, whichever is earlier. A long run
 * may be made in parts.
 *
 * The run ends early if all threads have ended (hw_sim_ended_ns()).
 *
 * Returns 0, or a negative errno: -EDEADLK if nothing can happen any more before the end, and some
 * threads have not ended, or there are none; -EPERM (HW_SIM_OF_LOCK); -ENOMEM; -EPROTO for a
 * program that replies to no message or loops without time passing (a policy can cause such a loop,
 * too, if operations cost nothing). */
HW_API int hw_sim_run(struct hw_sim *sim, int64_t until_ns);

/* Fills `result` with the totals of a role until now. `role` numbers the roles first, then the
 * clients. */
HW_API void hw_sim_role_result(const struct hw_sim *sim, int role,
                               struct hw_sim_role_result *result);

/* Fills `result` with the totals of a GIL until now. */
HW_API void hw_sim_gil_result(const struct hw_sim *sim, int gil, struct hw_sim_gil_result *result);

/* Returns the time in ns that each piece of work took, in the order in which the pieces were done.
 * The array is valid until the machine runs again or is freed. */
HW_API const float *hw_sim_latencies(const struct hw_sim *sim, int role, int64_t *count);

/* Returns the events of the trace in their order. The array is valid until the machine runs again
 * or is freed. */
HW_API const struct hw_sim_event *hw_sim_events(const struct hw_sim *sim, int64_t *count,
                                                int64_t *dropped);

/* Returns when the last thread ended, or -1 if some have not ended. */
HW_API int64_t hw_sim_ended_ns(const struct hw_sim *sim);

/* Returns since when nothing can happen any more (-EDEADLK), or -1 if something can. */
HW_API int64_t hw_sim_stood_ns(const struct hw_sim *sim);

/* Returns the number of steps that the machine has made, a measure of the simulator's own speed. */
HW_API int64_t hw_sim_steps(const struct hw_sim *sim);

/* Returns how cold code is that last ran on its core `since_ns` ago, from 0 to 1. The costs of cold
 * code are multiplied by this number. It does not depend on whether the core ran other code or
 * idled meanwhile. */
HW_API double hw_sim_coldness(int64_t since_ns);

/* Frees the machine. */
HW_API void hw_sim_free(struct hw_sim *sim);

#endif
