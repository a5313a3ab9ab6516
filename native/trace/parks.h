// SPDX-License-Identifier: MIT
/* Waits for the interpreter's locks, in a build without a GIL (gil/recorder.h), as events: a PARK
 * where a wait begins and an UNPARK where it ends.
 *
 * A thread that wants a PyMutex which is taken spins first: it calls sched_yield() some 40 times,
 * then parks (Python/lock.c). If the wait ends while the thread spins, there is no call at its end.
 * So such a wait is kept back in the thread's record, and is written when the thread does the next
 * thing that is recorded, or ends. A process that is killed loses the last such wait of each
 * thread. */
#ifndef HEADWAY_TRACE_PARKS_H
#define HEADWAY_TRACE_PARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "gil/recorder.h"
#include "trace/thread.h"

/* Where the registers do not tell (gil/spinning.h), two yields belong to one spin if no more than
 * this is between the end of the first and the beginning of the second. Written by tests, while
 * there is no session. */
extern int64_t hw__parks_same_spin_ns;

/* Counts the calling thread as one that uses the session's memory without a GIL's mutex: the
 * session does not end until hw__telling_end(). The thread must not block meanwhile.
 * Async-signal-safe.
 *
 * hw__telling_begin() returns false if there is no session, or if it is about to end; then
 * hw__telling_end() must not be called. */
bool hw__telling_begin(void);
void hw__telling_end(void);

/* Writes the wait that is kept back. Called by the thread itself, or while the thread is in no
 * hook. The session must last. */
void hw__parks_flush(struct hw__thread *thread);

/* hw__parks_flush() for the calling thread, where the session may end meanwhile. */
void hw__parks_flush_own(void);

/* Stops recording parks: from now on no thread begins to record one. */
void hw__parks_close(void);

/* Stops recording parks, and waits for the threads that are recording one. Then writes the waits
 * that are kept back. */
void hw__parks_stop(void);

/* Begins to record parks. */
void hw__parks_begin(void);

/* Forgets all stacks and types: a new file begins. */
void hw__parks_forget(void);

/* Must be called in a forked child, where no thread is recording a park. */
void hw__parks_reset_in_child(void);

/* Writes a thread's name to the file. The registry's lock must be held. */
void hw__write_name(int32_t tid, const char *name);

/* Writes a note to the file: JSON, in UTF-8. One that does not fit in a chunk is left out. The
 * registry's lock must be held. */
void hw__write_note(const char *text);

#endif
