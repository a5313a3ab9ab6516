// SPDX-License-Identifier: MIT
/* Ping-pong: every exchange happens, arguments are checked, and the caller's surroundings stay as
 * they were. */
#include "headway/pingpong.h"
#include "process.h"

#define ROUNDS 500

static const int kinds[] = {HW_PINGPONG_THREADS, HW_PINGPONG_PROCESSES};

static void check_both(int kind, int cpu_a, int cpu_b) {
    struct surroundings before = look_around();
    struct hw_pingpong_result result;
    T_EQ(0, hw_pingpong(kind, ROUNDS, cpu_a, cpu_b, &result));
    T_EQ(2 * ROUNDS, result.final_value);
    T_TRUE(result.elapsed_ns > 0);
    T_TRUE(result.voluntary_switches >= -1);
    T_TRUE(result.involuntary_switches >= -1);

    int64_t latencies_ns[ROUNDS];
    memset(latencies_ns, 0xff, sizeof latencies_ns);
    T_EQ(0, hw_pingpong_one_way(kind, ROUNDS, cpu_a, cpu_b, latencies_ns));
    for (int i = 0; i < ROUNDS; i++) {
        T_TRUE(latencies_ns[i] >= 0);
    }
    check_unchanged(&before);
}

static void test_unpinned(void) {
    for (int i = 0; i < 2; i++) {
        check_both(kinds[i], HW_PINGPONG_UNPINNED, HW_PINGPONG_UNPINNED);
    }
}

static void test_same_cpu(void) {
    for (int i = 0; i < 2; i++) {
        check_both(kinds[i], usable_cpu(false), usable_cpu(false));
    }
}

static void test_two_cpus(void) {
    for (int i = 0; i < 2; i++) {
        check_both(kinds[i], usable_cpu(false), usable_cpu(true));
    }
}

static void test_one_task_pinned(void) {
    for (int i = 0; i < 2; i++) {
        check_both(kinds[i], usable_cpu(true), HW_PINGPONG_UNPINNED);
    }
}

static void test_on_one_cpu_every_hand_over_is_a_switch(void) {
    for (int i = 0; i < 2; i++) {
        struct hw_pingpong_result result;
        T_EQ(0, hw_pingpong(kinds[i], ROUNDS, usable_cpu(false), usable_cpu(false), &result));
        /* There are two switches a round, apart from the first and the last. A preemption may take
         * the place of a wait, so both kinds count. */
        T_TRUE(result.voluntary_switches + result.involuntary_switches >= 2 * ROUNDS - 2);
    }
}

static void test_one_round(void) {
    for (int i = 0; i < 2; i++) {
        struct hw_pingpong_result result;
        T_EQ(0, hw_pingpong(kinds[i], 1, -1, -1, &result));
        T_EQ(2, result.final_value);
    }
}

static void test_bad_arguments_are_refused_and_change_nothing(void) {
    struct surroundings before = look_around();
    struct hw_pingpong_result result = {.final_value = 42};
    int64_t latency_ns = 0;
    T_EQ(-EINVAL, hw_pingpong(-1, 1, -1, -1, &result));
    T_EQ(-EINVAL, hw_pingpong(2, 1, -1, -1, &result));
    T_EQ(-EINVAL, hw_pingpong_one_way(2, 1, -1, -1, &latency_ns));
    for (int i = 0; i < 2; i++) {
        T_EQ(-EINVAL, hw_pingpong(kinds[i], 0, -1, -1, &result));
        T_EQ(-EINVAL, hw_pingpong(kinds[i], -1, -1, -1, &result));
        T_EQ(-EINVAL, hw_pingpong(kinds[i], INT64_MAX / 2 + 1, -1, -1, &result));
        T_EQ(-EINVAL, hw_pingpong(kinds[i], 1, -2, -1, &result));
        T_EQ(-EINVAL, hw_pingpong(kinds[i], 1, -1, 1 << 20, &result));
        T_EQ(-EINVAL, hw_pingpong(kinds[i], 1, -1, -1, NULL));
        T_EQ(-EINVAL, hw_pingpong_one_way(kinds[i], 1, -1, -1, NULL));
        T_EQ(-EINVAL, hw_pingpong_one_way(kinds[i], 0, -1, -1, &latency_ns));
        T_EQ(-EINVAL, hw_pingpong_one_way(kinds[i], INT64_MAX / 2, -1, -1, &latency_ns));
    }
    T_EQ(42, result.final_value);
    check_unchanged(&before);
}

static void test_a_cpu_that_is_not_there_is_refused(void) {
    /* Only the kernel can reject the CPU, so the task is already running by then. */
    struct surroundings before = look_around();
    struct hw_pingpong_result result;
    for (int i = 0; i < 2; i++) {
        T_EQ(-EINVAL, hw_pingpong(kinds[i], ROUNDS, CPU_SETSIZE - 1, -1, &result));
        T_EQ(-EINVAL, hw_pingpong(kinds[i], ROUNDS, -1, CPU_SETSIZE - 1, &result));
    }
    check_unchanged(&before);
}

int main(void) {
    t_start();
    T_RUN(test_unpinned);
    T_RUN(test_same_cpu);
    T_RUN(test_two_cpus);
    T_RUN(test_one_task_pinned);
    T_RUN(test_on_one_cpu_every_hand_over_is_a_switch);
    T_RUN(test_one_round);
    T_RUN(test_bad_arguments_are_refused_and_change_nothing);
    T_RUN(test_a_cpu_that_is_not_there_is_refused);
    return 0;
}
