// SPDX-License-Identifier: MIT
/* Which thread has posted a semaphore last, for the waiters that it wakes (gil/posts.h). */
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>

#include "engine/runner.h"
#include "gil/scheduler.h"

/* The last poster of each semaphore; NULL: none, or a thread without a record. Two semaphores may
 * share a place. A waiter may then be given the wrong poster, and a request for it is made up to
 * some milliseconds too soon or too late. Relaxed: a poster writes before sem_post(), and the
 * woken thread reads after its wait, which orders them. */
#define PLACES_SHIFT 10
static _Atomic(struct hw__runner *) posters[1 << PLACES_SHIFT];

static _Atomic(struct hw__runner *) *place_of(const sem_t *semaphore) {
    /* Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4). */
    uint64_t hash = (uint64_t)(uintptr_t)semaphore * UINT64_C(0x9E3779B97F4A7C15);
    return &posters[hash >> (64 - PLACES_SHIFT)];
}

void hw__sched_posts(const sem_t *semaphore) {
    atomic_store_explicit(place_of(semaphore), hw__runner_known(), memory_order_relaxed);
}

void hw__sched_was_posted(const sem_t *semaphore) {
    struct hw__runner *runner = hw__runner_known();
    if (runner != NULL) {
        runner->poster = atomic_load_explicit(place_of(semaphore), memory_order_relaxed);
    }
}
