// SPDX-License-Identifier: MIT
/* What is to be done at a GIL under a policy, as functions of the ledger and of what the caller
 * sees. A decision changes the ledger alone; whoever asks for it, the engine's real threads or the
 * simulator's, then does what it says. docs/internals/scheduler.md names each decision. */
#ifndef HEADWAY_SCHEDULE_DECIDE_H
#define HEADWAY_SCHEDULE_DECIDE_H

#include "schedule/ledger.h"

/* What the caller sees. */
struct hw__moment {
    int64_t now_ns; /* of hw__ledger_time() */
    int32_t core;   /* where the caller runs; -1: not known */
    bool locked;    /* somebody has the GIL */
};

enum hw__do {
    HW__DO_RETURN, /* to CPython, which looks again */
    HW__DO_ASK,    /* return so that CPython asks the holder to let go, and waits again */
    HW__DO_SLEEP,  /* in the queue */
};

struct hw__turn {
    enum hw__do what;
    bool begins;      /* the waiter has begun to wait with this */
    int64_t sleep_ns; /* SLEEP: at most so long */
    int64_t spin_ns;  /* ASK, SLEEP: above 0: spin for so long in place of the sleep, if a core is
                       * to be had for it; then hw__decide_spun() */
};

/* Whom a release wakes. */
struct hw__call {
    struct hw__waiter *next; /* NULL: nobody. It is out of the queue */
    bool next_yields;        /* it is to yield its core once when it wakes */
    bool caller_may_yield; /* the caller is to yield when it has woken it, if the system's slice of
                            * `next` is short */
};

/* The waiter finds the GIL taken: is the holder to be asked, or is it to sleep? */
struct hw__turn hw__decide_wait(struct hw__ledger *ledger, struct hw__waiter *waiter,
                                const struct hw__moment *moment);

/* The waiter has asked and is back at once: it sleeps. */
struct hw__turn hw__decide_wait_on(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* The waiter spins, as a decision allowed it. */
void hw__decide_spun(struct hw__waiter *waiter);

/* The waiter woke. Returns how long it is to sleep on, as another one was called and the GIL is
 * free for that one; 0: it is to go on. */
int64_t hw__decide_doze_on(struct hw__ledger *ledger, struct hw__waiter *waiter,
                           const struct hw__moment *moment);

/* The waiter was called, and is to look. */
void hw__decide_called(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* The waiter woke by itself, and stands in no queue any more: is the holder to be asked?
 * `spun`: it has not slept but spun; `switched`: the GIL has changed hands since it began. */
struct hw__turn hw__decide_woken(struct hw__ledger *ledger, struct hw__waiter *waiter,
                                 const struct hw__moment *moment, bool spun, bool switched);

/* The waiter stands in the queue without having found the GIL taken: how long is it to sleep? */
struct hw__turn hw__decide_queue(struct hw__ledger *ledger, struct hw__waiter *waiter,
                                 const struct hw__moment *moment);

/* The waiter, in the queue, comes by a free GIL: is it to leave the GIL to the one that was called,
 * and go on waiting? */
bool hw__decide_leaves_it(const struct hw__ledger *ledger, const struct hw__waiter *waiter,
                          const struct hw__moment *moment);

/* The thread let go because it was asked to: does it stand in the queue from this moment on? Then
 * it has been put there. */
bool hw__decide_wait_at_once(struct hw__ledger *ledger, struct hw__waiter *releaser,
                             int64_t now_ns);

/* The GIL was let go: is the waiter that goes next woken? `releaser`: NULL: not known;
 * `next_spins`: the waiter spins. */
struct hw__call hw__decide_hand_over(struct hw__ledger *ledger, struct hw__waiter *releaser,
                                     struct hw__waiter *next, const struct hw__moment *moment,
                                     bool next_spins);

/* Nobody has had to wait for the GIL for long: it may rest. */
bool hw__decide_rest(struct hw__ledger *ledger);

/* The waiter has taken the GIL. Returns one that is to wake up sooner than it was going to, to have
 * this holder asked; it is out of the queue. NULL: none. */
struct hw__waiter *hw__decide_look_sooner(struct hw__ledger *ledger,
                                          const struct hw__waiter *holder, int64_t now_ns);

#endif
