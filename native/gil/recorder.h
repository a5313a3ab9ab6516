// SPDX-License-Identifier: MIT
/* The calls with which the hooks of gil/ tell a recorder what happens. They are declared here,
 * where they are called, and defined in trace/. So trace/ includes gil/ and not the other way
 * round, and each is a direct call, which link-time optimisation makes part of the hook.
 *
 * The hooks make the calls about a GIL with its mutex held and after hw__gil_enter(), unless a
 * function's comment says otherwise. */
#ifndef HEADWAY_GIL_RECORDER_H
#define HEADWAY_GIL_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "gil/gil.h"

/* ---------------------------------------------------------------- a GIL's events */
/* The caller is about to wait for the GIL. Further calls before the caller's acquire belong to the
 * same wait. */
void hw__on_wait(struct hw__gil *gil);

/* Tells whether the caller's wait for this GIL is recorded already. Any thread may call it, without
 * hw__gil_enter().
 *
 * With thousands of waiters, each of which wakes every switch interval, all cores do little else,
 * and each such call is made with the GIL's mutex held, for which the other waiters queue. So where
 * there is nothing to record, a hook reads only this function's answer and the GIL's record, and no
 * other memory of the recorder. */
bool hw__waits_already(const struct hw__gil *gil);

/* The caller has waited in vain, for a switch interval or for as long as the policy says, and makes
 * a request. Only the first request of a hold is recorded: the others change nothing for the
 * holder, and thousands of waiters make them every 5 ms. */
void hw__on_request(struct hw__gil *gil);

/* The caller has acquired the GIL. */
void hw__on_acquire(struct hw__gil *gil);

/* The caller has released the GIL; no other thread can have acquired it yet. */
void hw__on_release(struct hw__gil *gil);

/* The caller has just acquired a GIL that has no record. To be called with the GIL's mutex held,
 * without hw__gil_enter().
 *
 * Returns the GIL's new record, recorded where there is a session, or NULL where all records are in
 * use. */
struct hw__gil *hw__on_new_gil(struct hw__gil_memory *memory);

/* The GIL is being destroyed. To be called without the GIL's mutex and without hw__gil_enter(). */
void hw__on_gil_end(struct hw__gil *gil, struct hw__gil_memory *memory);

/* The calling thread has waited for the GIL's mutex, from `since_ns` until now, mostly to acquire
 * that GIL or to release it; `since_ns` is 0 where it has not waited. To be called with the mutex
 * held, before the thread's next event, without hw__gil_enter(). */
void hw__on_mutex(const struct hw__gil *gil, int64_t since_ns);

/* The calling thread has released the GIL on request, and now looks whether the GIL was handed off,
 * or has waited for that until now. To be called without the GIL's mutex and without
 * hw__gil_enter(). If the thread was preempted, it wants the GIL again at once; else it goes on
 * with the call for which it released the GIL. */
void hw__on_switched(const struct hw__gil *gil);

/* A policy now schedules the GIL. To be called with the registry's lock held, without the GIL's
 * mutex. A child that has no memory of its own yet looks for its policy when it makes one. */
void hw__on_policy(void);

/* The policy that scheduled the GIL has ended. To be called with the registry's lock held; a GIL's
 * mutex may be held, too. */
void hw__on_policy_end(void);

/* ---------------------------------------------------------------- waits for locks */
/* The kinds of locks. */
enum hw__lock_kind {
    HW__LOCK_UNKNOWN,
    HW__LOCK_MUTEX,  /* a PyMutex that does not belong to an object */
    HW__LOCK_OBJECT, /* an object's mutex: a critical section */
    HW__LOCK_WORLD,  /* stop-the-world: the caller is suspended, or waits for others */
    HW__LOCK_OWN,    /* a threading.Lock, or another semaphore that the program uses */
    HW__LOCK_EVENT,  /* an event, such as the end of a thread (join) */
    HW__LOCK_KINDS
};

/* The object of a wait. */
struct hw__park {
    enum hw__lock_kind kind;
    uintptr_t lock;           /* the lock's address, or 0 */
    int64_t call_ns;          /* when the call that wants the lock began; 0: unknown */
    uint64_t type;            /* the type of the contended object, or 0 */
    char type_name[64];       /* the name of that type */
    const void *thread_state; /* the caller's PyThreadState, or NULL */
};

/* Tells whether a park of the calling thread is recorded, so that the caller must find out what it
 * waits for: there is a session that records parks. In a forked child the first call makes the
 * child's own memory; it must come before any other call of the recorder there. spins: it is a
 * round of a spin, which a park may follow. */
bool hw__parks_wanted(bool spins);

/* The caller has wanted a lock since `since_ns`, and is about to block on it, without a GIL.
 * hw__parks_wanted() must just have been true. A spin on that lock that has just ended is part of
 * the wait.
 *
 * hw__on_park() returns whether the wait is recorded; if so, hw__on_unpark() must follow when the
 * caller goes on. */
bool hw__on_park(const struct hw__park *park, int64_t since_ns);
void hw__on_unpark(const struct hw__park *park);

/* The caller has yielded once, from `from_ns` on, to get a lock; `lock` is 0 where the lock is not
 * known. `same_spin`: by the registers, the thread's last yield was of the same spin.
 *
 * hw__spin_goes_on() returns whether that is all: the yield continues an earlier spin, or no
 * session records it. Else the caller must call hw__on_spin(). */
bool hw__spin_goes_on(uintptr_t lock, int64_t from_ns, bool same_spin);
void hw__on_spin(const struct hw__park *park, int64_t from_ns);

/* hw__spin_unknown_since() returns since when the calling thread has been in a spin for this lock
 * without knowing what the lock is, or 0 where it is in no such spin. Where it is not 0,
 * hw__spin_is() may say what the lock is. */
int64_t hw__spin_unknown_since(uintptr_t lock);
void hw__spin_is(const struct hw__park *park);

#endif
