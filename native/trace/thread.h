// SPDX-License-Identifier: MIT
/* What a session keeps of each thread, outside its memory: which chunk it writes to, since when it
 * holds or waits, and its last stack.
 *
 * A thread's record is made by its first event and given back when the thread exits (a destructor
 * of thread-specific data; it takes the registry's lock, as no GIL's mutex is held then).
 * Destructors of others that run later and use Python make a new record, and the destructor runs
 * once more.
 *
 * Only its own thread uses a record, but for `used` and `next_free`, and after its end. */
#ifndef HEADWAY_TRACE_THREAD_H
#define HEADWAY_TRACE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gil/recorder.h"
#include "trace/session.h"

#define HW__RECENT 8 /* stacks of a thread that are found without looking in the table */

/* One frame of the last stack that was taken. */
struct hw__frame {
    uintptr_t frame;
    uintptr_t code;
    int32_t offset;
    uint32_t node;    /* of the stack that ends here */
    uint32_t code_id; /* of `code`, 0: not known; and what it was known by (stacks.c) */
    uint32_t code_print;
};

/* So many frames of a stack, the outermost ones, stand in a thread's record itself; most stacks are
 * no deeper, and of hundreds of threads each record is touched. */
#define HW__NEAR 16

/* A stack that was looked up not long ago. */
struct hw__recent {
    uint32_t parent;
    uint32_t code_id; /* 0: none */
    int32_t offset;
    uint32_t node;
};

/* A spin on a lock that has ended, or goes on: see parks.h. */
struct hw__spin {
    int64_t since_ns, until_ns; /* 0: none is kept back */
    uint32_t node;              /* where */
    bool looked;                /* at the lock, while it lasts */
    struct hw__park park;       /* what for */
};

struct hw__thread {
    /* What nearly every event needs stands in the first line of the cache. */
    _Alignas(64) struct hw__slot *slot;
    struct hw__chunk *chunk; /* NULL: none yet */
    struct hw__event *open;  /* its last event, where that is an ACQUIRE; else NULL */
    uint32_t fill;           /* bytes in `chunk` ... */
    uint32_t room;           /* ... and how many there may be before make_room(); 0: no chunk */
    int64_t last_ns;         /* when its last event was */
    int64_t held_since_ns;   /* 0: does not hold */
    int64_t waiting_since_ns;
    uint64_t hold_ns;  /* in holds and waits that ended, in this session */
    uint32_t node;     /* its stack when it last let a GIL go ... */
    uint16_t node_gil; /* ... in the ids of this one */
    uint16_t depth;    /* of its frames */
    bool was_forced;   /* its last release was */
    bool named;        /* its slot's name is Python's ... */
    bool asked;        /* ... or the one that the OS knew when it was asked */
    bool stateless;    /* its PyThreadState may be gone: see events.c */

    int64_t cpu_at_acquire_ns; /* its CPU time when its hold began; 0: not measured */
    int64_t cpu_at_release_ns; /* ... when it last let a GIL go; 0: not measured */
    int64_t away_due_ns;       /* from then on a release is measured again */
    uint64_t worst_hold_ns;
    uint64_t wait_ns;
    uint64_t longest_hold_ns, longest_wait_ns; /* since `longest_since_ns`: hw_gil_longest() */
    int64_t longest_since_ns;
    int64_t start_ns;
    /* 0: free; 1: being made or looked at; 2: in use. Claimed by compare-and-swap. */
    _Atomic uint32_t used;
    _Atomic uint32_t
        next_free; /* index plus 1, while it is on the stack of free records; relaxed */
    /* Of a thread that ended while another one forked: */
    _Atomic bool is_left;          /* it is on the stack of such records. Acquire and release */
    _Atomic uint64_t left_session; /* in which session */
    struct hw__thread *next_left;
    uint32_t starved; /* events to drop before it asks for a chunk again */
    uint32_t serial;
    uint32_t index; /* of the record and of its slot; set by whoever claims it */
    int32_t tid;
    struct hw__spin spin;
    struct hw__recent recent[HW__RECENT];
    /* Its frames, from the outermost: see hw__frame_at(). */
    struct hw__frame near[HW__NEAR];
    struct hw__frame *far; /* the others', or NULL; they stay when the record gets another owner */
};

static inline struct hw__frame *hw__frame_at(struct hw__thread *thread, uint32_t i) {
    return i < HW__NEAR ? &thread->near[i] : &thread->far[i - HW__NEAR];
}

/* There is room for a stack of that depth. */
bool hw__frames_have(struct hw__thread *thread, uint32_t depth);

/* The calling thread's record; makes it.
 *
 * The session must be active and stay so: the caller is between hw__gil_enter() and
 * hw__gil_leave(), or holds the registry's lock, or tells a park. Returns NULL when there are too
 * many threads. */
struct hw__thread *hw__thread_self(void);

/* The calling thread's record if it has one in the present session, else NULL. */
struct hw__thread *hw__thread_known(void);

/* Forgets all threads: a session begins, or a child was forked. */
void hw__threads_forget(void);

/* Ends the records of threads that have ended while another one forked. The registry's lock must be
 * held. */
void hw__threads_end_left(void);

/* The time for an event of the calling thread that is not about a GIL: not before its last one. */
int64_t hw__thread_now(const struct hw__thread *thread);

/* The calling thread has been waiting since then: where it has no event yet, it began no later.
 * Returns the time for an event of that moment: not before the session began, which another thread
 * or a fork may have done meanwhile, and not before the thread's last event. */
int64_t hw__thread_was_there(struct hw__thread *thread, int64_t since_ns);

/* Writes one event of the calling thread, not before its last one. This function can't fail: it
 * counts what it drops. */
void hw__thread_emit(struct hw__thread *thread, uint32_t kind, uint32_t gil, uint32_t value,
                     uint32_t flags, int64_t now_ns);

/* Writes the end of a hold of the calling thread: a RELEASE, or into its ACQUIRE. */
void hw__thread_emit_release(struct hw__thread *thread, uint32_t gil, uint32_t value,
                             uint32_t flags, uint64_t hold_ns, int64_t now_ns);

/* Calls the function with the record of each live thread. No thread may be in a hook. */
void hw__threads_each(void (*function)(struct hw__thread *));

/* Makes the key for the destructor, once. Returns 0 or a negative errno. */
int hw__threads_init(void);

/* Gives the live thread of that native id a name, in its slot and its further chunks. The
 * registry's lock must be held.
 *
 * Returns whether that says it all: it is the caller itself, and its present chunk has the name,
 * too. */
bool hw__thread_name(int32_t tid, const char *name);

/* How long the thread, which holds a GIL, has held it since hw_gil_longest() was last asked. */
static inline uint64_t hw__held_since_asked(const struct hw__thread *thread, int64_t now_ns) {
    int64_t since_ns = thread->held_since_ns > thread->longest_since_ns ? thread->held_since_ns
                                                                        : thread->longest_since_ns;
    return now_ns > since_ns ? (uint64_t)(now_ns - since_ns) : 0;
}

#endif
