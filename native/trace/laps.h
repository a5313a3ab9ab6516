// SPDX-License-Identifier: MIT
/* Laps of event loops and of pools' threads, told from events as they are copied: from when a
 * thread leaves the place where it waits for the next thing to do until it is back there.
 *
 * Which places these are depends on frames, which the caller knows: it is told each stack at which
 * a thread has let the GIL go by itself, once, and says what it is. Until then it is no such place.
 * Stacks are those of the main interpreter's GIL.
 *
 * All numbers may be a hostile process's: tables have bounds, and beyond them nothing is told. One
 * thread uses them. */
#ifndef HEADWAY_TRACE_LAPS_H
#define HEADWAY_TRACE_LAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "headway/collect.h"

struct hw__laps;

/* Returns NULL where there is no memory. */
struct hw__laps *hw__laps_new(const int64_t *least_ns);
void hw__laps_free(struct hw__laps *laps);

/* Looks at the events of a thread's chunk, `bytes` of them; `told` says how many of these bytes it
 * has seen, and is moved on. An ACQUIRE that stands last may become a HOLD, and is seen again. */
void hw__laps_see(struct hw__laps *laps, uint32_t serial, const char *events, uint32_t bytes,
                  uint32_t *told);

/* Whether a thread has an event loop; `at_home`: it was in its poll, up to the last event seen. */
bool hw__laps_loops(const struct hw__laps *laps, uint32_t serial, bool *at_home);

int hw__laps_fresh(struct hw__laps *laps, uint32_t *stacks, int max);
void hw__laps_settle(struct hw__laps *laps, uint32_t stack, int home);
void hw__laps_tell(struct hw__laps *laps, int64_t now_ns, struct hw_laps *told);

#endif
