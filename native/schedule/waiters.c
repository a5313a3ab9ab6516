// SPDX-License-Identifier: MIT
#include "schedule/waiters.h"

static bool before(const struct hw__waiter *a, const struct hw__waiter *b) {
    return a->seen.key < b->seen.key || (a->seen.key == b->seen.key && a->order < b->order);
}

static void put(struct hw__waiters *queue, uint32_t at, struct hw__waiter *waiter) {
    queue->members[at] = waiter;
    waiter->place = at + 1;
}

/* Puts `waiter` where it belongs in the heap, in which the position `at` is free. */
static void settle(struct hw__waiters *queue, uint32_t at, struct hw__waiter *waiter) {
    while (at > 0 && before(waiter, queue->members[(at - 1) / 2])) {
        put(queue, at, queue->members[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= queue->count) {
            break;
        }
        if (child + 1 < queue->count && before(queue->members[child + 1], queue->members[child])) {
            child++;
        }
        if (!before(queue->members[child], waiter)) {
            break;
        }
        put(queue, at, queue->members[child]);
        at = child;
    }
    put(queue, at, waiter);
}

void hw__waiters_push(struct hw__waiters *queue, struct hw__waiter *waiter) {
    queue->count++;
    settle(queue, queue->count - 1, waiter);
}

void hw__waiters_remove(struct hw__waiters *queue, struct hw__waiter *waiter) {
    if (waiter->place == 0) {
        return;
    }
    uint32_t at = waiter->place - 1;
    waiter->place = 0;
    struct hw__waiter *last = queue->members[--queue->count];
    if (last != waiter) {
        settle(queue, at, last);
    }
}
