// SPDX-License-Identifier: MIT
#include "schedule/waiters.h"

static bool before(const struct hw__runner *a, const struct hw__runner *b) {
    return a->seen.key < b->seen.key || (a->seen.key == b->seen.key && a->order < b->order);
}

static void put(struct hw__waiters *queue, uint32_t at, struct hw__runner *runner) {
    queue->members[at] = runner;
    runner->place = at + 1;
}

/* Finds the place for `runner`, of which the one at `at` is free. */
static void settle(struct hw__waiters *queue, uint32_t at, struct hw__runner *runner) {
    while (at > 0 && before(runner, queue->members[(at - 1) / 2])) {
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
        if (!before(queue->members[child], runner)) {
            break;
        }
        put(queue, at, queue->members[child]);
        at = child;
    }
    put(queue, at, runner);
}

void hw__waiters_push(struct hw__waiters *queue, struct hw__runner *runner) {
    queue->count++;
    settle(queue, queue->count - 1, runner);
}

void hw__waiters_remove(struct hw__waiters *queue, struct hw__runner *runner) {
    if (runner->place == 0) {
        return;
    }
    uint32_t at = runner->place - 1;
    runner->place = 0;
    struct hw__runner *last = queue->members[--queue->count];
    if (last != runner) {
        settle(queue, at, last);
    }
}
