// SPDX-License-Identifier: MIT
/* The ledger: the state of one GIL under a policy. The ledger knows the holder and since when it
 * holds, the waiters and their order, the GIL time that each thread has used, and the request that
 * was made. It has no clock: most calls pass the time, the others use the last time that was passed
 * or none. It has no lock, no system call and no global variable. The engine keeps one ledger for
 * each real GIL and calls it with the GIL's mutex held; the simulator keeps one for each simulated
 * GIL.
 *
 * Only the ledger calls the policy. The decisions that follow from the state are in decide.h.
 *
 * Two words, used here and in decide.h:
 * - A waiter is *called* when it is chosen to acquire the GIL next: it leaves the queue, and the
 *   caller of hw__decide_hand_over() wakes it. (A waiter may also be woken without being called:
 *   hw__decide_look_sooner(), and the end of a policy.)
 * - The GIL is *in grace* when it is free and nobody was called, because the thread that released
 *   it is expected back within microseconds. */
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
    int64_t watchdog_ns; /* the wait after which the watchdog may remove a policy; 0: never */
    bool yields;         /* CPU-bound threads yield their core to the threads that need it */
};

/* The state of the GIL, as far as the ledger knows. */
enum hw__phase {
    /* Free. A waiter was called, or there was none. */
    HW__PHASE_FREE,
    /* Free, and nobody was called: the last holder is expected back. */
    HW__PHASE_GRACE,
    /* Held by `holder`, which acquired it when no other thread wanted it. The policy was not told,
     * and the clock was not read. */
    HW__PHASE_ALONE,
    /* Held by `holder`. */
    HW__PHASE_HELD,
    /* The holder is not known: a thread without a record, or one that acquired the GIL while it
     * rested or before the policy began. After a rest or the begin of a policy the GIL may also be
     * free. */
    HW__PHASE_STRANGE,
    HW__PHASES
};

/* The length of the spans in struct hw__crowd, as a power of two: 2^29 ns, about half a second. */
#define HW__CROWD_SHIFT 29
#define HW__CROWD_SPANS 64

/* The largest number of waiters at one time, for each of the last 64 spans of 2^29 ns (34 s). */
struct hw__crowd {
    int64_t span;                   /* number of the newest span: `now_ns >> HW__CROWD_SHIFT` */
    uint32_t most[HW__CROWD_SPANS]; /* indexed by the span's number modulo HW__CROWD_SPANS */
};

/* The request to the holder. */
struct hw__request {
    bool made;        /* the holder has been requested to release the GIL */
    int64_t at_ns;    /* when the request was last made */
    int64_t again_ns; /* the time from `at_ns` until the request is repeated */
    /* When the request was due by the first answer about this hold, which is the policy's if the
     * holder is known. The watchdog compares it with the time. HW_NEVER: never; 0: no answer yet.
     */
    int64_t by_ns;
    /* When a waiter that had slept first found that the request was late; 0: none has. The time
     * before that is no fault of the policy: the waiters may have had no core. */
    int64_t late_ns;
    /* The waiter for which the request was made sooner than CPython would have made it; NULL: none.
     */
    struct hw__waiter *early;
};

struct hw__ledger {
    const struct hw_policy *policy; /* NULL: none, and the other fields mean nothing */
    struct hw__settings settings;
    struct hw__waiters lanes[HW_POLICY_LANES]; /* the queue: one heap of waiters for each lane */
    struct hw_policy_gil view; /* the part that the policy sees; view.now_ns never goes back */
    enum hw__phase phase;
    struct hw__waiter *holder; /* the holder in HELD and ALONE; else NULL */
    /* The thread that held the GIL last, or holds it, as far as the ledger was told; NULL: not
     * known. Compared only: that thread may be gone. */
    const struct hw__waiter *last;
    /* When the GIL was last acquired by another thread than `last`, while a thread wanted it. */
    int64_t switched_ns;
    /* In STRANGE: a time at which this holder already held the GIL, mostly when a waiter first
     * found the GIL held; 0: not known. */
    int64_t stranger_ns;
    /* The waiter called last, until it acquires the GIL, waits for it again or leaves; else NULL.
     */
    struct hw__waiter *called;
    /* The waiter of each lane that was called last, until it has come, else NULL; and when it was
     * called. After HW__CALLED_NS it counts as waiting again: a thread that gets no core would
     * otherwise not count, while those that have one take the GIL from each other. */
    struct hw__waiter *coming[HW_POLICY_LANES];
    int64_t coming_ns[HW_POLICY_LANES];
    int64_t called_ns; /* when a waiter was last called */
    bool passed_over;  /* another thread has acquired the GIL since `called` was called */
    struct hw__request request;
    int64_t free_ns;             /* since when the GIL is free; 0: not known */
    int64_t budget_ns;           /* how much longer the GIL may stay free in grace */
    int64_t budget_at_ns;        /* when `budget_ns` was last increased */
    uint64_t releases, arrivals; /* releases and begun waits since the policy began */
    int64_t stuck_ns;            /* the sum of holds over 100 ms, for which no policy is to blame */
    int64_t went_on_ns; /* when the process last ran again after it was stopped; 0: never */
    int64_t idle_at_ns; /* the earliest time at which the policy is asked again if it is idle */
    int alone;          /* acquires in a row while no other thread wanted the GIL */
    /* How many times a waiter woke by itself to a free GIL, with nobody called, since another
     * thread last woke a waiter. */
    int missed;
    struct hw_schedule_counts counts;
    struct hw__crowd crowd;
};

/* The time between two questions to a policy whether it is idle. */
#define HW__IDLE_EVERY_NS 100000000

/* The time that a called waiter has to look at the GIL. After it another waiter is called. */
#define HW__CALLED_NS 1000000

/* The time until a request is made for the second time; the interval then doubles up to a limit
 * (decide.c). A request may be lost (up to 3.12 the interpreter may clear its flag without
 * serving it), or it may not be served for long (C code that holds the GIL). */
#define HW__ASK_AGAIN_NS 100000

/* Resets the ledger for `policy`. `options` has HW_POLICY_MAX_OPTIONS values; `interval_ns` is the
 * switch interval. The lanes keep their memory. No thread may be queued. */
void hw__ledger_begin(struct hw__ledger *ledger, const struct hw_policy *policy,
                      const int64_t *options, const struct hw__settings *settings, int64_t clock_ns,
                      int64_t interval_ns);

/* Ends the policy. No thread may be queued. */
void hw__ledger_end(struct hw__ledger *ledger);

/* Advances the ledger's time to `clock_ns`, unless that clock went back. Returns the ledger's time,
 * which never goes back. */
int64_t hw__ledger_time(struct hw__ledger *ledger, int64_t clock_ns);

/* Forgets everything about the thread at this GIL. It must not be queued. */
void hw__ledger_forget(struct hw__waiter *waiter);

/* Forgets the thread's last hold, release and wait, and keeps its habits. For a thread at a GIL
 * that has rested: its last release was long ago, and its holds since then are not known. */
void hw__ledger_forget_last(struct hw__waiter *waiter);

/* Removes a thread that ends, or that goes to another GIL. */
void hw__ledger_leave(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* Returns the number of threads in the queue. */
uint32_t hw__ledger_waiting(const struct hw__ledger *ledger);

/* Returns the thread in the queue that goes next, or NULL if the queue is empty. */
struct hw__waiter *hw__ledger_next(struct hw__ledger *ledger);

/* Puts a thread into its lane of the queue. It must not be queued. */
void hw__ledger_enqueue(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* Takes a thread out of the queue. Does nothing if it is not queued. */
void hw__ledger_dequeue(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* Begins a wait of the thread: the policy gives the thread its key and its lane. Does not put it
 * into the queue. */
void hw__ledger_want(struct hw__ledger *ledger, struct hw__waiter *waiter, int64_t now_ns);

/* Counts the wait of a thread, as far as it has lasted, among the longest ones: the policy ends. */
void hw__ledger_cut_short(struct hw__ledger *ledger, const struct hw__waiter *waiter);

/* Records that a waiter in the queue is called: it leaves the queue. */
void hw__ledger_call(struct hw__ledger *ledger, struct hw__waiter *waiter, int64_t now_ns);

/* Records that a called thread has arrived: it acquires the GIL, waits for it again, or leaves. */
void hw__ledger_has_come(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* Records that a waiter found the GIL held. A holder in ALONE becomes known to the policy, with a
 * hold that begins now. If the holder is not known, the phase becomes STRANGE, and the holder's
 * time counts from the first such call. */
void hw__ledger_notice(struct hw__ledger *ledger, int64_t now_ns);

/* Returns in how many nanoseconds, from the ledger's time on, the policy wants the request for this
 * waiter to be made. The ledger must have a holder. Updates HW_THREAD_WOKEN of the waiter. */
int64_t hw__ledger_patience(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* Tells whether the policy has the flag HW_POLICY_PLAIN: the engine then leaves out what CPython
 * does not do. Not every decision looks at it (docs/internals/scheduler.md, "Plain policies"). */
bool hw__ledger_is_plain(const struct hw__ledger *ledger);

/* Tells whether the policy can give grace at all: it has the function, and is not plain. */
bool hw__ledger_may_give_grace(const struct hw__ledger *ledger);

/* Returns for how many nanoseconds the policy lets `next` sleep on after `releaser` has released
 * the GIL; 0 if the policy gives no grace. */
int64_t hw__ledger_grace(struct hw__ledger *ledger, const struct hw__waiter *next,
                         const struct hw__waiter *releaser);

/* Tells whether the policy would do only what CPython does by itself. Asks the policy at most every
 * HW__IDLE_EVERY_NS, and returns false in between. */
bool hw__ledger_is_idle(struct hw__ledger *ledger, int64_t now_ns);

/* Tells whether the acquire must be reported with its time (hw__ledger_take()): another thread
 * wants the GIL or was called, this thread has waited, or it has no record (`waiter` is NULL). */
bool hw__ledger_is_wanted(const struct hw__ledger *ledger, const struct hw__waiter *waiter);

/* Tells whether the thread's burst goes on: it was preempted, and has not released the GIL by
 * itself since. */
static inline bool hw__waiter_goes_on(const struct hw__waiter *waiter) {
    return waiter->seen.run_ns > 0;
}

/* Records that the thread has acquired a GIL that no other thread wants. now_ns counts only if the
 * thread's burst goes on, and may be 0 else: the clock need not be read. */
void hw__ledger_take_alone(struct hw__ledger *ledger, struct hw__waiter *waiter, int32_t core,
                           int64_t now_ns);

/* Records that the thread has acquired the GIL; NULL: a thread without a record.
 *
 * Returns true if its wait was shorter than under CPython, since the request was made sooner for
 * it. */
bool hw__ledger_take(struct hw__ledger *ledger, struct hw__waiter *waiter, int64_t now_ns,
                     int32_t core);

/* Records a release in phase ALONE, in which no other thread has come for the GIL. now_ns: as for
 * hw__ledger_take_alone().
 *
 * Returns false, and changes nothing, if the phase is another one or the thread is not the holder.
 */
bool hw__ledger_drop_alone(struct hw__ledger *ledger, struct hw__waiter *waiter, int64_t now_ns);

/* Identifies the unknown holder as `waiter`. Its hold counts from the moment at which a waiter
 * first met it (`stranger_ns`, which must be set). NULL: the holder has no record. */
void hw__ledger_meet(struct hw__ledger *ledger, struct hw__waiter *waiter);

/* Records a release by `waiter`; NULL: a thread without a record. `request` stays
 * readable until the caller calls hw__ledger_dropped().
 *
 * Returns `waiter` if it is the known holder. Returns NULL if it is not: nothing is known of the
 * hold that ends. */
struct hw__waiter *hw__ledger_drop(struct hw__ledger *ledger, struct hw__waiter *waiter,
                                   int64_t now_ns);

/* Completes hw__ledger_drop(): the GIL is free, and the request is over. */
void hw__ledger_dropped(struct hw__ledger *ledger);

/* Forgets the holder, the called waiter and the request: from now on the GIL rests, or no policy
 * has it. No thread may be queued. */
void hw__ledger_rest(struct hw__ledger *ledger);

/* Ends the rest of a GIL whose policy was idle: one thread has held it for a switch interval, and
 * CPython is about to make a request. Records an unknown holder since one switch interval ago, and
 * the request. */
void hw__ledger_rouse(struct hw__ledger *ledger, int64_t now_ns);

/* Aborts if the parts of the state contradict each other. Does nothing in release builds. */
void hw__ledger_check(const struct hw__ledger *ledger);

static inline int64_t hw__least(int64_t a, int64_t b) { return a < b ? a : b; }

#endif
