// SPDX-License-Identifier: MIT
/* What the hooks tell: each call becomes an event of the calling thread, and counts in its slot.
 *
 * Those about a GIL are called with its mutex held and after hw__gil_enter(), but for
 * hw__on_new_gil() and hw__on_gil_end(). */
#ifndef HEADWAY_TRACE_EVENTS_H
#define HEADWAY_TRACE_EVENTS_H

#include "gil/gil.h"
#include "gil/parking.h"

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

/* Whether the calling thread's park is to be told, and so looked at: there is a session that wants
 * it. In a forked child it makes the child's own, before anything else is called there. */
bool hw__parks_wanted(void);

/* The caller is about to block on a lock, without a GIL; hw__parks_wanted() has just been true.
 * Returns whether it is told; then hw__on_unpark() follows when the caller goes on. */
bool hw__on_park(const struct hw__park *park);
void hw__on_unpark(const struct hw__park *park);

/* Lets no further park be told, and waits for those that are being told. Then back again. */
void hw__parks_stop(void);
void hw__parks_begin(void);

/* In a forked child: nobody is telling anything. */
void hw__parks_reset_in_child(void);

/* Writes a thread's name to the file. The registry's lock must be held. */
void hw__write_name(int32_t tid, const char *name);

/* The calling thread held the GIL already when the session began: an assumed acquire. */
void hw__on_found_holding(struct hw__gil *gil);

#endif
