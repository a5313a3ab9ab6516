// SPDX-License-Identifier: MIT
/* Waits for the interpreter's locks, in a build without a GIL (gil/recorder.h), as events: a PARK
 * where a wait begins and an UNPARK where it ends.
 *
 * Who wants a PyMutex that is taken spins first: it calls sched_yield() some 40 times, then parks
 * (Python/lock.c). A wait that ends while it spins has no call at its end, so it is kept back in
 * the thread's record, and written when the thread does the next thing that is told, or ends. What
 * a process that is killed loses by it is the last such wait of each thread. */
#ifndef HEADWAY_TRACE_PARKS_H
#define HEADWAY_TRACE_PARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "gil/recorder.h"
#include "trace/thread.h"

/* Yields are one spin where no more is between the end of one and the beginning of the next.
 * Written by tests, while there is no session. */
extern int64_t hw__parks_same_spin_ns;

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
