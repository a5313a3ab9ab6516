// SPDX-License-Identifier: MIT
/* What the engine knows of each GIL while a policy is on, and how a policy begins and ends. */
#ifndef HEADWAY_ENGINE_SCHED_H
#define HEADWAY_ENGINE_SCHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/ticks.h"
#include "engine/runner.h"
#include "gil/gil.h"
#include "headway/schedule.h"
#include "schedule/ledger.h"

/* Of a GIL, at the same index as its record; lives as long as the process. Guarded by the GIL's
 * mutex. */
struct hw__sched {
    struct hw__ledger ledger;
    uint32_t generation; /* of all policies that have been on */
    struct hw__gil_memory *memory;
    struct hw__ticks ticks;
};

struct hw__sched *hw__sched_of(const struct hw__gil *gil);

/* The policy that is on, also for GILs that come to life; NULL: none. Any thread. Setting it does
 * nothing at a GIL before the next thing that happens there. The registry's lock must be held to
 * set it. */
const struct hw_policy *hw__sched_policy(void);
void hw__sched_set_policy(const struct hw_policy *policy, const int64_t *options,
                          const struct hw__settings *settings);

/* The policy that is on, if any, begins at this GIL, or ends; its mutex must be held. To begin, the
 * registry's lock, too: else another one may come between a policy, its options and its generation.
 * It does not begin where there is no memory for the queue. */
void hw__sched_adopt(struct hw__gil *gil);
void hw__sched_end(struct hw__gil *gil);

/* From a hook: the policy that this GIL has is removed everywhere, if it still is the one that is
 * on, and so is its lease, for that reason (base/lease.h); here it is yet to be ended.
 *
 * Returns whether it was: false also where somebody starts or stops something this very moment. */
bool hw__sched_remove(const struct hw__sched *sched, int64_t why);

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

/* The time, never before the last one. */
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

/* Takes a waiter out of the queue, if it is in it, and has it look. */
void hw__sched_call(struct hw__sched *sched, struct hw__runner *runner);

#endif
