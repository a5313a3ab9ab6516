// SPDX-License-Identifier: MIT
#include "limits/buffered.h"

#include "base/lock.h"

int hw__commit_init(struct hw__commit *commit) { return hw__mutex_init(&commit->mutex); }

void hw__commit_destroy(struct hw__commit *commit) { pthread_mutex_destroy(&commit->mutex); }

void hw__log_init(struct hw__log *log, struct hw__commit *commit) {
    log->commit = commit;
    log->increfs_used = 0;
    log->decrefs_used = 0;
}

void hw__log_flush(struct hw__log *log) {
    hw__mutex_lock(&log->commit->mutex);
    for (uint32_t i = 0; i < log->increfs_used; i++) {
        log->increfs[i]->count++;
    }
    for (uint32_t i = 0; i < log->decrefs_used; i++) {
        struct hw__buffered *object = log->decrefs[i];
        if (--object->count == 0) {
            object->reached_zero = true;
        }
    }
    hw__mutex_unlock(&log->commit->mutex);
    log->increfs_used = 0;
    log->decrefs_used = 0;
}

void hw__buffered_init(struct hw__buffered *object) {
    object->count = 1;
    object->reached_zero = false;
}

int64_t hw__buffered_count(const struct hw__buffered *object, struct hw__commit *commit) {
    hw__mutex_lock(&commit->mutex);
    int64_t count = object->reached_zero ? 0 : object->count;
    hw__mutex_unlock(&commit->mutex);
    return count;
}
