// SPDX-License-Identifier: MIT
/* What the hooks tell: each call becomes an event of the calling thread, and counts in its slot.
 *
 * Those about a GIL are called with its mutex held and after hw__gil_enter(), but for
 * hw__on_new_gil() and hw__on_gil_end(). */
#ifndef HEADWAY_TRACE_EVENTS_H
#define HEADWAY_TRACE_EVENTS_H

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

/* The caller is about to wait for the GIL; further calls before its acquire are the same wait. */
void hw__on_wait(struct hw__gil *gil);

/* The caller's wait for this GIL is told already. Any thread may ask, without hw__gil_enter().
 *
 * With thousands of waiters, each of which wakes every switch interval, all cores do little else;
 * each such call has the GIL's mutex, for which the others queue up. So where there is nothing to
 * tell, a hook looks at this and at the GIL's own record, and at no memory of the recorder's. */
bool hw__waits_already(const struct hw__gil *gil);

/* The caller has waited an interval in vain and asks for a drop. Of a hold the first request is
 * told: the others change nothing for the holder, and thousands of waiters make them every 5 ms. */
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

/* Has the calling thread waited for the GIL's mutex, from `since_ns` until now, to take that GIL or
 * to let it go; 0: it has not. To be told before its next event, without hw__gil_enter(). */
void hw__on_mutex(const struct hw__gil *gil, int64_t since_ns);

/* The calling thread held the GIL already when the session began: an assumed acquire. */
void hw__on_found_holding(struct hw__gil *gil);

#endif
