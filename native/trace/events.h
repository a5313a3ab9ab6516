// SPDX-License-Identifier: MIT
/* What the hooks tell: each call becomes an event of the calling thread, and counts in its slot.
 *
 * All but hw__on_gil_end() are called with the GIL's mutex held, and with `recorded` seen true. */
#ifndef HEADWAY_TRACE_EVENTS_H
#define HEADWAY_TRACE_EVENTS_H

#include "gil/gil.h"

/* The caller is about to wait for the GIL; further calls before its acquire are the same wait. */
void hw__on_wait(struct hw__gil *gil);

/* The caller has waited an interval in vain and asks for a drop. */
void hw__on_request(struct hw__gil *gil);

/* The caller has the GIL. */
void hw__on_acquire(struct hw__gil *gil);

/* The caller has let the GIL go; nobody can have taken it yet. */
void hw__on_release(struct hw__gil *gil);

/* The caller has just taken a GIL that has no record. Returns its new record, recorded when there
 * is a session, or NULL when there are too many. */
struct hw__gil *hw__on_new_gil(struct hw__gil_memory *memory);

/* The GIL is being destroyed; its mutex is not held. */
void hw__on_gil_end(struct hw__gil *gil, struct hw__gil_memory *memory);

/* The calling thread held the GIL already when the session began: an assumed acquire. */
void hw__on_found_holding(struct hw__gil *gil);

#endif
