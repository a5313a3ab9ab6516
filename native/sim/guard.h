// SPDX-License-Identifier: MIT
/* Ends the process, with an error on stderr, if a policy of the user's crashes in a simulation or
 * does not return. A simulated run has no watchdog thread: the policy runs in the thread that waits
 * for the result, and Ctrl-C takes effect between two calls of hw_sim_run(). */
#ifndef HEADWAY_SIM_GUARD_H
#define HEADWAY_SIM_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Signals that a crash raises, and the one of the timer. */
#define HW__GUARD_SIGNALS 6

/* Zero it before hw__guard_begin(). Only the thread that simulates uses it, in its signal handlers,
 * too. */
struct hw__guard {
    const char *policies; /* their names */
    const int64_t *steps; /* counts the steps of the simulation */
    int64_t last_steps;   /* as the timer last saw it */
    int since_s;          /* for how many seconds of CPU time there has been no step */
    bool has_timer;
    timer_t timer;
    void *stack; /* of the handlers: the policy may have used up its own */
    stack_t before_stack;
    struct sigaction before[HW__GUARD_SIGNALS];
};

/* Begins to guard the calling thread. Without memory or a timer there is less of a guard. */
void hw__guard_begin(struct hw__guard *guard, const char *policies, const int64_t *steps);

/* Restores the thread's handlers. */
void hw__guard_end(struct hw__guard *guard);

#endif
