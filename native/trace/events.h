// SPDX-License-Identifier: MIT
/* Events about GILs: the functions of gil/recorder.h, which the hooks call, turn each call into an
 * event of the calling thread, and count it in the thread's slot. Declared here is what the rest of
 * the recorder needs of that. */
#ifndef HEADWAY_TRACE_EVENTS_H
#define HEADWAY_TRACE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "gil/gil.h"

/* Returns whether the interpreter is being finalized: the state of a thread may then be freed
 * memory, or soon be. Any thread may call it. */
bool hw__is_finalizing(void);

/* Prepares a forked child at its first event: makes the child's own memory, and drops the threads
 * and stacks of the parent. Returns whether the child has a memory. */
bool hw__adopt(void);

/* Ends the recording because the process that wanted it is gone. `gil` (NULL: none) stops being
 * recorded at once, other GILs at their next event, and parks at once. The memory goes back to the
 * system. hw_trace_stop() undoes the rest. */
void hw__abandon(struct hw__gil *gil, int64_t now_ns);

/* Sets the interpreter's Py_IsFinalizing() (before 3.13 _Py_IsFinalizing()); NULL: there is none,
 * and so there are no stacks. Must be called before any other function here. */
void hw__events_init(void *is_finalizing);

/* Sets PyThreadState_GetInterpreter(), and the main interpreter: a thread of another interpreter
 * that releases the main GIL is told in the header's flags. NULL: nothing is told. Must be called
 * while nothing is recorded. */
void hw__events_tell_interpreters(void *interpreter_of, const void *main_interpreter);

/* Sets whether each thread that is preempted is seen to look for the hand-off. Must be called while
 * nothing is recorded. */
void hw__events_tell_hand_offs(bool seen);

/* Records an assumed acquire: the calling thread already held the GIL when the session began. The
 * GIL's mutex must be held, between hw__gil_enter() and hw__gil_leave(). */
void hw__on_found_holding(struct hw__gil *gil);

#endif
