// SPDX-License-Identifier: MIT
/* Stacks of their own for simulated threads, so that what they do is written as real threads do it:
 * in sequence. One real thread runs all of them, one at a time. */
#ifndef HEADWAY_SIM_FIBER_H
#define HEADWAY_SIM_FIBER_H

#include <stdbool.h>
#include <stddef.h>

struct hw__fiber {
    void *stack; /* the mapping, with a guard page at its lower end */
    size_t bytes;
    void *here;   /* where it goes on, while it does not run */
    void *caller; /* where whoever entered it goes on, while it runs */
    void (*entry)(void *argument);
    void *argument;
    /* For the sanitizers. */
    const void *caller_stack;
    size_t caller_bytes;
    void *track, *caller_track;
};

/* Makes a fiber that will call entry(argument), which must not return. Returns whether there was
 * memory for it. */
bool hw__fiber_make(struct hw__fiber *fiber, void (*entry)(void *argument), void *argument);

/* Runs the fiber until it leaves. */
void hw__fiber_enter(struct hw__fiber *fiber);

/* From within the fiber: goes back to whoever entered it. */
void hw__fiber_leave(struct hw__fiber *fiber);

/* Frees the stack of a fiber that does not run, or that was never made (all zero). */
void hw__fiber_free(struct hw__fiber *fiber);

#endif
