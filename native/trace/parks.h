// SPDX-License-Identifier: MIT
/* Waits for the interpreter's locks, in a build without a GIL, as events: a PARK where a wait
 * begins and an UNPARK where it ends.
 *
 * Who wants a PyMutex that is taken spins first: it calls sched_yield() some 40 times, then parks
 * (Python/lock.c). A wait that ends while it spins has no call at its end, so it is kept back in
 * the thread's record, and written when the thread does the next thing that is told, or ends. What
 * a process that is killed loses by it is the last such wait of each thread. */
#ifndef HEADWAY_TRACE_PARKS_H
#define HEADWAY_TRACE_PARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "gil/parking.h"
#include "trace/thread.h"

/* Whether the calling thread's park is to be told, and so looked at: there is a session that wants
 * it. In a forked child it makes the child's own, before anything else is called there. */
bool hw__parks_wanted(void);

/* The caller has wanted a lock since `since_ns`, and is about to block on it, without a GIL;
 * hw__parks_wanted() has just been true. A spin on that lock that has just ended is part of the
 * wait. Returns whether it is told; then hw__on_unpark() follows when the caller goes on. */
bool hw__on_park(const struct hw__park *park, int64_t since_ns);
void hw__on_unpark(const struct hw__park *park);

/* The caller has yielded once, beginning at `from_ns`, to get a lock; 0: it is not known which one.
 * Returns whether that says it all, as it goes on with what it did before, or nobody wants to know.
 * Else hw__on_spin() is to follow. */
bool hw__spin_goes_on(uintptr_t lock, int64_t from_ns);

/* Since when the calling thread has been in a spin for that lock of which it is not known what it
 * is; 0: it is in none. It may then be told. */
int64_t hw__spin_unknown_since(uintptr_t lock);
void hw__spin_is(const struct hw__park *park);

/* Yields are one spin where no more is between the end of one and the beginning of the next.
 * Written by tests, while there is no session. */
extern int64_t hw__parks_same_spin_ns;

void hw__on_spin(const struct hw__park *park, int64_t from_ns);

/* Writes what is kept back. By the thread itself, or when it is in no hook; the session lasts. The
 * second is for the calling thread, where a session may end meanwhile. */
void hw__parks_flush(struct hw__thread *thread);
void hw__parks_flush_own(void);

/* Lets no further park be told: nobody wants any more. */
void hw__parks_close(void);

/* The same, and waits for those that are being told. Then back again. */
void hw__parks_stop(void);
void hw__parks_begin(void);

/* Begins a file anew: no stack and no type is known. */
void hw__parks_forget(void);

/* In a forked child: nobody is telling anything. */
void hw__parks_reset_in_child(void);

/* Writes a thread's name to the file. The registry's lock must be held. */
void hw__write_name(int32_t tid, const char *name);

#endif
