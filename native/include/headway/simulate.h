// SPDX-License-Identifier: MIT
#ifndef HEADWAY_SIMULATE_H
#define HEADWAY_SIMULATE_H

#include <stdint.h>

#include "headway/api.h"
#include "headway/policy.h"

/* A machine in virtual time: cores with Linux's fair scheduler, futexes, timers and sockets;
 * processes with CPython's GIL, stock or under a policy; threads that each run a short program. The
 * policies, the ledger and the decisions are the very objects that schedule real threads
 * (native/schedule). The same specification with the same seed gives the same events.
 *
 * All times are in nanoseconds of virtual time, which begins at 0. */

/* What an operation of the machine costs. Each is a distribution, given as equally spaced quantiles
 * from the least to the greatest; one value is a constant. `headway calibrate` measures them. */
enum hw_sim_cost {
    HW_SIM_COST_SWITCH,            /* a core goes from one thread to another */
    HW_SIM_COST_PREEMPT_OTHER,     /* from a wake-up until it interrupts the other core it is for */
    HW_SIM_COST_WAKE_IDLE,         /* from a wake-up until an idle core runs the thread */
    HW_SIM_COST_WAKE_IDLE_MIDDLE,  /* the same, of a core that was idle for 0.2 ms and more */
    HW_SIM_COST_WAKE_IDLE_LONG,    /* ... and for 2 ms and more */
    HW_SIM_COST_TIMER_INTERRUPT,   /* what a timer's interrupt takes from who runs */
    HW_SIM_COST_TIMER_LATE,        /* how late a timer is on a busy core, besides the slack */
    HW_SIM_COST_TIMER_LATE_IDLE,   /* the same on an idle core, until the core schedules */
    HW_SIM_COST_TIMER_ARM,         /* setting or cancelling the core's earliest timer */
    HW_SIM_COST_TIMER_SLACK,       /* what the kernel adds to the end of a sleep */
    HW_SIM_COST_TICK_INTERRUPT,    /* what a tick takes from who runs */
    HW_SIM_COST_FUTEX_CHECK,       /* futex(WAIT) that finds another value */
    HW_SIM_COST_FUTEX_SLEEP,       /* futex(WAIT) until the thread sleeps */
    HW_SIM_COST_FUTEX_SLEEP_TIMED, /* the same with a time-out */
    HW_SIM_COST_FUTEX_WOKEN,       /* from running again until futex(WAIT) returns */
    HW_SIM_COST_FUTEX_WOKEN_TIMED,
    HW_SIM_COST_FUTEX_WAKE,      /* futex(WAKE) until the wake-up */
    HW_SIM_COST_FUTEX_WAKE_END,  /* ... and after it */
    HW_SIM_COST_FUTEX_WAKE_IDLE, /* ... more where the wake-up goes to an idle core */
    HW_SIM_COST_FUTEX_WAKE_NONE, /* futex(WAKE) where nobody sleeps */
    HW_SIM_COST_SEND,            /* send(2) until the receiver is woken */
    HW_SIM_COST_SEND_END,        /* ... and after it */
    HW_SIM_COST_SEND_IDLE,       /* ... more where the receiver's core is idle */
    HW_SIM_COST_RECEIVE_READY,   /* recv(2) that finds its data */
    HW_SIM_COST_RECEIVE_SLEEP,   /* recv(2) until the thread sleeps */
    HW_SIM_COST_RECEIVE_WOKEN,   /* ... from running again until it returns */
    HW_SIM_COST_LOCK,            /* locking or unlocking in user space, uncontended */
    HW_SIM_COST_CACHE_LINE,      /* touching what another core wrote last */
    HW_SIM_COST_CHECK,           /* from a drop request until the evaluation loop sees it */
    HW_SIM_COST_PENDING,         /* from then until the GIL is let go */
    HW_SIM_COST_COLD_SEND,       /* what calls take longer that did not run on the core of late */
    HW_SIM_COST_COLD_RECEIVE,
    HW_SIM_COST_COLD_FUTEX_WAKE,
    HW_SIM_COST_COLD_FUTEX_SLEEP,
    HW_SIM_COST_COLD_PENDING,
    HW_SIM_COST_COLD_PYTHON,      /* the first hold after a wait */
    HW_SIM_COST_COLD_PYTHON_NEXT, /* the second one */
    HW_SIM_COSTS
};

struct hw_sim_dist {
    const double *quantiles; /* rising; ns */
    int32_t count;           /* at least 1 */
    int32_t reserved;
};

/* What a thread does next. `value` is a time in ns, unless HW_SIM_OF_DIST is set: then it is drawn
 * from the distribution `index`. */
enum hw_sim_op_kind {
    HW_SIM_HOLD,    /* runs Python code for `value`: with the GIL, and seeing requests to drop it */
    HW_SIM_CALL,    /* runs C code for `value` that keeps the GIL and sees no request */
    HW_SIM_COMPUTE, /* runs Python code for ever */
    HW_SIM_RUN,     /* lets the GIL go, runs for `value`, takes it again */
    HW_SIM_SLEEP,   /* lets the GIL go, sleeps for `value` by a timer, takes it again */
    HW_SIM_BLOCK,   /* the same, until somebody outside wakes it after `value`: no timer slack */
    HW_SIM_RECEIVE, /* lets the GIL go, takes a message from port `index`, waiting if there is none,
                     * takes it again */
    HW_SIM_REPLY,   /* lets the GIL go, sends to the client of the last message, takes it again */
    HW_SIM_SEND,    /* lets the GIL go, sends to somebody outside the machine, takes it again */
    HW_SIM_ANSWER,  /* lets the GIL go, receives what somebody outside answers `value` after the
                     * thread's last HW_SIM_SEND, waiting if that is yet to come, takes it again */
    HW_SIM_TAKE,    /* takes one of semaphore `index`; the GIL is let go only if there is none */
    HW_SIM_POST,    /* gives one to semaphore `index`, with the GIL held */
    HW_SIM_BEGIN,   /* a piece of work begins; else it begins where the last one was done */
    HW_SIM_DONE,    /* a piece of work is done: counted, with the time that it took */
    HW_SIM_LOOP,    /* repeats what stands before the matching HW_SIM_END `value` times */
    HW_SIM_END,     /* ... and ends the innermost loop */
    HW_SIM_EXIT,    /* the thread ends; also at the end of a program that does not repeat */
    HW_SIM_OPS
};

/* op.flags.
 * OF_DIST: the time, or the number of times, is of a distribution.
 * GOES_ON: after an HW_SIM_RUN the GIL is not taken again, as the next operation is of the same
 * call. That one must let the GIL go whatever happens: HW_SIM_RUN to HW_SIM_ANSWER.
 * OF_PORT: of an HW_SIM_RECEIVE: any thread may answer what it takes. Of an HW_SIM_REPLY: it
 * answers what was taken first at port `index` and is not answered; where that is nothing, it is an
 * HW_SIM_SEND now and the answer to the next message, as soon as that is taken. */
#define HW_SIM_OF_DIST 1u
#define HW_SIM_GOES_ON 2u
#define HW_SIM_OF_PORT 4u

struct hw_sim_op {
    uint16_t kind;
    uint16_t flags;
    uint32_t index; /* of a port, semaphore or distribution */
    uint32_t where; /* free for the caller: `value` of the events of this operation */
    uint32_t reserved;
    int64_t value;
};

/* Threads with one program. */
struct hw_sim_role {
    const struct hw_sim_op *ops;
    int32_t op_count;
    int32_t repeats;  /* 1: begins again at its end, for ever */
    int32_t threads;  /* how many */
    int32_t gil;      /* index of the GIL that they need; -1: none (C code, another program) */
    uint64_t cores;   /* a bit for each core that they may run on; 0: all */
    int32_t priority; /* hw_schedule_hint() */
    int32_t urgent;
    int32_t port_step;  /* the n-th thread of the role adds n times this to the index of ports */
    int32_t start_at;   /* the n-th thread begins n times this further on in its program */
    int64_t begin_ns;   /* the first one starts then, */
    int64_t stagger_ns; /* the others so much after the one before */
    int32_t turns;      /* 1: a piece of work is a turn: from when a thread wants the GIL until it
                         * lets it go by itself; instead of HW_SIM_BEGIN and HW_SIM_DONE */
    int32_t reserved;
};

/* One GIL: a process, or a sub-interpreter. */
struct hw_sim_gil {
    const struct hw_policy *policy; /* NULL: stock CPython */
    int64_t options[HW_POLICY_MAX_OPTIONS];
    int64_t spin_ns; /* of the engine; as `headway policies` lists them */
    int32_t yields;
    int32_t enabled; /* 0: free-threaded, threads hold nothing and run beside each other */
    int64_t interval_ns;
    double slow_down; /* what Python code takes longer for each further thread that runs it at the
                       * same time, where the GIL is off: 0.1 is a tenth */
};

/* A client of a server, in another process: one event loop that drives all of its connections. */
struct hw_sim_client {
    int32_t connections;
    int32_t port;      /* of the first connection's requests; the n-th one's is ... */
    int32_t port_step; /* ... n times this further */
    int32_t think;     /* index of a distribution: from a reply to the next request; -1: none */
    double rate_per_s; /* above 0: requests come at random, so often in all (open), not closed */
    uint64_t cores;    /* 0: all */
    int64_t work_ns;   /* what the client itself computes for each request */
};

struct hw_sim_spec {
    uint64_t seed;
    int64_t end_ns;                  /* the run ends then */
    int64_t warm_ns;                 /* what is done before is not counted */
    const struct hw_sim_dist *costs; /* HW_SIM_COSTS of them */
    int64_t tick_ns, slice_ns, migration_ns;
    int32_t core_count; /* from 1 to 64 */
    int32_t gil_count, role_count, client_count, port_count, semaphore_count, dist_count;
    const struct hw_sim_gil *gils;
    const struct hw_sim_role *roles;
    const struct hw_sim_client *clients;
    const int32_t *semaphores; /* what each has at first */
    const struct hw_sim_dist *dists;
    int64_t max_events; /* of the trace; 0: none are kept. Later ones are counted as dropped */
};

/* An event of the trace; kinds and flags are those of trace files (native/trace/format.h). */
enum {
    HW_SIM_EVENT_WAIT = 1,
    HW_SIM_EVENT_ACQUIRE = 2,
    HW_SIM_EVENT_RELEASE = 3,
    HW_SIM_EVENT_REQUEST = 4,
    HW_SIM_EVENT_EXIT = 5
};
#define HW_SIM_EVENT_FORCED 1u

struct hw_sim_event {
    int64_t time_ns;
    uint32_t value;  /* `where` of the operation */
    uint32_t thread; /* from 0, in the order of roles */
    uint8_t kind;
    uint8_t gil;
    uint16_t flags;
    uint32_t reserved;
};

/* What threads of a role, or connections of a client, have done since the warm-up. */
struct hw_sim_role_result {
    int64_t done;        /* pieces of work */
    int64_t held_ns;     /* with the GIL */
    int64_t waited_ns;   /* for the GIL */
    int64_t cpu_ns;      /* on a core */
    int64_t computed_ns; /* in HW_SIM_HOLD, HW_SIM_COMPUTE, HW_SIM_CALL and HW_SIM_RUN ... */
    int64_t ran_ns;      /* ... and in HW_SIM_RUN alone, without the GIL */
    int64_t waits;
    int64_t worst_wait_ns;
};

struct hw_sim_gil_result {
    int64_t held_ns; /* since the warm-up */
    int64_t acquires, forced, requests;
};

struct hw_sim;

/* Makes a machine. The specification is copied but for policies, which must stay.
 *
 * Returns NULL where the specification makes no sense, or there is no memory; `problem`, of `room`
 * bytes, then says what. */
HW_API struct hw_sim *hw_sim_new(const struct hw_sim_spec *spec, char *problem, int room);

/* Lets time pass until then, or to the end where that is earlier. A long run may be made in parts.
 *
 * Returns 0, or -EDEADLK when nothing can happen any more before the end, -ENOMEM, or -EPROTO for a
 * program that errs (replies to nothing, or goes round in no time; so may a policy, where
 * operations cost nothing). */
HW_API int hw_sim_run(struct hw_sim *sim, int64_t until_ns);

/* What has happened until now. `role` counts roles first, then clients. */
HW_API void hw_sim_role_result(const struct hw_sim *sim, int role,
                               struct hw_sim_role_result *result);
HW_API void hw_sim_gil_result(const struct hw_sim *sim, int gil, struct hw_sim_gil_result *result);

/* How long each piece of work took, in the order in which they were done, in ns; valid until the
 * machine goes on or is freed. */
HW_API const float *hw_sim_latencies(const struct hw_sim *sim, int role, int64_t *count);

/* The events of the trace in their order; valid until the machine goes on or is freed. */
HW_API const struct hw_sim_event *hw_sim_events(const struct hw_sim *sim, int64_t *count,
                                                int64_t *dropped);

/* How many steps the machine has made: a measure of its own speed. */
HW_API int64_t hw_sim_steps(const struct hw_sim *sim);

/* How cold code is that last ran on its core so long ago, from 0 to 1: what the costs of cold code
 * are multiplied with. It is the same whether the core ran other code since or idled. */
HW_API double hw_sim_coldness(int64_t since_ns);

HW_API void hw_sim_free(struct hw_sim *sim);

#endif
