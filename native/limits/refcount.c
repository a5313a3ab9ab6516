// SPDX-License-Identifier: MIT
#include "headway/refcount.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "limits/place.h"
#include "limits/team.h"
#include "limits/walk.h"

/* One run of the experiment. A thread writes only its own block, self and checksum. The caller
 * reads them after the team has been joined. */
struct run {
    const struct hw_refcount_config *config;
    int blocks;               /* blocks of objects: one per thread, or one for all */
    size_t block_size;        /* bytes of a block, a multiple of HW__APART */
    char *memory;             /* the blocks */
    struct hw__self *selves;  /* one per thread */
    struct hw__commit commit; /* the commit lock of all buffered counts */
    uint64_t checksums[HW_REFCOUNT_MAX_THREADS]; /* one per thread, written once at its end */
};

/* Tells whether hw_refcount() accepts the configuration. This function can't fail. */
static bool valid(const struct hw_refcount_config *config) {
    bool in_range = config->kind >= HW_REFCOUNT_PLAIN && config->kind <= HW_REFCOUNT_BUFFERED &&
                    config->threads >= 1 && config->threads <= HW_REFCOUNT_MAX_THREADS &&
                    config->sharing >= HW_REFCOUNT_OWN && config->sharing <= HW_REFCOUNT_SHARED &&
                    config->objects >= 1 && config->objects <= HW_REFCOUNT_MAX_OBJECTS &&
                    (config->objects & (config->objects - 1)) == 0 && config->pairs >= 1 &&
                    config->work >= 0;
    if (!in_range) {
        return false;
    }
    if (config->kind == HW_REFCOUNT_PLAIN && config->sharing == HW_REFCOUNT_SHARED &&
        config->threads > 1) {
        return false; /* a data race */
    }
    for (int i = 0; config->cpus != NULL && i < config->threads; i++) {
        if (!hw__cpu_in_range(config->cpus[i])) {
            return false;
        }
    }
    return true;
}

/* Returns the first object of a block. This function can't fail. */
static struct hw__object *block_at(const struct run *run, int block) {
    return (struct hw__object *)(void *)(run->memory + (size_t)block * run->block_size);
}

/* Makes a thread's state, and the objects of its block. The thread itself makes them, so that it
 * owns the objects and their memory is near it. Returns 0: this function can't fail. */
static int prepare(void *context, int index) {
    struct run *run = context;
    struct hw__self *self = &run->selves[index];
    hw__self_init(self, &run->commit);
    if (index < run->blocks) {
        struct hw__object *objects = block_at(run, index);
        for (int i = 0; i < run->config->objects; i++) {
            hw__object_init(&objects[i], run->config->kind, self);
        }
    }
    return 0;
}

/* Runs one thread's part of the experiment. This function can't fail. */
static void walk(void *context, int index) {
    struct run *run = context;
    const struct hw_refcount_config *config = run->config;
    struct hw__walk walk = {
        .objects = block_at(run, config->sharing == HW_REFCOUNT_OWN ? index : 0),
        .self = &run->selves[index],
        .pairs = config->pairs,
        .count = config->objects,
        .work = config->work,
        .seed = (uint64_t)index + 1,
    };
    run->checksums[index] = hw__walk_run(&walk, config->kind);
}

/* Allocates the blocks and the selves.
 *
 * Returns 0, or -ENOMEM with nothing to free. */
static int allocate(struct run *run) {
    size_t objects_size = (size_t)run->config->objects * sizeof(struct hw__object);
    run->block_size = (objects_size + HW__APART - 1) / HW__APART * HW__APART;
    run->memory = aligned_alloc(HW__APART, (size_t)run->blocks * run->block_size);
    run->selves = aligned_alloc(HW__APART, (size_t)run->config->threads * sizeof *run->selves);
    if (run->memory == NULL || run->selves == NULL) {
        free(run->memory);
        free(run->selves);
        return -ENOMEM;
    }
    return 0;
}

/* Returns the number of references expected minus the number found, once all threads have ended.
 * This function can't fail. */
static int64_t count_lost(struct run *run) {
    int64_t lost = 0;
    for (int block = 0; block < run->blocks; block++) {
        struct hw__object *objects = block_at(run, block);
        for (int i = 0; i < run->config->objects; i++) {
            lost += 1 - hw__object_count(&objects[i], run->config->kind, &run->commit);
        }
    }
    return lost;
}

/* Combines the threads' times and checksums in `out`, all but `lost`. This function can't fail. */
static void summarise(const struct run *run, const struct hw__span *spans,
                      struct hw_refcount_result *out) {
    int64_t first_ns = spans[0].start_ns;
    int64_t last_ns = spans[0].end_ns;
    out->thread_min_ns = INT64_MAX;
    out->thread_max_ns = 0;
    out->checksum = 0;
    for (int i = 0; i < run->config->threads; i++) {
        int64_t own_ns = spans[i].end_ns - spans[i].start_ns;
        first_ns = spans[i].start_ns < first_ns ? spans[i].start_ns : first_ns;
        last_ns = spans[i].end_ns > last_ns ? spans[i].end_ns : last_ns;
        out->thread_min_ns = own_ns < out->thread_min_ns ? own_ns : out->thread_min_ns;
        out->thread_max_ns = own_ns > out->thread_max_ns ? own_ns : out->thread_max_ns;
        out->checksum ^= run->checksums[i];
    }
    out->elapsed_ns = last_ns - first_ns;
}

int hw_refcount(const struct hw_refcount_config *config, struct hw_refcount_result *out) {
    if (config == NULL || out == NULL || !valid(config)) {
        return -EINVAL;
    }
    struct run run = {.config = config,
                      .blocks = config->sharing == HW_REFCOUNT_OWN ? config->threads : 1};
    int error = hw__commit_init(&run.commit);
    if (error != 0) {
        return error;
    }
    error = allocate(&run);
    if (error == 0) {
        struct hw__job job = {.prepare = prepare, .run = walk, .context = &run};
        struct hw__span spans[HW_REFCOUNT_MAX_THREADS];
        error = hw__team_run(&job, config->threads, config->cpus, spans);
        if (error == 0) {
            summarise(&run, spans, out);
            out->lost = count_lost(&run);
        }
        free(run.memory);
        free(run.selves);
    }
    hw__commit_destroy(&run.commit);
    return error;
}
