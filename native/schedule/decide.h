// SPDX-License-Identifier: MIT
/* The decisions of the scheduler, as functions of the ledger and of what the caller sees. A
 * decision changes the ledger and its waiters, and nothing else. The caller, which is the engine
 * with real threads or the simulator with simulated ones, then carries it out.
 * docs/internals/scheduler.md lists the decisions.
 *
 * The calls, in the order in which they are made:
 * - A waiter finds the GIL held: hw__decide_wait(). If the answer is ASK, CPython makes the request
 *   and the waiter comes back with hw__decide_wait_on(). The waiter then sleeps or spins.
 * - That waiter wakes up: hw__decide_doze_on(), until it returns 0. Then hw__decide_called() if
 *   another thread has taken the waiter out of the queue, else hw__decide_woken().
 * - The holder releases the GIL: hw__decide_wait_at_once(), between hw__ledger_drop() and
 *   hw__ledger_dropped(), then hw__decide_hand_over().
 * - A thread that is in the queue already is about to acquire the GIL: hw__decide_leaves_it(). If
 *   that returns true, or if the thread must wait for a hand-off, hw__decide_queue(). When this
 *   thread wakes up, only hw__decide_doze_on() is called.
 * - A thread acquires the GIL: hw__decide_rest() after hw__ledger_take_alone(),
 *   hw__decide_look_sooner() after hw__ledger_take(). */
#ifndef HEADWAY_SCHEDULE_DECIDE_H
#define HEADWAY_SCHEDULE_DECIDE_H

#include "schedule/ledger.h"

/* The caller's view of the moment at which it asks for a decision. */
struct hw__moment {
    int64_t now_ns; /* the time, of hw__ledger_time() */
    int32_t core;   /* the core on which the caller runs; -1: not known */
    bool locked;    /* a thread holds the GIL */
};

enum hw__do {
    HW__DO_RETURN, /* return to CPython, which looks at the GIL again */
    HW__DO_ASK,    /* return so that CPython makes a request to the holder, and waits again */
    HW__DO_SLEEP,  /* sleep in the queue */
};

/* The next step of a waiter. */
struct hw__turn {
    enum hw__do what;
    bool begins;      /* the waiter's wait begins with this turn */
    int64_t sleep_ns; /* for SLEEP: the longest sleep */
    /* For ASK and SLEEP, if above 0: how long the waiter spins instead of sleeping, provided that a
     * core is free for it. A caller that lets it spin must call hw__decide_spun(). */
    int64_t spin_ns;
};

/* The waiter that a release wakes. */
struct hw__call {
    struct hw__waiter *next; /* the waiter, already out of the queue; NULL: nobody is woken */
    bool next_yields;        /* `next` must yield its core once when it wakes */
    /* The caller must yield its core after it has woken `next`, if the operating system's time
     * slice of `next` is short (hw__help_is_short()). */
    bool caller_may_yield;
};

/* Decides what a waiter does that has found the GIL held: make a request, or sleep. Returns ASK or
 * SLEEP; for SLEEP the waiter is in the queue. */
struct hw__turn hw__decide_wait(struct hw__ledger *ledger, struct hw__waiter *waiter,
                                const struct hw__moment *moment);

/* Puts the waiter, which comes back right after its request (stage ASKING), into the queue. Returns
 * SLEEP. */
struct hw__turn hw__decide_wait_on(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* Records that the waiter spins, as a decision allowed it. */
void hw__decide_spun(struct hw__waiter *waiter);

/* Decides whether a waiter that has woken up by itself sleeps again: it does if the GIL is free for
 * another waiter that was called. Returns for how many nanoseconds it sleeps; 0: it goes on. */
int64_t hw__decide_doze_on(struct hw__ledger *ledger, struct hw__waiter *waiter,
                           const struct hw__moment *moment);

/* Records that another thread has taken the waiter out of the queue and woken it: it was called, it
 * must look sooner (hw__decide_look_sooner()), or the GIL rests or has no policy any more. The
 * waiter is about to look at the GIL. */
void hw__decide_called(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* Decides whether a waiter that woke up by itself makes a request. The caller must have taken it
 * out of the queue. `spun`: it has spun instead of sleeping. `switched`: the GIL has been acquired
 * by another thread since the sleep began. Returns ASK or RETURN. After RETURN, a waiter that finds
 * the GIL held comes back at once with hw__decide_wait(). */
struct hw__turn hw__decide_woken(struct hw__ledger *ledger, struct hw__waiter *waiter,
                                 const struct hw__moment *moment, bool spun, bool switched);

/* Decides how long a queued waiter sleeps that waits for a hand-off, or that leaves a free GIL to
 * another waiter. Returns SLEEP. */
struct hw__turn hw__decide_queue(struct hw__ledger *ledger, struct hw__waiter *waiter,
                                 const struct hw__moment *moment);

/* Tells whether a queued waiter that finds the GIL free must leave it to the waiter that was
 * called, and wait on. */
bool hw__decide_leaves_it(const struct hw__ledger *ledger, const struct hw__waiter *waiter,
                          const struct hw__moment *moment);

/* Decides whether a preempted thread joins the queue at its release. Returns true if it does; the
 * thread then is in the queue. */
bool hw__decide_wait_at_once(struct hw__ledger *ledger, struct hw__waiter *releaser,
                             int64_t now_ns);

/* Decides whether the waiter that goes next is woken now that the GIL was released. `releaser` may
 * be NULL: not known. `next_spins`: the waiter spins. */
struct hw__call hw__decide_hand_over(struct hw__ledger *ledger, struct hw__waiter *releaser,
                                     struct hw__waiter *next, const struct hw__moment *moment,
                                     bool next_spins);

/* Tells whether the GIL may rest: for a while no thread has wanted it beside its holder. (A GIL may
 * also rest because the policy is idle: hw__ledger_is_idle().) */
bool hw__decide_rest(struct hw__ledger *ledger);

/* Decides, after `holder` has acquired the GIL, whether the waiter that goes next must wake up
 * sooner than it was going to, to make a request to this holder. Returns that waiter, already out
 * of the queue; NULL: none. */
struct hw__waiter *hw__decide_look_sooner(struct hw__ledger *ledger,
                                          const struct hw__waiter *holder, int64_t now_ns);

#endif
