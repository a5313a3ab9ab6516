// SPDX-License-Identifier: MIT
#include "limits/biased.h"

void hw__biased_init(struct hw__biased *object, struct hw__biased_owner *owner) {
    atomic_init(&object->owner, owner);
    object->local = 1;
    atomic_init(&object->shared, 0);
    object->next = NULL;
}

bool hw__biased_merge_zero(struct hw__biased *object) {
    int64_t shared = atomic_load_explicit(&object->shared, memory_order_acquire);
    if (shared == 0) {
        return true; /* no other thread has a reference, so none can be here */
    }
    /* The owner is cleared before MERGED is visible. From then on, another thread may find the
     * object dead. */
    atomic_store_explicit(&object->owner, NULL, memory_order_relaxed);
    int64_t merged;
    do {
        merged = (shared & ~HW__BIASED_FLAGS) | HW__BIASED_MERGED;
    } while (!atomic_compare_exchange_weak_explicit(&object->shared, &shared, merged,
                                                    memory_order_acq_rel, memory_order_acquire));
    return merged == HW__BIASED_MERGED;
}

bool hw__biased_queue(struct hw__biased *object) {
    struct hw__biased_owner *owner = atomic_load_explicit(&object->owner, memory_order_relaxed);
    if (owner == NULL) {
        /* The call cannot come back here: QUEUED or MERGED is set. */
        return hw__biased_decref_shared(object);
    }
    struct hw__biased *top = atomic_load_explicit(&owner->inbox, memory_order_relaxed);
    do {
        object->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&owner->inbox, &top, object,
                                                    memory_order_release, memory_order_relaxed));
    return false;
}

bool hw__biased_decref_shared(struct hw__biased *object) {
    int64_t shared = atomic_load_explicit(&object->shared, memory_order_relaxed);
    int64_t changed;
    bool must_queue;
    do {
        /* Not merged, and `shared` has nothing to take from: the reference is counted in `local`.
         * It stays counted there. It belongs to the inbox now, which keeps the object alive until
         * the owner drains the inbox. */
        must_queue = shared == 0;
        changed = must_queue ? HW__BIASED_QUEUED : shared - HW__BIASED_ONE;
    } while (!atomic_compare_exchange_weak_explicit(&object->shared, &shared, changed,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return must_queue ? hw__biased_queue(object) : changed == HW__BIASED_MERGED;
}

/* Merges one object from the inbox, and drops the reference that was queued with it.
 *
 * Returns whether the object is dead. */
static bool merge_queued(struct hw__biased *object) {
    int64_t local = object->local;
    object->local = 0;
    atomic_store_explicit(&object->owner, NULL, memory_order_relaxed);
    int64_t shared = atomic_load_explicit(&object->shared, memory_order_relaxed);
    int64_t merged;
    do {
        int64_t others = shared & ~HW__BIASED_FLAGS;
        merged = (others + (local - 1) * HW__BIASED_ONE) | HW__BIASED_MERGED;
    } while (!atomic_compare_exchange_weak_explicit(&object->shared, &shared, merged,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return merged == HW__BIASED_MERGED;
}

void hw__biased_drain(struct hw__biased_owner *self, void (*on_death)(struct hw__biased *object)) {
    struct hw__biased *object = atomic_exchange_explicit(&self->inbox, NULL, memory_order_acquire);
    while (object != NULL) {
        struct hw__biased *next = object->next; /* the object may be gone after the merge */
        if (merge_queued(object)) {
            on_death(object);
        }
        object = next;
    }
}

int64_t hw__biased_count(const struct hw__biased *object) {
    int64_t shared = atomic_load_explicit(&object->shared, memory_order_relaxed);
    return object->local + (shared & ~HW__BIASED_FLAGS) / HW__BIASED_ONE;
}
