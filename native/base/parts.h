// SPDX-License-Identifier: MIT
/* An array that grows in place, part by part: no item of it ever moves, so that hooks may use some
 * while others are being made. Address space that is mapped at once would be gone for the program
 * if it limits itself later (RLIMIT_AS).
 *
 * Part 0 has `first` items, a power of two; each further one has as many as all before it. */
#ifndef HEADWAY_BASE_PARTS_H
#define HEADWAY_BASE_PARTS_H

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

#endif
