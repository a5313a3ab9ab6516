// SPDX-License-Identifier: MIT
/* The waiters of one lane, ordered by the policy's key and, among equal keys, by arrival. The
 * queue is a binary heap in which each member knows its position. */
#ifndef HEADWAY_SCHEDULE_WAITERS_H
#define HEADWAY_SCHEDULE_WAITERS_H

#include <stddef.h>
#include <stdint.h>

#include "schedule/waiter.h"

struct hw__waiters {
    struct hw__waiter **members; /* the heap, with room for all waiters; members[0] goes next */
    uint32_t count;
};

/* Returns the member that goes next, or NULL if there is none. */
static inline struct hw__waiter *hw__waiters_first(const struct hw__waiters *queue) {
    return queue->count == 0 ? NULL : queue->members[0];
}

/* Adds a waiter, which must not be in the queue. */
void hw__waiters_push(struct hw__waiters *queue, struct hw__waiter *waiter);

/* Removes a waiter from any position. Does nothing if it is not in the queue. */
void hw__waiters_remove(struct hw__waiters *queue, struct hw__waiter *waiter);

#endif
