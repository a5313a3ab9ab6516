// SPDX-License-Identifier: MIT
/* The loop that the reference-count experiment times, once for each way of counting. */
#ifndef HEADWAY_LIMITS_WALK_H
#define HEADWAY_LIMITS_WALK_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "limits/biased.h"
#include "limits/buffered.h"

/* The size of a cache line on x86-64 and on nearly all aarch64. */
#define HW__CACHE_LINE 64

/* The distance between memory of different threads: x86 prefetches cache lines in pairs. */
#define HW__APART 128

/* An object with a reference count, in one of the four ways; one object to a cache line. */
struct hw__object {
    /* Set to 1 by the thread that finds the count at zero, and never cleared. Relaxed: it is read
     * after the threads have been joined. No thread waits. Buffered objects have a mark of their
     * own. */
    alignas(HW__CACHE_LINE) atomic_int dead;
    union {
        int64_t plain;          /* one thread only */
        _Atomic int64_t atomic; /* all threads; ordered as `shared` of struct hw__biased */
        struct hw__biased biased;
        struct hw__buffered buffered;
    } count;
};

/* The state of one thread. */
struct hw__self {
    alignas(HW__APART) struct hw__biased_owner owner; /* for biased counts */
    struct hw__log log;                               /* for buffered counts */
};

/* One thread's part of the experiment. */
struct hw__walk {
    struct hw__object *objects; /* the block to walk, round-robin */
    struct hw__self *self;      /* the state of the calling thread */
    int64_t pairs;              /* incref + decref pairs */
    int64_t count;              /* objects in the block, a power of two */
    int work;                   /* multiply-adds after each pair */
    uint64_t seed;              /* the number that the work starts from */
};

/* Makes the calling thread's own state. This function can't fail. */
void hw__self_init(struct hw__self *self, struct hw__commit *commit);

/* Makes an object with one reference, counted as `kind` (HW_REFCOUNT_...) says. `self`, the calling
 * thread, owns the object. This function can't fail. */
void hw__object_init(struct hw__object *object, int kind, struct hw__self *self);

/* Returns the number of references, or 0 if the count was ever found at zero. No thread may use the
 * object any more, and all logs must have been flushed. This function can't fail. */
int64_t hw__object_count(const struct hw__object *object, int kind, struct hw__commit *commit);

/* Takes and drops references as `walk` says, counts them as `kind` says, and flushes the log if
 * there is one. No other thread may use a plain object. Returns the result of the work. This
 * function can't fail. */
uint64_t hw__walk_run(const struct hw__walk *walk, int kind);

#endif
