// SPDX-License-Identifier: MIT
/* Stacks: read from the interpreter's frames, and numbered, so that an event carries one number.
 *
 * A thread's frames are read in the thread's own release, with the GIL's mutex held and the GIL
 * free. No thread can take the GIL then, so no frame, code object or string of that interpreter can
 * change or be freed, and plain reads are enough. (A thread that waits for a lock without a GIL
 * reads its own frames: parks.c.) A code object is described in the file when it is first seen,
 * since it is not known how long it lives. A code object at the address of a dead one is told apart
 * by its names, its line table and its first line.
 *
 * Equal stacks get the same number. A stack is a pair: its innermost frame (code object and
 * offset), and the number of the caller's stack. The tables are mapped per GIL, and more of them
 * when they are full. If no more can be mapped, new stacks are recorded as unknown and counted in
 * `lost_stacks`. The same holds for a program that makes code all the time: a GIL's tables have
 * described as many code objects as they have room for, whether or not some have replaced others;
 * or code and stacks have their share of the file (stacks_full in control.h). */
#ifndef HEADWAY_TRACE_STACKS_H
#define HEADWAY_TRACE_STACKS_H

#include "gil/gil.h"
#include "headway/trace.h"
#include "trace/thread.h"

/* Sets the layout for the session; NULL: no stacks. Forgets all numbers. */
void hw__stacks_init(const struct hw_stack_layout *layout);

/* Forgets all numbers: a forked child begins a file of its own. */
void hw__stacks_forget(void);

/* Returns the number of the calling thread's stack, or 0 if it is not known. `thread_state` is the
 * thread's PyThreadState. The GIL's mutex must be held and the GIL free. */
uint32_t hw__stacks_take(struct hw__gil *gil, struct hw__thread *thread, const void *thread_state);

/* hw__stacks_take() in two steps. The first step touches only the calling thread's record, so a
 * thread without a GIL needs the lock that guards the tables only for the second one. */
struct hw__look {
    uint32_t node; /* the stack's number */
    /* Index of the first frame that is not as last time. The outermost frame has index 0. */
    uint32_t from;
};

/* Reads the frames. Returns true if `node` is final: the frames are those of last time, or there
 * are no stacks. Otherwise the caller must call hw__stacks_number(), or hw__stacks_unnumbered() if
 * it cannot. */
bool hw__stacks_look(struct hw__gil *gil, struct hw__thread *thread, const void *thread_state,
                     struct hw__look *look);

/* Numbers the frames that hw__stacks_look() has read. The lock that guards the tables must be
 * held. Returns the number of the stack, or 0 if there is no room. */
uint32_t hw__stacks_number(struct hw__gil *gil, struct hw__thread *thread,
                           const struct hw__look *look);

/* Forgets the frames that hw__stacks_look() has read. */
void hw__stacks_unnumbered(struct hw__thread *thread);

/* Unmaps the tables of a GIL. No other thread may be using them: none may be between
 * hw__gil_enter() and hw__gil_leave() for this GIL, or be recording a park. */
void hw__stacks_drop(struct hw__gil *gil);

/* Begins a meta record of `bytes` (rounded up to 8) in the GIL's meta chunk: zeroed, with its
 * header. The GIL's mutex must be held (for HW__NO_GIL: the lock of parks.c), or the GIL must no
 * longer be recorded (hw__gil_unrecord()). Returns NULL if there is no room; otherwise the caller
 * fills the record in, then commits it. */
void *hw__meta_begin(struct hw__gil *gil, uint32_t type, size_t bytes);

/* Makes the record visible to readers. The same must hold as for hw__meta_begin(). */
void hw__meta_commit(struct hw__gil *gil, void *record);

#endif
