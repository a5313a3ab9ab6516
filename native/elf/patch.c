// SPDX-License-Identifier: MIT
#include "elf/patch.h"

#include "elf/got.h"

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
            patch->replacements[total++] = entries[i].replacement;
        }
    }
    int error = hw__got_write_all(patch->slots, total, patch->replacements, patch->originals);
    if (error == 0) {
        patch->count = total;
    }
    return error;
}

int hw__patch_repair(struct hw__patch *patch) {
    int repaired = 0;
    for (int i = 0; i < patch->count; i++) {
        uintptr_t now = hw__got_read(patch->slots[i]);
        if (now != patch->replacements[i] &&
            hw__got_write(patch->slots[i], patch->replacements[i], &now) == 0) {
            patch->originals[i] = now; /* bound by now: better than the loader's stub */
            repaired++;
        }
    }
    return repaired;
}

int hw__patch_remove(struct hw__patch *patch) {
    uintptr_t ours[HW__PATCH_MAX_SLOTS];
    if (patch->count == 0) {
        return 0;
    }
    int error = hw__got_write_all(patch->slots, patch->count, patch->originals, ours);
    if (error == 0) {
        patch->count = 0;
    }
    return error;
}
