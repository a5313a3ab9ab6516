// SPDX-License-Identifier: MIT
#ifndef HEADWAY_REFCOUNT_H
#define HEADWAY_REFCOUNT_H

#include <stdint.h>

#include "headway/api.h"

/* How references are counted. */
#define HW_REFCOUNT_PLAIN 0    /* a plain integer, as CPython under the GIL */
#define HW_REFCOUNT_ATOMIC 1   /* one atomic integer for all threads */
#define HW_REFCOUNT_BIASED 2   /* plain for the owner, atomic for the others (Choi 2018, PEP 703) */
#define HW_REFCOUNT_BUFFERED 3 /* logged by each thread, applied in batches (the Gilectomy) */

/* Which objects a thread walks. */
#define HW_REFCOUNT_OWN 0    /* its own; no two threads' objects share a cache line */
#define HW_REFCOUNT_SHARED 1 /* the same as all others; thread 0 makes and (biased) owns them */

#define HW_REFCOUNT_MAX_THREADS 64
#define HW_REFCOUNT_MAX_OBJECTS 65536

/* Instead of a CPU number: the thread may run wherever the calling thread may. */
#define HW_REFCOUNT_UNPINNED (-1)

/* What to run. */
struct hw_refcount_config {
    int kind;        /* HW_REFCOUNT_PLAIN ... HW_REFCOUNT_BUFFERED */
    int threads;     /* 1 ... HW_REFCOUNT_MAX_THREADS */
    int sharing;     /* HW_REFCOUNT_OWN or HW_REFCOUNT_SHARED */
    int objects;     /* walked round-robin by each thread: a power of two, up to the maximum */
    int64_t pairs;   /* incref + decref pairs per thread, at least 1 */
    int work;        /* dependent multiply-adds after each pair, for the rest of a bytecode; >= 0 */
    const int *cpus; /* NULL, or for each thread a CPU number or HW_REFCOUNT_UNPINNED */
};

/* What it took, and whether the counts were right. */
struct hw_refcount_result {
    int64_t elapsed_ns;    /* first thread past the start barrier to last thread finished */
    int64_t thread_min_ns; /* the quickest thread, from the barrier to its own end */
    int64_t thread_max_ns; /* the slowest thread, likewise */
    int64_t lost;          /* references expected minus counted, over all objects; 0 if correct */
    uint64_t checksum;     /* of the work: depends on threads, pairs and work only */
};

/* Lets `threads` new threads each take and drop a reference `pairs` times, all starting together,
 * and then checks every count. An object is born with one reference that nobody drops, so it must
 * end with one; an object whose count touched zero on the way counts as lost too. Buffered threads
 * apply their logs before they end, within the time measured.
 *
 * Blocks until all threads have been joined; a signal does not cut it short. The calling thread's
 * affinity and signal mask are not touched.
 *
 * config: not kept after the return.
 * out:    filled on success, untouched otherwise.
 *
 * Returns 0, or a negative errno: -EINVAL for an argument out of range, for a CPU the process may
 * not use, and for PLAIN + SHARED with more than one thread, which would be a data race (undefined
 * behaviour in C); -ENOMEM without memory for the objects; else what pthread_create reported. */
HW_API int hw_refcount(const struct hw_refcount_config *config, struct hw_refcount_result *out);

#endif
