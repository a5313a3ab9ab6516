// SPDX-License-Identifier: MIT
/* The time that each policy gives to each thread, in virtual time. The ledger, the decisions and
 * the policies are those that schedule real threads. The machine's operations take no time, and it
 * has a core for each thread, so every effect is the policy's and not the operating system's. */
#include "policy/policies.h"
#include "sim_world.h"

#define CROWD 400
#define CORES 16
#define SPAN (4000 * MS)
#define MOMENT (20 * US) /* the absence of a thread that releases the GIL for a short call */

static void begin(const struct hw_policy *policy, int64_t end_ns) {
    sim_begin(policy, CORES, end_ns);
    sim_world.gils[0].spin_ns = 20 * US;
    sim_world.gils[0].yields = 1;
}

/* Adds a thread that computes for ever. */
static struct hw_sim_role *add_computing(void) { return SIM_ADD(SIM_OP(COMPUTE, 0)); }

/* Adds a thread that wants the GIL for `burst_ns`, and then does without it for `away_ns`. */
static struct hw_sim_role *add(int64_t burst_ns, int64_t away_ns) {
    return SIM_ADD(SIM_OP(HOLD, burst_ns), SIM_OP(BLOCK, away_ns), SIM_OP(DONE, 0));
}

static void run(void) { T_EQ(0, sim_run(sim_world.spec.end_ns)); }

/* CPU-bound threads share the GIL evenly under every policy. */
static void test_even_shares(void) {
    for (int i = 0; hw_policy_at(i) != NULL; i++) {
        for (int threads = 1; threads <= 8; threads *= 2) {
            begin(hw_policy_at(i), SPAN);
            for (int j = 0; j < threads; j++) {
                add_computing();
            }
            run();
            for (int j = 0; j < threads; j++) {
                T_TRUE(sim_share(j, SPAN) > 0.9 / threads);
            }
            sim_end();
        }
    }
}

/* With eight CPU-bound threads, none waits for longer than 50 ms under `fair`. */
static void test_no_long_wait(void) {
    begin(&hw__policy_fair, SPAN);
    for (int j = 0; j < 8; j++) {
        add_computing();
    }
    run();
    for (int j = 0; j < 8; j++) {
        T_TRUE(sim_result(j).worst_wait_ns <= 50 * MS);
    }
    sim_end();
}

/* Adds a thread that has phases: during a phase it wants the GIL for a moment again and again, and
 * then it is away for as long as the phase was. */
static void add_phased(int64_t burst_ns, int64_t away_ns, int64_t phase_ns) {
    struct hw_sim_op ops[SIM_OPS];
    int count = 0;
    for (int j = 0; j < 10; j++) {
        int64_t some_ns = phase_ns * (1 + j * 7 % 10) / 5;
        ops[count++] = SIM_OP(LOOP, some_ns / (burst_ns + away_ns));
        ops[count++] = SIM_OP(HOLD, burst_ns);
        ops[count++] = SIM_OP(BLOCK, away_ns);
        ops[count++] = SIM_OP(END, 0);
        ops[count++] = SIM_OP(BLOCK, some_ns);
    }
    sim_add(ops, count);
}

/* Threads do not wait for much longer beside a thread that comes and goes in phases, and so takes
 * more from one turn than from another: 75 ms, except for one wait in a hundred.
 *
 * As that thread comes and goes, turns become shorter and longer. A thread that had a turn of 14 ms
 * is ahead of others whose turns are now 10.5 ms, and lets all of them run before it runs again. So
 * no thread waits for more than two rounds of 42 ms, and the time that the thread with phases takes
 * meanwhile. */
static void test_no_long_wait_beside_phases(void) {
    static const struct {
        int64_t burst_ns, away_ns, phase_ns;
    } phases[] = {{20 * US, 20 * US, 60 * MS},
                  {20 * US, 60 * US, 20 * MS},
                  {20 * US, 20 * US, 5 * MS},
                  {500 * US, 500 * US, 20 * MS}};
    for (int threads = 4; threads <= 8; threads += 4) {
        for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
            int64_t span_ns = phases[i].phase_ns * 88; /* 40 phases and as many pauses, */
            span_ns = span_ns > SPAN ? span_ns : SPAN; /* but at least many turns of each thread */
            begin(&hw__policy_fair, span_ns);
            sim_world.spec.max_events = INT64_C(1) << 22;
            add_phased(phases[i].burst_ns, phases[i].away_ns, phases[i].phase_ns);
            for (int j = 0; j < threads; j++) {
                add_computing();
            }
            run();
            double sum = 0, squares = 0;
            int64_t count = 0, longer = 0;
            for (int j = 1; j <= threads; j++) {
                double used = (double)sim_result(j).held_ns;
                struct sim_waits waits = sim_waits((uint32_t)j, 0, 75 * MS);
                count += waits.count;
                longer += waits.longer;
                T_TRUE(waits.worst_ns <= 100 * MS);
                sum += used;
                squares += used * used;
            }
            T_TRUE(longer * 100 <= count);
            T_TRUE(sum * sum / (threads * squares) > 0.99);
            sim_end();
        }
    }
}

/* A thread wants the GIL for 20 us every millisecond, beside four CPU-bound threads. Under stock
 * each of its waits lasts several intervals; under the other policies it hardly waits. */
static void test_prompt(void) {
    static const struct hw_policy *const slow[] = {NULL, &hw__policy_stock};
    static const struct hw_policy *const prompt[] = {&hw__policy_fair, &hw__policy_priority,
                                                     &hw__policy_bfs};
    for (int i = 0; i < 5; i++) {
        begin(i < 2 ? slow[i] : prompt[i - 2], SPAN);
        add(20 * US, MS);
        for (int j = 0; j < 4; j++) {
            add_computing();
        }
        run();
        if (i < 2) {
            T_TRUE(sim_result(0).done < SPAN / (15 * MS));
        } else {
            T_TRUE(sim_result(0).done > SPAN / MS * 8 / 10);
        }
        sim_end();
    }
}

static void set_option(const struct hw_policy *policy, const char *name, int64_t value) {
    int i = 0;
    while (strcmp(policy->options[i].name, name) != 0) {
        i++;
    }
    sim_world.gils[0].options[i] = value;
}

/* A CPU-bound thread puts an item every 20 us, and another thread takes it. Under `fair`, the
 * holder that has woken the waiter itself goes on for `woken_us`. A thread that a timer wakes is
 * prompt all the same. */
static void test_the_waker_goes_on(void) {
    enum { PUTS, TAKES, SLEEPS };
    for (int woken = 0; woken < 2; woken++) {
        begin(&hw__policy_fair, SPAN);
        set_option(&hw__policy_fair, "woken_us", woken != 0 ? 2000 : 0);
        sim_world.spec.semaphore_count = 1;
        sim_world.spec.max_events = INT64_C(1) << 22;
        SIM_ADD(SIM_OP(HOLD, 20 * US), SIM_AT(POST, 0));
        SIM_ADD(SIM_AT(TAKE, 0), SIM_OP(HOLD, US), SIM_OP(DONE, 0));
        add(20 * US, 10 * MS);
        run();
        struct sim_waits waits = sim_waits(TAKES, 100 * MS, 0);
        if (woken != 0) {
            T_TRUE(waits.count < 1.1 * (double)SPAN / (2 * MS));
            T_TRUE(waits.worst_ns < 3 * MS);
        } else {
            T_TRUE(waits.count > SPAN / MS);
        }
        T_TRUE(sim_result(TAKES).done > SPAN / MS);
        T_TRUE(sim_waits(SLEEPS, 100 * MS, 0).worst_ns < 1100 * US); /* a turn owed to the others */
        sim_end();
    }
}

/* T1 of bpo-7946, "cpued": a thread computes for 1 ms and releases the GIL for a very short time,
 * for ever, beside two CPU-bound threads. `fair` and `bfs` give each thread a third; `priority`
 * starves the two. */
static void test_cpued(void) {
    static const struct hw_policy *const policies[] = {&hw__policy_fair, &hw__policy_bfs,
                                                       &hw__policy_priority};
    for (int i = 0; i < 3; i++) {
        begin(policies[i], SPAN);
        add(MS, MOMENT);
        add_computing();
        add_computing();
        run();
        for (int j = 0; j < 3; j++) {
            if (i < 2) {
                T_TRUE(sim_share(j, SPAN) > 0.8 / 3);
            } else if (j > 0) {
                T_TRUE(sim_share(j, SPAN) < 0.1);
            }
        }
        sim_end();
    }
}

/* Four threads hold the GIL for 0.1 ms and are away for 0.1 ms, beside a CPU-bound thread, on a
 * machine that needs 50 us to wake a thread. So the GIL may be taken again each time before the
 * CPU-bound thread is awake. It gets a tenth of the time from `fair` all the same. */
static void test_the_tenth_beside_regular_holds(void) {
    begin(&hw__policy_fair, SPAN);
    sim_world.spec.core_count = 2;
    sim_world.cost_ns[HW_SIM_COST_WAKE_IDLE] = 50 * US;
    sim_world.cost_ns[HW_SIM_COST_PREEMPT_OTHER] = 50 * US;
    add_computing();
    for (int j = 0; j < 4; j++) {
        add(100 * US, 100 * US);
    }
    run();
    T_TRUE(sim_share(0, SPAN) > 0.08);
    T_TRUE(sim_result(0).worst_wait_ns <= 60 * MS);
    sim_end();
}

/* On one core, 16 threads call C for 20 us again and again, without the GIL. So a CPU-bound thread
 * that is called waits for the core until each of the others has used up its time slice. That is
 * made up for once it is known that the thread wants the GIL back after each preemption. */
static void test_the_tenth_without_a_core(void) {
    begin(&hw__policy_fair, 3 * SPAN);
    sim_world.spec.core_count = 1;
    sim_world.spec.warm_ns = SPAN;
    add_computing();
    for (int j = 0; j < 16; j++) {
        SIM_ADD(SIM_OP(HOLD, 2 * US), SIM_OP(RUN, 20 * US), SIM_OP(DONE, 0));
    }
    run();
    T_TRUE(sim_share(0, 2 * SPAN) > 0.08);
    T_TRUE(sim_result(0).worst_wait_ns <= 150 * MS);
    sim_end();
}

/* T2: 4 and 16 such threads of 0.8 ms beside one CPU-bound thread. Under `fair`, each thread gets
 * 0.8 of its fair share or more. */
static void test_many_fakes(void) {
    for (int fakes = 4; fakes <= 16; fakes *= 4) {
        begin(&hw__policy_fair, SPAN);
        for (int j = 0; j < fakes; j++) {
            add(800 * US, MOMENT);
        }
        add_computing();
        run();
        for (int j = 0; j <= fakes; j++) {
            T_TRUE(sim_share(j, SPAN) > 0.8 / (fakes + 1));
        }
        sim_end();
    }
}

/* `fair` is idle from its begin on, until a CPU-bound thread is seen. */
static void test_fair_begins_idle(void) {
    struct hw_policy_gil gil = {.now_ns = 1, .interval_ns = 5 * MS};
    for (int i = 0; hw__policy_fair.options[i].name != NULL; i++) {
        gil.options[i] = hw__policy_fair.options[i].preset;
    }
    T_TRUE(hw__policy_fair.idle(&gil));
    struct hw_policy_thread light = {.burst_ns = MS}, computing = {.burst_ns = 10 * MS};
    hw__policy_fair.acquired(&gil, &light);
    hw__policy_fair.released(&gil, &light, MS);
    T_TRUE(hw__policy_fair.idle(&gil));
    hw__policy_fair.acquired(&gil, &computing);
    hw__policy_fair.released(&gil, &computing, 10 * MS);
    T_TRUE(!hw__policy_fair.idle(&gil));
    gil.now_ns += 100 * MS;
    T_TRUE(!hw__policy_fair.idle(&gil));
    gil.now_ns++;
    T_TRUE(hw__policy_fair.idle(&gil));
    gil.interval_ns = 6 * MS; /* longer than compute_us */
    T_TRUE(!hw__policy_fair.idle(&gil));
}

/* A thread that slept for long, or that is new, has no right to all of the time that it missed. */
static void test_bounded_credit(void) {
    for (int known = 0; known < 2; known++) {
        begin(&hw__policy_fair, 2200 * MS);
        if (known) {
            SIM_ADD(SIM_OP(HOLD, US), SIM_OP(BLOCK, 2000 * MS), SIM_OP(COMPUTE, 0));
        } else {
            add_computing()->begin_ns = 2000 * MS;
        }
        add_computing();
        T_EQ(0, sim_run(2000 * MS - US));
        T_TRUE(sim_result(0).held_ns <= US);
        int64_t before_ns = sim_result(1).held_ns;
        run();
        T_TRUE(sim_result(1).held_ns - before_ns > 80 * MS);
        sim_end();
    }
}

/* A thread that held the GIL for seconds, in a call that could not be preempted, does not wait for
 * as long as all the others did. */
static void test_bounded_debt(void) {
    begin(&hw__policy_fair, 5500 * MS + SPAN);
    sim_world.spec.max_events = 100000;
    SIM_ADD(SIM_OP(HOLD, 125 * MS), SIM_OP(CALL, 5000 * MS), SIM_OP(COMPUTE, 0));
    for (int j = 0; j < 3; j++) {
        add_computing();
    }
    run();
    int64_t worst_ns = sim_waits(0, 5000 * MS, 0).worst_ns;
    T_TRUE(worst_ns > 40 * MS);
    T_TRUE(worst_ns < 150 * MS);
    sim_end();
}

/* The same holds in a crowd of threads that always want the GIL, each for a short time. The thread
 * waits until each of them has come as far as it has, which takes its debt once for each thread of
 * the crowd. */
static void test_bounded_debt_in_a_crowd(void) {
    begin(&hw__policy_fair, 2000 * MS);
    sim_world.spec.core_count = 64;
    SIM_ADD(SIM_OP(CALL, 20 * MS), SIM_OP(BLOCK, 0), SIM_OP(DONE, 0));
    add(20 * US, 10 * US)->threads = CROWD - 1;
    run();
    T_TRUE(sim_result(0).done > 2);
    T_TRUE(sim_result(0).worst_wait_ns > 42 * MS);
    T_TRUE(sim_result(0).worst_wait_ns < 600 * MS);
    sim_end();
}

/* A priority is worth GIL time: five steps are about a factor of three. */
static void test_priority_hint(void) {
    begin(&hw__policy_fair, SPAN);
    add_computing()->priority = -5;
    add_computing();
    run();
    double ratio = (double)sim_result(0).held_ns / (double)sim_result(1).held_ns;
    T_TRUE(ratio > 2.5 && ratio < 3.7);
    sim_end();
    /* This also holds for a thread in C calls that last longer than its time slice. */
    begin(&hw__policy_fair, 2 * SPAN);
    add_computing();
    SIM_ADD(SIM_OP(CALL, 42 * MS), SIM_OP(HOLD, 1))->priority = 10; /* a weight of 108 to 1024 */
    run();
    ratio = (double)sim_result(0).held_ns / (double)sim_result(1).held_ns;
    T_TRUE(ratio > 7.5 && ratio < 11.5);
    sim_end();
    T_EQ(1024, hw_policy_weight(0));
    T_EQ(1280, hw_policy_weight(-1)); /* a quarter more */
    T_EQ(819, hw_policy_weight(1));   /* a fifth less */
    T_TRUE(hw_policy_weight(19) > 0);
    T_TRUE(hw_policy_weight(-20) < 100000);
}

/* An urgent thread goes before others that need as little, and does not have to wait for a
 * CPU-bound thread. */
static void test_urgent_hint(void) {
    begin(&hw__policy_fair, 100 * MS);
    SIM_ADD(SIM_OP(CALL, 10 * MS), SIM_OP(HOLD, 1));
    SIM_ADD(SIM_OP(HOLD, 100 * US), SIM_OP(DONE, 0), SIM_OP(BLOCK, 100 * MS))->begin_ns = 31 * MS;
    struct hw_sim_role *urgent =
        SIM_ADD(SIM_OP(HOLD, 100 * US), SIM_OP(DONE, 0), SIM_OP(BLOCK, 20 * MS));
    urgent->begin_ns = 31 * MS + US;
    urgent->urgent = 1;
    T_EQ(0, sim_run(40 * MS + 150 * US));
    T_EQ(0, sim_result(1).done);
    T_EQ(1, sim_result(2).done);
    T_EQ(0, sim_run(40 * MS + 250 * US));
    T_EQ(1, sim_result(1).done);
    sim_end();
    begin(&hw__policy_fair, 100 * MS);
    add_computing();
    add_computing();
    urgent = SIM_ADD(SIM_OP(HOLD, 100 * US), SIM_OP(DONE, 0), SIM_OP(BLOCK, 500 * US));
    urgent->begin_ns = 31 * MS;
    urgent->urgent = 1;
    run();
    T_TRUE(sim_result(2).done > 100);
    T_TRUE(sim_result(2).worst_wait_ns < 50 * US);
    sim_end();
}

/* An urgent thread gets no more GIL time. One that computes leaves the others their share. So does
 * one that wants the GIL back at once after short holds, which leaves CPU-bound threads what is
 * theirs by `compute_percent`. */
static void test_urgent_computes(void) {
    for (int computing = 1; computing <= 4; computing *= 4) {
        for (int bursts = 0; bursts < 2; bursts++) {
            begin(&hw__policy_fair, 10000 * MS);
            sim_world.spec.max_events = INT64_C(1) << 22;
            (bursts ? add(MS, MOMENT) : add_computing())->urgent = 1;
            for (int j = 0; j < computing; j++) {
                add_computing();
            }
            run();
            for (int j = 0; j <= computing; j++) {
                T_TRUE(sim_share(j, 10000 * MS) > 0.8 / (computing + 1));
                T_TRUE(sim_result(j).worst_wait_ns <= 100 * MS);
            }
            sim_end();
        }
    }
    begin(&hw__policy_fair, 10000 * MS);
    sim_world.spec.max_events = INT64_C(1) << 22;
    add(50 * US, US)->urgent = 1;
    add_computing();
    run();
    T_TRUE(sim_share(1, 10000 * MS) > 0.1 * 0.9);
    T_TRUE(sim_result(1).worst_wait_ns <= 100 * MS);
    sim_end();
}

/* Every policy is complete, its options are in order, and it is found by its name. */
static void test_registry(void) {
    char problem[200];
    int count = 0;
    for (; hw_policy_at(count) != NULL; count++) {
        const struct hw_policy *policy = hw_policy_at(count);
        T_EQ(HW_POLICY_ABI, policy->abi);
        T_TRUE(policy->about[0] != '\0' && policy->good_for[0] != '\0' &&
               policy->bad_at[0] != '\0');
        T_TRUE(hw_policy_find(policy->name, problem, sizeof problem) == policy);
        for (const struct hw_policy_option *one = policy->options; one->name != NULL; one++) {
            T_TRUE(one - policy->options < HW_POLICY_MAX_OPTIONS);
            T_TRUE(one->least <= one->preset && one->preset <= one->most);
        }
    }
    T_EQ(4, count);
    T_TRUE(hw_policy_at(0) == &hw__policy_fair);
    T_TRUE(hw_policy_at(-1) == NULL);
    T_TRUE(hw_policy_find("nobody", problem, sizeof problem) == NULL);
    T_TRUE(strstr(problem, "nobody") != NULL);
    T_TRUE(hw_policy_find("/nowhere/x.so", problem, sizeof problem) == NULL);
    T_TRUE(strstr(problem, "/nowhere/x.so") != NULL);
}

int main(void) {
    t_start();
    T_RUN(test_registry);
    T_RUN(test_even_shares);
    T_RUN(test_no_long_wait);
    T_RUN(test_no_long_wait_beside_phases);
    T_RUN(test_prompt);
    T_RUN(test_the_waker_goes_on);
    T_RUN(test_cpued);
    T_RUN(test_the_tenth_beside_regular_holds);
    T_RUN(test_the_tenth_without_a_core);
    T_RUN(test_many_fakes);
    T_RUN(test_fair_begins_idle);
    T_RUN(test_bounded_credit);
    T_RUN(test_bounded_debt);
    T_RUN(test_bounded_debt_in_a_crowd);
    T_RUN(test_priority_hint);
    T_RUN(test_urgent_hint);
    T_RUN(test_urgent_computes);
    return 0;
}
