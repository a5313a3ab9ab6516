// SPDX-License-Identifier: MIT
/* An array that grows in place, part by part. No item ever moves, so hooks may use some items while
 * others are being made. The array is not mapped as a whole, because the address space would be
 * gone for a program that limits itself later (RLIMIT_AS).
 *
 * Part 0 has `first` items, a power of two. Each further part has as many items as all parts before
 * it. */
#ifndef HEADWAY_BASE_PARTS_H
#define HEADWAY_BASE_PARTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough for 2^31 items. */
#define HW__PARTS 32

/* Returns the part that has item `i`. */
static inline uint32_t hw__part_of(uint32_t i, uint32_t first) {
    return i < first ? 0 : 32 - (uint32_t)__builtin_clz(i / first);
}

/* Returns the first item of a part; for the part after the last one, that is the number of
 * items. */
static inline uint32_t hw__part_begin(uint32_t part, uint32_t first) {
    return part == 0 ? 0 : first << (part - 1);
}

/* Such an array in private memory of the process. Pages that were never touched take no memory, and
 * parts are never unmapped. */
struct hw__parts {
    size_t item_bytes;
    uint32_t first; /* items in part 0 */
    /* NULL: not mapped. Release and acquire: a thread gets the index of an item from a thread that
     * has seen the item's part. */
    char *_Atomic parts[HW__PARTS];
};

/* Returns the address of an item, whose part must be mapped. */
static inline void *hw__parts_at(struct hw__parts *array, uint32_t i) {
    uint32_t part = hw__part_of(i, array->first);
    return atomic_load_explicit(&array->parts[part], memory_order_acquire) +
           (i - hw__part_begin(part, array->first)) * array->item_bytes;
}

/* Maps the part that has item `i`, if there is room for it (base/room.h). Several threads may do so
 * at the same time; one of their mappings stays. Returns whether the part is mapped. errno is
 * preserved. */
bool hw__parts_have(struct hw__parts *array, uint32_t i);

#endif
