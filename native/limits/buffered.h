// SPDX-License-Identifier: MIT
/* Buffered reference counts, after Larry Hastings' Gilectomy. Threads do not touch the counts; they
 * log what they would have done. Full logs are applied in batches, by one thread at a time, with
 * plain arithmetic. Between flushes a count is out of date; it is exact once every log has been
 * flushed.
 *
 * Guarantee: a batch applies its increments before its decrements. A thread that only drops
 * references that it took itself, as in the experiment, therefore never makes a count reach zero
 * early. To pass references from thread to thread, a batch would also have to wait for earlier
 * increments of other threads.
 *
 * Rejected: a commit thread of its own, as in the Gilectomy. It takes a core from the measured
 * threads, which decides the result where cores are few. Applying one's own batch under a lock is
 * the same work. */
#ifndef HEADWAY_LIMITS_BUFFERED_H
#define HEADWAY_LIMITS_BUFFERED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Entries in a log. With more entries, threads take the commit lock less often, but counts lag
 * further behind, and both logs of a thread (16 bytes per entry) crowd its L1 cache. With fewer
 * entries, the reverse holds. */
#define HW__LOG_ENTRIES 1024

/* The commit lock: the right to change counts. */
struct hw__commit {
    /* Protects every count and zero mark of the objects that it is used with. A leaf: no other lock
     * is taken while it is held. A thread that flushes or reads waits for it as long as batches
     * take. */
    pthread_mutex_t mutex;
};

struct hw__buffered {
    int64_t count;     /* without unflushed logs; protected by the commit lock */
    bool reached_zero; /* a batch left the count at zero once; protected by the commit lock */
};

/* The changes that one thread has not applied yet. Only that thread may use the log, or any thread
 * after that thread has been joined. */
struct hw__log {
    struct hw__commit *commit;                     /* shared by all logs of the same objects */
    uint32_t increfs_used;                         /* entries in increfs */
    uint32_t decrefs_used;                         /* entries in decrefs */
    struct hw__buffered *increfs[HW__LOG_ENTRIES]; /* in the order in which they were taken */
    struct hw__buffered *decrefs[HW__LOG_ENTRIES]; /* in the order in which they were dropped */
};

/* Makes an unlocked commit lock, which hw__commit_destroy() must destroy. Returns 0 or a negative
 * errno. */
int hw__commit_init(struct hw__commit *commit);

/* Destroys a commit lock that no thread holds. This function can't fail. */
void hw__commit_destroy(struct hw__commit *commit);

/* Makes an empty log. This function can't fail. */
void hw__log_init(struct hw__log *log, struct hw__commit *commit);

/* Applies and empties the log. Takes the commit lock. This function can't fail. */
void hw__log_flush(struct hw__log *log);

/* Makes an object with one reference. This function can't fail. */
void hw__buffered_init(struct hw__buffered *object);

/* Returns the number of references, read under the commit lock. The number is exact once every log
 * has been flushed. An object whose count has reached zero is dead and stays dead. This function
 * can't fail. */
int64_t hw__buffered_count(const struct hw__buffered *object, struct hw__commit *commit);

/* Logs that a reference is taken. This function can't fail. */
static inline void hw__buffered_incref(struct hw__buffered *object, struct hw__log *log) {
    log->increfs[log->increfs_used++] = object;
    if (log->increfs_used == HW__LOG_ENTRIES) {
        hw__log_flush(log);
    }
}

/* Logs that a reference is dropped. Only a flush shows whether it was the last one. This function
 * can't fail. */
static inline void hw__buffered_decref(struct hw__buffered *object, struct hw__log *log) {
    log->decrefs[log->decrefs_used++] = object;
    if (log->decrefs_used == HW__LOG_ENTRIES) {
        hw__log_flush(log);
    }
}

#endif
