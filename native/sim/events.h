// SPDX-License-Identifier: MIT
/* What is to happen at the simulated machine, by time and then by the order in which it was
 * planned. */
#ifndef HEADWAY_SIM_EVENTS_H
#define HEADWAY_SIM_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hw__event_kind {
    HW__EVENT_TIMER,     /* a timer of the core is due */
    HW__EVENT_TICK,      /* the core's periodic tick */
    HW__EVENT_RESCHED,   /* an interrupt tells the core to look whether another task is to run */
    HW__EVENT_WAKE_CORE, /* the core has come out of idleness */
    HW__EVENT_OUTSIDE,   /* somebody outside wakes the task */
    HW__EVENT_BEGIN      /* the task starts */
};

struct hw__core;
struct hw__task;

struct hw__planned {
    int64_t time_ns;
    uint64_t order;
    enum hw__event_kind kind;
    bool again; /* of TIMER: the core was idle, and has woken up for it */
    struct hw__core *core;
    struct hw__task *task;
    uint64_t serial; /* of the task's sleep: another one's is over */
};

struct hw__events {
    struct hw__planned *heap;
    size_t count, room;
    uint64_t planned;
};

/* Returns whether there was memory for it. */
bool hw__events_push(struct hw__events *events, struct hw__planned event);

/* Takes the first one. There must be one. */
struct hw__planned hw__events_pop(struct hw__events *events);

/* When the first one is to happen; INT64_MAX: there is none. */
static inline int64_t hw__events_next_ns(const struct hw__events *events) {
    return events->count == 0 ? INT64_MAX : events->heap[0].time_ns;
}

void hw__events_free(struct hw__events *events);

#endif
