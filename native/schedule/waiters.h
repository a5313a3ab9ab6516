// SPDX-License-Identifier: MIT
/* Who waits for a GIL in one lane, by the policy's key and then by arrival: a binary heap whose
 * members know their place. */
#ifndef HEADWAY_SCHEDULE_WAITERS_H
#define HEADWAY_SCHEDULE_WAITERS_H

#include <stdint.h>

#include "schedule/runner.h"

struct hw__waiters {
    struct hw__runner **members; /* room for all runners; members[0] goes next */
    uint32_t count;
};

/* The member that goes next, or NULL. */
static inline struct hw__runner *hw__waiters_first(const struct hw__waiters *queue) {
    return queue->count == 0 ? NULL : queue->members[0];
}

/* Puts one in that is not in it. */
void hw__waiters_push(struct hw__waiters *queue, struct hw__runner *runner);

/* Takes one out, wherever it stands; nothing happens where it is not in it. */
void hw__waiters_remove(struct hw__waiters *queue, struct hw__runner *runner);

#endif
