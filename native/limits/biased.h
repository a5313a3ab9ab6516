// SPDX-License-Identifier: MIT
/* Biased reference counts, as CPython's free-threaded build has them (PEP 703; Choi, Shull,
 * Torrellas, "Biased reference counting", PACT 2018), less immortal objects and weak references.
 *
 * The count is local + shared. The owner alone touches `local`, without atomics; all others touch
 * `shared`, atomically. `shared` may go below zero while `local` makes up for it. The object is
 * dead when the sum is zero, which is only decidable after the two have been merged:
 *
 *  - The owner merges when `local` reaches zero; from then on everyone uses `shared`.
 *  - Another thread that would take `shared` below zero first puts its reference in the owner's
 *    inbox instead, and the owner merges when it next drains that.
 *
 * Assumes that owners outlive their objects. CPython cannot, and keeps a table of live threads. */
#ifndef HEADWAY_LIMITS_BIASED_H
#define HEADWAY_LIMITS_BIASED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw__biased;

/* A thread as an owner of objects. */
struct hw__biased_owner {
    /* Objects queued for merging, newest first, linked by `next`. Any thread pushes (release), the
     * owner takes them all (acquire). Nobody waits. */
    _Atomic(struct hw__biased *) inbox;
};

/* `shared` holds the count times HW__BIASED_ONE, plus at most one of these two flags. */
#define HW__BIASED_QUEUED INT64_C(1) /* is, or once was, in the inbox: never queue it again */
#define HW__BIASED_MERGED INT64_C(2) /* `local` is out of use; `shared` is the whole count */
#define HW__BIASED_FLAGS INT64_C(3)
#define HW__BIASED_ONE INT64_C(4)

struct hw__biased {
    /* Who may touch `local`; NULL once merged. Written by the owner only. Nobody waits. Relaxed: a
     * thread compares it with itself, and no stale value can make that comparison come out wrong,
     * for nobody becomes owner later; what the owner itself wrote, program order gives it. */
    _Atomic(struct hw__biased_owner *) owner;
    uint32_t local; /* references counted by the owner; only the owner reads or writes it */
    /* See above. Nobody waits. Increments are relaxed: whoever adds a reference already has one,
     * got through something that ordered. Decrements are acq_rel: all uses of the object come
     * before its death. */
    _Atomic int64_t shared;
    struct hw__biased *next; /* link in the inbox; written before the push, read after the take */
};

/* Makes an object with one reference, which belongs to the owner.
 *
 * This function can't fail. */
void hw__biased_init(struct hw__biased *object, struct hw__biased_owner *owner);

/* Drops the owner's last local reference: merges. Only for hw__biased_decref(); the owner calls it.
 *
 * Returns whether the object is dead. */
bool hw__biased_merge_zero(struct hw__biased *object);

/* Drops a reference of a thread that is not the owner, or of any thread once merged.
 *
 * Returns whether the object is dead. */
bool hw__biased_decref_shared(struct hw__biased *object);

/* Hands the caller's reference, with QUEUED set for it, to the owner's inbox. Only for
 * hw__biased_decref_shared(); apart from it so that a test can let the owner merge in between.
 *
 * Returns whether the object is dead, which can be if the owner has merged. */
bool hw__biased_queue(struct hw__biased *object);

/* Merges all objects in the inbox and drops the references that were queued with them. Only the
 * owner's thread may call it, or any thread once that has been joined.
 *
 * on_death: called for each object that is dead by that.
 *
 * This function can't fail. */
void hw__biased_drain(struct hw__biased_owner *self, void (*on_death)(struct hw__biased *object));

/* Adds up both parts. Exact when no thread is changing the object; the caller sees to that.
 *
 * Returns the number of references. This function can't fail. */
int64_t hw__biased_count(const struct hw__biased *object);

/* Whether `self`, the calling thread, owns the object.
 *
 * Returns true or false. This function can't fail. */
static inline bool hw__biased_owned(struct hw__biased *object,
                                    const struct hw__biased_owner *self) {
    return atomic_load_explicit(&object->owner, memory_order_relaxed) == self;
}

/* Takes a reference. The caller must have, or borrow, one already.
 *
 * This function can't fail. */
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
 * Returns whether the object is dead: once in its life, here or in hw__biased_drain(). */
static inline bool hw__biased_decref(struct hw__biased *object,
                                     const struct hw__biased_owner *self) {
    if (hw__biased_owned(object, self)) {
        return --object->local == 0 && hw__biased_merge_zero(object);
    }
    return hw__biased_decref_shared(object);
}

#endif
