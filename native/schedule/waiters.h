// SPDX-License-Identifier: MIT
/* The waiters in one lane, by the policy's key and then by arrival: a binary heap whose members
 * know their place. */
#ifndef HEADWAY_SCHEDULE_WAITERS_H
#define HEADWAY_SCHEDULE_WAITERS_H

#include <stddef.h>
#include <stdint.h>

#include "schedule/waiter.h"

struct hw__waiters {
    struct hw__waiter **members; /* room for all waiters; members[0] goes next */
    uint32_t count;
};

/* The member that goes next, or NULL. */
static inline struct hw__waiter *hw__waiters_first(const struct hw__waiters *queue) {
    return queue->count == 0 ? NULL : queue->members[0];
}

/* Puts one in that is not in it. */
void hw__waiters_push(struct hw__waiters *queue, struct hw__waiter *waiter);

/* Takes one out, wherever it stands. Nothing happens where it is not in the queue. */
void hw__waiters_remove(struct hw__waiters *queue, struct hw__waiter *waiter);

#endif
