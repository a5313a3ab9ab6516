// SPDX-License-Identifier: MIT
#include "sim/fair.h"

#include <string.h>

/* avg_vruntime(), for tasks of equal weight. */
int64_t hw__fair_average(const struct hw__core *core) {
    int64_t base = core->least_vruntime, sum = 0;
    int32_t count = hw__fair_all(core);
    if (count == 0) {
        return base;
    }
    for (int32_t i = 0; i < core->queued; i++) {
        sum += core->queue[i]->vruntime - base;
    }
    sum += hw__fair_counts(core) ? core->current->vruntime - base : 0;
    int64_t mean = sum / count;
    return base + mean - (sum < 0 && sum % count != 0);
}

void hw__fair_renew_least(struct hw__core *core) {
    int64_t least = HW__FOREVER;
    for (int32_t i = 0; i < core->queued; i++) {
        least = core->queue[i]->vruntime < least ? core->queue[i]->vruntime : least;
    }
    if (hw__fair_counts(core) && core->current->vruntime < least) {
        least = core->current->vruntime;
    }
    if (least < HW__FOREVER && least > core->least_vruntime) {
        core->least_vruntime = least;
    }
}

void hw__fair_put(struct hw__core *core, struct hw__task *task) {
    core->queue[core->queued++] = task;
    core->runnable += !task->delayed;
}

void hw__fair_remove(struct hw__core *core, struct hw__task *task) {
    for (int32_t i = 0; i < core->queued; i++) {
        if (core->queue[i] == task) {
            memmove(&core->queue[i], &core->queue[i + 1],
                    (size_t)(core->queued - i - 1) * sizeof *core->queue);
            core->queued--;
            core->runnable -= !task->delayed;
            return;
        }
    }
}

static bool is_protected(const struct hw__task *task) {
    return task->protected_until > task->vruntime;
}

/* update_curr() */
void hw__fair_account(struct hw__core *core, int64_t now_ns) {
    struct hw__task *task = core->current;
    int64_t ran_ns = task == NULL ? 0 : now_ns - task->counted_ns;
    if (ran_ns <= 0) {
        return;
    }
    task->counted_ns = now_ns;
    task->cpu_ns += ran_ns;
    task->vruntime += ran_ns;
    bool used_up = task->vruntime >= task->deadline;
    if (used_up) {
        task->deadline = task->vruntime + task->slice_ns;
    }
    hw__fair_renew_least(core);
    if (hw__fair_all(core) > 1 && (used_up || !is_protected(task))) {
        core->need_resched = true;
    }
}

/* update_entity_lag() */
void hw__fair_keep_lag(const struct hw__core *core, struct hw__task *task) {
    int64_t limit = 2 * task->slice_ns, tick_ns = task->machine->tick_ns;
    limit = limit > tick_ns ? limit : tick_ns;
    int64_t lag = hw__fair_average(core) - task->vruntime;
    task->lag = lag > limit ? limit : lag < -limit ? -limit : lag;
}

/* place_entity() */
void hw__fair_place(const struct hw__core *core, struct hw__task *task) {
    int64_t lag = 0, count = hw__fair_all(core);
    if (count > 0) {
        lag = task->lag * (count + 1) / count;
    }
    task->vruntime = hw__fair_average(core) - lag;
    task->deadline =
        task->relative_deadline ? task->deadline + task->vruntime : task->vruntime + task->slice_ns;
    task->relative_deadline = false;
}

/* pick_eevdf(): the eligible task with the earliest deadline, or the current task while its slice
 * is protected. */
struct hw__task *hw__fair_pick(const struct hw__core *core) {
    struct hw__task *current = hw__fair_counts(core) ? core->current : NULL;
    if (hw__fair_all(core) == 1) {
        return current != NULL ? current : core->queue[0];
    }
    int64_t mean = hw__fair_average(core);
    if (current != NULL && current->vruntime > mean) {
        current = NULL;
    }
    if (current != NULL && is_protected(current)) {
        return current;
    }
    struct hw__task *best = NULL, *least = NULL;
    for (int32_t i = 0; i < core->queued; i++) {
        struct hw__task *task = core->queue[i];
        if (task->vruntime <= mean && (best == NULL || task->deadline < best->deadline)) {
            best = task;
        }
        if (least == NULL || task->vruntime < least->vruntime) {
            least = task;
        }
    }
    if (best == NULL || (current != NULL && current->deadline < best->deadline)) {
        best = current != NULL ? current : best;
    }
    return best != NULL ? best : least;
}
