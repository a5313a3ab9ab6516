// SPDX-License-Identifier: MIT
/* The engine's state of each GIL while a policy is on, and the begin and end of a policy.
 *
 * Locks: the registry's lock (gil/gil.h) comes before every GIL's mutex, and the mutexes of
 * sub-interpreters' GILs come before that of the main one. */
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

/* The scheduler's state of one GIL, at the same index as the GIL's record. The state lives as long
 * as the process. The GIL's mutex protects it. */
struct hw__sched {
    struct hw__ledger ledger;
    uint32_t generation; /* value of `generation` in sched.c when the policy began at this GIL */
    struct hw__gil_memory *memory; /* the GIL in the interpreter's memory */
    struct hw__ticks ticks;        /* the clock of this GIL */
};

/* Returns the scheduler's state of a GIL. */
struct hw__sched *hw__sched_of(const struct hw__gil *gil);

/* Returns the policy that is on, which is also that of GILs to come; NULL: none. Any thread may
 * call it. */
const struct hw_policy *hw__sched_policy(void);

/* Returns a number that changes whenever a policy is set. Any thread may call it. */
uint32_t hw__sched_generation(void);

/* Sets the policy that is on; NULL: none. Each GIL takes notice at its next hook. The caller must
 * hold the registry's lock. */
void hw__sched_set_policy(const struct hw_policy *policy, const int64_t *options,
                          const struct hw__settings *settings);

/* Begins the policy that is on, if any, at this GIL. The policy does not begin if there is no
 * memory for the queue. The caller must hold the GIL's mutex and the registry's lock: without the
 * lock, another policy could begin between the reads of the policy, its options and its generation.
 */
void hw__sched_adopt(struct hw__gil *gil);

/* Ends the policy at this GIL, and wakes all waiters. The caller must hold the GIL's mutex, unless
 * the GIL's memory is about to end or may be gone. */
void hw__sched_end(struct hw__gil *gil);

/* Removes the policy of this GIL everywhere, from within a hook, if it still is the policy that is
 * on. Also ends its lease with the reason `why` (base/lease.h). The caller must then end the policy
 * at this GIL.
 *
 * Returns whether the policy was removed: false also if another thread is starting or stopping a
 * policy or a trace at this moment. */
bool hw__sched_remove(const struct hw__sched *sched, int64_t why);

/* Records the calling thread as the holder of a GIL that it acquired before the policy began. The
 * caller must hold the GIL and its mutex. */
void hw__sched_found_holding(struct hw__sched *sched);

/* Takes a thread out of the queue of the main GIL. The thread ends, or goes to another GIL, whose
 * mutex it may hold. */
void hw__sched_leave(struct hw__runner *runner);

/* The handlers of fork(). The registry's lock is acquired before fork() and released in the parent
 * and in the child; the child also resets the state of its GILs. */
void hw__sched_before_fork(void);
void hw__sched_after_fork_in_parent(void);
void hw__sched_after_fork_in_child(void);

/* The functions below are for the engine. The caller must hold the GIL's mutex. */

/* Tells whether a policy is still on at this GIL. A thread that removes a policy ends it at the one
 * GIL whose mutex it holds; at every other GIL the policy ends in this function. */
bool hw__sched_is_on(struct hw__gil *gil, struct hw__sched *sched);

/* Returns the time of the GIL's ledger, which never goes back. */
int64_t hw__sched_time(struct hw__sched *sched);

/* Passes the interpreter's switch interval to the policy. */
void hw__sched_read_interval(struct hw__sched *sched);

/* Returns the calling thread's record, made ready for this GIL and policy and with the thread's
 * latest hint; NULL: there is no room. */
struct hw__runner *hw__sched_runner(struct hw__sched *sched);

/* Applies the calling thread's latest hint (hw_schedule_hint()). */
void hw__sched_heed(struct hw__runner *runner);

/* Lets the main GIL rest (gil/hooks.h) until a thread has to wait for it, because for a while no
 * thread has wanted it beside its holder. The ledger does not know what happens until then. */
void hw__sched_rest(struct hw__gil *gil, struct hw__sched *sched);

/* Lets the main GIL rest although threads wait for it, because the policy is idle. The rest ends
 * when a thread has held the GIL for a switch interval while another one waited. */
void hw__sched_stand_by(struct hw__gil *gil, struct hw__sched *sched);

/* A thread has declared itself urgent (hw_schedule_hint()); from then on no policy is idle. Never
 * reset. */
extern atomic_bool hw__sched_any_urgent;

/* The waits for the GILs of other interpreters that an early request shortened, since the policy
 * began at the main GIL. Their ledgers may be gone before the counts are read. */
extern _Atomic int64_t hw__sched_early_elsewhere;

/* Takes a waiter out of the queue, if it is there, and wakes it. The ledger has not called this
 * waiter (ledger.h): its stage becomes WANTS, and no other waiter leaves the GIL to it. */
void hw__sched_call(struct hw__sched *sched, struct hw__runner *runner);

#endif
