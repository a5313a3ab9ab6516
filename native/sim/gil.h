// SPDX-License-Identifier: MIT
/* CPython's GIL on the simulated machine: take_gil() and drop_gil() of Python/ceval_gil.c, 3.8 to
 * 3.15, and the engine's hooks in them where a policy has the GIL (scheduled.c). */
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
    int32_t in_python; /* threads that run Python code now, where the GIL is off */

    struct hw__sim_mutex mutex, switch_mutex;
    struct hw__sim_cond cond, switch_cond;
    bool locked;
    struct hw__worker *last; /* who has it, or had it last */
    uint64_t switches;
    bool asked; /* the holder has been asked: recorded once */

    /* Under a policy. */
    struct hw__ledger ledger;
    struct hw__waiter **members; /* of the ledger's lanes */
    bool rests, rests_idle;      /* the hooks are out */
    int32_t spinners;

    struct hw_sim_gil_result result;
};

/* A request of a client's connection. */
struct hw__message {
    int32_t client, connection;
};

/* A thread of a program. */
struct hw__worker {
    struct hw__world *world;
    struct hw__task *task;
    struct hw__gil_sim *gil; /* NULL: it needs none */
    const struct hw_sim_role *role;
    int32_t role_index;
    uint32_t number;       /* of all threads */
    bool drop;             /* it is asked to let the GIL go */
    uint32_t where;        /* of its present operation */
    bool checks;           /* it lets the GIL go and takes it again as it was asked to */
    int64_t want_ns;       /* when it wanted the GIL for this turn */
    int64_t sent_ns;       /* when it sent to somebody outside last */
    int64_t since_ns;      /* it has or wants the GIL since then */
    int64_t waiting_since; /* 0: it does not wait */
    double cold;           /* how cold its code was at its last hold, from 0 to 1 */
    int64_t user_at;       /* its task's user time when its present operation began; -1: that does
                            * not compute */
    int64_t computed_ns;
    int64_t ran_ns; /* of that, without the GIL */
    bool runs;      /* so does its present operation */
    bool away;      /* it let the GIL go in its last operation, and the present one goes on so */

    /* Under a policy: what engine/runner.h has. */
    struct hw__waiter waiter;
    struct hw__sim_futex word; /* 0 awake, 1 sleeping, 2 called */
    bool is_called;            /* word is 2 */
    bool spinning, gives_way;
    int64_t spin_ns, no_yield_until_ns;
    int64_t rests;
    struct hw__worker *to_wake[2];
    struct hw__sim_mutex *wake_after;

    /* Its program. */
    int32_t at;    /* next operation */
    int32_t depth; /* of loops */
    struct {
        int32_t begin;
        int64_t left;
    } loops[8];
    int64_t begun_ns;  /* when its piece of work began */
    int64_t moved_ns;  /* when time last passed in it, */
    int32_t moved_ops; /* and operations since */
    uint32_t port_offset;
    struct hw__message request; /* that it took and has not answered; its client is -1: none */
    struct hw__sim_futex nap;   /* it sleeps, or is blocked by somebody outside */
};

void hw__gil_take(struct hw__worker *worker);
void hw__gil_drop(struct hw__worker *worker);

/* The worker waits for the GIL from now on, if it does not do so already. */
void hw__gil_waits(struct hw__worker *worker);

/* The evaluation loop looks: lets the GIL go and takes it again, if it was asked to. */
void hw__gil_check(struct hw__worker *worker);

/* The holder is asked to let go. `from`: by whom. */
void hw__gil_ask(struct hw__gil_sim *gil, const struct hw__worker *from);

/* ---- where a policy has the GIL (scheduled.c): instead of the C library's functions */
bool hw__scheduled_wait(struct hw__worker *worker,
                        int64_t deadline_ns); /* signalled, not timed out */
void hw__scheduled_release(struct hw__worker *worker);
void hw__scheduled_acquire(struct hw__worker *worker);
void hw__scheduled_wait_switch(struct hw__worker *worker);
void hw__scheduled_locked(struct hw__worker *worker);
void hw__scheduled_lock(struct hw__worker *worker);
void hw__scheduled_unlocked(struct hw__worker *worker);

#endif
