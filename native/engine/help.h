// SPDX-License-Identifier: MIT
/* Help from the operating system's scheduler for threads under a policy. Each kind is an option,
 * off by default:
 * - os_slice_us: a shorter time slice for threads that hold the GIL briefly, so that they get a
 *   core on wake-up before a CPU-bound thread (Linux 6.12 and later);
 * - os_batch: SCHED_BATCH for CPU-bound threads, so that their wake-ups take no core from others.
 * A thread's nice value stays. */
#ifndef HEADWAY_ENGINE_HELP_H
#define HEADWAY_ENGINE_HELP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/runner.h"

/* Sets the help that threads get from now on: a time slice of `slice_ns` (0: none), and SCHED_BATCH
 * if `batch`. Call it while no policy is on. */
void hw__help_prepare(int64_t slice_ns, bool batch);

/* Fills in the help that the calling thread, whose record is new, has inherited. */
void hw__help_begin(struct hw__runner *runner);

/* Records that the runner waits, and whether it is CPU-bound. The kind changes only after several
 * such records. The caller must hold the GIL's mutex. */
void hw__help_note(struct hw__runner *runner, bool computes);

/* Applies the help that fits the kind of the calling thread, whose record is `runner`. The caller
 * must hold no mutex. */
void hw__help_apply(struct hw__runner *runner);

/* Tells whether the runner's time slice is short, so that its wake-up takes the core from others.
 * Any thread may call it. */
bool hw__help_is_short(struct hw__runner *runner);

/* Takes back the help of all threads. Call it when no policy is on any more. */
void hw__help_end(void);

/* Takes back the help of the calling thread. Call it in a forked child. */
void hw__help_after_fork(void);

#endif
