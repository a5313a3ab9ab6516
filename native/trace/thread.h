// SPDX-License-Identifier: MIT
/* The record that a session keeps of each thread, outside of the session's memory: the chunk that
 * the thread writes to, since when it holds or waits, and its last stack.
 *
 * A thread's first event makes the record. When the thread exits, a destructor of thread-specific
 * data gives the record back; the destructor takes the registry's lock, as no GIL's mutex is held
 * then. If other destructors run later and use Python, they make a new record, and the destructor
 * runs once more.
 *
 * Only its own thread uses a record, with these exceptions:
 * - the atomics, and `tid` and `index`, which do not change while the thread lives;
 * - hw__thread_name() sets `named` and the name in the slot of any live thread;
 * - hw__parks_stop() writes the waits that are kept back, when no thread records one any more;
 * - after the thread's end, another thread may end the record. */
#ifndef HEADWAY_TRACE_THREAD_H
#define HEADWAY_TRACE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gil/recorder.h"
#include "trace/session.h"

#define HW__RECENT 8 /* stacks of a thread that are found without a look-up in the table */

/* One frame of the last stack that was read. */
struct hw__frame {
    uintptr_t frame; /* the address of the interpreter's frame */
    uintptr_t code;  /* the address of its code object */
    int32_t offset;
    uint32_t node;       /* number of the stack whose innermost frame this is */
    uint32_t code_id;    /* number of `code`; 0: not known */
    uint32_t code_print; /* what `code` was recognised by: print_of() in stacks.c */
};

/* The frames of a stack, the outermost ones, that are in the thread's record itself. Most stacks
 * are no deeper, and with hundreds of threads each record is touched: it must be small. */
#define HW__NEAR 16

/* A stack that was looked up a short time ago. */
struct hw__recent {
    uint32_t parent;
    uint32_t code_id; /* 0: none */
    int32_t offset;
    uint32_t node;
};

/* A spin on a lock, which has ended or goes on: see parks.h. */
struct hw__spin {
    /* Its beginning, and its end so far. until_ns 0: no spin is kept back. */
    int64_t since_ns, until_ns;
    uint32_t node;        /* the stack at its beginning */
    bool looked;          /* the lock was looked at during the spin */
    struct hw__park park; /* what the spin waits for */
};

struct hw__thread {
    /* The fields that nearly every event needs come first, in one cache line. */
    _Alignas(64) struct hw__slot *slot;
    struct hw__chunk *chunk; /* the chunk that it writes to; NULL: none yet */
    /* Its last event if that is an ACQUIRE without flags, which may become a HOLD; else NULL. */
    struct hw__event *open;
    uint32_t fill;            /* bytes in `chunk` */
    uint32_t room;            /* bytes that `chunk` may have before make_room(); 0: no chunk */
    int64_t last_ns;          /* when its last event was */
    int64_t held_since_ns;    /* when its present hold began; 0: it does not hold a GIL */
    int64_t waiting_since_ns; /* when its present wait began, for a GIL or a lock; 0: none */
    uint64_t hold_ns;         /* total of its holds that have ended, in this session */
    uint32_t node;            /* its stack when it last released a GIL */
    uint16_t node_gil;        /* the index of the GIL that `node` belongs to */
    uint16_t depth;           /* the number of frames of that stack */
    bool was_forced;          /* another thread had requested its last release */
    bool answered;            /* and it did not just make a call: see events.c */
    /* The name in its slot comes from Python. Another thread may set it; relaxed. */
    atomic_bool named;
    bool asked;     /* the operating system was asked for its name */
    bool stateless; /* its PyThreadState may have been freed: see events.c */

    int64_t cpu_at_release_ns; /* its CPU time when it last released a GIL; 0: not measured */
    int64_t away_measured_ns;  /* when a time between its holds was last measured; 0: never */
    /* The last time that its CPU time was read at an end of a hold: that CPU time, when it was (0:
     * never), and `hold_ns` then. */
    int64_t cpu_last_ns, cpu_last_at_ns;
    uint64_t cpu_last_hold_ns;
    uint64_t worst_hold_ns;
    uint64_t wait_ns; /* total of its waits that have ended, in this session */
    /* The longest hold and wait since `longest_since_ns`, for hw_gil_longest(). */
    uint64_t longest_hold_ns, longest_wait_ns;
    int64_t longest_since_ns; /* when hw_gil_longest() was last called; 0: never */
    int64_t start_ns;
    /* 0: free; 1: being made or examined; 2: in use. One of the first 512 records is claimed by
     * compare-and-swap. A further one has an owner as soon as it is taken from the free records. */
    _Atomic uint32_t used;
    /* The index plus 1 of the next record on the stack of free records, or 0. Relaxed. */
    _Atomic uint32_t next_free;
    /* The next three fields are for a thread that ended while another one forked. */
    _Atomic bool is_left;          /* it is on the stack of such records. Acquire and release */
    _Atomic uint64_t left_session; /* the session in which the thread ended */
    struct hw__thread *next_left;  /* the next record on that stack */
    uint32_t starved;              /* events to drop before it asks for a chunk again */
    uint32_t number;               /* chunks that it has had, and events that were dropped */
    uint32_t serial;
    uint32_t index; /* of the record and of its slot; set when the record is claimed */
    int32_t tid;
    uintptr_t call_lock; /* `lock` and `call_ns` of its last hw__park that has a call */
    int64_t call_ns;
    struct hw__spin spin;
    struct hw__recent recent[HW__RECENT];
    /* Its frames, from the outermost: use hw__frame_at(). */
    struct hw__frame near[HW__NEAR];
    /* The frames beyond `near`, or NULL. They stay when the record gets another owner. */
    struct hw__frame *far;
};

static inline struct hw__frame *hw__frame_at(struct hw__thread *thread, uint32_t i) {
    return i < HW__NEAR ? &thread->near[i] : &thread->far[i - HW__NEAR];
}

/* Makes room for a stack of so many frames. Returns whether there is room. */
bool hw__frames_have(struct hw__thread *thread, uint32_t depth);

/* Returns the calling thread's record, and makes it if there is none.
 *
 * The session must be active and stay so: the caller is between hw__gil_enter() and
 * hw__gil_leave(), or holds the registry's lock, or is recording a park (parks.c). Returns NULL if
 * there are too many threads, or if there is no memory for a record. */
struct hw__thread *hw__thread_self(void);

/* Returns the calling thread's record if it has one in the present session, else NULL. */
struct hw__thread *hw__thread_known(void);

/* Drops the records of all threads: a session begins, or a forked child has its first event. */
void hw__threads_forget(void);

/* Ends the records of threads that have ended while another one forked. The registry's lock must be
 * held. */
void hw__threads_end_left(void);

/* Returns the time for an event of the calling thread that is not about a GIL: now, but not before
 * the thread's last event. */
int64_t hw__thread_now(const struct hw__thread *thread);

/* Notes that the calling thread has been waiting since `since_ns`. A thread without events then
 * counts as begun at that time. Returns the time for an event of that moment: not before the
 * session's start, which may be later than `since_ns`, nor before the thread's last event. */
int64_t hw__thread_was_there(struct hw__thread *thread, int64_t since_ns);

/* Writes one event of the calling thread. `now_ns` must not be before the thread's last event. This
 * function can't fail: it counts the events that it drops. */
void hw__thread_emit(struct hw__thread *thread, uint32_t kind, uint32_t gil, uint32_t value,
                     uint32_t flags, int64_t now_ns);

/* Writes the end of a hold of the calling thread: makes the ACQUIRE a HOLD where that fits, else
 * writes a RELEASE. */
void hw__thread_emit_release(struct hw__thread *thread, uint32_t gil, uint32_t value,
                             uint32_t flags, uint64_t hold_ns, int64_t now_ns);

/* Calls the function with the record of each live thread. No thread may be in a hook. */
void hw__threads_each(void (*function)(struct hw__thread *));

/* Makes the key for the destructor, and the first records; once per process. Returns 0 or a
 * negative errno. */
int hw__threads_init(void);

/* Gives the live thread with that native id a name, in its slot and its further chunks. A thread
 * without a record has it as soon as it gets one (names.h). The registry's lock must be held.
 *
 * Returns whether the name is thereby complete: the thread is the caller itself, and its present
 * chunk has the name, too, or its first event will take it. */
bool hw__thread_name(int32_t tid, const char *name);

/* The same without the registry's lock, but only for a thread that has no record yet. */
void hw__thread_name_later(int32_t tid, const char *name);

/* Returns how long the thread, which must hold a GIL, has held it since hw_gil_longest() was last
 * called. */
static inline uint64_t hw__held_since_asked(const struct hw__thread *thread, int64_t now_ns) {
    int64_t since_ns = thread->held_since_ns > thread->longest_since_ns ? thread->held_since_ns
                                                                        : thread->longest_since_ns;
    return now_ns > since_ns ? (uint64_t)(now_ns - since_ns) : 0;
}

#endif
