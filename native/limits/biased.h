// SPDX-License-Identifier: MIT
/* Biased reference counts, as in CPython's free-threaded build (PEP 703; Choi, Shull, Torrellas,
 * "Biased reference counting", PACT 2018), without immortal objects and weak references.
 *
 * The count is local + shared. Only the owner uses `local`, without atomics. All other threads use
 * `shared`, atomically. `shared` may be below zero while `local` makes up for it. The object is
 * dead when the sum is zero, which can be decided only after the two have been merged:
 *
 *  - The owner merges when `local` reaches zero. From then on, all threads use `shared`.
 *  - A thread that would take `shared` below zero first puts its reference into the owner's inbox.
 * The owner merges when it next drains the inbox.
 *
 * Owners must outlive their objects. CPython cannot assume that, and keeps a table of live
 * threads. */
#ifndef HEADWAY_LIMITS_BIASED_H
#define HEADWAY_LIMITS_BIASED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw__biased;

/* A thread as an owner of objects. */
struct hw__biased_owner {
    /* Objects queued for merging, newest first, linked by `next`. Any thread pushes (release). The
     * owner takes all of them (acquire). No thread waits. */
    _Atomic(struct hw__biased *) inbox;
};

/* `shared` holds the count times HW__BIASED_ONE, plus at most one of these two flags. */
#define HW__BIASED_QUEUED INT64_C(1) /* is or was in the inbox: must not be queued again */
#define HW__BIASED_MERGED INT64_C(2) /* `local` is out of use; `shared` is the whole count */
#define HW__BIASED_FLAGS INT64_C(3)
#define HW__BIASED_ONE INT64_C(4)

struct hw__biased {
    /* The owner, which alone may use `local`; NULL once merged. Only the owner writes it. No thread
     * waits. Relaxed: a thread compares the owner with itself. A stale value cannot make that
     * comparison wrong, because no other thread becomes the owner later; and the owner sees its own
     * writes in program order. */
    _Atomic(struct hw__biased_owner *) owner;
    uint32_t local; /* references counted by the owner; only the owner reads or writes it */
    /* References counted by the other threads (see above). No thread waits. Increments are relaxed:
     * a thread that adds a reference already has one, which it got in an ordered way. Decrements
     * are acq_rel: all uses of the object come before its death. */
    _Atomic int64_t shared;
    struct hw__biased *next; /* link in the inbox; written before the push, read after the take */
};

/* Makes an object with one reference, which belongs to the owner. This function can't fail. */
void hw__biased_init(struct hw__biased *object, struct hw__biased_owner *owner);

/* Merges when the owner has dropped its last local reference. Only hw__biased_decref() may call it,
 * on the owner's thread.
 *
 * Returns whether the object is dead. */
bool hw__biased_merge_zero(struct hw__biased *object);

/* Drops a reference of a thread that is not the owner, or of any thread once the object is merged.
 *
 * Returns whether the object is dead. */
bool hw__biased_decref_shared(struct hw__biased *object);

/* Moves the caller's reference, for which QUEUED is set, to the owner's inbox. Only
 * hw__biased_decref_shared() may call it. It is a function of its own so that a test can let the
 * owner merge in between.
 *
 * Returns whether the object is dead, which is possible if the owner has merged. */
bool hw__biased_queue(struct hw__biased *object);

/* Merges all objects in the inbox and drops the references that were queued with them. Only the
 * owner's thread may call it, or any thread after the owner has been joined.
 *
 * on_death: called for each object that is dead after the merge.
 *
 * This function can't fail. */
void hw__biased_drain(struct hw__biased_owner *self, void (*on_death)(struct hw__biased *object));

/* Returns the number of references: the sum of both parts. The caller must make sure that no thread
 * changes the object. This function can't fail. */
int64_t hw__biased_count(const struct hw__biased *object);

/* Tells whether `self`, the calling thread, owns the object. This function can't fail. */
static inline bool hw__biased_owned(struct hw__biased *object,
                                    const struct hw__biased_owner *self) {
    return atomic_load_explicit(&object->owner, memory_order_relaxed) == self;
}

/* Takes a reference. The caller must already have one, or borrow one. This function can't fail. */
static inline void hw__biased_incref(struct hw__biased *object,
                                     const struct hw__biased_owner *self) {
    if (hw__biased_owned(object, self)) {
        object->local++;
    } else {
        atomic_fetch_add_explicit(&object->shared, HW__BIASED_ONE, memory_order_relaxed);
    }
}

/* Drops a reference.
 *
 * Returns whether the object is dead. An object dies once: here or in hw__biased_drain(). */
static inline bool hw__biased_decref(struct hw__biased *object,
                                     const struct hw__biased_owner *self) {
    if (hw__biased_owned(object, self)) {
        return --object->local == 0 && hw__biased_merge_zero(object);
    }
    return hw__biased_decref_shared(object);
}

#endif
