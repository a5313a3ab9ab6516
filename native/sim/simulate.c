// SPDX-License-Identifier: MIT
#include "headway/simulate.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "headway/schedule.h"
#include "sim/guard.h"
#include "sim/world.h"

#define MOST_CORES 64
#define MOST_THREADS 20000
#define MOST_LOOPS 8
#define MOST_GILS 255 /* an event names its GIL by a byte, and 255 means no GIL */
#define MOST_COST_NS 1e12

struct hw_sim {
    struct hw__world world;
};

/* ---------------------------------------------------------------- events and latencies */
int64_t hw__world_part_ns(const struct hw__world *world, int64_t since_ns) {
    int64_t from_ns = since_ns > world->spec.warm_ns ? since_ns : world->spec.warm_ns;
    int64_t part_ns = world->machine.now_ns - from_ns;
    return part_ns > 0 ? part_ns : 0;
}

void hw__world_tell(struct hw__worker *worker, uint8_t kind, uint16_t flags, uint32_t value) {
    struct hw__world *world = worker->world;
    if (world->event_count == world->event_room) {
        if (world->event_room >= world->spec.max_events) {
            world->dropped++;
            return;
        }
        int64_t room = world->event_room == 0 ? 4096 : world->event_room * 2;
        room = room < world->spec.max_events ? room : world->spec.max_events;
        struct hw_sim_event *events = realloc(world->events, (size_t)room * sizeof *events);
        if (events == NULL) {
            world->machine.error = -ENOMEM;
            return;
        }
        world->events = events;
        world->event_room = room;
    }
    world->events[world->event_count++] = (struct hw_sim_event){
        .time_ns = world->machine.now_ns,
        .value = value,
        .thread = worker->number,
        .kind = kind,
        .gil = worker->gil == NULL ? 255 : (uint8_t)worker->gil->index,
        .flags = flags,
    };
}

void hw__world_done(struct hw__world *world, int32_t role, int64_t took_ns) {
    if (!hw__world_counts(world)) {
        return;
    }
    struct hw__latencies *latencies = &world->latencies[role];
    world->results[role].done++;
    if (latencies->count == latencies->room) {
        int64_t room = latencies->room == 0 ? 1024 : latencies->room * 2;
        float *ns = realloc(latencies->ns, (size_t)room * sizeof *ns);
        if (ns == NULL) {
            world->machine.error = -ENOMEM;
            return;
        }
        latencies->ns = ns;
        latencies->room = room;
    }
    latencies->ns[latencies->count++] = (float)took_ns;
}

/* ---------------------------------------------------------------- checking the specification */
static bool complain(char *problem, int room, const char *what, int index) {
    snprintf(problem, (size_t)room, what, index);
    return false;
}

static bool check_dists(const struct hw_sim_dist *dists, int32_t count, double most, char *problem,
                        int room) {
    for (int32_t i = 0; i < count; i++) {
        if (dists[i].count < 1 || dists[i].quantiles == NULL) {
            return complain(problem, room, "distribution %d has no quantiles", i);
        }
        for (int32_t j = 0; j < dists[i].count; j++) {
            double value = dists[i].quantiles[j];
            if (!isfinite(value) || value < 0 || value > most ||
                (j > 0 && value < dists[i].quantiles[j - 1])) {
                return complain(problem, room,
                                "the quantiles of distribution %d do not rise from 0 on", i);
            }
        }
    }
    return true;
}

static bool check_op(const struct hw_sim_spec *spec, const struct hw_sim_op *op) {
    bool timed = op->kind <= HW_SIM_BLOCK || op->kind == HW_SIM_ANSWER || op->kind == HW_SIM_LOOP;
    if (op->kind >= HW_SIM_OPS || (op->flags & ~(HW_SIM_OF_DIST | HW_SIM_GOES_ON | HW_SIM_OF_PORT |
                                                 HW_SIM_OF_LOCK | HW_SIM_OF_CLOCK)) != 0) {
        return false;
    }
    if ((op->flags & HW_SIM_OF_CLOCK) != 0 &&
        ((op->kind != HW_SIM_SLEEP && op->kind != HW_SIM_BLOCK) ||
         (op->flags & HW_SIM_OF_DIST) != 0 || op->index >= HW_SIM_CLOCKS)) {
        return false;
    }
    if (timed && (op->flags & HW_SIM_OF_DIST) != 0) {
        return op->index < (uint32_t)spec->dist_count;
    }
    if (op->kind == HW_SIM_TAKE || op->kind == HW_SIM_POST) {
        return op->index < (uint32_t)spec->semaphore_count;
    }
    return op->value >= 0 && op->value < INT64_MAX / 8;
}

/* Tells whether an operation always releases the GIL. */
static bool lets_go(const struct hw_sim_op *op) {
    return op->kind >= HW_SIM_RUN && op->kind <= HW_SIM_ANSWER;
}

static bool check_goes_on(const struct hw_sim_role *role, int32_t at) {
    const struct hw_sim_op *op = &role->ops[at];
    return (op->flags & HW_SIM_GOES_ON) == 0 ||
           (op->kind == HW_SIM_RUN && at + 1 < role->op_count && lets_go(op + 1));
}

static bool check_role(const struct hw_sim_spec *spec, int32_t index, char *problem, int room) {
    const struct hw_sim_role *role = &spec->roles[index];
    if (role->threads < 1 || role->threads > MOST_THREADS || role->gil < -1 ||
        role->gil >= spec->gil_count || role->op_count < 0 || role->begin_ns < 0 ||
        role->stagger_ns < 0 || role->start_at < 0) {
        return complain(problem, room, "role %d has a number that is out of its range", index);
    }
    int depth = 0;
    for (int32_t i = 0; i < role->op_count; i++) {
        const struct hw_sim_op *op = &role->ops[i];
        depth += op->kind == HW_SIM_LOOP ? 1 : op->kind == HW_SIM_END ? -1 : 0;
        if (!check_op(spec, op) || !check_goes_on(role, i) || depth < 0 || depth > MOST_LOOPS) {
            return complain(problem, room, "an operation of role %d makes no sense", index);
        }
        int64_t last_port = (int64_t)op->index + (int64_t)(role->threads - 1) * role->port_step;
        bool of_port = op->kind == HW_SIM_RECEIVE ||
                       (op->kind == HW_SIM_REPLY && (op->flags & HW_SIM_OF_PORT) != 0);
        if (of_port && (last_port < 0 || last_port >= spec->port_count)) {
            return complain(problem, room, "role %d has a port that is not there", index);
        }
    }
    if (role->answers < 0 || role->answers > spec->dist_count ||
        (role->in_calls != 0 && role->answers == 0)) {
        return complain(problem, room, "role %d answers by a distribution that is not there",
                        index);
    }
    return depth == 0 || complain(problem, room, "a loop of role %d does not end", index);
}

static bool check_client(const struct hw_sim_spec *spec, int32_t index, char *problem, int room) {
    const struct hw_sim_client *client = &spec->clients[index];
    int64_t last = client->port + (int64_t)(client->connections - 1) * client->port_step;
    if (client->connections < 1 || client->connections > MOST_THREADS || client->port < 0 ||
        client->port >= spec->port_count || last < 0 || last >= spec->port_count ||
        client->think < -1 || client->think >= spec->dist_count || client->work_ns < 0 ||
        !isfinite(client->rate_per_s) || client->rate_per_s < 0 || client->rate_per_s > 1e9) {
        return complain(problem, room, "client %d has a number that is out of its range", index);
    }
    return true;
}

static bool check_cores(const struct hw_sim_spec *spec, uint64_t cores) {
    uint64_t all =
        spec->core_count == MOST_CORES ? UINT64_MAX : (UINT64_C(1) << spec->core_count) - 1;
    return cores == 0 || (cores & all) != 0;
}

static bool check(const struct hw_sim_spec *spec, char *problem, int room) {
    if (spec->core_count < 1 || spec->core_count > MOST_CORES) {
        return complain(problem, room, "%d cores, expected 1 to 64", spec->core_count);
    }
    if (spec->end_ns < 1 || spec->warm_ns < 0 || spec->warm_ns >= spec->end_ns ||
        spec->end_ns > INT64_MAX / 16 || spec->tick_ns < 10000 || spec->slice_ns < 1000 ||
        spec->migration_ns < 0 || spec->gil_count < 0 || spec->gil_count > MOST_GILS) {
        return complain(problem, room, "a time or number of the machine is out of its range", 0);
    }
    for (int32_t i = 0; i < spec->gil_count; i++) {
        const struct hw_sim_gil *gil = &spec->gils[i];
        if (gil->interval_ns < 1000 || gil->spin_ns < 0 || !(gil->slow_down >= 0)) {
            return complain(problem, room, "GIL %d has a number that is out of its range", i);
        }
    }
    for (int32_t i = 0; i < spec->semaphore_count; i++) {
        if (spec->semaphores[i] < 0) {
            return complain(problem, room, "semaphore %d begins below 0", i);
        }
    }
    bool sound = check_dists(spec->costs, HW_SIM_COSTS, MOST_COST_NS, problem, room) &&
                 check_dists(spec->dists, spec->dist_count, 1e18, problem, room);
    for (int32_t i = 0; sound && i < spec->role_count; i++) {
        sound = check_role(spec, i, problem, room) &&
                (check_cores(spec, spec->roles[i].cores) ||
                 complain(problem, room, "role %d may run on no core", i));
    }
    for (int32_t i = 0; sound && i < spec->client_count; i++) {
        sound = check_client(spec, i, problem, room) &&
                (check_cores(spec, spec->clients[i].cores) ||
                 complain(problem, room, "client %d may run on no core", i));
    }
    return sound;
}

/* ---------------------------------------------------------------- the copy */
static void *copy(const void *from, size_t bytes, bool *ok) {
    void *to = malloc(bytes == 0 ? 1 : bytes);
    if (to == NULL) {
        *ok = false;
    } else if (bytes > 0) {
        memcpy(to, from, bytes);
    }
    return to;
}

#define COPY(from, count, ok) copy(from, (size_t)(count) * sizeof *(from), ok)

static struct hw_sim_dist *copy_dists(const struct hw_sim_dist *dists, int32_t count, bool *ok) {
    struct hw_sim_dist *made = COPY(dists, count, ok);
    for (int32_t i = 0; made != NULL && i < count; i++) {
        made[i].quantiles = COPY(dists[i].quantiles, dists[i].count, ok);
    }
    return made;
}

static bool copy_spec(struct hw_sim_spec *to, const struct hw_sim_spec *from) {
    bool ok = true;
    *to = *from;
    to->gils = COPY(from->gils, from->gil_count, &ok);
    to->clients = COPY(from->clients, from->client_count, &ok);
    to->semaphores = COPY(from->semaphores, from->semaphore_count, &ok);
    to->costs = copy_dists(from->costs, HW_SIM_COSTS, &ok);
    to->dists = copy_dists(from->dists, from->dist_count, &ok);
    struct hw_sim_role *roles = COPY(from->roles, from->role_count, &ok);
    for (int32_t i = 0; roles != NULL && i < from->role_count; i++) {
        roles[i].ops = COPY(from->roles[i].ops, from->roles[i].op_count, &ok);
    }
    to->roles = roles;
    return ok;
}

static void free_dists(const struct hw_sim_dist *dists, int32_t count) {
    for (int32_t i = 0; dists != NULL && i < count; i++) {
        free((void *)(uintptr_t)dists[i].quantiles);
    }
    free((void *)(uintptr_t)dists);
}

static void free_spec(struct hw_sim_spec *spec) {
    for (int32_t i = 0; spec->roles != NULL && i < spec->role_count; i++) {
        free((void *)(uintptr_t)spec->roles[i].ops);
    }
    free((void *)(uintptr_t)spec->roles);
    free((void *)(uintptr_t)spec->gils);
    free((void *)(uintptr_t)spec->clients);
    free((void *)(uintptr_t)spec->semaphores);
    free_dists(spec->costs, HW_SIM_COSTS);
    free_dists(spec->dists, spec->dist_count);
}

/* ---------------------------------------------------------------- making it */
static void *zeroed(int64_t count, size_t bytes, bool *ok) {
    void *made = calloc(count == 0 ? 1 : (size_t)count, bytes);
    *ok = *ok && made != NULL;
    return made;
}

#define ZEROED(pointer, count, ok) (pointer) = zeroed(count, sizeof *(pointer), ok)

static int32_t thread_count(const struct hw_sim_spec *spec) {
    int32_t count = 0;
    for (int32_t i = 0; i < spec->role_count; i++) {
        count += spec->roles[i].threads;
    }
    return count;
}

static int32_t connection_count(const struct hw_sim_spec *spec) {
    int32_t count = 0;
    for (int32_t i = 0; i < spec->client_count; i++) {
        count += spec->clients[i].connections;
    }
    return count == 0 ? 1 : count;
}

static bool make_gils(struct hw__world *world) {
    bool ok = true;
    for (int32_t i = 0; i < world->spec.gil_count; i++) {
        struct hw__gil_sim *gil = &world->gils[i];
        const struct hw_sim_gil *spec = &world->spec.gils[i];
        gil->world = world;
        gil->index = i;
        gil->enabled = spec->enabled != 0;
        gil->interval_ns = spec->interval_ns;
        gil->slow_down = spec->slow_down;
        if (spec->policy == NULL || spec->enabled == 0) {
            continue;
        }
        ZEROED(gil->members, HW_POLICY_LANES * (int64_t)world->worker_count, &ok);
        if (!ok) {
            return false;
        }
        gil->ledger.lanes[0].members = gil->members;
        gil->ledger.lanes[1].members = gil->members + world->worker_count;
        struct hw__settings settings = {.spin_ns = spec->spin_ns, .yields = spec->yields != 0};
        hw__ledger_begin(&gil->ledger, spec->policy, spec->options, &settings, 1,
                         spec->interval_ns);
        gil->ledger.phase = HW__PHASE_FREE;
    }
    return ok;
}

static bool make_worker(struct hw__world *world, struct hw__worker *worker, int32_t role_index,
                        int32_t nth) {
    const struct hw_sim_role *role = &world->spec.roles[role_index];
    worker->world = world;
    worker->role = role;
    worker->role_index = role_index;
    worker->gil = role->gil < 0 ? NULL : &world->gils[role->gil];
    worker->number = (uint32_t)(worker - world->workers);
    worker->port_offset = (uint32_t)(nth * role->port_step);
    worker->request.client = -1;
    worker->user_at = -1;
    worker->moved_ns = -1;
    worker->taking_since = -1;
    for (int32_t i = 0; i < HW_SIM_CLOCKS; i++) {
        worker->strokes_ns[i] = -1;
    }
    worker->at =
        role->op_count == 0 ? 0 : (int32_t)((int64_t)nth * role->start_at % role->op_count);
    hw__ledger_forget(&worker->waiter);
    worker->waiter.core = -1;
    world->any_urgent = world->any_urgent || role->urgent != 0;
    worker->task = hw__machine_add(&world->machine, hw__program_run, worker, role->cores,
                                   role->begin_ns + nth * role->stagger_ns);
    return worker->task != NULL;
}

static bool make_client(struct hw__world *world, int32_t index) {
    struct hw__client *client = &world->clients[index];
    bool ok = true;
    client->world = world;
    client->spec = &world->spec.clients[index];
    client->index = index;
    ZEROED(client->connections, client->spec->connections, &ok);
    ZEROED(client->replies, client->spec->connections, &ok);
    client->task = hw__machine_add(&world->machine, hw__client_run, client, client->spec->cores, 0);
    return ok && client->task != NULL;
}

static bool make(struct hw__world *world, const struct hw_sim_spec *given) {
    struct hw_sim_spec *spec = &world->spec;
    bool ok = copy_spec(spec, given) && hw__machine_make(&world->machine, spec) &&
              hw__costs_make(&world->machine, spec->costs);
    if (!ok) {
        return false;
    }
    world->worker_count = world->left = thread_count(spec);
    world->ended_ns = -1;
    world->stood_ns = -1;
    int32_t connections = connection_count(spec);
    ZEROED(world->gils, spec->gil_count, &ok);
    ZEROED(world->workers, world->worker_count, &ok);
    ZEROED(world->clients, spec->client_count, &ok);
    ZEROED(world->ports, spec->port_count, &ok);
    ZEROED(world->semaphores, spec->semaphore_count, &ok);
    ZEROED(world->warm_at, (int64_t)spec->role_count * spec->core_count, &ok);
    ZEROED(world->results, spec->role_count + spec->client_count, &ok);
    ZEROED(world->latencies, spec->role_count + spec->client_count, &ok);
    ZEROED(world->cpu_before, world->worker_count + spec->client_count, &ok);
    ZEROED(world->computed_before, world->worker_count, &ok);
    ZEROED(world->ran_before, world->worker_count, &ok);
    for (int32_t i = 0; ok && i < spec->port_count; i++) {
        struct hw__port *port = &world->ports[i];
        port->arrived.room = port->taken.room = connections;
        ZEROED(port->arrived.all, connections, &ok);
        ZEROED(port->taken.all, connections, &ok);
    }
    for (int32_t i = 0; ok && i < spec->semaphore_count; i++) {
        world->semaphores[i].word.value = (uint32_t)spec->semaphores[i];
    }
    ok = ok && make_gils(world);
    struct hw__worker *worker = world->workers;
    for (int32_t i = 0; ok && i < spec->role_count; i++) {
        for (int32_t nth = 0; ok && nth < spec->roles[i].threads; nth++) {
            ok = make_worker(world, worker++, i, nth);
        }
    }
    for (int32_t i = 0; ok && i < spec->client_count; i++) {
        ok = make_client(world, i);
    }
    return ok;
}

struct hw_sim *hw_sim_new(const struct hw_sim_spec *spec, char *problem, int room) {
    problem[0] = '\0';
    if (!check(spec, problem, room)) {
        return NULL;
    }
    struct hw_sim *sim = calloc(1, sizeof *sim);
    if (sim == NULL || !make(&sim->world, spec)) {
        snprintf(problem, (size_t)room, "no memory for the simulation");
        hw_sim_free(sim);
        return NULL;
    }
    return sim;
}

void hw_sim_free(struct hw_sim *sim) {
    if (sim == NULL) {
        return;
    }
    struct hw__world *world = &sim->world;
    for (int32_t i = 0; world->gils != NULL && i < world->spec.gil_count; i++) {
        free(world->gils[i].members);
    }
    for (int32_t i = 0; world->clients != NULL && i < world->spec.client_count; i++) {
        free(world->clients[i].connections);
        free(world->clients[i].replies);
        free(world->clients[i].backlog);
    }
    for (int32_t i = 0; world->ports != NULL && i < world->spec.port_count; i++) {
        free(world->ports[i].arrived.all);
        free(world->ports[i].taken.all);
    }
    for (int32_t i = 0;
         world->latencies != NULL && i < world->spec.role_count + world->spec.client_count; i++) {
        free(world->latencies[i].ns);
    }
    free(world->gils);
    free(world->workers);
    free(world->clients);
    free(world->ports);
    free(world->semaphores);
    free(world->warm_at);
    free(world->results);
    free(world->latencies);
    free(world->cpu_before);
    free(world->computed_before);
    free(world->ran_before);
    free(world->events);
    hw__machine_free(&world->machine);
    free_spec(&world->spec);
    free(sim);
}

/* ---------------------------------------------------------------- running it */
static int64_t present_ns(const struct hw__worker *worker) {
    return worker->user_at < 0 ? 0 : hw__task_user_ns(worker->task) - worker->user_at;
}

static int64_t computed_ns(const struct hw__worker *worker) {
    return worker->computed_ns + present_ns(worker);
}

static int64_t ran_ns(const struct hw__worker *worker) {
    return worker->ran_ns + (worker->runs ? present_ns(worker) : 0);
}

/* Ends the warm-up: keeps the totals up to now, which the results do not include. */
static void end_warm_up(struct hw__world *world) {
    world->is_warm = true;
    for (int32_t i = 0; i < world->worker_count; i++) {
        world->cpu_before[i] = hw__task_cpu_ns(world->workers[i].task);
        world->computed_before[i] = computed_ns(&world->workers[i]);
        world->ran_before[i] = ran_ns(&world->workers[i]);
    }
    for (int32_t i = 0; i < world->spec.client_count; i++) {
        world->cpu_before[world->worker_count + i] = hw__task_cpu_ns(world->clients[i].task);
    }
}

static bool is_built_in(const struct hw_policy *policy) {
    const struct hw_policy *one;
    for (int i = 0; (one = hw_policy_at(i)) != NULL; i++) {
        if (one == policy) {
            return true;
        }
    }
    return false;
}

/* Lists the policies that are not built in, "" if there are none. */
static void list_own_policies(const struct hw__world *world, char *names, size_t room) {
    names[0] = '\0';
    const struct hw_policy *last = NULL;
    for (int32_t i = 0; i < world->spec.gil_count; i++) {
        const struct hw_policy *policy = world->gils[i].ledger.policy;
        if (policy != NULL && policy != last && !is_built_in(policy)) {
            hw__text_append(names, room, names[0] == '\0' ? "" : " or ");
            hw__text_append(names, room, policy->name);
            last = policy;
        }
    }
}

static int run(struct hw__world *world, int64_t until_ns) {
    until_ns = until_ns < world->spec.end_ns ? until_ns : world->spec.end_ns;
    if (!world->is_warm && until_ns >= world->spec.warm_ns) {
        int error = hw__machine_run(&world->machine, world->spec.warm_ns);
        if ((error != 0 && error != -EDEADLK) || world->machine.stops) {
            return error;
        }
        end_warm_up(world);
    }
    int error = hw__machine_run(&world->machine, until_ns);
    if (error == -EDEADLK) {
        world->stood_ns = world->machine.now_ns;
        if (!world->is_warm) { /* nothing will happen after it either */
            end_warm_up(world);
        }
    }
    return error;
}

int hw_sim_run(struct hw_sim *sim, int64_t until_ns) {
    char names[128];
    list_own_policies(&sim->world, names, sizeof names);
    if (names[0] == '\0') {
        return run(&sim->world, until_ns);
    }
    struct hw__guard guard = {0};
    hw__guard_begin(&guard, names, &sim->world.machine.steps);
    int error = run(&sim->world, until_ns);
    hw__guard_end(&guard);
    return error;
}

/* ---------------------------------------------------------------- results */
static void add_worker(const struct hw__world *world, const struct hw__worker *worker,
                       struct hw_sim_role_result *result) {
    int32_t nth = (int32_t)worker->number;
    result->cpu_ns += hw__task_cpu_ns(worker->task) - world->cpu_before[nth];
    result->computed_ns += computed_ns(worker) - world->computed_before[nth];
    result->ran_ns += ran_ns(worker) - world->ran_before[nth];
    int64_t middle_ns = (world->spec.warm_ns + world->machine.now_ns) / 2;
    middle_ns = world->stood_ns >= 0 ? INT64_MAX : middle_ns; /* all waits are for ever then */
    if (worker->taking_since >= 0 && worker->taking_since < middle_ns) {
        result->stuck++;
        result->stuck_at = worker->where;
    }
    if (worker->gil == NULL || !worker->gil->enabled) {
        return;
    }
    result->starved += worker->waiting_since > 0 && worker->waiting_since < middle_ns;
    if (worker->waiting_since != 0) {
        int64_t wait_ns = world->machine.now_ns - worker->waiting_since;
        result->waited_ns += hw__world_part_ns(world, worker->waiting_since);
        result->worst_wait_ns = wait_ns > result->worst_wait_ns ? wait_ns : result->worst_wait_ns;
    } else if (worker->gil->locked && worker->gil->last == worker) {
        result->held_ns += hw__world_part_ns(world, worker->since_ns);
    }
}

void hw_sim_role_result(const struct hw_sim *sim, int role, struct hw_sim_role_result *result) {
    const struct hw__world *world = &sim->world;
    *result = world->results[role];
    for (int32_t i = 0; i < world->worker_count; i++) {
        if (world->workers[i].role_index == role) {
            add_worker(world, &world->workers[i], result);
        }
    }
    int32_t client = role - world->spec.role_count;
    if (client >= 0) {
        result->cpu_ns = hw__task_cpu_ns(world->clients[client].task) -
                         world->cpu_before[world->worker_count + client];
    }
}

void hw_sim_gil_result(const struct hw_sim *sim, int gil, struct hw_sim_gil_result *result) {
    const struct hw__gil_sim *one = &sim->world.gils[gil];
    *result = one->result;
    if (one->locked) {
        result->held_ns += hw__world_part_ns(&sim->world, one->last->since_ns);
    }
}

const float *hw_sim_latencies(const struct hw_sim *sim, int role, int64_t *count) {
    *count = sim->world.latencies[role].count;
    return sim->world.latencies[role].ns;
}

const struct hw_sim_event *hw_sim_events(const struct hw_sim *sim, int64_t *count,
                                         int64_t *dropped) {
    *count = sim->world.event_count;
    *dropped = sim->world.dropped;
    return sim->world.events;
}

int64_t hw_sim_ended_ns(const struct hw_sim *sim) { return sim->world.ended_ns; }

int64_t hw_sim_stood_ns(const struct hw_sim *sim) { return sim->world.stood_ns; }

int64_t hw_sim_steps(const struct hw_sim *sim) { return sim->world.machine.steps; }
