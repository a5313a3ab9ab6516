// SPDX-License-Identifier: MIT
/* The end of a policy from within a hook, in the middle of a wait.
 *
 * For both functions the caller must hold the GIL's mutex. If the policy ends, the mutex is
 * released for a moment. Both return whether the policy has ended at this GIL. */
#ifndef HEADWAY_ENGINE_ENDING_H
#define HEADWAY_ENGINE_ENDING_H

#include "engine/sched.h"
#include "schedule/decide.h"

/* Ends the policy if the process that started it from outside is gone: its lease is over. */
bool hw__ending_abandoned(struct hw__gil *gil, pthread_mutex_t *mutex, int64_t now_ns);

/* Ends the policy if the watchdog finds a fault in it, and writes a line about it. `runner` must be
 * a thread that has slept and was not called. */
bool hw__ending_removed(struct hw__gil *gil, pthread_mutex_t *mutex, struct hw__runner *runner,
                        const struct hw__moment *moment);

#endif
