// SPDX-License-Identifier: MIT
/* Calibration: every measurement ends with samples that can be times, arguments are checked, and
 * the caller's surroundings stay as they were. No test depends on how long anything takes. */
#include "headway/calibrate.h"
#include "process.h"

#define COUNT 20
#define LONG_NS INT64_C(60000000000)

static struct hw_calibrate_plan plan_of(int64_t count) {
    int first = usable_cpu(false), last = usable_cpu(true);
    return (struct hw_calibrate_plan){
        .core = first, .other = last == first ? -1 : last, .count = count, .limit_ns = LONG_NS};
}

static void check_times(const double *samples_ns, int64_t expected, int64_t made) {
    T_EQ(expected, made);
    for (int64_t i = 0; i < made; i++) {
        T_TRUE(samples_ns[i] >= 0 && samples_ns[i] < (double)LONG_NS);
    }
}

static void test_calls(void) {
    struct surroundings before = look_around();
    struct hw_calibrate_plan plan = plan_of(COUNT);
    for (int call = 0; call < HW_CALIBRATE_CALLS; call++) {
        double samples_ns[COUNT] = {-1};
        check_times(samples_ns, COUNT, hw_calibrate_call(&plan, call, samples_ns));
    }
    check_unchanged(&before);
}

static void test_pairs(void) {
    struct surroundings before = look_around();
    struct hw_calibrate_plan plan = plan_of(COUNT);
    for (int pair = 0; pair < HW_CALIBRATE_PAIRS; pair++) {
        double samples_ns[COUNT] = {-1};
        int64_t made = hw_calibrate_pair(&plan, pair, samples_ns);
        if (pair == HW_CALIBRATE_PAIR_CACHE_LINE && plan.other < 0) {
            T_EQ(-ENODEV, made);
        } else {
            check_times(samples_ns, COUNT, made);
        }
    }
    check_unchanged(&before);
}

static void test_wakes(void) {
    struct surroundings before = look_around();
    struct hw_calibrate_plan plan = plan_of(COUNT);
    for (int way = 0; way < HW_CALIBRATE_WAYS; way++) {
        for (int busy = 0; busy < 2; busy++) {
            double latencies_ns[COUNT] = {-1}, calls_ns[COUNT] = {-1};
            int64_t made = hw_calibrate_wake(&plan, way, busy, 10000, latencies_ns, calls_ns);
            if (plan.other < 0) {
                T_EQ(-ENODEV, made);
            } else {
                check_times(latencies_ns, COUNT, made);
                check_times(calls_ns, COUNT, made);
            }
        }
    }
    check_unchanged(&before);
}

static void test_timers(void) {
    struct surroundings before = look_around();
    struct hw_calibrate_plan plan = plan_of(COUNT);
    double samples_ns[COUNT] = {-1};
    for (int busy = 0; busy < 2; busy++) {
        check_times(samples_ns, COUNT, hw_calibrate_timer(&plan, busy, 100000, samples_ns));
    }
    check_times(samples_ns, COUNT, hw_calibrate_interrupt(&plan, samples_ns));
    check_unchanged(&before);
}

static void test_gaps_come_in_order_and_none_is_too_short(void) {
    struct surroundings before = look_around();
    struct hw_calibrate_plan plan = plan_of(COUNT);
    int64_t starts_ns[COUNT];
    double lengths_ns[COUNT];
    int32_t at_tick[COUNT];
    /* Every reading is a gap. */
    T_EQ(COUNT, hw_calibrate_gaps(&plan, 1, starts_ns, lengths_ns, at_tick));
    for (int i = 0; i < COUNT; i++) {
        T_TRUE(lengths_ns[i] >= 1);
        T_TRUE(at_tick[i] == 0 || at_tick[i] == 1);
        T_TRUE(i == 0 || (double)starts_ns[i] >= (double)starts_ns[i - 1] + lengths_ns[i - 1]);
    }
    plan.limit_ns = 1000000;
    T_EQ(0, hw_calibrate_gaps(&plan, LONG_NS, starts_ns, lengths_ns, at_tick));
    check_unchanged(&before);
}

static void test_the_limit_leaves_one_sample(void) {
    struct hw_calibrate_plan plan = plan_of(INT64_MAX);
    plan.limit_ns = 1;
    double samples_ns[1], calls_ns[1];
    T_EQ(1, hw_calibrate_call(&plan, HW_CALIBRATE_CLOCK, samples_ns));
    T_EQ(1, hw_calibrate_pair(&plan, HW_CALIBRATE_PAIR_FUTEX, samples_ns));
    T_EQ(1, hw_calibrate_timer(&plan, 1, 1, samples_ns));
    T_EQ(1, hw_calibrate_interrupt(&plan, samples_ns));
    if (plan.other >= 0) {
        T_EQ(1, hw_calibrate_wake(&plan, HW_CALIBRATE_BY_SOCKET, 1, 0, samples_ns, calls_ns));
    }
}

static void test_facts(void) {
    struct hw_calibrate_facts facts = {.cores = -1};
    T_EQ(0, hw_calibrate_facts(&facts));
    T_TRUE(facts.timer_slack_ns > 0);
    T_TRUE(facts.slice_ns >= 100000);
    T_TRUE(facts.tick_ns >= 500000 && facts.tick_ns <= 50000000);
    T_TRUE(facts.cores >= 1);
    T_EQ(-EINVAL, hw_calibrate_facts(NULL));
}

static void test_bad_arguments_are_refused_and_change_nothing(void) {
    struct surroundings before = look_around();
    struct hw_calibrate_plan good = plan_of(1);
    struct hw_calibrate_plan bad[5] = {good, good, good, good, good};
    bad[0].count = 0;
    bad[1].limit_ns = 0;
    bad[2].core = -1;
    bad[3].core = CPU_SETSIZE;
    bad[4].core = CPU_SETSIZE - 1; /* only the kernel can reject this one */
    double samples_ns[1], calls_ns[1];
    int64_t starts_ns[1];
    int32_t at_tick[1];
    for (int i = 0; i < 5; i++) {
        bad[i].other = bad[i].core == 0 ? 1 : 0;
        T_EQ(-EINVAL, hw_calibrate_call(&bad[i], HW_CALIBRATE_CLOCK, samples_ns));
        T_EQ(-EINVAL, hw_calibrate_pair(&bad[i], HW_CALIBRATE_PAIR_YIELD, samples_ns));
        T_EQ(-EINVAL, hw_calibrate_wake(&bad[i], 0, 0, 0, samples_ns, calls_ns));
        T_EQ(-EINVAL, hw_calibrate_timer(&bad[i], 0, 1, samples_ns));
        T_EQ(-EINVAL, hw_calibrate_interrupt(&bad[i], samples_ns));
        T_EQ(-EINVAL, hw_calibrate_gaps(&bad[i], 1, starts_ns, samples_ns, at_tick));
    }
    T_EQ(-EINVAL, hw_calibrate_call(NULL, 0, samples_ns));
    T_EQ(-EINVAL, hw_calibrate_call(&good, -1, samples_ns));
    T_EQ(-EINVAL, hw_calibrate_call(&good, HW_CALIBRATE_CALLS, samples_ns));
    T_EQ(-EINVAL, hw_calibrate_call(&good, 0, NULL));
    T_EQ(-EINVAL, hw_calibrate_pair(&good, HW_CALIBRATE_PAIRS, samples_ns));
    T_EQ(-EINVAL, hw_calibrate_timer(&good, 0, 0, samples_ns));
    T_EQ(-EINVAL, hw_calibrate_timer(&good, 0, LONG_NS, samples_ns));
    T_EQ(-EINVAL, hw_calibrate_gaps(&good, 0, starts_ns, samples_ns, at_tick));
    struct hw_calibrate_plan alone = good;
    alone.other = -1;
    T_EQ(-ENODEV, hw_calibrate_wake(&alone, 0, 0, 0, samples_ns, calls_ns));
    T_EQ(-ENODEV, hw_calibrate_pair(&alone, HW_CALIBRATE_PAIR_CACHE_LINE, samples_ns));
    alone.other = alone.core;
    T_EQ(-EINVAL, hw_calibrate_wake(&alone, 0, 0, 0, samples_ns, calls_ns));
    T_EQ(-EINVAL, hw_calibrate_pair(&alone, HW_CALIBRATE_PAIR_CACHE_LINE, samples_ns));
    alone.other = alone.core == 0 ? 1 : 0;
    T_EQ(-EINVAL, hw_calibrate_wake(&alone, -1, 0, 0, samples_ns, calls_ns));
    T_EQ(-EINVAL, hw_calibrate_wake(&alone, 0, 0, -1, samples_ns, calls_ns));
    T_EQ(-EINVAL, hw_calibrate_wake(&alone, 0, 0, LONG_NS, samples_ns, calls_ns));
    check_unchanged(&before);
}

int main(void) {
    t_start();
    T_RUN(test_calls);
    T_RUN(test_pairs);
    T_RUN(test_wakes);
    T_RUN(test_timers);
    T_RUN(test_gaps_come_in_order_and_none_is_too_short);
    T_RUN(test_the_limit_leaves_one_sample);
    T_RUN(test_facts);
    T_RUN(test_bad_arguments_are_refused_and_change_nothing);
    return 0;
}
