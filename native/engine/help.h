// SPDX-License-Identifier: MIT
/* What the operating system's scheduler can do for threads under a policy, by option only: a
 * shorter slice for those that hold the GIL for a moment at a time, so that a wake puts them on a
 * core before a thread that computes (Linux 6.12 and later), and SCHED_BATCH for those that
 * compute, so that a wake of theirs takes no core from others. A thread's nice value stays. */
#ifndef HEADWAY_ENGINE_HELP_H
#define HEADWAY_ENGINE_HELP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/runner.h"

/* Has threads helped from now on; 0 and false: not. While no policy is on. */
void hw__help_prepare(int64_t slice_ns, bool batch);

/* The calling thread's record is new: what helps it already, it has inherited. */
void hw__help_begin(struct hw__runner *runner);

/* The runner waits and is of this kind: what it did before decides, not this one time. With the
 * GIL's mutex held. */
void hw__help_note(struct hw__runner *runner, bool computes);

/* The calling thread's runner: does for it what was found. Without any mutex. */
void hw__help_apply(struct hw__runner *runner);

/* Its slice is short: when it wakes it takes the core from others. Any thread. */
bool hw__help_is_short(struct hw__runner *runner);

/* No policy is on any more: leaves no trace at any thread. */
void hw__help_end(void);

/* In a forked child. */
void hw__help_after_fork(void);

#endif
