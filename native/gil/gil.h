// SPDX-License-Identifier: MIT
/* The GILs of this process. Each GIL has one record, which is found by the address of the GIL's
 * condition variable.
 *
 * A GIL gets a record in one of two ways; being the first condition variable seen is neither of
 * them. The probe (probe.h) finds the main interpreter's GIL. A sub-interpreter's own GIL is found
 * when the interpreter calls signal() from a place in its code from which the probe saw an acquire;
 * the memory around the condition variable must then look like a GIL that was just acquired. The
 * hooks pass on all other condition variables that the interpreter's image uses.
 *
 * In a free-threaded build the main interpreter's GIL can be switched on when nothing probes for it
 * any more. There, memory within _PyRuntime that looks like a GIL that was just acquired is the
 * main interpreter's GIL. */
#ifndef HEADWAY_GIL_GIL_H
#define HEADWAY_GIL_GIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ticks.h"
#include "gil/protocol.h"

/* The most GILs that have a record; further ones run as without Headway. This is one less than the
 * numbers that an event has for a GIL: the last number is HW__NO_GIL (trace/format.h). */
#define HW__MAX_GILS 255
#define HW__MAX_SITES 8

struct hw__stacks;
struct hw__thread;

/* The record of one GIL. It starts at a cache line of its own, and has all that a hook needs of a
 * GIL: after a system call hardly any memory of the library is left in the innermost cache. */
struct hw__gil {
    /* The GIL's memory; NULL: the record is empty. This field is set last when a record is filled,
     * and cleared first when it is emptied (release, acquire). So a thread that finds its condition
     * variable here may read the rest of the record. */
    _Alignas(64) _Atomic(struct hw__gil_memory *) memory;
    uint32_t index; /* the record's index, which never changes */
    bool main;

    /* The session wants the GIL's events. A hook sets `busy`, then reads `recorded`;
     * hw__gil_unrecord() clears `recorded`, then reads `busy`. So at least one of the two sees the
     * other. The hook's accesses are relaxed, and hw__gil_unrecord() has the kernel put a barrier
     * on every core that runs a thread of this process (membarrier(2), which is too expensive for a
     * hook). Where the kernel has no membarrier(2), the hook's accesses are sequentially
     * consistent. The GIL's mutex cannot serve here: the memory of a sub-interpreter's GIL may be
     * gone, since CPython 3.12 to 3.15 do not destroy such a GIL. See native/model/handshake.pml.
     */
    _Atomic bool recorded;
    _Atomic bool busy;
    /* The hook's accesses to `busy` and `recorded` may be relaxed. Set before `recorded` each time.
     */
    _Atomic bool light;

    /* A policy schedules this GIL (gil/scheduler.h). Written with memory->mutex held, or where no
     * other thread can use the GIL. */
    _Atomic bool scheduled;

    /* The number of threads that began to sleep in the C library for this GIL while it was
     * recorded. `punctual` threads wake after one switch interval, `late` threads sleep longer.
     * Written with memory->mutex held, or by a forked child. Relaxed, since a hook may have found
     * the record just before the record became another GIL's. */
    _Atomic uint32_t punctual, late;

    /* The fields from here to `meta` are guarded by memory->mutex, which CPython holds when it
     * calls a hook, and by `busy`. */
    bool announced; /* the GIL's META_GIL record is written */
    /* A waiter has made a request to the holder. Relaxed. */
    _Atomic bool requested;
    /* A request to the present holder is recorded. Relaxed: a hook may read it with the mutex
     * alone. */
    _Atomic bool request_told;
    int64_t requested_ns; /* when the first of these requests was made; 0: not known */
    /* The thread whose ACQUIRE was seen; NULL: none. Relaxed: hw__gil_idle() reads it, too. */
    _Atomic(struct hw__thread *) holder;
    /* The holder's CPU time at `cpu_since_ns`, a moment of its hold; 0: not measured. */
    int64_t cpu_then_ns, cpu_since_ns;
    struct hw__thread *last;  /* the thread whose RELEASE was seen last; NULL: none */
    bool ending;              /* the interpreter finalizes */
    struct hw__thread *ender; /* the thread that finalizes the interpreter; NULL: not known */
    uint32_t interval_us;     /* the switch interval, as last recorded; 0: not yet */
    /* releases since a thread last waited, or acquired the GIL after another one had released it */
    uint32_t quiet_releases;
    /* The time of the GIL's last event; 0: none yet. Relaxed: hw__gil_idle() reads it, too. */
    _Atomic int64_t last_ns;
    int64_t away_due_ns;       /* when a time between holds is to be measured next (events.c) */
    struct hw__ticks ticks;    /* the clock of the GIL's events */
    struct hw__stacks *stacks; /* NULL: no stacks are read for this GIL */
    /* The chunk for meta records, or NULL. The record's next GIL in this session goes on in it. */
    struct hw__chunk *meta;

    /* The GIL that this record was last filled for; NULL: none. The thread that fills the record
     * writes this field, which is kept when the record is emptied. */
    _Atomic(struct hw__gil_memory *) former;
};

/* The registry is the records of GILs and the recorder's records of threads. The registry's lock
 * protects the filling and emptying of GILs' records, the start and end of sessions and policies,
 * and the names and ends of threads. In the order of locks it comes before every GIL's mutex. Of
 * the hooks only that of destroy() waits for it; CPython calls destroy() without a GIL's mutex. A
 * thread takes the lock at its end. fork() takes it, so that it is free in the child. A thread may
 * take the lock again while it has it; the lock is free after as many unlocks. */
void hw__registry_lock(void);
bool hw__registry_trylock(void);
void hw__registry_unlock(void);

/* Takes the registry's lock, but does not wait where another thread has the lock for a fork:
 * handlers of other libraries run meanwhile, and may wait for the calling thread.
 *
 * Returns whether the caller has the lock. */
bool hw__registry_lock_beside_forks(void);

/* Called by the handlers of fork(), in the thread that forks. */
void hw__registry_before_fork(void);
void hw__registry_after_fork(bool in_child);

extern struct hw__gil hw__gils[HW__MAX_GILS];

/* Returns one more than the highest index of a record that was ever used. */
int hw__gil_count(void);

/* Finds the record whose cond is `cond`, or whose switch_cond is `cond`; in the second case
 * *acquire is true.
 *
 * Any thread may call it; async-signal-safe. Returns NULL where there is none. */
struct hw__gil *hw__gil_find(const pthread_cond_t *cond, bool *acquire);

/* Finds the record of the GIL with this mutex, among two: the main interpreter's GIL, and the GIL
 * that the calling thread found last.
 *
 * Any thread may call it. Returns NULL for any other mutex. */
struct hw__gil *hw__gil_of_mutex(const pthread_mutex_t *mutex);

/* Tells whether `cond` belongs to the GIL for which hw__gil_add(), called by this thread, had no
 * free record, with no record emptied since. */
bool hw__gil_without_room(const pthread_cond_t *cond);

/* Fills a record for a GIL. The caller must hold `memory->mutex` or the GIL itself.
 *
 * Returns the record, or NULL where all records are in use. */
struct hw__gil *hw__gil_add(struct hw__gil_memory *memory, bool main);

/* Tells whether the main interpreter's GIL was at this memory: it is there again when the
 * interpreter is initialised again. */
bool hw__gil_was_main(const struct hw__gil_memory *memory);

/* How long a GIL has had no event before its record may become another GIL's. Tests set it. */
extern int64_t hw__gil_idle_ns;

/* Finds the record to empty where all are in use: of a recorded GIL that no thread holds or waits
 * for and that has had no event for hw__gil_idle_ns, the one with the oldest event. No policy may
 * schedule the GIL. The caller must hold the registry's lock.
 *
 * Returns NULL where there is none. The GIL may be used again at any time: see hw__gil_unused(). */
struct hw__gil *hw__gil_idle(int64_t now_ns);

/* Tells whether no thread holds the GIL or waits for it, as far as is known. Certain after
 * hw__gil_unrecord(). */
bool hw__gil_unused(const struct hw__gil *gil);

/* Says on stderr, once, that all records are in use. */
void hw__gil_say_no_room(void);

/* Begins the writing of events of the GIL at this memory, up to hw__gil_leave(). The caller must be
 * a hook that was called with the GIL's mutex held.
 *
 * Returns whether the hook may write events; where it may not, hw__gil_leave() must not be called.
 */
bool hw__gil_enter(struct hw__gil *gil, const struct hw__gil_memory *memory);
void hw__gil_leave(struct hw__gil *gil);

/* Forgets the request to the holder: a hold or a session begins. */
static inline void hw__gil_forget_request(struct hw__gil *gil) {
    atomic_store_explicit(&gil->requested, false, memory_order_relaxed);
    atomic_store_explicit(&gil->request_told, false, memory_order_relaxed);
}

/* Tells whether a waiter has made a request to the holder that is known to the recorder. The caller
 * must hold the GIL's mutex. */
static inline bool hw__gil_is_asked(const struct hw__gil *gil) {
    return atomic_load_explicit(&gil->requested, memory_order_relaxed);
}

/* Starts the recording of a GIL, from an initial state; `meta` is kept. No other thread may be
 * writing an event of this GIL. */
void hw__gil_record(struct hw__gil *gil);

/* Ends the recording of a GIL. When this function returns, no event of the GIL is being written. It
 * waits for hooks that write one; such hooks do not block. The caller must not hold the GIL's
 * mutex. */
void hw__gil_unrecord(struct hw__gil *gil);

/* Empties a record. The caller must hold the registry's lock. This function can't fail. */
void hw__gil_remove(struct hw__gil *gil);

/* Tells whether the memory around a condition variable looks like a locked GIL: the mutex is where
 * it must be, and all values are possible ones. (Any switch interval is possible.)
 *
 * The condition variable must come from a call of the interpreter's image, since the memory around
 * it is read. */
bool hw__gil_plausible(const struct hw__gil_memory *memory, const pthread_mutex_t *mutex);

/* Sets the address of _PyRuntime. The caller must be the thread that may change the hooks. */
void hw__gil_set_runtime(const void *runtime);

/* Tells whether the memory lies within _PyRuntime, and hw__gil_expect_later() was called. */
bool hw__gil_in_runtime(const struct hw__gil_memory *memory);

/* Tells whether the address lies within _PyRuntime. */
bool hw__gil_is_runtime(uintptr_t address);

/* Notes that this is a free-threaded build whose GIL is off, and may be switched on later. */
void hw__gil_expect_later(void);

/* Learns, or looks up, a place in the interpreter's code from which an acquire is signalled: the
 * return address of the call. */
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
