// SPDX-License-Identifier: MIT
#include "sim/machine.h"

/* Code is cold when its core has run other code for so long. */
#define COLD_AFTER_NS 4000000

/* A cost that is one figure varies by so much: without that, tasks would run in step. */
#define JITTER 0.05

int64_t hw__cost(struct hw__machine *machine, enum hw_sim_cost cost) {
    const struct hw_sim_dist *dist = &machine->costs[cost];
    if (dist->count > 1) {
        return hw__random_of(&machine->random, dist);
    }
    double value = dist->quantiles[0];
    if (value == 0) {
        return 0;
    }
    return (int64_t)(value * (1 + JITTER * (2 * hw__random_unit(&machine->random) - 1)));
}

int64_t hw__core_busy_ns(const struct hw__machine *machine, const struct hw__core *core) {
    return core->busy_ns +
           (core->current == NULL ? 0 : machine->now_ns - core->current->counted_ns);
}

double hw__coldness(int64_t other_ns) {
    return other_ns >= COLD_AFTER_NS ? 1 : (double)other_ns / COLD_AFTER_NS;
}

int64_t hw__cold_ns(struct hw__task *task, enum hw__cold kind, enum hw_sim_cost cost) {
    struct hw__machine *machine = task->machine;
    int64_t busy_ns = hw__core_busy_ns(machine, task->core);
    int64_t other_ns = busy_ns - task->core->used_ns[kind];
    task->core->used_ns[kind] = busy_ns;
    const struct hw_sim_dist *dist = &machine->costs[cost];
    if (dist->count == 1 && dist->quantiles[0] == 0) {
        return 0;
    }
    return (int64_t)((double)hw__cost(machine, cost) * hw__coldness(other_ns));
}
