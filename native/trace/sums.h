// SPDX-License-Identifier: MIT
/* The sums of a chunk's events, which are kept when the events are overwritten: in the memory of a
 * process (session.c) or in a file (collect.c). */
#ifndef HEADWAY_TRACE_SUMS_H
#define HEADWAY_TRACE_SUMS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "trace/format.h"

struct hw__sums {
    uint64_t events;     /* their number; a HOLD counts as two */
    int64_t last_ns;     /* the time of the last one */
    int64_t interval_ns; /* the last change of the main GIL's switch interval; 0: there is none */
    uint32_t interval_us;
};

/* Returns the sums of the events in `bytes`, of which the last one may be incomplete. */
static inline struct hw__sums hw__sum_up(const char *from, uint32_t bytes) {
    struct hw__sums found = {0};
    for (uint32_t at = 0; at + sizeof(struct hw__event) <= bytes; at += sizeof(struct hw__event)) {
        struct hw__event event;
        memcpy(&event, from + at, sizeof event);
        bool two = event.kind == HW__HOLD;
        found.events += 1 + two;
        found.last_ns = event.time_ns + (two ? event.flags : 0);
        if (event.kind == HW__INTERVAL && event.gil == 0) {
            found.interval_ns = event.time_ns;
            found.interval_us = event.value;
        }
    }
    return found;
}

#endif
