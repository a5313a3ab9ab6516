// SPDX-License-Identifier: MIT
/* Buffered reference counts, after Larry Hastings' Gilectomy: threads do not touch counts at all,
 * they log what they would have done, and full logs are applied in batches by one thread at a time,
 * with plain arithmetic. Between flushes a count is out of date; it is exact once every log has
 * been flushed.
 *
 * Guarantee: a batch applies its increments before its decrements, so a thread that only drops
 * references it took itself (the experiment does) never makes a count touch zero early. To hand
 * references from thread to thread, a batch would also have to wait for the earlier increments of
 * others.
 *
 * Rejected: a commit thread of its own, as the Gilectomy had. It takes a core from the threads
 * measured, and where cores are few that decides the result; applying one's own batch under a lock
 * is the same work. */
#ifndef HEADWAY_LIMITS_BUFFERED_H
#define HEADWAY_LIMITS_BUFFERED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Entries per log. More: the commit lock is taken less often, but counts lag further behind and
 * both logs of a thread (16 bytes per entry) crowd its L1 cache. Fewer: the reverse. */
#define HW__LOG_ENTRIES 1024

/* The right to change counts. */
struct hw__commit {
    /* Protects every count and zero mark of the objects it is used with. A leaf: no other lock is
     * taken while it is held. Any flushing or reading thread may wait, for as long as batches take
     * to apply. */
    pthread_mutex_t mutex;
};

struct hw__buffered {
    int64_t count;     /* as far as flushed; protected by the commit lock */
    bool reached_zero; /* a batch left it at zero at some point; protected by the commit lock */
};

/* What one thread has yet to apply. Only that thread touches it, or any thread once that has been
 * joined. */
struct hw__log {
    struct hw__commit *commit;                     /* shared by all logs of the same objects */
    uint32_t increfs_used;                         /* entries in increfs */
    uint32_t decrefs_used;                         /* entries in decrefs */
    struct hw__buffered *increfs[HW__LOG_ENTRIES]; /* in the order taken */
    struct hw__buffered *decrefs[HW__LOG_ENTRIES]; /* in the order dropped */
};

/* Makes an unlocked commit lock; destroy it with hw__commit_destroy().
 *
 * Returns 0 or a negative errno. */
int hw__commit_init(struct hw__commit *commit);

/* Destroys a commit lock that nobody holds.
 *
 * This function can't fail. */
void hw__commit_destroy(struct hw__commit *commit);

/* Makes an empty log.
 *
 * This function can't fail. */
void hw__log_init(struct hw__log *log, struct hw__commit *commit);

/* Applies and empties the log. Takes the commit lock.
 *
 * This function can't fail. */
void hw__log_flush(struct hw__log *log);

/* Makes an object with one reference.
 *
 * This function can't fail. */
void hw__buffered_init(struct hw__buffered *object);

/* Reads the count under the commit lock. It is exact once every log has been flushed. An object
 * whose count has reached zero is dead and stays so.
 *
 * Returns the number of references. This function can't fail. */
int64_t hw__buffered_count(const struct hw__buffered *object, struct hw__commit *commit);

/* Takes a reference, some time later.
 *
 * This function can't fail. */
static inline void hw__buffered_incref(struct hw__buffered *object, struct hw__log *log) {
    log->increfs[log->increfs_used++] = object;
    if (log->increfs_used == HW__LOG_ENTRIES) {
        hw__log_flush(log);
    }
}

/* Drops a reference, some time later. Whether it was the last shows when the log is flushed.
 *
 * This function can't fail. */
static inline void hw__buffered_decref(struct hw__buffered *object, struct hw__log *log) {
    log->decrefs[log->decrefs_used++] = object;
    if (log->decrefs_used == HW__LOG_ENTRIES) {
        hw__log_flush(log);
    }
}

#endif
