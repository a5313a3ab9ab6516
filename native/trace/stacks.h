// SPDX-License-Identifier: MIT
/* Stacks: read from the interpreter's frames, and numbered so that an event carries one number.
 *
 * When a thread's frames are read: in its own release, with the GIL's mutex held and the GIL free.
 * Nobody can then take the GIL, so no frame, code object or string of that interpreter can change
 * or die; plain reads are enough. Code objects are described in the file when they are first seen,
 * since nobody knows how long they live; one that appears at the address of a dead one is told
 * apart by its names, its line table and its first line.
 *
 * Equal stacks get the same number: a stack is its innermost code object and offset, and the stack
 * that called it. The tables are mapped per GIL, more of them when they are full; where there can
 * be no more, new stacks are recorded as unknown and counted in `lost_stacks`. */
#ifndef HEADWAY_TRACE_STACKS_H
#define HEADWAY_TRACE_STACKS_H

#include "gil/gil.h"
#include "headway/trace.h"
#include "trace/thread.h"

/* Sets the layout for the session, or NULL: no stacks. Forgets all numbers. */
void hw__stacks_init(const struct hw_stack_layout *layout);

/* Forgets all numbers: a forked child begins a file of its own. */
void hw__stacks_forget(void);

/* The number of the calling thread's stack, 0 where it is not known; `thread_state` is its
 * PyThreadState. The GIL's mutex must be held and the GIL free. */
uint32_t hw__stacks_take(struct hw__gil *gil, struct hw__thread *thread, const void *thread_state);

/* The same in two steps, of which the first one touches the calling thread's record alone: who has
 * no GIL takes the lock that guards the tables for the second one only. */
struct hw__look {
    uint32_t node; /* the stack's number */
    uint32_t from; /* which frames are not those of last time; the outermost is 0 */
};

/* Reads the frames. Returns true where they are those of last time, so that `node` says it all;
 * else hw__stacks_number() must follow, or hw__stacks_unnumbered() where that cannot be. */
bool hw__stacks_look(struct hw__gil *gil, struct hw__thread *thread, const void *thread_state,
                     struct hw__look *look);
uint32_t hw__stacks_number(struct hw__gil *gil, struct hw__thread *thread,
                           const struct hw__look *look);
void hw__stacks_unnumbered(struct hw__thread *thread);

/* Gives back the tables of a GIL; its mutex must be held, or nobody else can use it any more. */
void hw__stacks_drop(struct hw__gil *gil);

/* Begins a meta record of `bytes` (rounded up to 8) in the GIL's meta chunk, zeroed, with its
 * header. The GIL's mutex must be held. Returns NULL when there is no room; else write it, then
 * commit. */
void *hw__meta_begin(struct hw__gil *gil, uint32_t type, size_t bytes);
void hw__meta_commit(struct hw__gil *gil, void *record);

#endif
