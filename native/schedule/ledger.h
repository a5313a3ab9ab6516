// SPDX-License-Identifier: MIT
/* The ledger of one GIL under a policy: who has it and since when, who waits in which order, what
 * each thread has used, and what the holder was asked. Plain state, told the time with each call;
 * no clock, lock, system call or global variable. The engine keeps a ledger for each real GIL and
 * calls it with the GIL's mutex held; the simulator keeps one for each simulated GIL.
 *
 * Only the ledger calls the policy. What follows from the state is decided in decide.h. */
#ifndef HEADWAY_SCHEDULE_LEDGER_H
#define HEADWAY_SCHEDULE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "headway/schedule.h"
#include "schedule/waiter.h"
#include "schedule/waiters.h"

/* Options of the engine, for every policy. */
struct hw__settings {
    int64_t spin_ns;     /* how long a waiter may spin */
    int64_t watchdog_ns; /* after how long a wait a policy is removed; 0: never */
    bool yields;         /* CPU-bound threads give way on their core */
};

/* What the GIL is, as far as the ledger was told. */
enum hw__phase {
    HW__PHASE_FREE,    /* nobody has it, and a waiter was called, or there was none */
    HW__PHASE_GRACE,   /* nobody has it and nobody was called: the last holder is expected back */
    HW__PHASE_ALONE,   /* `holder` has it and took it when nobody else wanted it. The policy has not
                        * been told, and the clock was not asked */
    HW__PHASE_HELD,    /* `holder` has it */
    HW__PHASE_STRANGE, /* a thread has it that the ledger does not know: one without a record, or
                        * one that took it while the GIL rested */
    HW__PHASES
};

/* The most that waited at once, in each of the last 64 spans of 2^29 ns: 34 s. */
#define HW__CROWD_SHIFT 29
#define HW__CROWD_SPANS 64

struct hw__crowd {
    int64_t span;                   /* the number of the newest span: `now_ns >> HW__CROWD_SHIFT` */
    uint32_t most[HW__CROWD_SPANS]; /* by span, modulo their number */
};

/* What the holder was asked. */
struct hw__request {
    bool made;        /* the holder has been asked to let go */
    int64_t at_ns;    /* when it was asked last */
    int64_t again_ns; /* how long after that it is to be asked again */
    int64_t by_ns;    /* when it was to be asked, by what the policy said first of this hold;
                       * HW_NEVER: never; 0: the policy has not been heard yet */
    struct hw__waiter *early; /* the waiter for which the holder was asked sooner than CPython would
                               * have; NULL: none */
};

struct hw__ledger {
    const struct hw_policy *policy; /* NULL: none, and nothing here counts */
    struct hw__settings settings;
    struct hw__waiters lanes[HW_POLICY_LANES];
    struct hw_policy_gil view; /* what the policy sees; view.now_ns never goes back */
    enum hw__phase phase;
    struct hw__waiter *holder; /* in HELD and ALONE; else NULL */
    int64_t stranger_ns;       /* in STRANGE: since when that is known; 0: not noticed yet */
    struct hw__waiter *called; /* was told last that it is its turn, and has not come yet; NULL */
    int64_t called_ns;         /* when */
    bool passed_over;          /* another thread has taken the GIL since */
    struct hw__request request;
    int64_t free_ns;   /* since when the GIL is free; 0: not told */
    int64_t budget_ns; /* how long the GIL may still be left free in grace */
    int64_t budget_at_ns;
    uint64_t releases, arrivals; /* counted since the policy began */
    int64_t stuck_ns;            /* time in holds that are so long that no policy is to blame */
    int64_t went_on_ns; /* when the process went on after it was stopped as a whole; 0: never */
    int64_t idle_at_ns; /* when the policy is asked next whether it is idle */
    int alone;          /* times in a row that the GIL was taken while nobody else wanted it */
    int missed;         /* times in a row that a waiter found the GIL free by itself */
    struct hw_schedule_counts counts;
    struct hw__crowd crowd;
};

/* How often a policy is asked whether it is idle. */
#define HW__IDLE_EVERY_NS 100000000

/* A request may be lost (up to 3.12 the interpreter clears its flag in passing) or not be served
 * for long (C code that holds the GIL): it is made again after this long, then twice as long each
 * time, up to a limit (decide.c). */
#define HW__ASK_AGAIN_NS 100000

/* Begins anew with a policy. `lanes` keep their memory; nobody may be queued. */
void hw__ledger_begin(struct hw__ledger *ledger, const struct hw_policy *policy,
                      const int64_t *options, const struct hw__settings *settings, int64_t clock_ns,
                      int64_t interval_ns);

/* The policy is over. Nobody may be queued. */
void hw__ledger_end(struct hw__ledger *ledger);

/* Takes the time of a clock that may go back by a little, and returns the ledger's. */
int64_t hw__ledger_time(struct hw__ledger *ledger, int64_t clock_ns);

/* Nothing is known of the thread at this GIL, or not any more. It must not be queued. */
void hw__ledger_forget(struct hw__waiter *waiter);

/* What the thread did last was long ago, and what it did since is not known. */
void hw__ledger_forget_last(struct hw__waiter *waiter);

/* The thread ends, or goes elsewhere. */
void hw__ledger_leave(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* Threads that wait in the queue, and the one of them that goes next; NULL: nobody waits. */
uint32_t hw__ledger_waiting(const struct hw__ledger *ledger);
struct hw__waiter *hw__ledger_next(struct hw__ledger *ledger);

/* Puts a thread into its lane; takes it out, if it is in one. */
void hw__ledger_enqueue(struct hw__ledger *ledger, struct hw__waiter *waiter);
void hw__ledger_dequeue(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* The thread begins to wait: the policy gives it its place. */
void hw__ledger_want(struct hw__ledger *ledger, struct hw__waiter *waiter, int64_t now_ns);

/* The thread has come after it was called, or wants the GIL after all. */
void hw__ledger_has_come(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* A thread found the GIL taken. From now on the holder's time counts; before, nobody else wanted
 * it. */
void hw__ledger_notice(struct hw__ledger *ledger, int64_t now_ns);

/* How long from now on the waiter is to wait before the holder is asked, by the policy. There must
 * be a known holder. */
int64_t hw__ledger_patience(struct hw__ledger *ledger, const struct hw__waiter *waiter);

/* How long `next` may be left asleep, by the policy, after `releaser` let the GIL go. */
int64_t hw__ledger_grace(struct hw__ledger *ledger, const struct hw__waiter *next,
                         const struct hw__waiter *releaser);

/* The policy would do nothing but what CPython does by itself. It is asked now and then. */
bool hw__ledger_is_idle(struct hw__ledger *ledger, int64_t now_ns);

/* Somebody else than this thread wants the GIL, or was called, or it has waited itself: then taking
 * it takes a look at the clock. */
bool hw__ledger_is_wanted(const struct hw__ledger *ledger, const struct hw__waiter *waiter);

/* The thread takes the GIL that nobody else wants. */
void hw__ledger_take_alone(struct hw__ledger *ledger, struct hw__waiter *waiter, int32_t core);

/* The thread takes the GIL; NULL: one without a record.
 *
 * Returns whether it has waited less than without us: the holder was asked sooner for it. */
bool hw__ledger_take(struct hw__ledger *ledger, struct hw__waiter *waiter, int64_t now_ns,
                     int32_t core);

/* The thread lets go of the GIL in the phase ALONE, in which nobody has come who wants it.
 *
 * Returns false, with nothing done, where that is not so. */
bool hw__ledger_drop_alone(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* The thread that the ledger does not know is this one: as if it had taken the GIL when another
 * thread first wanted it. NULL: it has no record. */
void hw__ledger_meet(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* The GIL is let go; `waiter`: who calls, NULL: one without a record. Returns the holder where it
 * is that one; else NULL, and of whose hold that was nothing is known. What was asked of the holder
 * stays to be read until hw__ledger_dropped(). */
struct hw__waiter *hw__ledger_drop(struct hw__ledger *ledger, struct hw__waiter *waiter,
                                   int64_t now_ns);
void hw__ledger_dropped(struct hw__ledger *ledger);

/* Who has the GIL is not known from now on, and nobody is expected. Nobody may be queued. */
void hw__ledger_rest(struct hw__ledger *ledger);

/* Of a GIL that rested: CPython has found that its holder had it for a switch interval. */
void hw__ledger_rouse(struct hw__ledger *ledger, int64_t now_ns);

/* The parts of the state agree with each other; aborts where they do not. Nothing in release
 * builds. */
void hw__ledger_check(const struct hw__ledger *ledger);

#endif
