// SPDX-License-Identifier: MIT
/* What the hooks tell (gil/recorder.h): each call becomes an event of the calling thread, and
 * counts in its slot. Here is what the rest of the recorder has to do with that. */
#ifndef HEADWAY_TRACE_EVENTS_H
#define HEADWAY_TRACE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "gil/gil.h"

/* The interpreter ends: the state of a thread may be freed memory, or soon be. Any thread. */
bool hw__is_finalizing(void);

/* A forked child's first event: its own file, and nothing of the parent's threads and stacks.
 * Returns whether there is one. */
bool hw__adopt(void);

/* Whoever had this process recorded is gone. `gil` goes back to what it was, others at their next
 * event, parks at once; what else there is to undo waits for hw_trace_stop(). */
void hw__abandon(struct hw__gil *gil, int64_t now_ns);

/* Tells where the interpreter has Py_IsFinalizing() (before 3.13 _Py_IsFinalizing()), or NULL: then
 * there are no stacks. Before any other. */
void hw__events_init(void *is_finalizing);

/* The calling thread held the GIL already when the session began: an assumed acquire. */
void hw__on_found_holding(struct hw__gil *gil);

#endif
