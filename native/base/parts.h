// SPDX-License-Identifier: MIT
/* An array that grows in place, part by part: no item of it ever moves, so that hooks may use some
 * while others are being made. Address space that is mapped at once would be gone for the program
 * if it limits itself later (RLIMIT_AS).
 *
 * Part 0 has `first` items, a power of two; each further one has as many as all before it. */
#ifndef HEADWAY_BASE_PARTS_H
#define HEADWAY_BASE_PARTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough for 2^31 items. */
#define HW__PARTS 32

/* Which part has item `i`. */
static inline uint32_t hw__part_of(uint32_t i, uint32_t first) {
    return i < first ? 0 : 32 - (uint32_t)__builtin_clz(i / first);
}

/* The first item of a part; of the part after the last one, how many items there are. */
static inline uint32_t hw__part_begin(uint32_t part, uint32_t first) {
    return part == 0 ? 0 : first << (part - 1);
}

/* Such an array in memory of the process's own. Pages that nobody used take no memory, and no part
 * is given back. */
struct hw__parts {
    size_t item_bytes;
    uint32_t first;
    /* Release, and acquire: whoever has the index of an item has it from somebody who saw its part.
     */
    char *_Atomic parts[HW__PARTS];
};

/* An item whose part is mapped. */
static inline void *hw__parts_at(struct hw__parts *array, uint32_t i) {
    uint32_t part = hw__part_of(i, array->first);
    return atomic_load_explicit(&array->parts[part], memory_order_acquire) +
           (i - hw__part_begin(part, array->first)) * array->item_bytes;
}

/* Maps the part that has item `i`, where there is room for it (base/room.h). Threads may do so at
 * the same time: one of the mappings stays. Returns whether it is there; errno stays. */
bool hw__parts_have(struct hw__parts *array, uint32_t i);

#endif
