// SPDX-License-Identifier: MIT
/* A core's run queue, with virtual run times, deadlines and lag as in EEVDF (kernel/sched/fair.c).
 * A function that does the part of a kernel function names it. All tasks have the same weight. */
#ifndef HEADWAY_SIM_FAIR_H
#define HEADWAY_SIM_FAIR_H

#include "sim/machine.h"

/* The largest time in the calculations; sums of a few such times fit an int64_t. */
#define HW__FOREVER (INT64_MAX / 4)

/* Tells whether the current task is runnable. */
static inline bool hw__fair_counts(const struct hw__core *core) {
    return core->current != NULL && core->current->on_queue;
}

/* Returns the number of runnable and delayed tasks, the current one included. */
static inline int32_t hw__fair_all(const struct hw__core *core) {
    return core->queued + hw__fair_counts(core);
}

/* Returns the number of runnable tasks, the current one included. */
static inline int32_t hw__fair_runnable(const struct hw__core *core) {
    return core->runnable + hw__fair_counts(core);
}

static inline bool hw__core_is_idle(const struct hw__core *core) {
    return core->current == NULL && core->runnable == 0 && !core->waking;
}

/* Returns the average virtual run time of the core's tasks, or its least one if there is no
 * task. */
int64_t hw__fair_average(const struct hw__core *core);

/* Raises the queue's least virtual run time to that of its tasks. It never goes back. */
void hw__fair_renew_least(struct hw__core *core);

/* Puts a task into the queue, and takes one out of it. The current task is never in it. */
void hw__fair_put(struct hw__core *core, struct hw__task *task);
void hw__fair_remove(struct hw__core *core, struct hw__task *task);

/* Accounts for the time that the current task has run until now. May demand a reschedule. */
void hw__fair_account(struct hw__core *core, int64_t now_ns);

/* Keeps the lag of a task that leaves the queue: how far it is behind the average, or ahead of
 * it. */
void hw__fair_keep_lag(const struct hw__core *core, struct hw__task *task);

/* Gives a task that enters the queue a virtual run time, from the lag that was kept, and a
 * deadline. */
void hw__fair_place(const struct hw__core *core, struct hw__task *task);

/* Returns the task that must run next; this may be the current one. There must be a task. */
struct hw__task *hw__fair_pick(const struct hw__core *core);

#endif
