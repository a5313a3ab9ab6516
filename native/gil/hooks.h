// SPDX-License-Identifier: MIT
/* The hooks are the functions that the interpreter calls instead of those of HW__GIL_FUNCTIONS, of
 * pthread_mutex_lock() and, while a policy is on, of pthread_mutex_unlock(). While a session
 * records, the hooks observe. While a policy is on, the policy decides how threads wait and which
 * waiter a release wakes. Otherwise each hook passes its call on unchanged. */
#ifndef HEADWAY_GIL_HOOKS_H
#define HEADWAY_GIL_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "gil/gil.h"

/* The users of the hooks. The hooks are in place as long as there is any user. */
#define HW__FOR_TRACE 1u
#define HW__FOR_SCHEDULE 2u

/* The most places in the interpreter's code from which a probe sees acquires: one after a wait or
 * without one, and after another thread's hold or the thread's own. */
#define HW__ACQUIRE_SITES 4

/* Puts the hooks into the image that has `runtime`, the address of its _PyRuntime, for one user.
 * Where the hooks are in place already, only the user is added. The image and this library stay
 * loaded for the rest of the process, since a thread that sleeps in a hook returns to the hook at
 * any later time.
 *
 * Only one thread at a time may install or remove. Returns 0, or a negative errno of hw__got_find()
 * or hw__got_write_all() with the image as it was; -ENOSYS where a real function is not found, or
 * the image or this library cannot be kept loaded. */
int hw__hooks_install(const void *runtime, unsigned user);

/* hw__hooks_try_change() makes the calling thread the one that may change the hooks, unless another
 * thread is. No other thread takes a hook out or puts one back until hw__hooks_end_change(). Any
 * thread may call both; async-signal-safe.
 *
 * hw__hooks_try_change() returns whether the caller may change the hooks. */
bool hw__hooks_try_change(void);
void hw__hooks_end_change(void);

/* Puts back the hooks that something has overwritten. The loader overwrites a slot when it binds a
 * function lazily, in a call that had begun before hw__hooks_install().
 *
 * Returns how many hooks were put back. */
int hw__hooks_repair(void);

/* Removes a user of the hooks; with the last user, takes the hooks out. Calls that have begun still
 * end in the hooks.
 *
 * Returns 0, or a negative errno with the hooks still in place. */
int hw__hooks_remove(unsigned user);

/* Lets the main interpreter's GIL rest: a policy schedules the GIL and has nothing to do. There are
 * two cases. No thread has had to wait for the GIL for a while; the next thread that has to wait
 * rouses it. Or the policy is idle (`idle`); waiters then wait in the C library, and a waiter
 * rouses the GIL if the GIL did not change hands for a switch interval.
 *
 * The hooks that run where no thread waits are taken out, so that a thread alone loses nothing; the
 * hook of timedwait() stays. Where the hooks cannot be taken out in passing (hw__patch_pause()),
 * they stay and pass each call on first thing.
 *
 * The caller must hold that GIL and its mutex. Returns whether the GIL rests now: false while a
 * trace is a user of the hooks, too, and where another thread changes the hooks at this moment. */
bool hw__hooks_rest(struct hw__gil_memory *memory, bool idle);

/* Ends the rest, if a GIL rests: before a thread waits for the GIL in the policy's queue, before
 * the GIL is recorded, and before the policy ends. Any thread may call it; async-signal-safe.
 *
 * Returns whether no GIL rests now: false where another thread changes the hooks at this moment. */
bool hw__hooks_rouse(void);

/* Returns the GIL that rests, or NULL. A hook that was called with the GIL's mutex held sees the
 * value that was written last. */
struct hw__gil_memory *hw__hooks_resting(void);

/* Puts all hooks back in a forked child, and ends a change that another thread had begun. */
void hw__hooks_after_fork(void);

/* Tells whether the hooks have a user. */
bool hw__hooks_wanted(void);

/* Tells whether the hooks see how a thread locks a mutex. To be called by a user of the hooks. */
bool hw__hooks_see_locks(void);

/* The first wait of a thread and its acquires of that GIL, as a probe wants to know them. The
 * thread sets it for itself (thread-local) with hw__hooks_watch(), and the hooks fill it. */
struct hw__sighting {
    struct hw__gil_memory *memory; /* NULL: no wait yet for what looks like a GIL */
    /* The return addresses of the signals of its acquires, each once; 0: none. Further ones than
     * there is room for are left out. */
    uintptr_t acquire_sites[HW__ACQUIRE_SITES];
    void (*seen)(void *context); /* called in the hook, with the GIL's mutex held */
    void *context;
};

/* Has the hooks report the calling thread's next wait and its acquires in `sighting`; NULL ends
 * that. */
void hw__hooks_watch(struct hw__sighting *sighting);

/* When a recorded GIL has `waiters` waiters, of which `punctual` wake after each switch interval, a
 * thread that then begins to wait sleeps longer. Tests change these values while no thread waits.
 */
struct hw__late {
    unsigned waiters, punctual;
};
extern struct hw__late hw__hooks_late;

/* The number of releases in a row of a recorded GIL, with no thread waiting, after which waits for
 * its mutex are not observed, until a thread waits for the GIL. Tests change it while nothing is
 * recorded. */
extern uint32_t hw__hooks_quiet;

#endif
