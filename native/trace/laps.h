// SPDX-License-Identifier: MIT
/* Laps of event loops and of pools' threads, derived from events as they are copied. A thread's
 * home is the place where it waits for its next task (HW_HOME_* of headway/collect.h). A lap lasts
 * from when a thread leaves a home until it is at a home again.
 *
 * Which places are homes depends on frames, which the caller knows. Each stack at which a thread
 * has yielded the GIL is passed to the caller once, and the caller says what it is. Until then the
 * stack is no home. Stacks are those of the main interpreter's GIL.
 *
 * All numbers may come from a hostile process: tables are bounded, and nothing is derived beyond
 * their bounds. Only one thread may use these functions. */
#ifndef HEADWAY_TRACE_LAPS_H
#define HEADWAY_TRACE_LAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "headway/collect.h"

struct hw__laps;

/* Makes the state for one process. `least_ns`: the length from which on a lap is too long, by the
 * HW_HOME_* where it began. Returns NULL if there is no memory. */
struct hw__laps *hw__laps_new(const int64_t *least_ns);
void hw__laps_free(struct hw__laps *laps);

/* Derives laps from the events of a thread's chunk. `bytes` is their length, and `told` how many of
 * these bytes were seen before; the function moves it on. An ACQUIRE at the end may become a HOLD,
 * and is seen again. */
void hw__laps_see(struct hw__laps *laps, uint32_t serial, const char *events, uint32_t bytes,
                  uint32_t *told);

/* Returns whether a thread has an event loop. `at_home`: at the last event that was seen, the
 * thread was in its poll. */
bool hw__laps_loops(const struct hw__laps *laps, uint32_t serial, bool *at_home);

/* As hw_collect_fresh(), hw_collect_settle() and hw_collect_laps() of headway/collect.h. */
int hw__laps_fresh(struct hw__laps *laps, uint32_t *stacks, int max);
void hw__laps_settle(struct hw__laps *laps, uint32_t stack, int home);
void hw__laps_tell(struct hw__laps *laps, int64_t now_ns, struct hw_laps *told);

#endif
