// SPDX-License-Identifier: MIT
#ifndef HEADWAY_REFCOUNT_H
#define HEADWAY_REFCOUNT_H

#include <stdint.h>

#include "headway/api.h"

/* How references are counted. */
#define HW_REFCOUNT_PLAIN 0    /* a plain integer, as in CPython under the GIL */
#define HW_REFCOUNT_ATOMIC 1   /* one atomic integer for all threads */
#define HW_REFCOUNT_BIASED 2   /* plain for the owner, atomic for the others (Choi 2018, PEP 703) */
#define HW_REFCOUNT_BUFFERED 3 /* logged by each thread, applied in batches (the Gilectomy) */

/* The objects that a thread walks. */
#define HW_REFCOUNT_OWN 0 /* its own objects; two threads' objects share no cache line */
#define HW_REFCOUNT_SHARED                                                                         \
    1 /* the same objects for all threads; thread 0 makes and (biased) owns them */

#define HW_REFCOUNT_MAX_THREADS 64
#define HW_REFCOUNT_MAX_OBJECTS 65536

/* Instead of a CPU number: the thread may run wherever the calling thread may run. */
#define HW_REFCOUNT_UNPINNED (-1)

/* The parameters of an experiment. */
struct hw_refcount_config {
    int kind;    /* HW_REFCOUNT_PLAIN to HW_REFCOUNT_BUFFERED */
    int threads; /* 1 to HW_REFCOUNT_MAX_THREADS */
    int sharing; /* HW_REFCOUNT_OWN or HW_REFCOUNT_SHARED */
    int objects; /* objects that each thread walks round-robin: a power of two, up to the maximum */
    int64_t pairs;   /* incref + decref pairs per thread, at least 1 */
    int work;        /* dependent multiply-adds after each pair, for the rest of a bytecode; >= 0 */
    const int *cpus; /* NULL, or a CPU number or HW_REFCOUNT_UNPINNED for each thread */
};

/* The times of an experiment, and whether the counts were right. */
struct hw_refcount_result {
    int64_t elapsed_ns; /* from the first thread past the start barrier to the last one finished */
    int64_t thread_min_ns; /* the fastest thread's time, from the barrier to its end */
    int64_t thread_max_ns; /* the slowest thread's time, from the barrier to its end */
    int64_t lost;          /* references expected minus counted, over all objects; 0 if correct */
    uint64_t checksum;     /* of the work: depends on threads, pairs and work only */
};

/* Starts `threads` new threads at the same time. Each of them takes and drops a reference `pairs`
 * times. Then every count is checked. An object begins with one reference that nobody drops, so it
 * must end with one; an object whose count was zero at any time counts as lost, too. Buffered
 * threads apply their logs before they end, within the measured time.
 *
 * The function blocks until all threads have been joined; a signal does not end it early. The
 * calling thread's affinity and signal mask do not change.
 *
 * config: not kept after the return.
 * out:    filled on success, unchanged otherwise.
 *
 * Returns 0, or a negative errno: -EINVAL for an argument out of range, for a CPU that the process
 * may not use, and for PLAIN + SHARED with more than one thread, which would be a data race
 * (undefined behaviour in C); -ENOMEM without memory for the objects; else the error of
 * pthread_create. */
HW_API int hw_refcount(const struct hw_refcount_config *config, struct hw_refcount_result *out);

#endif
