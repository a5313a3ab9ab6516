// SPDX-License-Identifier: MIT
#include "sim/events.h"

#include <stdlib.h>

static bool before(const struct hw__planned *a, const struct hw__planned *b) {
    return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->order < b->order);
}

bool hw__events_push(struct hw__events *events, struct hw__planned event) {
    if (events->count == events->room) {
        size_t room = events->room == 0 ? 256 : events->room * 2;
        struct hw__planned *heap = realloc(events->heap, room * sizeof *heap);
        if (heap == NULL) {
            return false;
        }
        events->heap = heap;
        events->room = room;
    }
    event.order = events->planned++;
    size_t at = events->count++;
    while (at > 0 && before(&event, &events->heap[(at - 1) / 2])) {
        events->heap[at] = events->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    events->heap[at] = event;
    return true;
}

struct hw__planned hw__events_pop(struct hw__events *events) {
    struct hw__planned first = events->heap[0];
    struct hw__planned last = events->heap[--events->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= events->count) {
            break;
        }
        if (child + 1 < events->count && before(&events->heap[child + 1], &events->heap[child])) {
            child++;
        }
        if (!before(&events->heap[child], &last)) {
            break;
        }
        events->heap[at] = events->heap[child];
        at = child;
    }
    events->heap[at] = last;
    return first;
}

void hw__events_free(struct hw__events *events) {
    free(events->heap);
    *events = (struct hw__events){.heap = NULL};
}
