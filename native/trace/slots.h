// SPDX-License-Identifier: MIT
/* Updates the counters of a live thread (struct hw__slot of format.h). Only one thread at a time
 * writes them: the thread itself, or hw__parks_stop() when no thread records. So an addition is a
 * load and a store. Relaxed: a reader in another process may see one counter newer than another. */
#ifndef HEADWAY_TRACE_SLOTS_H
#define HEADWAY_TRACE_SLOTS_H

#include "trace/thread.h"

#define HW__ADD(counter, amount)                                                                   \
    atomic_store_explicit(&(counter),                                                              \
                          atomic_load_explicit(&(counter), memory_order_relaxed) + (amount),       \
                          memory_order_relaxed)
#define HW__SET(counter, value) atomic_store_explicit(&(counter), (value), memory_order_relaxed)

static inline void hw__slot_change(struct hw__thread *thread, uint32_t state, int64_t now_ns) {
    HW__SET(thread->slot->since_ns, now_ns);
    HW__SET(thread->slot->state, state);
}

static inline unsigned hw__bits_of(uint64_t length_ns) {
    return length_ns == 0 ? 0 : 64 - (unsigned)__builtin_clzll(length_ns);
}

static inline unsigned hw__bucket_of(uint64_t length_ns) {
    unsigned bits = hw__bits_of(length_ns);
    return bits < HW__BUCKETS ? bits : HW__BUCKETS - 1;
}

static inline void hw__slot_count_wait(struct hw__slot *slot, uint64_t wait_ns) {
    HW__ADD(slot->waits, 1);
    HW__ADD(slot->wait_ns, wait_ns);
    if (wait_ns > atomic_load_explicit(&slot->worst_wait_ns, memory_order_relaxed)) {
        HW__SET(slot->worst_wait_ns, wait_ns);
    }
    HW__ADD(slot->wait_buckets[hw__bucket_of(wait_ns)], 1);
}

/* Counts a wait for stop-the-world. */
static inline void hw__slot_count_world(struct hw__slot *slot, uint64_t wait_ns) {
    unsigned bits = hw__bits_of(wait_ns);
    unsigned bucket = bits <= 10 ? 0 : (bits - 9) / 2;
    HW__ADD(slot->world_ns, wait_ns);
    HW__ADD(slot->world_buckets[bucket < HW__WORLD_BUCKETS ? bucket : HW__WORLD_BUCKETS - 1], 1);
}

#endif
