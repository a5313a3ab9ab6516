// SPDX-License-Identifier: MIT
/* For tests that run programs in virtual time: a machine whose operations take no time (or what a
 * test says), one GIL at first, and roles that are added one by one. The machine runs the objects
 * that schedule real threads: the policies, the ledger and the decisions. */
#ifndef HEADWAY_TESTS_SIM_WORLD_H
#define HEADWAY_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <string.h>

#include "headway/schedule.h"
#include "headway/simulate.h"
#include "t.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

#define SIM_ROLES 24
#define SIM_OPS 64

static struct sim_world {
    struct hw_sim_spec spec;
    struct hw_sim_gil gils[4];
    struct hw_sim_role roles[SIM_ROLES];
    struct hw_sim_op ops[SIM_ROLES][SIM_OPS];
    struct hw_sim_client clients[4];
    struct hw_sim_dist dists[4];
    int32_t semaphores[4];
    struct hw_sim_dist costs[HW_SIM_COSTS];
    double cost_ns[HW_SIM_COSTS];
    struct hw_sim *sim;
} sim_world;

/* An operation. */
#define SIM_OP(op, ns)                                                                             \
    (struct hw_sim_op) { .kind = HW_SIM_##op, .value = (ns) }
#define SIM_AT(op, at)                                                                             \
    (struct hw_sim_op) { .kind = HW_SIM_##op, .index = (at) }

/* Makes a machine of `cores` cores, on which each operation takes no time, with one GIL under
 * `policy`; NULL: stock CPython. */
static inline void sim_begin(const struct hw_policy *policy, int cores, int64_t end_ns) {
    memset(&sim_world, 0, sizeof sim_world);
    for (int i = 0; i < HW_SIM_COSTS; i++) {
        sim_world.costs[i] = (struct hw_sim_dist){.quantiles = &sim_world.cost_ns[i], .count = 1};
    }
    sim_world.gils[0] = (struct hw_sim_gil){.policy = policy, .enabled = 1, .interval_ns = 5 * MS};
    for (int i = 0; policy != NULL && policy->options[i].name != NULL; i++) {
        sim_world.gils[0].options[i] = policy->options[i].preset;
    }
    sim_world.spec = (struct hw_sim_spec){.seed = 1,
                                          .end_ns = end_ns,
                                          .costs = sim_world.costs,
                                          .tick_ns = 4 * MS,
                                          .slice_ns = 2800 * US,
                                          .migration_ns = 500 * US,
                                          .core_count = cores,
                                          .gil_count = 1,
                                          .gils = sim_world.gils,
                                          .roles = sim_world.roles,
                                          .clients = sim_world.clients,
                                          .semaphores = sim_world.semaphores,
                                          .dists = sim_world.dists};
}

/* Adds a role of one thread that repeats these operations for ever. Returns the role, so that the
 * test can set more of it. Roles are numbered from 0 in the order of their addition. */
#define SIM_ADD(...)                                                                               \
    sim_add((const struct hw_sim_op[]){__VA_ARGS__},                                               \
            (int)(sizeof((const struct hw_sim_op[]){__VA_ARGS__}) / sizeof(struct hw_sim_op)))

static inline struct hw_sim_role *sim_add(const struct hw_sim_op *ops, int count) {
    int role = sim_world.spec.role_count++;
    T_TRUE(role < SIM_ROLES && count <= SIM_OPS);
    memcpy(sim_world.ops[role], ops, (size_t)count * sizeof *ops);
    for (int i = 0; i < count; i++) {
        sim_world.ops[role][i].where = (uint32_t)i;
    }
    sim_world.roles[role] = (struct hw_sim_role){
        .ops = sim_world.ops[role], .op_count = count, .repeats = 1, .threads = 1};
    return &sim_world.roles[role];
}

/* Makes the machine if there is none, and runs it until `until_ns`. */
static inline int sim_run(int64_t until_ns) {
    if (sim_world.sim == NULL) {
        char problem[200];
        sim_world.sim = hw_sim_new(&sim_world.spec, problem, sizeof problem);
        if (sim_world.sim == NULL) {
            fprintf(stderr, "%s\n", problem);
            exit(1);
        }
    }
    return hw_sim_run(sim_world.sim, until_ns);
}

static inline void sim_end(void) {
    hw_sim_free(sim_world.sim);
    sim_world.sim = NULL;
}

static inline struct hw_sim_role_result sim_result(int role) {
    struct hw_sim_role_result result;
    hw_sim_role_result(sim_world.sim, role, &result);
    return result;
}

/* Returns the part of the time in which the role has held the GIL. */
static inline double sim_share(int role, int64_t span_ns) {
    return (double)sim_result(role).held_ns / (double)span_ns;
}

/* The waits of one thread that began at or after `since_ns`, by the events: how many there are, how
 * many of them took longer than `than_ns`, and the longest. */
struct sim_waits {
    int64_t count, longer, worst_ns;
};

static inline struct sim_waits sim_waits(uint32_t thread, int64_t since_ns, int64_t than_ns) {
    struct sim_waits waits = {0, 0, 0};
    int64_t count, dropped, began_ns = -1;
    const struct hw_sim_event *events = hw_sim_events(sim_world.sim, &count, &dropped);
    T_EQ(0, dropped);
    for (int64_t i = 0; i < count; i++) {
        if (events[i].thread != thread) {
            continue;
        }
        if (events[i].kind == HW_SIM_EVENT_WAIT) {
            began_ns = events[i].time_ns;
        } else if (events[i].kind == HW_SIM_EVENT_ACQUIRE && began_ns >= 0) {
            int64_t wait_ns = events[i].time_ns - began_ns;
            bool counts = began_ns >= since_ns;
            waits.count += counts;
            waits.longer += counts && wait_ns > than_ns;
            waits.worst_ns = counts && wait_ns > waits.worst_ns ? wait_ns : waits.worst_ns;
            began_ns = -1;
        }
    }
    return waits;
}

#endif
