// SPDX-License-Identifier: MIT
/* The loop that the reference-count experiment times, once for each way of counting. */
#ifndef HEADWAY_LIMITS_WALK_H
#define HEADWAY_LIMITS_WALK_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "limits/biased.h"
#include "limits/buffered.h"

/* The cache line of x86-64 and of nearly all aarch64. */
#define HW__CACHE_LINE 64

/* Memory of different threads is this far apart: x86 prefetches lines in pairs. */
#define HW__APART 128

/* A thing with a reference count, in whichever of the four ways; one to a cache line. */
struct hw__object {
    /* Set, for good, by the thread that finds the count at zero. Relaxed: read after the threads
     * are joined. Nobody waits. Buffered objects have their own mark. */
    alignas(HW__CACHE_LINE) atomic_int dead;
    union {
        int64_t plain;          /* one thread only */
        _Atomic int64_t atomic; /* all threads; orders as in struct hw__biased. Nobody waits */
        struct hw__biased biased;
        struct hw__buffered buffered;
    } count;
};

/* What one thread needs for itself to count. */
struct hw__self {
    alignas(HW__APART) struct hw__biased_owner owner; /* biased */
    struct hw__log log;                               /* buffered */
};

/* One thread's share of the experiment. */
struct hw__walk {
    struct hw__object *objects; /* the block to walk, round-robin */
    struct hw__self *self;      /* of the calling thread */
    int64_t pairs;              /* incref + decref pairs */
    int64_t count;              /* objects in the block, a power of two */
    int work;                   /* multiply-adds after each pair */
    uint64_t seed;              /* the work starts from this number */
};

/* Makes the calling thread's own state.
 *
 * This function can't fail. */
void hw__self_init(struct hw__self *self, struct hw__commit *commit);

/* Makes an object with one reference, counted as `kind` (HW_REFCOUNT_...) says. `self`, the calling
 * thread, owns it.
 *
 * This function can't fail. */
void hw__object_init(struct hw__object *object, int kind, struct hw__self *self);

/* Reads the count of an object that no thread is using any more; all logs must have been flushed.
 *
 * Returns the number of references, or 0 if the count was ever found at zero. This function can't
 * fail. */
int64_t hw__object_count(const struct hw__object *object, int kind, struct hw__commit *commit);

/* Takes and drops references as `walk` says, counting as `kind` says, and flushes the log if there
 * is one. A plain object must not be in use by any other thread.
 *
 * Returns what the work came to. This function can't fail. */
uint64_t hw__walk_run(const struct hw__walk *walk, int kind);

#endif
