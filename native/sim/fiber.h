// SPDX-License-Identifier: MIT
/* Fibers: each simulated thread has a stack of its own, so that its code can be written in
 * sequence, as for a real thread. One real thread runs all fibers, one at a time. */
#ifndef HEADWAY_SIM_FIBER_H
#define HEADWAY_SIM_FIBER_H

#include <stdbool.h>
#include <stddef.h>

struct hw__fiber {
    void *stack; /* the mapping, with a guard page at its lower end */
    size_t bytes;
    void *here;   /* the stack pointer of the fiber while it does not run */
    void *caller; /* the stack pointer of the code that entered the fiber, while the fiber runs */
    void (*entry)(void *argument);
    void *argument;
    const void *caller_stack;   /* the caller's stack, for AddressSanitizer */
    size_t caller_bytes;        /* the size of the caller's stack, for AddressSanitizer */
    void *track, *caller_track; /* the fiber and its caller, for ThreadSanitizer */
};

/* Makes a fiber that will call entry(argument), which must not return. Returns false if there is no
 * memory for it. */
bool hw__fiber_make(struct hw__fiber *fiber, void (*entry)(void *argument), void *argument);

/* Runs the fiber until it calls hw__fiber_leave(). */
void hw__fiber_enter(struct hw__fiber *fiber);

/* Returns to the code that entered the fiber. Must be called from the fiber. */
void hw__fiber_leave(struct hw__fiber *fiber);

/* Frees the stack of a fiber that does not run. A fiber that was never made (all zero) is
 * allowed. */
void hw__fiber_free(struct hw__fiber *fiber);

#endif
