// SPDX-License-Identifier: MIT
/* Where a task runs, and which signals reach it. A task applies these functions to itself, never to
 * the caller. */
#ifndef HEADWAY_LIMITS_PLACE_H
#define HEADWAY_LIMITS_PLACE_H

#include <stdbool.h>

/* Instead of a CPU number: the thread keeps the affinity that it inherited. Each public header
 * names this value once more for its experiment. */
#define HW__UNPINNED (-1)

/* Tells whether `cpu` is HW__UNPINNED or a number that fits a cpu_set_t. It need not be a CPU of
 * this machine. This function can't fail. */
bool hw__cpu_in_range(int cpu);

/* Pins the calling thread to `cpu`, or does nothing for HW__UNPINNED. Async-signal-safe.
 *
 * Returns 0, or a negative errno: -EINVAL if the process may not use that CPU. */
int hw__pin_self(int cpu);

/* Blocks every signal in the calling thread, for the rest of the thread's life. The handlers belong
 * to the host (in CPython they wake its main thread) and should run on the host's threads. In
 * addition, a blocked SIGPIPE makes a write to a broken pipe fail with EPIPE, without a change of
 * the process-wide disposition. Async-signal-safe.
 *
 * This function can't fail. */
void hw__block_signals(void);

#endif
