// SPDX-License-Identifier: MIT
/* An image: the executable or a shared object, as the loader has mapped it into this process. */
#ifndef HEADWAY_ELF_IMAGE_H
#define HEADWAY_ELF_IMAGE_H

#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* The place of an image in memory. All of it belongs to the loader, and is valid as long as the
 * image is loaded; the caller must guarantee that. */
struct hw__image {
    uintptr_t bias; /* to be added to an address in the file; 0 for an executable that is no PIE */
    const ElfW(Phdr) * headers;
    size_t header_count;
};

/* Finds the image that an address lies in.
 *
 * Any thread may call it; not async-signal-safe, as it takes the loader's lock.
 *
 * Returns 0, or -ENOENT when no image has the address. */
int hw__image_find(const void *address, struct hw__image *image);

/* Finds the slots through which an image calls or refers to the function of that name, in any
 * version of the symbol: its relocations R_*_JUMP_SLOT and R_*_GLOB_DAT. Pointers in initialised
 * data (R_X86_64_64) are not found: they are the program's own variables. Each slot is returned
 * once. On machines other than x86-64 and aarch64 no slot is ever found.
 *
 * Reads only memory that does not change after loading: any number of threads may call it, and it
 * is async-signal-safe.
 *
 * Returns 0 with the slots and their *count, at least 1, or a negative errno with *count 0: -ENXIO
 * when there is none, -ENOSPC when there are more than `max`, -ENOEXEC when a table points out of
 * the image. */
int hw__image_slots(const struct hw__image *image, const char *name, uintptr_t **slots, int max,
                    int *count);

#endif
