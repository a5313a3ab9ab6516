// SPDX-License-Identifier: MIT
/* A core's run queue: virtual run times, deadlines and lag, as EEVDF has them (kernel/sched/fair.c;
 * the names of its functions stand at those that do their part). All tasks weigh the same. */
#ifndef HEADWAY_SIM_FAIR_H
#define HEADWAY_SIM_FAIR_H

#include "sim/machine.h"

/* The largest time that is reckoned with; sums of a few stay within int64_t. */
#define HW__FOREVER (INT64_MAX / 4)

/* The current task is one of the core's runnable ones. */
static inline bool hw__fair_counts(const struct hw__core *core) {
    return core->current != NULL && core->current->on_queue;
}

/* Runnable and delayed tasks, the current one included. */
static inline int32_t hw__fair_all(const struct hw__core *core) {
    return core->queued + hw__fair_counts(core);
}

/* The same without delayed ones. */
static inline int32_t hw__fair_runnable(const struct hw__core *core) {
    return core->runnable + hw__fair_counts(core);
}

static inline bool hw__core_is_idle(const struct hw__core *core) {
    return core->current == NULL && core->runnable == 0 && !core->waking;
}

int64_t hw__fair_average(const struct hw__core *core);

/* The queue's least virtual time goes with its tasks', but never back. */
void hw__fair_renew_least(struct hw__core *core);

void hw__fair_put(struct hw__core *core, struct hw__task *task);
void hw__fair_remove(struct hw__core *core, struct hw__task *task);

/* What the current task has run until now counts; it may have to make room. */
void hw__fair_account(struct hw__core *core, int64_t now_ns);

/* The task leaves: how far it is behind the average, or ahead of it, is kept. */
void hw__fair_keep_lag(const struct hw__core *core, struct hw__task *task);

/* The task comes: gives it a virtual time, by the lag that was kept, and a deadline. */
void hw__fair_place(const struct hw__core *core, struct hw__task *task);

/* The task that is to run, the current one included. There must be one. */
struct hw__task *hw__fair_pick(const struct hw__core *core);

#endif
