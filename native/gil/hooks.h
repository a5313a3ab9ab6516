// SPDX-License-Identifier: MIT
/* The hooks: what the interpreter calls instead of the functions of HW__GIL_FUNCTIONS. They only
 * watch: every call is passed on unchanged. */
#ifndef HEADWAY_GIL_HOOKS_H
#define HEADWAY_GIL_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "gil/gil.h"

/* Puts the hooks into the image that has `runtime`, the address of its _PyRuntime. The image stays
 * loaded, and so does this library, for the rest of the process: a thread that sleeps in a hook
 * comes back to it whenever. Does nothing when they are there already.
 *
 * Only one thread at a time may install or remove. Returns 0, or a negative errno of hw__got_find()
 * or hw__got_write_all(), with the image as it was. */
int hw__hooks_install(const void *runtime);

/* Puts the hooks back that something has overwritten: the loader does when it binds a function
 * lazily, in a call that had begun before hw__hooks_install().
 *
 * Returns how many. */
int hw__hooks_repair(void);

/* Takes the hooks out. Calls that have begun end in them.
 *
 * Returns 0 or a negative errno, with the hooks then still there. */
int hw__hooks_remove(void);

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

#endif
