// SPDX-License-Identifier: MIT
/* The simulator itself: the same program with the same seed gives the same run, every run keeps the
 * rules of a machine, and senseless specifications are refused. */
#include <errno.h>
#include <math.h>

#include "sim_world.h"
#include "trace/format.h"

_Static_assert(HW_SIM_EVENT_WAIT == HW__WAIT, "kinds are those of trace files");
_Static_assert(HW_SIM_EVENT_ACQUIRE == HW__ACQUIRE, "kinds are those of trace files");
_Static_assert(HW_SIM_EVENT_RELEASE == HW__RELEASE, "kinds are those of trace files");
_Static_assert(HW_SIM_EVENT_REQUEST == HW__REQUEST, "kinds are those of trace files");
_Static_assert(HW_SIM_EVENT_EXIT == HW__EXIT, "kinds are those of trace files");

static const double think[] = {0, 100e3, 300e3, 2e6};

/* A machine on which every operation takes some time. */
static void add_costs(void) {
    for (int i = 0; i < HW_SIM_COSTS; i++) {
        sim_world.cost_ns[i] = 200 + 137 * (i % 11);
    }
    sim_world.cost_ns[HW_SIM_COST_TIMER_SLACK] = 50000;
    sim_world.cost_ns[HW_SIM_COST_LOCK] = 20;
    sim_world.spec.max_events = 1 << 20;
}

/* A server with a lock, threads that compute, call and sleep, and a client. Together they use all
 * operations. */
static void add_everything(int variant) {
    struct hw_sim_spec *spec = &sim_world.spec;
    add_costs();
    sim_world.gils[0].spin_ns = 20 * US;
    sim_world.gils[0].yields = 1;
    sim_world.dists[0] = (struct hw_sim_dist){.quantiles = think, .count = 4};
    sim_world.semaphores[0] = 1;
    sim_world.clients[0] = (struct hw_sim_client){.connections = 1 + variant,
                                                  .think = variant % 2 ? 0 : -1,
                                                  .rate_per_s = variant % 4 == 3 ? 3000 : 0,
                                                  .work_ns = 2000};
    spec->dist_count = spec->semaphore_count = spec->client_count = spec->port_count = 1;
    spec->warm_ns = variant % 2 ? 20 * MS : 0;
    SIM_ADD(SIM_AT(RECEIVE, 0), SIM_OP(HOLD, 100 * US), SIM_AT(TAKE, 0), SIM_OP(HOLD, 20 * US),
            SIM_AT(POST, 0), SIM_AT(REPLY, 0), SIM_OP(DONE, 0))
        ->threads = 1 + variant % 7;
    SIM_ADD(SIM_OP(COMPUTE, 0))->threads = 1 + variant % 3;
    SIM_ADD(SIM_OP(HOLD, 30 * US), SIM_OP(SLEEP, 300 * US), SIM_OP(CALL, 200 * US), SIM_OP(LOOP, 3),
            SIM_OP(RUN, 100 * US), SIM_OP(END, 0), SIM_AT(SEND, 0), SIM_OP(ANSWER, MS),
            SIM_OP(BLOCK, 50 * US))
        ->threads = 3;
    SIM_ADD(SIM_OP(RUN, 10 * MS), SIM_OP(BLOCK, MS))->gil = -1;
}

static const struct hw_policy *policy_of(int variant) {
    return variant % 5 == 0 ? NULL : hw_policy_at(variant % 5 - 1);
}

#define VARIANTS 10
#define ROLES 5 /* four, and the client */

static void begin_everything(int variant, int64_t end_ns) {
    static const int cores[] = {1, 2, 3, 4, 16, 64};
    sim_begin(policy_of(variant), cores[variant % 6], end_ns);
    add_everything(variant);
}

/* ---------------------------------------------------------------- the same run */
/* A checksum of the whole output (FNV-1a). */
static uint64_t sum_of(uint64_t sum, const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        sum = (sum ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

static uint64_t what_came_out(int roles) {
    int64_t count, dropped;
    const struct hw_sim_event *events = hw_sim_events(sim_world.sim, &count, &dropped);
    T_EQ(0, dropped);
    uint64_t sum = sum_of(UINT64_C(0xcbf29ce484222325), events, (size_t)count * sizeof *events);
    for (int role = 0; role < roles; role++) {
        struct hw_sim_role_result result = sim_result(role);
        sum = sum_of(sum, &result, sizeof result);
        const float *latencies = hw_sim_latencies(sim_world.sim, role, &count);
        T_EQ(result.done, count);
        sum = sum_of(sum, latencies, (size_t)count * sizeof *latencies);
    }
    struct hw_sim_gil_result gil;
    hw_sim_gil_result(sim_world.sim, 0, &gil);
    return sum_of(sum, &gil, sizeof gil);
}

static uint64_t run_everything(int variant, uint64_t seed, int64_t part_ns) {
    begin_everything(variant, 200 * MS);
    sim_world.spec.seed = seed;
    for (int64_t until_ns = part_ns; until_ns < 200 * MS; until_ns += part_ns) {
        T_EQ(0, sim_run(until_ns));
    }
    T_EQ(0, sim_run(200 * MS));
    uint64_t sum = what_came_out(ROLES);
    sim_end();
    return sum;
}

static void test_same_seed_same_run(void) {
    for (int variant = 0; variant < VARIANTS; variant++) {
        uint64_t first = run_everything(variant, 1, 200 * MS);
        T_TRUE(first == run_everything(variant, 1, 200 * MS));
        T_TRUE(first == run_everything(variant, 1, 7 * MS + 13));
        T_TRUE(first == run_everything(variant, 1, 1 * MS + 1));
        T_TRUE(first != run_everything(variant, 2, 200 * MS));
    }
}

/* ---------------------------------------------------------------- the rules of a machine */
#define MOST_THREADS 64

/* Checks that time never decreases, that a GIL has one holder, who releases what it acquired, and
 * that a thread waits once at a time. */
static void check_events(int64_t end_ns) {
    enum { AWAY, WAITS, HOLDS, GONE } states[MOST_THREADS] = {AWAY};
    int64_t count, dropped, before_ns = 0, holder = -1;
    const struct hw_sim_event *events = hw_sim_events(sim_world.sim, &count, &dropped);
    T_EQ(0, dropped);
    T_TRUE(count > 0);
    for (int64_t i = 0; i < count; i++) {
        const struct hw_sim_event *event = &events[i];
        T_TRUE(event->time_ns >= before_ns && event->time_ns <= end_ns);
        before_ns = event->time_ns;
        T_TRUE(event->thread < MOST_THREADS);
        int thread = (int)event->thread;
        if (event->gil == 255) {
            continue;
        }
        T_EQ(0, event->gil);
        T_TRUE(states[thread] != GONE);
        switch (event->kind) {
        case HW_SIM_EVENT_WAIT:
            T_EQ(AWAY, states[thread]);
            states[thread] = WAITS;
            break;
        case HW_SIM_EVENT_ACQUIRE:
            T_EQ(-1, holder);
            T_TRUE(states[thread] != HOLDS);
            states[thread] = HOLDS;
            holder = thread;
            break;
        case HW_SIM_EVENT_RELEASE:
            T_EQ(holder, thread);
            states[thread] = AWAY;
            holder = -1;
            break;
        case HW_SIM_EVENT_REQUEST:
            T_EQ(WAITS, states[thread]);
            T_TRUE(holder >= 0);
            break;
        default:
            T_EQ(HW_SIM_EVENT_EXIT, event->kind);
            states[thread] = GONE;
            break;
        }
    }
}

static void test_the_rules_of_a_machine(void) {
    const int64_t end_ns = 300 * MS;
    for (int variant = 0; variant < VARIANTS; variant++) {
        begin_everything(variant, end_ns);
        T_EQ(0, sim_run(end_ns));
        check_events(end_ns);
        int64_t elapsed_ns = end_ns - sim_world.spec.warm_ns, cpu_ns = 0, held_ns = 0;
        for (int role = 0; role < ROLES; role++) {
            struct hw_sim_role_result result = sim_result(role);
            int64_t threads = role < sim_world.spec.role_count ? sim_world.roles[role].threads : 1;
            T_TRUE(result.cpu_ns >= 0 && result.cpu_ns <= threads * elapsed_ns);
            T_TRUE(result.computed_ns <= result.cpu_ns);
            T_TRUE(result.held_ns + result.waited_ns <= threads * elapsed_ns);
            cpu_ns += result.cpu_ns;
            held_ns += result.held_ns;
        }
        T_TRUE(cpu_ns <= sim_world.spec.core_count * elapsed_ns);
        /* The time for which the GIL was held is the sum of the threads' holds. */
        struct hw_sim_gil_result gil;
        hw_sim_gil_result(sim_world.sim, 0, &gil);
        T_EQ(gil.held_ns, held_ns);
        T_TRUE(gil.held_ns <= elapsed_ns && gil.forced <= gil.acquires);
        sim_end();
    }
}

/* Each post is taken, or is still there at the end. */
static void test_semaphores_balance(void) {
    enum { POSTS = 500, FIRST = 3, TAKERS = 4 };
    for (int cores = 1; cores <= 4; cores *= 2) {
        sim_begin(NULL, cores, 10000 * MS);
        add_costs();
        sim_world.semaphores[0] = FIRST;
        sim_world.spec.semaphore_count = 1;
        SIM_ADD(SIM_OP(LOOP, POSTS), SIM_OP(HOLD, 50 * US), SIM_AT(POST, 0),
                SIM_OP(SLEEP, 100 * US), SIM_OP(END, 0))
            ->repeats = 0;
        SIM_ADD(SIM_AT(TAKE, 0), SIM_OP(HOLD, 10 * US), SIM_OP(DONE, 0))->threads = TAKERS;
        T_EQ(0, sim_run(10 * MS));
        T_EQ(-1, hw_sim_stood_ns(sim_world.sim));
        T_EQ(-EDEADLK, sim_run(10000 * MS)); /* all wait for a post that does not come */
        T_EQ(POSTS + FIRST, sim_result(1).done);
        T_EQ(TAKERS, sim_result(1).stuck);
        T_TRUE(hw_sim_stood_ns(sim_world.sim) >= POSTS * 150 * US);
        T_TRUE(hw_sim_stood_ns(sim_world.sim) < POSTS * 300 * US);
        sim_end();
    }
}

/* A thread on a clock is as often there as the clock strikes, whatever it did meanwhile, and
 * catches up after a wait that was longer than the time between strokes. */
static void test_clocks(void) {
    struct hw_sim_op tick = SIM_AT(SLEEP, 0), tock = SIM_AT(BLOCK, 3);
    tick.flags = tock.flags = HW_SIM_OF_CLOCK;
    tick.value = 10 * MS;
    tock.value = 20 * MS;
    sim_begin(NULL, 2, 1000 * MS);
    SIM_ADD(tick, SIM_OP(HOLD, MS), SIM_OP(DONE, 0), SIM_OP(SLEEP, 3 * MS), tick,
            SIM_OP(HOLD, 2 * MS), SIM_OP(DONE, 0));
    SIM_ADD(tock, SIM_OP(HOLD, MS), SIM_OP(DONE, 0));
    T_EQ(0, sim_run(995 * MS));
    T_EQ(99, sim_result(0).done);
    T_EQ(49, sim_result(1).done);
    sim_end();
    sim_begin(NULL, 1, 1000 * MS);
    SIM_ADD(tick, SIM_OP(HOLD, MS), SIM_OP(DONE, 0));
    SIM_ADD(SIM_OP(SLEEP, 502 * MS), SIM_OP(CALL, 95 * MS))->repeats = 0;
    T_EQ(0, sim_run(596 * MS));
    T_EQ(50, sim_result(0).done); /* at 10 to 500 ms */
    T_EQ(0, sim_run(609 * MS));
    T_EQ(60, sim_result(0).done);
    sim_end();
}

/* A run ends with its last thread, and its totals are those until then. */
static void test_a_program_that_ends(void) {
    for (int cores = 1; cores <= 2; cores++) {
        sim_begin(NULL, cores, 1000 * MS);
        SIM_ADD(SIM_OP(SLEEP, 30 * MS), SIM_OP(HOLD, MS), SIM_OP(EXIT, 0));
        SIM_ADD(SIM_OP(HOLD, 10 * MS), SIM_OP(DONE, 0))->repeats = 0;
        T_EQ(0, sim_run(5 * MS));
        T_EQ(-1, hw_sim_ended_ns(sim_world.sim));
        T_EQ(0, sim_run(500 * MS));
        T_EQ(31 * MS, hw_sim_ended_ns(sim_world.sim));
        T_EQ(0, sim_run(1000 * MS));
        T_EQ(31 * MS, hw_sim_ended_ns(sim_world.sim));
        T_EQ(1, sim_result(1).done);
        T_EQ(10 * MS, sim_result(1).held_ns);
        sim_end();
    }
}

/* A thread that waits for a semaphore since the first half of the run is stuck, and no other one
 * is. */
static void test_threads_that_are_stuck(void) {
    sim_begin(NULL, 2, 1000 * MS);
    sim_world.spec.semaphore_count = 1;
    SIM_ADD(SIM_OP(HOLD, MS), SIM_AT(TAKE, 0));
    SIM_ADD(SIM_OP(SLEEP, 600 * MS), SIM_AT(TAKE, 0));
    SIM_ADD(SIM_OP(SLEEP, MS), SIM_OP(HOLD, MS));
    T_EQ(0, sim_run(1000 * MS));
    T_EQ(1, sim_result(0).stuck);
    T_EQ(1, sim_result(0).stuck_at);
    T_EQ(0, sim_result(1).stuck);
    T_EQ(0, sim_result(2).stuck);
    T_EQ(0, sim_result(0).starved + sim_result(1).starved + sim_result(2).starved);
    sim_end();
}

/* A thread that waits for the GIL since the first half of the run is starved: here, a call of C
 * keeps it. */
static void test_threads_that_starve(void) {
    sim_begin(NULL, 2, 1000 * MS);
    SIM_ADD(SIM_OP(SLEEP, 10 * MS), SIM_OP(CALL, 2000 * MS));
    SIM_ADD(SIM_OP(SLEEP, 100 * MS), SIM_OP(HOLD, MS));
    SIM_ADD(SIM_OP(SLEEP, 700 * MS), SIM_OP(HOLD, MS));
    T_EQ(0, sim_run(1000 * MS));
    T_EQ(0, sim_result(0).starved);
    T_EQ(1, sim_result(1).starved);
    T_EQ(0, sim_result(2).starved);
    T_EQ(0, sim_result(1).stuck);
    sim_end();
}

/* ---------------------------------------------------------------- programs that err */
static void test_programs_that_err(void) {
    sim_begin(NULL, 2, 1000 * MS);
    sim_world.spec.semaphore_count = 1;
    SIM_ADD(SIM_AT(TAKE, 0));
    SIM_ADD(SIM_OP(HOLD, MS))->repeats = 0;
    T_EQ(-EDEADLK, sim_run(1000 * MS));
    sim_end();
    sim_begin(NULL, 2, 1000 * MS);
    SIM_ADD(SIM_OP(DONE, 0)); /* no time passes */
    T_EQ(-EPROTO, sim_run(1000 * MS));
    T_EQ(-EPROTO, sim_run(1000 * MS));
    sim_end();
    sim_begin(NULL, 2, 1000 * MS);
    SIM_ADD(SIM_OP(HOLD, MS), SIM_AT(REPLY, 0)); /* to no request */
    T_EQ(-EPROTO, sim_run(1000 * MS));
    sim_end();
    sim_begin(NULL, 2, 1000 * MS);
    sim_world.spec.semaphore_count = 1;
    sim_world.semaphores[0] = 1;
    struct hw_sim_op unlock = SIM_AT(POST, 0);
    unlock.flags = HW_SIM_OF_LOCK;
    SIM_ADD(SIM_AT(TAKE, 0), SIM_OP(HOLD, MS), unlock, SIM_OP(SLEEP, MS));
    T_EQ(0, sim_run(500 * MS));
    sim_end();
    sim_begin(NULL, 2, 1000 * MS);
    sim_world.spec.semaphore_count = 1;
    sim_world.semaphores[0] = 1;
    SIM_ADD(SIM_AT(TAKE, 0), SIM_OP(HOLD, MS), unlock, SIM_OP(SLEEP, MS));
    SIM_ADD(SIM_OP(SLEEP, 10500 * US), unlock); /* nobody holds the lock then */
    T_EQ(-EPERM, sim_run(1000 * MS));
    sim_end();
    sim_begin(NULL, 1, 1000 * MS); /* no thread at all */
    T_EQ(-EDEADLK, sim_run(1000 * MS));
    sim_end();
}

/* A policy that makes a request at every moment goes round for ever where nothing takes time. */
static void never_content_ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    thread->key = gil->holder == thread || gil->holder == NULL ? 1 : 0;
}

static int64_t at_once(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                       const struct hw_policy_thread *holder) {
    (void)gil, (void)waiter, (void)holder;
    return 0;
}

static void test_a_policy_that_goes_round(void) {
    static const struct hw_policy_option none[] = {{.name = NULL}};
    static const struct hw_policy never_content = {.abi = HW_POLICY_ABI,
                                                   .flags = HW_POLICY_PLAIN,
                                                   .name = "never_content",
                                                   .options = none,
                                                   .ready = never_content_ready,
                                                   .patience = at_once};
    sim_begin(&never_content, 4, 1000 * MS);
    SIM_ADD(SIM_OP(COMPUTE, 0))->threads = 2;
    T_EQ(-EPROTO, sim_run(1000 * MS));
    sim_end();
}

/* ---------------------------------------------------------------- what is refused */
static void refuse(const char *what) {
    char problem[200];
    T_TRUE(hw_sim_new(&sim_world.spec, problem, sizeof problem) == NULL);
    if (strstr(problem, what) == NULL) {
        fprintf(stderr, "expected '%s', got '%s'\n", what, problem);
        exit(1);
    }
}

static void begin_sound(void) {
    begin_everything(1, 100 * MS);
    char problem[200];
    struct hw_sim *sim = hw_sim_new(&sim_world.spec, problem, sizeof problem);
    T_TRUE(sim != NULL);
    hw_sim_free(sim);
}

#define REFUSED(field, value, what)                                                                \
    do {                                                                                           \
        begin_sound();                                                                             \
        sim_world.field = (value);                                                                 \
        refuse(what);                                                                              \
    } while (0)

static void test_what_is_refused(void) {
    static const double falls[] = {2, 1}, negative[] = {-1}, no_number[] = {NAN};
    REFUSED(spec.core_count, 0, "cores");
    REFUSED(spec.core_count, 65, "cores");
    REFUSED(spec.end_ns, 0, "machine");
    REFUSED(spec.warm_ns, 100 * MS, "machine");
    REFUSED(spec.warm_ns, -1, "machine");
    REFUSED(spec.tick_ns, 0, "machine");
    REFUSED(spec.slice_ns, 0, "machine");
    REFUSED(spec.gil_count, -1, "machine");
    REFUSED(gils[0].interval_ns, 0, "GIL 0");
    REFUSED(gils[0].spin_ns, -1, "GIL 0");
    REFUSED(gils[0].slow_down, -1, "GIL 0");
    REFUSED(semaphores[0], -1, "semaphore 0");
    REFUSED(dists[0].count, 0, "distribution 0");
    REFUSED(dists[0].quantiles, NULL, "distribution 0");
    begin_sound();
    sim_world.dists[0] = (struct hw_sim_dist){.quantiles = falls, .count = 2};
    refuse("rise");
    REFUSED(costs[3].quantiles, negative, "rise");
    REFUSED(costs[3].quantiles, no_number, "rise");
    REFUSED(roles[1].threads, 0, "role 1");
    REFUSED(roles[1].gil, 1, "role 1");
    REFUSED(roles[1].gil, -2, "role 1");
    REFUSED(roles[1].begin_ns, -1, "role 1");
    REFUSED(roles[1].cores, UINT64_C(1) << 60, "no core");
    REFUSED(roles[0].port_step, -1, "port");
    REFUSED(roles[0].answers, -1, "role 0");
    REFUSED(roles[0].answers, sim_world.spec.dist_count + 1, "role 0");
    REFUSED(roles[0].in_calls, 1, "role 0");
    REFUSED(ops[0][0].index, 7, "port");
    REFUSED(ops[0][2].index, 7, "operation of role 0");
    REFUSED(ops[0][1].kind, HW_SIM_OPS, "operation of role 0");
    REFUSED(ops[0][1].flags, 2, "operation of role 0");
    REFUSED(ops[0][1].value, -1, "operation of role 0");
    REFUSED(ops[0][1].flags, 32, "operation of role 0");
    REFUSED(ops[0][1].flags, HW_SIM_OF_CLOCK, "operation of role 0"); /* it computes */
    struct hw_sim_op tick = {.kind = HW_SIM_SLEEP, .flags = HW_SIM_OF_CLOCK, .value = MS};
    tick.index = HW_SIM_CLOCKS;
    REFUSED(ops[0][1], tick, "operation of role 0");
    tick.index = 0;
    tick.flags |= HW_SIM_OF_DIST;
    REFUSED(ops[0][1], tick, "operation of role 0");
    begin_sound(); /* a run with GOES_ON needs a call right after it */
    sim_world.ops[0][1] = (struct hw_sim_op){.kind = HW_SIM_RUN, .flags = HW_SIM_GOES_ON};
    sim_world.ops[0][2] = SIM_OP(HOLD, 1);
    refuse("operation of role 0");
    begin_sound();
    sim_world.roles[0].op_count = 2;
    sim_world.ops[0][1] = (struct hw_sim_op){.kind = HW_SIM_RUN, .flags = HW_SIM_GOES_ON};
    refuse("operation of role 0");
    REFUSED(ops[2][3].kind, HW_SIM_HOLD, "operation of role 2"); /* this END has no LOOP */
    REFUSED(ops[2][5].kind, HW_SIM_HOLD, "does not end");
    begin_sound();
    sim_world.ops[0][1] =
        (struct hw_sim_op){.kind = HW_SIM_HOLD, .flags = HW_SIM_OF_DIST, .index = 9};
    refuse("operation of role 0");
    REFUSED(clients[0].connections, 0, "client 0");
    REFUSED(clients[0].port, 1, "client 0");
    REFUSED(clients[0].port_step, 1, "client 0");
    REFUSED(clients[0].think, 1, "client 0");
    REFUSED(clients[0].rate_per_s, INFINITY, "client 0");
    REFUSED(clients[0].work_ns, -1, "client 0");
    REFUSED(clients[0].cores, UINT64_C(1) << 60, "no core");
}

/* ---------------------------------------------------------------- the model */
/* Random arrivals have the given rate: their number deviates by its square root. */
static void test_open_arrivals(void) {
    for (int rate = 200; rate <= 20000; rate *= 10) {
        sim_begin(NULL, 4, 5000 * MS);
        sim_world.spec.port_count = sim_world.spec.client_count = 1;
        sim_world.clients[0] =
            (struct hw_sim_client){.connections = 64, .think = -1, .rate_per_s = rate};
        SIM_ADD(SIM_AT(RECEIVE, 0), SIM_OP(HOLD, 5 * US), SIM_AT(REPLY, 0))->threads = 4;
        T_EQ(0, sim_run(5000 * MS));
        double expected = 5.0 * rate;
        T_TRUE(fabs((double)sim_result(1).done - expected) < 4 * sqrt(expected) + 1);
        sim_end();
    }
}

/* Threads that wait for a core slow down nobody. */
static void test_slowed_by_those_that_run(void) {
    for (int cores = 1; cores <= 2; cores++) {
        sim_begin(NULL, cores, 1000 * MS);
        sim_world.gils[0].enabled = 0;
        sim_world.gils[0].slow_down = 0.25;
        SIM_ADD(SIM_OP(HOLD, 1 * MS), SIM_OP(DONE, 0))->threads = 8;
        T_EQ(0, sim_run(1000 * MS));
        int64_t done = sim_result(0).done;
        T_TRUE(cores == 1 ? done >= 990 && done <= 1000 : done >= 1580 && done <= 1600);
        sim_end();
    }
}

/* Threads of a free-threaded process run in parallel, as far as there are cores. */
static void test_free_threaded(void) {
    static const struct {
        int cores, threads;
    } cases[] = {{1, 4}, {2, 4}, {4, 4}, {8, 4}, {64, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int gil = 0; gil < 2; gil++) {
            sim_begin(NULL, cases[i].cores, 1000 * MS);
            sim_world.gils[0].enabled = gil;
            SIM_ADD(SIM_OP(COMPUTE, 0))->threads = cases[i].threads;
            T_EQ(0, sim_run(1000 * MS));
            int64_t parallel =
                gil || cases[i].cores < cases[i].threads ? cases[i].cores : cases[i].threads;
            parallel = gil ? 1 : parallel;
            int64_t computed_ns = sim_result(0).computed_ns;
            T_TRUE(computed_ns > parallel * 990 * MS && computed_ns <= parallel * 1000 * MS);
            sim_end();
        }
    }
}

/* A call that computes and then blocks is one call: the GIL is acquired once, after both. */
static void test_a_call_of_two_parts(void) {
    for (uint16_t flags = 0; flags <= HW_SIM_GOES_ON; flags += HW_SIM_GOES_ON) {
        sim_begin(NULL, 1, 1000 * MS);
        struct hw_sim_op run = {.kind = HW_SIM_RUN, .flags = flags, .value = 2 * MS};
        SIM_ADD(SIM_OP(HOLD, 3 * MS), run, SIM_OP(BLOCK, 5 * MS))->repeats = 1;
        T_EQ(0, sim_run(1000 * MS));
        struct hw_sim_gil_result gil;
        hw_sim_gil_result(sim_world.sim, 0, &gil);
        T_TRUE(flags == 0 ? gil.acquires >= 200 : gil.acquires >= 100 && gil.acquires <= 101);
        struct hw_sim_role_result result = sim_result(0);
        T_EQ(300 * MS, result.computed_ns - result.ran_ns);
        T_EQ(200 * MS, result.ran_ns);
        T_EQ(300 * MS, result.held_ns);
        sim_end();
    }
}

/* A thread that answers requests late, as in calls of C, keeps a waiter for so much longer,
 * whatever the policy and the switch interval are. An operation that ends earlier ends the call. */
static void test_late_answers(void) {
    static const double answer_ns[] = {3 * MS};
    for (int64_t computes_ns = 0; computes_ns <= 2 * MS; computes_ns += 2 * MS) {
        sim_begin(NULL, 2, 1000 * MS);
        sim_world.spec.max_events = 1 << 20;
        sim_world.dists[0] = (struct hw_sim_dist){.quantiles = answer_ns, .count = 1};
        sim_world.spec.dist_count = 1;
        struct hw_sim_op computes = SIM_OP(COMPUTE, 0);
        if (computes_ns > 0) {
            computes = SIM_OP(HOLD, computes_ns);
        }
        SIM_ADD(computes)->answers = 1;
        SIM_ADD(SIM_OP(SLEEP, 20 * MS), SIM_OP(HOLD, 1 * US));
        T_EQ(0, sim_run(1000 * MS));
        struct sim_waits waits = sim_waits(1, 100 * MS, 5 * MS);
        T_TRUE(waits.count >= 30);
        T_TRUE(computes_ns > 0 ? waits.worst_ns <= 7 * MS : waits.worst_ns == 8 * MS);
        T_EQ(waits.count, waits.longer);
        sim_end();
    }
}

/* Where the length of a thread's calls is known, a request that comes sooner is answered as late:
 * the call that began with the hold ends when it ends. The waiter comes 2 ms after that. */
static void test_answers_at_the_end_of_calls(void) {
    static const double call_ns[] = {9 * MS};
    static const int64_t interval_ns[] = {5 * MS, 1 * MS};
    for (size_t i = 0; i < 2; i++) {
        sim_begin(NULL, 2, 1000 * MS);
        sim_world.spec.max_events = 1 << 20;
        sim_world.gils[0].interval_ns = interval_ns[i];
        sim_world.dists[0] = (struct hw_sim_dist){.quantiles = call_ns, .count = 1};
        sim_world.spec.dist_count = 1;
        struct hw_sim_role *caller = SIM_ADD(SIM_OP(COMPUTE, 0));
        caller->answers = caller->in_calls = 1;
        SIM_ADD(SIM_OP(SLEEP, 2 * MS), SIM_OP(HOLD, 1 * US));
        T_EQ(0, sim_run(1000 * MS));
        struct sim_waits waits = sim_waits(1, 100 * MS, 6 * MS);
        T_TRUE(waits.count >= 95);
        T_EQ(waits.count, waits.longer);
        T_TRUE(waits.worst_ns <= 7 * MS);
        sim_end();
    }
}

/* A thread that makes one call of C after the other sees a request after the call that it is in. */
static void test_calls_in_a_row(void) {
    sim_begin(NULL, 2, 1000 * MS);
    sim_world.spec.max_events = 1 << 20;
    SIM_ADD(SIM_OP(CALL, 30 * MS));
    SIM_ADD(SIM_OP(SLEEP, 10 * MS), SIM_OP(HOLD, 1 * US));
    T_EQ(0, sim_run(1000 * MS));
    struct sim_waits waits = sim_waits(1, 0, 30 * MS);
    T_TRUE(waits.count >= 20);
    T_EQ(0, waits.longer);
    sim_end();
}

#define SIM_OF_PORT(op, at)                                                                        \
    (struct hw_sim_op) { .kind = HW_SIM_##op, .flags = HW_SIM_OF_PORT, .index = (at) }

/* One thread takes requests, and others answer them: each request has one answer, and no connection
 * has more than one request on its way. */
static void test_answers_of_other_threads(void) {
    for (int connections = 1; connections <= 5; connections++) {
        sim_begin(NULL, 4, 1000 * MS);
        add_costs();
        sim_world.clients[0] = (struct hw_sim_client){.connections = connections, .think = -1};
        sim_world.spec.port_count = sim_world.spec.client_count = sim_world.spec.semaphore_count =
            1;
        SIM_ADD(SIM_OF_PORT(RECEIVE, 0), SIM_OP(HOLD, 10 * US), SIM_AT(POST, 0), SIM_OP(DONE, 0));
        SIM_ADD(SIM_AT(TAKE, 0), SIM_OP(HOLD, 100 * US), SIM_OF_PORT(REPLY, 0), SIM_OP(DONE, 0))
            ->threads = 2;
        T_EQ(0, sim_run(1000 * MS));
        int64_t taken = sim_result(0).done, answered = sim_result(1).done,
                over = sim_result(2).done;
        T_TRUE(over > 1000);
        T_TRUE(over <= answered && answered <= taken && taken <= over + connections);
        sim_end();
    }
}

/* A reply that comes before its request was received answers the request when it comes. */
static void test_an_answer_that_is_early(void) {
    sim_begin(NULL, 2, 1000 * MS);
    add_costs();
    sim_world.clients[0] = (struct hw_sim_client){.connections = 1, .think = -1};
    sim_world.spec.port_count = sim_world.spec.client_count = 1;
    SIM_ADD(SIM_OF_PORT(REPLY, 0), SIM_OP(HOLD, 10 * US), SIM_OF_PORT(RECEIVE, 0),
            SIM_OP(HOLD, 10 * US), SIM_OP(DONE, 0));
    T_EQ(0, sim_run(1000 * MS));
    int64_t done = sim_result(0).done, over = sim_result(1).done;
    T_TRUE(done > 1000);
    T_TRUE(done - 1 <= over && over <= done + 1);
    sim_end();
}

/* Code that has not run for 10 ms is cold, whether its core was busy or idle meanwhile. */
static void test_cold(void) {
    T_TRUE(hw_sim_coldness(0) == 0 && hw_sim_coldness(5 * MS) == 1 &&
           hw_sim_coldness(INT64_MAX) == 1);
    for (int64_t ns = 0; ns < 6 * MS; ns += 10 * US) {
        T_TRUE(hw_sim_coldness(ns) <= hw_sim_coldness(ns + 10 * US));
    }
    for (int busy = 0; busy < 2; busy++) {
        sim_begin(NULL, 1, 1000 * MS);
        sim_world.cost_ns[HW_SIM_COST_COLD_PYTHON] = 30000;
        SIM_ADD(SIM_OP(HOLD, 100 * US), SIM_OP(BLOCK, 10 * MS), SIM_OP(DONE, 0));
        if (busy) {
            SIM_ADD(SIM_OP(COMPUTE, 0))->gil = -1;
        }
        T_EQ(0, sim_run(1000 * MS));
        struct hw_sim_role_result result = sim_result(0);
        int64_t each_ns = result.computed_ns / (result.done + 1);
        T_TRUE(result.done > 40 && each_ns > 125 * US && each_ns < 132 * US);
        sim_end();
    }
}

/* Two processes of one CPU-bound thread each share a core evenly, as with EEVDF. */
static void test_two_processes_on_a_core(void) {
    sim_begin(NULL, 1, 1000 * MS);
    sim_world.gils[1] = sim_world.gils[0];
    sim_world.spec.gil_count = 2;
    SIM_ADD(SIM_OP(COMPUTE, 0));
    SIM_ADD(SIM_OP(COMPUTE, 0))->gil = 1;
    T_EQ(0, sim_run(1000 * MS));
    int64_t first_ns = sim_result(0).cpu_ns, second_ns = sim_result(1).cpu_ns;
    T_EQ(1000 * MS, first_ns + second_ns);
    T_TRUE(first_ns - second_ns < 10 * MS && second_ns - first_ns < 10 * MS);
    sim_end();
}

/* Threads that may run on two of four cores are spread over these two, and share them evenly. */
static void test_threads_on_some_cores(void) {
    static const uint64_t allowed[] = {0x3, 0x5, 0x9, 0x6, 0xa, 0xc};
    for (int i = 0; i < 6; i++) {
        sim_begin(NULL, 4, 1000 * MS);
        for (int thread = 0; thread < 4; thread++) {
            struct hw_sim_role *role = SIM_ADD(SIM_OP(COMPUTE, 0));
            role->gil = -1;
            role->cores = allowed[i];
        }
        T_EQ(0, sim_run(1000 * MS));
        for (int role = 0; role < 4; role++) {
            int64_t cpu_ns = sim_result(role).cpu_ns;
            T_TRUE(cpu_ns > 490 * MS && cpu_ns < 510 * MS);
        }
        sim_end();
    }
}

static void test_many_threads(void) {
    for (int i = 0; i < 5; i++) {
        sim_begin(policy_of(i), 8, 100 * MS);
        add_costs();
        SIM_ADD(SIM_OP(HOLD, 20 * US), SIM_OP(BLOCK, 10 * MS), SIM_OP(DONE, 0))->threads = 2000;
        T_EQ(0, sim_run(100 * MS));
        T_TRUE(sim_result(0).done > 100);
        sim_end();
    }
}

/* A machine may be freed at any time: before it runs, during a run, and after its threads have
 * ended. */
static void test_freed_half_way(void) {
    for (int variant = 0; variant < VARIANTS; variant++) {
        begin_everything(variant, 200 * MS);
        T_EQ(0, sim_run(0));
        sim_end();
        begin_everything(variant, 200 * MS);
        T_EQ(0, sim_run(33 * MS + variant * 17 * US));
        sim_end();
    }
    sim_begin(NULL, 2, 10 * MS);
    SIM_ADD(SIM_OP(HOLD, MS))->repeats = 0;
    T_EQ(0, sim_run(10 * MS)); /* its only thread has ended */
    sim_end();
    hw_sim_free(NULL);
}

int main(void) {
    t_start();
    T_RUN(test_same_seed_same_run);
    T_RUN(test_the_rules_of_a_machine);
    T_RUN(test_semaphores_balance);
    T_RUN(test_clocks);
    T_RUN(test_a_program_that_ends);
    T_RUN(test_threads_that_are_stuck);
    T_RUN(test_threads_that_starve);
    T_RUN(test_programs_that_err);
    T_RUN(test_a_policy_that_goes_round);
    T_RUN(test_what_is_refused);
    T_RUN(test_open_arrivals);
    T_RUN(test_free_threaded);
    T_RUN(test_slowed_by_those_that_run);
    T_RUN(test_a_call_of_two_parts);
    T_RUN(test_late_answers);
    T_RUN(test_answers_at_the_end_of_calls);
    T_RUN(test_calls_in_a_row);
    T_RUN(test_answers_of_other_threads);
    T_RUN(test_an_answer_that_is_early);
    T_RUN(test_cold);
    T_RUN(test_two_processes_on_a_core);
    T_RUN(test_threads_on_some_cores);
    T_RUN(test_many_threads);
    T_RUN(test_freed_half_way);
    return 0;
}
