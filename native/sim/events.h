// SPDX-License-Identifier: MIT
/* The events that are planned at the simulated machine, ordered by their time and then by the order
 * in which they were planned. */
#ifndef HEADWAY_SIM_EVENTS_H
#define HEADWAY_SIM_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hw__event_kind {
    HW__EVENT_TIMER,     /* a timer of the core is due */
    HW__EVENT_TICK,      /* the core's periodic tick */
    HW__EVENT_RESCHED,   /* an interrupt makes the core look for a task that must preempt */
    HW__EVENT_WAKE_CORE, /* the core has left its idle state */
    HW__EVENT_OUTSIDE,   /* a wake-up of the task from outside the machine */
    HW__EVENT_BEGIN      /* the task starts */
};

struct hw__core;
struct hw__task;

struct hw__planned {
    int64_t time_ns;
    uint64_t order;
    enum hw__event_kind kind;
    bool again; /* HW__EVENT_TIMER: the core was idle, and has woken up for this timer */
    struct hw__core *core;
    struct hw__task *task;
    /* The task's `sleep` when the event was planned. If it differs now, the event is void. */
    uint64_t serial;
};

struct hw__events {
    struct hw__planned *heap;
    size_t count, room;
    uint64_t planned;
};

/* Adds an event. Returns false if there is no memory for it. */
bool hw__events_push(struct hw__events *events, struct hw__planned event);

/* Removes and returns the first event. There must be one. */
struct hw__planned hw__events_pop(struct hw__events *events);

/* Returns the time of the first event, or INT64_MAX if there is none. */
static inline int64_t hw__events_next_ns(const struct hw__events *events) {
    return events->count == 0 ? INT64_MAX : events->heap[0].time_ns;
}

void hw__events_free(struct hw__events *events);

#endif
