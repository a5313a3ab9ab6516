// SPDX-License-Identifier: MIT
/* The functions of the C library that the interpreter calls, on simulated tasks: futex(2), and
 * glibc's mutex, condition variable (2.25 to 2.40: two groups of waiters) and semaphore. */
#ifndef HEADWAY_SIM_LIBC_H
#define HEADWAY_SIM_LIBC_H

#include <stdbool.h>

#include "sim/machine.h"

/* As a deadline: none. Any value below 0 is none. */
#define HW__NO_DEADLINE (-1)

enum hw__waited { HW__WOKEN, HW__TIMED_OUT, HW__VALUE_DIFFERS };

/* FUTEX_WAIT until deadline_ns, a time of the machine. */
enum hw__waited hw__sim_futex_wait(struct hw__task *task, struct hw__sim_futex *futex,
                                   uint32_t value, int64_t deadline_ns);

/* FUTEX_WAKE of at most `most` tasks. */
void hw__sim_futex_wake(struct hw__task *task, struct hw__sim_futex *futex, int32_t most);

/* A cache line that cores pass between them. */
struct hw__sim_line {
    const struct hw__core *owner;
};

/* Writes to the line. This takes longer if another core wrote to it last. */
void hw__sim_line_touch(struct hw__task *task, struct hw__sim_line *line);

struct hw__sim_mutex {
    struct hw__sim_futex word; /* 0 free, 1 locked, 2 locked and a task may sleep for it */
    struct hw__sim_line line;
};

void hw__sim_mutex_lock(struct hw__task *task, struct hw__sim_mutex *mutex);
bool hw__sim_mutex_try(struct hw__task *task, struct hw__sim_mutex *mutex);
void hw__sim_mutex_unlock(struct hw__task *task, struct hw__sim_mutex *mutex);

/* pthread_cond_t. Each waiter is in one of two groups. Signals go to the older group, G1, until all
 * of its waiters have been signalled; then the groups change roles. */
struct hw__sim_cond {
    uint64_t sequence; /* the waiters so far, times 2; bit 0 is the index of G2 */
    uint64_t first_start;
    uint32_t first_size_before;
    int32_t size[2];
    struct hw__sim_futex signals[2]; /* twice the number of signals; bit 0: the group is closed */
    uint32_t references[2];
    struct hw__sim_futex quiescence;
    struct hw__sim_mutex internal;
    uint32_t waiters;
    struct hw__sim_line line;
};

void hw__sim_cond_signal(struct hw__task *task, struct hw__sim_cond *cond);

/* Returns true if the waiter was signalled (or woke for no reason), false after a time-out. */
bool hw__sim_cond_wait(struct hw__task *task, struct hw__sim_cond *cond,
                       struct hw__sim_mutex *mutex, int64_t deadline_ns);

struct hw__worker;

/* sem_t; `word.value` is its count. */
struct hw__sim_semaphore {
    struct hw__sim_futex word;
    uint32_t sleepers;
    const struct hw__worker *poster; /* the worker that posted last (gil/posts.h); NULL: none */
};

bool hw__sim_semaphore_try(struct hw__task *task, struct hw__sim_semaphore *semaphore);
void hw__sim_semaphore_wait(struct hw__task *task, struct hw__sim_semaphore *semaphore);
void hw__sim_semaphore_post(struct hw__task *task, struct hw__sim_semaphore *semaphore);

#endif
