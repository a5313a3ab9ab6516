// SPDX-License-Identifier: MIT
/* The GILs of this process: one record each, found by the address of its condition variable.
 *
 * A GIL gets a record in one of two ways, neither of them by being the first thing seen. The main
 * interpreter's is found by a probe (probe.h). A sub-interpreter's own is found when signal() is
 * called from the very place in the interpreter's code from which the probe saw an acquire; its
 * memory must then look like a GIL that was just taken. All other condition variables that the
 * interpreter's image uses are let pass.
 *
 * In a free-threaded build the main interpreter's GIL can come to life when nobody probes for it
 * any more. There, what looks like a GIL that was just taken and lies within _PyRuntime is it. */
#ifndef HEADWAY_GIL_GIL_H
#define HEADWAY_GIL_GIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ticks.h"
#include "gil/protocol.h"

/* Further ones run as without us. One less than the numbers that an event has for them: the last is
 * HW__NO_GIL of trace/format.h. */
#define HW__MAX_GILS 255
#define HW__MAX_SITES 8

struct hw__stacks;
struct hw__thread;

/* In lines of the cache of its own: a hook finds there all that it needs of a GIL, and after what a
 * system call did in between hardly anything is in the innermost cache any more. */
struct hw__gil {
    /* Which GIL this is; NULL: none. Set last when a record is filled and cleared first when it is
     * emptied (release, acquire), so who finds its cond here may read the rest. */
    _Alignas(64) _Atomic(struct hw__gil_memory *) memory;
    uint32_t index; /* of this record, for life */
    bool main;

    /* The session wants its events. A hook marks itself as `busy`, then looks whether it is
     * `recorded`; hw__gil_unrecord() does it the other way round, so that either sees the other.
     * The hook's side is relaxed, and the other side has the kernel put a barrier on every core
     * that runs a thread of this process (membarrier(2), which a hook could not afford); where
     * the kernel has none, the hook's side is sequentially consistent. Its mutex would not do for
     * that: the memory of a sub-interpreter's GIL may be gone, as CPython up to 3.15 destroys none.
     * See native/model/handshake.pml. */
    _Atomic bool recorded;
    _Atomic bool busy;
    _Atomic bool light; /* the hook's side may be relaxed. Set before each `recorded` */

    /* A policy has it (gil/scheduler.h): written with memory->mutex held, or by who is alone. */
    _Atomic bool scheduled;

    /* How many threads sleep in the C library for it, of those that began to while it was recorded:
     * those that wake after a switch interval, and those that sleep longer. Written with
     * memory->mutex held, or by a fork's child; relaxed, as a hook may have found the record just
     * before it became another GIL's. */
    _Atomic uint32_t punctual, late;

    /* Guarded by memory->mutex, which every hook is called with, and by `busy`. */
    bool announced;         /* its META_GIL is written */
    _Atomic bool requested; /* a waiter has asked the holder to let go. Relaxed */
    /* ... and that is recorded. Relaxed: a hook may read it with the mutex alone. */
    _Atomic bool request_told;
    struct hw__thread *holder; /* whose ACQUIRE we saw; NULL: nobody's */
    struct hw__thread *last;   /* whose RELEASE we saw last; NULL: nobody's */
    bool ending;               /* the interpreter is in its finalization ... */
    struct hw__thread *ender;  /* ... which this thread does; NULL: not known */
    uint32_t interval_us;      /* as last recorded */
    uint32_t quiet_releases;   /* since a thread last waited, while it is recorded */
    int64_t last_ns;           /* when its last event was; 0: there was none */
    struct hw__ticks ticks;    /* what time it is */
    struct hw__stacks *stacks; /* NULL: none for this GIL */
    struct hw__chunk *meta;    /* the meta chunk to write to, or NULL */

    /* Whose record it was last; NULL: nobody's. Written by who fills the record; kept when it is
     * emptied. */
    _Atomic(struct hw__gil_memory *) former;
};

/* Protects: that records come and go while a session starts or ends, and the list of threads. Comes
 * before every GIL's mutex in the order of locks. No hook takes it but that of destroy(), which is
 * called without a GIL's mutex; a thread's end takes it. fork() takes it, so that the child has it
 * free. A thread may take it again while it has it; it is free when it has been given back as
 * often.
 */
void hw__registry_lock(void);
bool hw__registry_trylock(void);
void hw__registry_unlock(void);

/* The same, but where another thread has it for a fork it is not waited for: the handlers of other
 * libraries, which run meanwhile, may wait for this very thread. Returns whether the caller has it.
 */
bool hw__registry_lock_beside_forks(void);

/* Of the handlers of fork(), in the thread that forks. */
void hw__registry_before_fork(void);
void hw__registry_after_fork(bool in_child);

/* All records, used or not. */
extern struct hw__gil hw__gils[HW__MAX_GILS];

/* Up to which index records have ever been used. */
int hw__gil_count(void);

/* Finds the record whose cond (or switch_cond, then *acquire is true) this is.
 *
 * Any thread may call it; async-signal-safe. Returns NULL when there is none. */
struct hw__gil *hw__gil_find(const pthread_cond_t *cond, bool *acquire);

/* Finds the record of the GIL whose mutex this is: the main one's, or that which the calling thread
 * found last. Any thread may call it. Returns NULL for any other mutex. */
struct hw__gil *hw__gil_of_mutex(const pthread_mutex_t *mutex);

/* The calling thread's cond belongs to a GIL that hw__gil_add() had no room for, and there is none
 * yet. */
bool hw__gil_without_room(const pthread_cond_t *cond);

/* Makes a record. `memory->mutex` must be held by the caller, or the GIL itself.
 *
 * Returns NULL when all are in use. */
struct hw__gil *hw__gil_add(struct hw__gil_memory *memory, bool main);

/* The memory is where the main interpreter's GIL was: it comes back there when the interpreter is
 * initialised again. */
bool hw__gil_was_main(const struct hw__gil_memory *memory);

/* A hook that was called with the GIL's mutex held may write events of it, until hw__gil_leave().
 *
 * Returns whether it may. */
bool hw__gil_enter(struct hw__gil *gil);
void hw__gil_leave(struct hw__gil *gil);

/* Nobody has asked the holder to let go: a hold begins, or a session. */
static inline void hw__gil_forget_request(struct hw__gil *gil) {
    atomic_store_explicit(&gil->requested, false, memory_order_relaxed);
    atomic_store_explicit(&gil->request_told, false, memory_order_relaxed);
}

/* A waiter has asked the holder to let go, as far as it is recorded. The GIL's mutex must be held.
 */
static inline bool hw__gil_is_asked(const struct hw__gil *gil) {
    return atomic_load_explicit(&gil->requested, memory_order_relaxed);
}

/* Has the events of a GIL written from now on, as if it had had none. Not while one is being
 * written by another thread. */
void hw__gil_record(struct hw__gil *gil);

/* Has no more events written; when it returns, none is being written. Hooks do not block in
 * between. Must not be called with the GIL's mutex held. */
void hw__gil_unrecord(struct hw__gil *gil);

/* Empties a record. The registry's lock must be held. This function can't fail. */
void hw__gil_remove(struct hw__gil *gil);

/* The memory around a cond looks like a GIL that is locked: the mutex is where it must be, and all
 * values are possible ones.
 *
 * Only for a cond that came with a call from the interpreter's image: memory around it is read. */
bool hw__gil_plausible(const struct hw__gil_memory *memory, const pthread_mutex_t *mutex);

/* Tells where _PyRuntime is. */
void hw__gil_set_runtime(const void *runtime);

/* The memory lies within _PyRuntime, in a build for which hw__gil_expect_later() was called. */
bool hw__gil_in_runtime(const struct hw__gil_memory *memory);

/* The address lies within _PyRuntime. */
bool hw__gil_is_runtime(uintptr_t address);

/* This is a free-threaded build whose GIL is off. */
void hw__gil_expect_later(void);

/* The places in the interpreter's code from which an acquire is signalled. */
void hw__gil_learn_site(uintptr_t site);
bool hw__gil_knows_site(uintptr_t site);

static inline struct hw__gil_memory *hw__gil_of_cond(const pthread_cond_t *cond) {
    return (struct hw__gil_memory *)((uintptr_t)cond - offsetof(struct hw__gil_memory, cond));
}

static inline struct hw__gil_memory *hw__gil_of_switch_cond(const pthread_cond_t *cond) {
    return (struct hw__gil_memory *)((uintptr_t)cond -
                                     offsetof(struct hw__gil_memory, switch_cond));
}

#endif
