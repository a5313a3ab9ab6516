// SPDX-License-Identifier: MIT
/* CPython's GIL on the simulated machine: take_gil() and drop_gil() of Python/ceval_gil.c, 3.8 to
 * 3.15. Under a policy, they call the engine's hooks (scheduled.c). */
#ifndef HEADWAY_SIM_GIL_H
#define HEADWAY_SIM_GIL_H

#include "schedule/ledger.h"
#include "sim/libc.h"

struct hw__world;
struct hw__worker;

struct hw__gil_sim {
    struct hw__world *world;
    int32_t index;
    bool enabled;
    int64_t interval_ns;
    double slow_down;
    int32_t in_python; /* with the GIL off: threads that run Python code now */

    struct hw__sim_mutex mutex, switch_mutex;
    struct hw__sim_cond cond, switch_cond;
    bool locked;
    struct hw__worker *last; /* the holder, or the last holder */
    uint64_t switches;
    bool asked; /* a request was made in this hold and has been recorded, once */

    /* The state under a policy. */
    struct hw__ledger ledger;
    struct hw__waiter **members; /* the memory of the ledger's lanes */
    /* `rests`: the GIL rests, and the hooks are out. `rests_idle`: it does so because the policy is
     * idle. */
    bool rests, rests_idle;
    int32_t spinners;

    struct hw_sim_gil_result result;
};

/* A request of one connection of a client. */
struct hw__message {
    int32_t client, connection;
};

/* A thread of a program. */
struct hw__worker {
    struct hw__world *world;
    struct hw__task *task;
    struct hw__gil_sim *gil; /* NULL: the thread needs no GIL */
    const struct hw_sim_role *role;
    int32_t role_index;
    uint32_t number;  /* the number of the thread, among all threads */
    bool drop;        /* a request to release the GIL was made */
    uint32_t where;   /* `where` of the present operation */
    bool checks;      /* the thread releases and acquires the GIL because of a request */
    int64_t want_ns;  /* when the thread wanted the GIL for this turn */
    int64_t sent_ns;  /* when the thread last sent to a peer outside the machine */
    int64_t since_ns; /* when the present hold began */
    int64_t told_ns,
        told_cpu_ns;       /* the time, and the task's CPU time, at the last acquire or release */
    int64_t waiting_since; /* when the present wait began; 0: the thread does not wait */
    double cold;           /* how cold its code was at its last hold, from 0 to 1 */
    int64_t user_at;       /* the task's user time when its present operation began; -1: the
                            * operation does not compute */
    int64_t computed_ns;   /* user time of the operations that compute */
    int64_t ran_ns;        /* the part of computed_ns without the GIL */
    bool runs;             /* the present operation computes without the GIL */
    bool away;             /* the last operation released the GIL, and the present one continues */

    /* The state under a policy, as in engine/runner.h. */
    struct hw__waiter waiter;
    const struct hw__worker *poster; /* the worker that woke this one; NULL: none */
    struct hw__sim_futex word;       /* AWAKE, SLEEPING or CALLED (scheduled.c) */
    bool is_called;                  /* word is CALLED */
    bool spinning;
    int64_t gives_way_until_ns; /* it yields its core if it wakes before; 0: it does not */
    int64_t spin_ns, no_yield_until_ns;
    int64_t rests;
    /* As in gil/hooks.c: the switches at the last wait at rest, and the first deadline since. */
    uint64_t rest_switches;
    int64_t rest_deadline_ns;
    struct hw__worker *to_wake[2];
    struct hw__sim_mutex *wake_after;

    /* The state of the program. */
    int32_t at;    /* the index of the next operation */
    int32_t depth; /* the number of open loops */
    struct {
        int32_t begin;
        int64_t left;
    } loops[8];
    int64_t begun_ns;     /* when the present piece of work began */
    int64_t moved_ns;     /* when time last passed in the program */
    int64_t taking_since; /* when the present HW_SIM_TAKE began to wait; -1: none waits */
    int32_t moved_ops;    /* operations since moved_ns */
    int64_t strokes_ns[HW_SIM_CLOCKS]; /* each clock's last stroke; -1: it has not begun */
    uint32_t port_offset;              /* added to the index of ports */
    struct hw__message request; /* the message that is not yet answered; its client is -1: none */
    struct hw__sim_futex nap;   /* for HW_SIM_SLEEP, HW_SIM_BLOCK and HW_SIM_ANSWER */
};

/* take_gil() and drop_gil(). Both do nothing for a worker without a GIL. */

void hw__gil_take(struct hw__worker *worker);
void hw__gil_drop(struct hw__worker *worker);

/* Notes that the worker waits for the GIL from now on, unless it waits already. */
void hw__gil_waits(struct hw__worker *worker);

/* The check of the evaluation loop: if there is a request, releases the GIL and acquires it
 * again. */
void hw__gil_check(struct hw__worker *worker);

/* Makes a request to the holder, on behalf of `from`. */
void hw__gil_ask(struct hw__gil_sim *gil, const struct hw__worker *from);

/* ---- under a policy (scheduled.c), in place of the C library's functions */

/* Waits for the GIL. Returns true if the worker was signalled, false if the time is over. */
bool hw__scheduled_wait(struct hw__worker *worker, int64_t deadline_ns);
void hw__scheduled_release(struct hw__worker *worker);
void hw__scheduled_acquire(struct hw__worker *worker);
void hw__scheduled_wait_switch(struct hw__worker *worker);
void hw__scheduled_locked(struct hw__worker *worker);
void hw__scheduled_lock(struct hw__worker *worker);
void hw__scheduled_unlocked(struct hw__worker *worker);

#endif
