// SPDX-License-Identifier: MIT
/* The events of a chunk in fewer bytes, for the file: HW__CHUNK_PACKED of format.h. */
#ifndef HEADWAY_TRACE_PACK_H
#define HEADWAY_TRACE_PACK_H

#include <stdint.h>

/* Packs the whole events among the first `used` bytes of `content`, at most those of a chunk, into
 * `room` bytes at `to`. Returns the length of the result, or 0 if it does not fit. Any bytes can be
 * packed: what a hostile process has written is the same after unpacking. */
uint32_t hw__pack(const char *content, uint32_t used, char *to, uint32_t room);

#endif
