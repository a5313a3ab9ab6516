// SPDX-License-Identifier: MIT
/* What the hooks of gil/ tell a recorder. Declared here, where it is called, and defined in trace/:
 * so trace/ includes gil/ and not the other way round, and each is a direct call, which the
 * optimisation across files makes part of the hook.
 *
 * Those about a GIL are called with its mutex held and after hw__gil_enter(), but for
 * hw__on_new_gil() and hw__on_gil_end(). */
#ifndef HEADWAY_GIL_RECORDER_H
#define HEADWAY_GIL_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "gil/gil.h"

/* ---------------------------------------------------------------- a GIL's events */
/* The caller is about to wait for the GIL; further calls before its acquire are the same wait. */
void hw__on_wait(struct hw__gil *gil);

/* The caller's wait for this GIL is told already. Any thread may ask, without hw__gil_enter().
 *
 * With thousands of waiters, each of which wakes every switch interval, all cores do little else;
 * each such call has the GIL's mutex, for which the others queue up. So where there is nothing to
 * tell, a hook looks at this and at the GIL's own record, and at no memory of the recorder's. */
bool hw__waits_already(const struct hw__gil *gil);

/* The caller has waited an interval in vain and asks for a drop. Of a hold the first request is
 * told: the others change nothing for the holder, and thousands of waiters make them every 5 ms. */
void hw__on_request(struct hw__gil *gil);

/* The caller has the GIL. */
void hw__on_acquire(struct hw__gil *gil);

/* The caller has let the GIL go; nobody can have taken it yet. */
void hw__on_release(struct hw__gil *gil);

/* The caller has just taken a GIL that has no record. Returns its new record, recorded when there
 * is a session, or NULL when there are too many. */
struct hw__gil *hw__on_new_gil(struct hw__gil_memory *memory);

/* The GIL is being destroyed; its mutex is not held. */
void hw__on_gil_end(struct hw__gil *gil, struct hw__gil_memory *memory);

/* The calling thread has waited for the GIL's mutex, from `since_ns` until now, to take that GIL or
 * to let it go; 0: it has not. To be told before its next event, without hw__gil_enter(). */
void hw__on_mutex(const struct hw__gil *gil, int64_t since_ns);

/* ---------------------------------------------------------------- waits for locks */
/* What the lock is. */
enum hw__lock_kind {
    HW__LOCK_UNKNOWN,
    HW__LOCK_MUTEX,  /* a PyMutex that is no object's */
    HW__LOCK_OBJECT, /* an object's: a critical section */
    HW__LOCK_WORLD,  /* the caller is suspended, or waits for others, to stop the world */
    HW__LOCK_OWN,    /* a threading.Lock or another semaphore of the program's own */
    HW__LOCK_EVENT,  /* an event: the end of a thread (join) */
    HW__LOCK_KINDS
};

/* What a wait is for. */
struct hw__park {
    enum hw__lock_kind kind;
    uintptr_t lock;           /* the lock's address, or 0 */
    uint64_t type;            /* the contended object's type, or 0 */
    char type_name[64];       /* its name */
    const void *thread_state; /* the caller's PyThreadState, or NULL */
};

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
void hw__on_spin(const struct hw__park *park, int64_t from_ns);

/* Since when the calling thread has been in a spin for that lock of which it is not known what it
 * is; 0: it is in none. It may then be told. */
int64_t hw__spin_unknown_since(uintptr_t lock);
void hw__spin_is(const struct hw__park *park);

#endif
