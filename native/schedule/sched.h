// SPDX-License-Identifier: MIT
/* What the engine knows of each GIL while a policy is on, and how a policy begins and ends. */
#ifndef HEADWAY_SCHEDULE_SCHED_H
#define HEADWAY_SCHEDULE_SCHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/ticks.h"
#include "gil/gil.h"
#include "headway/schedule.h"
#include "schedule/waiters.h"

/* The most that waited at once, in each of the last 64 spans of 2^29 ns: 34 s. */
#define HW__CROWD_SHIFT 29
#define HW__CROWD_SPANS 64

struct hw__crowd {
    int64_t span; /* which one `now_ns >> HW__CROWD_SHIFT` is; the others are those before it */
    uint32_t most[HW__CROWD_SPANS]; /* by span, modulo their number */
};

/* How often a policy is asked whether it is idle, and how soon at first. */
#define HW__IDLE_EVERY_NS 100000000

/* Of a GIL, at the same index as its record; lives as long as the process. Guarded by the GIL's
 * mutex. */
struct hw__sched {
    const struct hw_policy *policy; /* NULL: none */
    uint32_t generation;            /* of all that have been on */
    struct hw__gil_memory *memory;
    struct hw__waiters lanes[HW_POLICY_LANES];
    struct hw_policy_gil view; /* what the policy sees */
    struct hw__runner *holder; /* NULL: nobody, or one without a record, or a stranger: one that got
                                * it before us or while it rested ... */
    int64_t stranger_ns;       /* ... since when we know that there is such a one; 0: we do not */
    struct hw__runner *called; /* was told last that it is its turn, and has not come yet */
    int64_t called_ns;
    bool passed_over; /* another one has taken the GIL since */
    bool asked;       /* the holder has been asked to let go ... */
    int64_t asked_ns; /* ... then, and is to be asked again ... */
    int64_t again_ns; /* ... after so long */
    struct hw__runner
        *asked_early;  /* for it the holder was asked sooner than CPython would; NULL */
    int64_t ask_by_ns; /* when the holder is to be asked, by what the policy said first; HW_NEVER;
                        * 0: it has not been heard yet */
    bool graced;       /* it is free and nobody was called */
    int64_t free_ns;   /* since when it is free */
    int64_t budget_ns;
    int64_t budget_at_ns;
    uint64_t releases, arrivals;
    int64_t stuck_ns;   /* in holds of so long that no policy is to blame, in all */
    int64_t went_on_ns; /* when the process did that was stopped last; 0: never */
    int64_t idle_at_ns; /* when the policy is asked next whether it is idle */
    int alone;          /* times in a row that the GIL was taken while nobody else wanted it */
    int missed;         /* times in a row that a waiter found the GIL free by itself */
    struct hw__ticks ticks;
    struct hw_schedule_counts counts;
    struct hw__crowd crowd;
};

/* The engine's own options; written while no policy is on, though a thread may still be waking from
 * the last one. */
struct hw__sched_options {
    _Atomic int64_t spin_ns;
    _Atomic int64_t watchdog_ns;
    atomic_bool yields;
};
extern struct hw__sched_options hw__sched_options;

struct hw__sched *hw__sched_of(const struct hw__gil *gil);

/* The policy that is on, also for GILs that come to life; NULL: none. Any thread. Setting it does
 * nothing at a GIL before the next thing that happens there. The registry's lock must be held to
 * set it. */
const struct hw_policy *hw__sched_policy(void);
void hw__sched_set_policy(const struct hw_policy *policy, const int64_t *options);

/* The policy that is on, if any, begins at this GIL, or ends; its mutex must be held. To begin, the
 * registry's lock, too: else another one may come between a policy, its options and its generation.
 * It does not begin where there is no memory for the queue. */
void hw__sched_adopt(struct hw__gil *gil);
void hw__sched_end(struct hw__gil *gil);

/* From a hook. Does nothing where somebody starts or stops something; the next acquire tries again.
 */
void hw__sched_try_adopt(struct hw__gil *gil);

/* From a hook: the policy that this GIL has is removed everywhere, if it still is the one that is
 * on, and so is its lease, for that reason (base/lease.h); here it is yet to be ended.
 *
 * Returns whether it was: false also where somebody starts or stops something this very moment. */
bool hw__sched_remove(const struct hw__sched *sched, int64_t why);

/* Its memory is about to end: nobody uses it. */
void hw__sched_forget(struct hw__gil *gil);

/* The thread that calls has the GIL, and had it before the policy began. */
void hw__sched_found_holding(struct hw__sched *sched);

/* A thread ends, or goes to another GIL, whose mutex it may hold: those of sub-interpreters come
 * before that of the main one. */
void hw__sched_leave(struct hw__runner *runner);

/* Around fork(): it takes the registry's lock before, and gives it back in parent and child. */
void hw__sched_before_fork(void);
void hw__sched_after_fork_in_parent(void);
void hw__sched_after_fork_in_child(void);

/* For the engine, with the GIL's mutex held. */

/* There is a policy still. Who removes it does so at the one GIL whose mutex it has; at the others
 * it ends here. */
bool hw__sched_is_on(struct hw__gil *gil, struct hw__sched *sched);

/* The time, never before the last one; also for the policy. */
int64_t hw__sched_time(struct hw__sched *sched);

/* Has the policy know the switch interval. */
void hw__sched_read_interval(struct hw__sched *sched);

/* The calling thread's record, as of this GIL and policy, with what it says of itself; NULL: there
 * is no room. */
struct hw__runner *hw__sched_runner(struct hw__sched *sched);

/* What the calling thread says of itself (hw_schedule_hint()) holds from now on. */
void hw__sched_heed(struct hw__runner *runner);

/* Nobody has had to wait for the main GIL for long: it is left alone (gil/hooks.h) until somebody
 * has to. What happens until then is not known. */
void hw__sched_rest(struct hw__gil *gil, struct hw__sched *sched);

/* The policy is idle, whoever waits: likewise, until a thread has held it for a switch interval. */
void hw__sched_stand_by(struct hw__gil *gil, struct hw__sched *sched);

/* Some thread has said that its latency matters most: then no policy is idle. */
extern atomic_bool hw__sched_any_urgent;

/* How many wait, and who of them goes next; NULL: nobody waits. */
uint32_t hw__sched_waiting(const struct hw__sched *sched);
struct hw__runner *hw__sched_next(struct hw__sched *sched);

/* Puts a waiter into the queue, takes it out if it is in it, takes it out and has it look. */
void hw__sched_enqueue(struct hw__sched *sched, struct hw__runner *runner);
void hw__sched_dequeue(struct hw__sched *sched, struct hw__runner *runner);
void hw__sched_call(struct hw__sched *sched, struct hw__runner *runner);

#endif
