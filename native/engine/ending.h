// SPDX-License-Identifier: MIT
/* How a policy ends from within a hook, in the middle of a wait: nobody asked for that in time. */
#ifndef HEADWAY_ENGINE_ENDING_H
#define HEADWAY_ENGINE_ENDING_H

#include "engine/sched.h"
#include "schedule/decide.h"

/* The GIL's mutex is held, and is for a moment let go where the policy ends. Both return whether it
 * has ended at this GIL. */

/* Ends the policy where whoever put it on from outside is gone. */
bool hw__ending_abandoned(struct hw__gil *gil, pthread_mutex_t *mutex, int64_t now_ns);

/* Ends the policy where the watchdog finds a fault in it, and says so. `runner` has slept and was
 * not called. */
bool hw__ending_removed(struct hw__gil *gil, pthread_mutex_t *mutex, struct hw__runner *runner,
                        const struct hw__moment *moment);

#endif
