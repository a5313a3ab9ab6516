// SPDX-License-Identifier: MIT
/* Where a task runs, and which signals reach it. Applied by the task to itself, never to the
 * caller. */
#ifndef HEADWAY_LIMITS_PLACE_H
#define HEADWAY_LIMITS_PLACE_H

#include <stdbool.h>

/* Instead of a CPU number: leave the affinity as inherited. Public headers name it once per
 * experiment. */
#define HW__UNPINNED (-1)

/* Whether `cpu` is HW__UNPINNED or a number that fits a cpu_set_t. Says nothing about the machine
 * having it.
 *
 * Returns true or false. This function can't fail. */
bool hw__cpu_in_range(int cpu);

/* Pins the calling thread to `cpu`, or does nothing for HW__UNPINNED. Async-signal-safe.
 *
 * Returns 0, or a negative errno: -EINVAL if the process may not use that CPU. */
int hw__pin_self(int cpu);

/* Blocks every signal in the calling thread, for the rest of its life. The handlers belong to the
 * host (in CPython they wake its main thread) and should run on the host's threads; and a blocked
 * SIGPIPE turns a write into a broken pipe into EPIPE without touching the process-wide
 * disposition. Async-signal-safe.
 *
 * This function can't fail. */
void hw__block_signals(void);

#endif
