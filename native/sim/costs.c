// SPDX-License-Identifier: MIT
#include <stdlib.h>

#include "sim/machine.h"

/* How cold code is by the time since it last ran on its core. 1 is what cold code costs after 5 ms.
 * Measured on a virtual machine of two cores (docs/internals/simulator.md). It does not matter
 * whether the core ran other code or idled meanwhile. */
static const struct {
    int64_t since_ns;
    double cold;
} coldness[] = {{0, 0},          {50000, 0.04},   {300000, 0.14},
                {1000000, 0.30}, {2000000, 0.36}, {5000000, 1}};

/* A cost that is a constant varies by up to this many parts of 1024. Without that, tasks would run
 * in lockstep. */
#define JITTER 51

/* Costs are drawn at each step of a task. They are therefore kept as integers, in 1/256 ns. */
#define FRACTION_BITS 8
#define PART_BITS 12

bool hw__costs_make(struct hw__machine *machine, const struct hw_sim_dist *costs) {
    for (int cost = 0; cost < HW_SIM_COSTS; cost++) {
        struct hw__table *table = &machine->costs[cost];
        table->values = calloc((size_t)costs[cost].count, sizeof *table->values);
        if (table->values == NULL) {
            return false;
        }
        table->last = (uint32_t)costs[cost].count - 1;
        for (int32_t i = 0; i < costs[cost].count; i++) {
            table->values[i] = (int64_t)(costs[cost].quantiles[i] * (1 << FRACTION_BITS));
        }
    }
    return true;
}

void hw__costs_free(struct hw__machine *machine) {
    for (int cost = 0; cost < HW_SIM_COSTS; cost++) {
        free(machine->costs[cost].values);
    }
}

static bool is_nothing(const struct hw__table *table) {
    return table->last == 0 && table->values[0] == 0;
}

int64_t hw__cost(struct hw__machine *machine, enum hw_sim_cost cost) {
    const struct hw__table *table = &machine->costs[cost];
    if (is_nothing(table)) {
        return 0;
    }
    uint64_t drawn = hw__random_next(&machine->random) >> 32;
    if (table->last == 0) {
        int64_t part = (int64_t)(drawn >> 21) - 1024; /* from -1024 to 1023 */
        return (table->values[0] + table->values[0] / 1024 * JITTER * part / 1024) >> FRACTION_BITS;
    }
    uint64_t place = drawn * table->last;
    const int64_t *below = &table->values[place >> 32];
    int64_t part = (int64_t)((uint32_t)place >> (32 - PART_BITS));
    return (below[0] + (((below[1] - below[0]) * part) >> PART_BITS)) >> FRACTION_BITS;
}

double hw_sim_coldness(int64_t since_ns) {
    for (size_t i = 1; i < sizeof coldness / sizeof *coldness; i++) {
        if (since_ns < coldness[i].since_ns) {
            double part = (double)(since_ns - coldness[i - 1].since_ns) /
                          (double)(coldness[i].since_ns - coldness[i - 1].since_ns);
            return coldness[i - 1].cold + part * (coldness[i].cold - coldness[i - 1].cold);
        }
    }
    return 1;
}

int64_t hw__cold_ns(struct hw__task *task, enum hw__cold kind, enum hw_sim_cost cost) {
    struct hw__machine *machine = task->machine;
    int64_t since_ns = machine->now_ns - task->core->used_ns[kind];
    task->core->used_ns[kind] = machine->now_ns;
    if (is_nothing(&machine->costs[cost])) {
        return 0;
    }
    return (int64_t)((double)hw__cost(machine, cost) * hw_sim_coldness(since_ns));
}
