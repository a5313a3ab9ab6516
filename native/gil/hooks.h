// SPDX-License-Identifier: MIT
/* The hooks: what the interpreter calls instead of the functions of HW__GIL_FUNCTIONS, and while a
 * policy is on, of pthread_mutex_lock() and _unlock(). While a session records they watch; while a
 * policy is on, the waits and whom a release wakes are its. Else every call is passed on unchanged.
 */
#ifndef HEADWAY_GIL_HOOKS_H
#define HEADWAY_GIL_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "gil/gil.h"

/* Who wants the hooks: they are there as long as anybody does. */
#define HW__FOR_TRACE 1u
#define HW__FOR_SCHEDULE 2u

/* Puts the hooks into the image that has `runtime`, the address of its _PyRuntime. The image stays
 * loaded, and so does this library, for the rest of the process: a thread that sleeps in a hook
 * comes back to it whenever. Does nothing when they are there already.
 *
 * Only one thread at a time may install or remove. Returns 0, or a negative errno of hw__got_find()
 * or hw__got_write_all(), with the image as it was. */
int hw__hooks_install(const void *runtime, unsigned user);

/* The calling thread is the one that changes hooks, if no other is at it; until it has ended that,
 * nobody else takes one out or puts one back. Any thread; async-signal-safe. */
bool hw__hooks_try_change(void);
void hw__hooks_end_change(void);

/* Puts the hooks back that something has overwritten: the loader does when it binds a function
 * lazily, in a call that had begun before hw__hooks_install().
 *
 * Returns how many. */
int hw__hooks_repair(void);

/* One user wants the hooks no more; the last one has them taken out. Calls that have begun end in
 * them.
 *
 * Returns 0 or a negative errno, with the hooks then still there. */
int hw__hooks_remove(unsigned user);

/* The main interpreter's GIL rests: a policy has it and nothing to do. Either nobody has had to
 * wait for it for long: the next one that has to rouses it. Or the policy is idle: who waits does
 * so in the C library, and rouses it if the GIL stayed in the same hands for a switch interval.
 * Those of its hooks that matter to who waits are taken out then, but for that of timedwait(), or
 * where they cannot be in passing (hw__patch_pause()), pass the call on first thing. So a thread
 * alone loses nothing.
 *
 * Who has that GIL and its mutex says so.
 *
 * Returns whether it rests now: false while a trace wants the hooks, too, and where another thread
 * is at them this very moment. */
bool hw__hooks_rest(struct hw__gil_memory *memory, bool idle);

/* It does not rest any more: before somebody waits for it in our queue, or it is recorded, or the
 * policy ends. Any thread; async-signal-safe.
 *
 * Returns whether that is so: false where another thread is at the hooks this very moment. */
bool hw__hooks_rouse(void);

/* The GIL that rests, or NULL. A hook, which is called with the GIL's mutex held, sees what was
 * written last. */
struct hw__gil_memory *hw__hooks_resting(void);

/* In a forked child. */
void hw__hooks_after_fork(void);

/* Anybody wants them. */
bool hw__hooks_wanted(void);

/* What a probe wants to know: the first wait of the calling thread. Set by the thread for itself
 * (thread-local); the hook fills it. */
struct hw__sighting {
    struct hw__gil_memory *memory; /* NULL: not a GIL, by its looks */
    uintptr_t acquire_site;        /* where its acquire was signalled; 0: not yet */
    void (*seen)(void *context);   /* called in the hook, with the GIL's mutex held */
    void *context;
};

/* Has the hooks report the calling thread's next wait, or NULL: no more. */
void hw__hooks_watch(struct hw__sighting *sighting);

/* When a recorded GIL has so many `waiters`, `punctual` ones wake after each switch interval, and
 * who begins to wait then sleeps longer. Tests change it while nobody waits. */
struct hw__late {
    unsigned waiters, punctual;
};
extern struct hw__late hw__hooks_late;

/* After so many releases of a recorded GIL in a row that nobody waited for, waits for its mutex are
 * not looked for, until somebody waits for the GIL. Tests change it while nothing is recorded. */
extern uint32_t hw__hooks_quiet;

#endif
