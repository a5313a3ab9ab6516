// SPDX-License-Identifier: MIT
/* DESIGN. There is one loop. It is inlined once per way of counting, with its two operations as
 * constants. Each way thus costs what it would in an interpreter, and no indirect call is measured.
 *
 * The optimiser must not remove `count++; --count`. The fence between the two is a compiler
 * barrier: the compiler cannot know what the pointer to an object points to, so it must store the
 * count before the fence and load it again after. The fence emits no machine code. x86-64 does the
 * plain pair with the two instructions that CPython under the GIL has, too: `add $1, mem`, and `sub
 * $1, mem` with a jump if zero. (volatile would split each of them in three.)
 *
 * The decrement tests for zero in all ways except the buffered one, where only a flush can. */
#include "limits/walk.h"

#include "headway/refcount.h"

/* One unit of work: x = x * WORK_FACTOR + WORK_STEP (the generator of Knuth's MMIX). */
#define WORK_FACTOR UINT64_C(6364136223846793005)
#define WORK_STEP UINT64_C(1442695040888963407)

typedef void operation(struct hw__object *object, struct hw__self *self);

/* Stands in for the destructor: it is out of line, and runs only if a count is wrong. */
static __attribute__((cold, noinline)) void object_died(struct hw__object *object) {
    atomic_store_explicit(&object->dead, 1, memory_order_relaxed);
}

static inline void plain_incref(struct hw__object *object, struct hw__self *self) {
    (void)self;
    object->count.plain++;
}

static inline void plain_decref(struct hw__object *object, struct hw__self *self) {
    (void)self;
    if (--object->count.plain == 0) {
        object_died(object);
    }
}

static inline void atomic_incref(struct hw__object *object, struct hw__self *self) {
    (void)self;
    atomic_fetch_add_explicit(&object->count.atomic, 1, memory_order_relaxed);
}

static inline void atomic_decref(struct hw__object *object, struct hw__self *self) {
    (void)self;
    if (atomic_fetch_sub_explicit(&object->count.atomic, 1, memory_order_acq_rel) == 1) {
        object_died(object);
    }
}

static inline void biased_incref(struct hw__object *object, struct hw__self *self) {
    hw__biased_incref(&object->count.biased, &self->owner);
}

static inline void biased_decref(struct hw__object *object, struct hw__self *self) {
    if (hw__biased_decref(&object->count.biased, &self->owner)) {
        object_died(object);
    }
}

static inline void buffered_incref(struct hw__object *object, struct hw__self *self) {
    hw__buffered_incref(&object->count.buffered, &self->log);
}

static inline void buffered_decref(struct hw__object *object, struct hw__self *self) {
    hw__buffered_decref(&object->count.buffered, &self->log);
}

/* Runs the loop. Both operations must be constants. Returns the result of the work. */
static inline __attribute__((always_inline)) uint64_t walk_with(const struct hw__walk *walk,
                                                                operation *incref,
                                                                operation *decref) {
    struct hw__object *const objects = walk->objects;
    struct hw__self *const self = walk->self;
    const int64_t pairs = walk->pairs;
    const int64_t mask = walk->count - 1;
    const int work = walk->work;
    uint64_t x = walk->seed;
    for (int64_t i = 0; i < pairs; i++) {
        struct hw__object *object = &objects[i & mask];
        incref(object, self);
        atomic_signal_fence(memory_order_seq_cst);
        decref(object, self);
        atomic_signal_fence(memory_order_seq_cst);
        for (int unit = 0; unit < work; unit++) {
            x = x * WORK_FACTOR + WORK_STEP;
        }
    }
    return x;
}

void hw__self_init(struct hw__self *self, struct hw__commit *commit) {
    atomic_init(&self->owner.inbox, NULL);
    hw__log_init(&self->log, commit);
}

void hw__object_init(struct hw__object *object, int kind, struct hw__self *self) {
    atomic_init(&object->dead, 0);
    switch (kind) {
    case HW_REFCOUNT_PLAIN:
        object->count.plain = 1;
        break;
    case HW_REFCOUNT_ATOMIC:
        atomic_init(&object->count.atomic, 1);
        break;
    case HW_REFCOUNT_BIASED:
        hw__biased_init(&object->count.biased, &self->owner);
        break;
    default:
        hw__buffered_init(&object->count.buffered);
    }
}

int64_t hw__object_count(const struct hw__object *object, int kind, struct hw__commit *commit) {
    if (atomic_load_explicit(&object->dead, memory_order_relaxed) != 0) {
        return 0;
    }
    switch (kind) {
    case HW_REFCOUNT_PLAIN:
        return object->count.plain;
    case HW_REFCOUNT_ATOMIC:
        return atomic_load_explicit(&object->count.atomic, memory_order_relaxed);
    case HW_REFCOUNT_BIASED:
        return hw__biased_count(&object->count.biased);
    default:
        return hw__buffered_count(&object->count.buffered, commit);
    }
}

uint64_t hw__walk_run(const struct hw__walk *walk, int kind) {
    switch (kind) {
    case HW_REFCOUNT_PLAIN:
        return walk_with(walk, plain_incref, plain_decref);
    case HW_REFCOUNT_ATOMIC:
        return walk_with(walk, atomic_incref, atomic_decref);
    case HW_REFCOUNT_BIASED:
        return walk_with(walk, biased_incref, biased_decref);
    default: {
        uint64_t x = walk_with(walk, buffered_incref, buffered_decref);
        hw__log_flush(&walk->self->log);
        return x;
    }
    }
}
