// SPDX-License-Identifier: MIT
/* A set of functions whose calls from one image are led elsewhere, all or none, and back. Some of
 * them can be led back for a while at the cost of a store each, also from within a replacement. */
#ifndef HEADWAY_ELF_PATCH_H
#define HEADWAY_ELF_PATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HW__PATCH_MAX_SLOTS 32

struct hw__patch_entry {
    const char *symbol;
    uintptr_t replacement;
    bool required; /* an image without a call of it cannot be patched */
    bool pauses;   /* hw__patch_pause() is about it */
};

/* Zeroed: not installed. Only one thread at a time may use one. */
struct hw__patch {
    int count;          /* of slots; 0: not installed */
    bool can_pause;     /* written when it is installed */
    atomic_bool paused; /* read by anybody */
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

/* Writes again what something has overwritten: the loader does when it binds a function lazily, in
 * a call that had begun before.
 *
 * Returns how many. */
int hw__patch_repair(struct hw__patch *patch);

/* Leads the calls of what `pauses` back until hw__patch_resume(); the rest stays. Async-signal-safe
 * and without any system call: it stores to slots that the loader itself keeps writable, to bind
 * them lazily. Nothing happens where a slot is not such a one (RELRO), or has been overwritten.
 *
 * Returns whether they are led back. */
bool hw__patch_pause(struct hw__patch *patch);

/* Leads them to the replacements again. Async-signal-safe. */
void hw__patch_resume(struct hw__patch *patch);

/* What `pauses` is led back now. Any thread. */
static inline bool hw__patch_is_paused(const struct hw__patch *patch) {
    return atomic_load_explicit(&patch->paused, memory_order_relaxed);
}

/* Leads the calls back. Calls that have begun end in the replacements.
 *
 * Returns 0, or a negative errno with the patch still there. */
int hw__patch_remove(struct hw__patch *patch);

#endif
