// SPDX-License-Identifier: MIT
/* A patch: the calls of a set of functions from one image reach replacements, all of them or none,
 * and can be led back. Some of the functions can be led back for a while at the cost of one store
 * per slot, also from within a replacement. */
#ifndef HEADWAY_ELF_PATCH_H
#define HEADWAY_ELF_PATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HW__PATCH_MAX_SLOTS 32

struct hw__patch_entry {
    const char *symbol;
    uintptr_t replacement;
    bool required; /* an image that does not call the function cannot be patched */
    bool pauses;   /* hw__patch_pause() leads the calls of this function back */
};

/* A patch. Zeroed: not installed. Only one thread at a time may use a patch; any thread may call
 * hw__patch_is_paused(). */
struct hw__patch {
    int count;          /* number of slots; 0: not installed */
    bool can_pause;     /* written by hw__patch_install() */
    atomic_bool paused; /* read by any thread */
    bool pauses[HW__PATCH_MAX_SLOTS];
    uintptr_t *slots[HW__PATCH_MAX_SLOTS];
    uintptr_t replacements[HW__PATCH_MAX_SLOTS];
    uintptr_t originals[HW__PATCH_MAX_SLOTS];
};

/* Leads all calls of `entries` from the image that has `address` to their replacements. Does
 * nothing when the patch is installed already.
 *
 * Returns 0, or a negative errno of hw__got_find() or hw__got_write_all() with the image as it was.
 */
int hw__patch_install(struct hw__patch *patch, const void *address,
                      const struct hw__patch_entry *entries, int count);

/* Writes again the slots that something has overwritten. The loader overwrites a slot when it binds
 * a function lazily, in a call that had begun before. Ends a pause first.
 *
 * Returns how many slots were written. */
int hw__patch_repair(struct hw__patch *patch);

/* Leads the calls of the functions with `pauses` back, until hw__patch_resume(); the others stay.
 * Async-signal-safe, and without a system call: it stores to slots that the loader itself keeps
 * writable, to bind functions lazily. Does nothing where a slot is not writable (RELRO), or has
 * been overwritten.
 *
 * Returns whether the calls are led back. */
bool hw__patch_pause(struct hw__patch *patch);

/* Leads the calls to the replacements again. Async-signal-safe. */
void hw__patch_resume(struct hw__patch *patch);

/* Tells whether the functions with `pauses` are led back now. Any thread may call it. */
static inline bool hw__patch_is_paused(const struct hw__patch *patch) {
    return atomic_load_explicit(&patch->paused, memory_order_relaxed);
}

/* Leads all calls back, except those of a slot that something has overwritten: another tool's
 * function there may go on to lead to the replacement. Calls that have begun end in the
 * replacements.
 *
 * Returns 0, or a negative errno with the patch still in place. */
int hw__patch_remove(struct hw__patch *patch);

#endif
