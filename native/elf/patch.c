// SPDX-License-Identifier: MIT
#include "elf/patch.h"

#include "elf/got.h"

/* Writes the slots that pause: all to the originals (`back`), or all to the replacements. */
static void lead(struct hw__patch *patch, bool back) {
    if (back) {
        atomic_store(&patch->paused, true); /* first: a child forked now must see it */
    }
    for (int i = 0; i < patch->count; i++) {
        if (patch->pauses[i]) {
            __atomic_store_n(patch->slots[i], back ? patch->originals[i] : patch->replacements[i],
                             __ATOMIC_RELEASE);
        }
    }
    atomic_store(&patch->paused, back);
}

/* Tells whether a slot can be stored to at any time: its page is writable, as the loader itself may
 * store there at any time, and the function is bound, so that no call will bind it. */
static bool is_steady(const void *address, const uintptr_t *slot, uintptr_t original) {
    return hw__got_is_open(slot) && !hw__got_is_stub(address, original);
}

int hw__patch_install(struct hw__patch *patch, const void *address,
                      const struct hw__patch_entry *entries, int count) {
    if (patch->count > 0) {
        return 0;
    }
    int total = 0;
    for (int i = 0; i < count; i++) {
        int found;
        int error = hw__got_find(address, entries[i].symbol, patch->slots + total,
                                 HW__PATCH_MAX_SLOTS - total, &found);
        if (error != 0 && entries[i].required) {
            return error;
        }
        for (int j = 0; j < found; j++) {
            patch->pauses[total] = entries[i].pauses;
            patch->replacements[total++] = entries[i].replacement;
        }
    }
    int error = hw__got_write_all(patch->slots, total, patch->replacements, patch->originals);
    if (error == 0) {
        patch->can_pause = true;
        for (int i = 0; i < total; i++) {
            if (patch->pauses[i] && !is_steady(address, patch->slots[i], patch->originals[i])) {
                patch->can_pause = false;
            }
        }
        patch->count = total;
    }
    return error;
}

int hw__patch_repair(struct hw__patch *patch) {
    int repaired = 0;
    hw__patch_resume(patch);
    for (int i = 0; i < patch->count; i++) {
        uintptr_t now = hw__got_read(patch->slots[i]);
        if (now != patch->replacements[i] &&
            hw__got_write(patch->slots[i], patch->replacements[i], &now) == 0) {
            patch->originals[i] = now; /* bound by now, which is better than the loader's stub */
            repaired++;
        }
    }
    return repaired;
}

/* Tells whether a slot has our replacement, or in a pause the original. Otherwise another tool has
 * overwritten it, whose function leads to the replacement, or the loader has bound it. */
static bool is_ours(const struct hw__patch *patch, int i) {
    bool out = patch->pauses[i] && hw__patch_is_paused(patch);
    return hw__got_read(patch->slots[i]) == (out ? patch->originals[i] : patch->replacements[i]);
}

static bool all_that_pause_are_ours(const struct hw__patch *patch) {
    for (int i = 0; i < patch->count; i++) {
        if (patch->pauses[i] && !is_ours(patch, i)) {
            return false;
        }
    }
    return true;
}

bool hw__patch_pause(struct hw__patch *patch) {
    if (patch->count > 0 && patch->can_pause && all_that_pause_are_ours(patch)) {
        lead(patch, true);
    }
    return hw__patch_is_paused(patch);
}

void hw__patch_resume(struct hw__patch *patch) {
    if (hw__patch_is_paused(patch)) {
        lead(patch, false);
    }
}

int hw__patch_remove(struct hw__patch *patch) {
    uintptr_t *slots[HW__PATCH_MAX_SLOTS];
    uintptr_t originals[HW__PATCH_MAX_SLOTS], ours[HW__PATCH_MAX_SLOTS];
    int count = 0;
    for (int i = 0; i < patch->count; i++) {
        if (is_ours(patch, i)) {
            slots[count] = patch->slots[i];
            originals[count++] = patch->originals[i];
        }
    }
    int error = hw__got_write_all(slots, count, originals, ours);
    if (error == 0) {
        patch->count = 0;
        atomic_store(&patch->paused, false);
    }
    return error;
}
