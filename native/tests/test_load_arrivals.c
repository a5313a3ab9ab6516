// SPDX-License-Identifier: MIT
/* The times at which the open model's requests are due. */
#include "headway/load.h"
#include "load/arrivals.h"
#include "t.h"

#define COUNT 200000
#define START INT64_C(1000000)

static void test_uniform_gaps_do_not_drift(void) {
    struct hw__arrivals arrivals;
    hw__arrivals_start(&arrivals, HW_LOAD_UNIFORM, 3, 0, START);
    T_EQ(START, hw__arrivals_next(&arrivals));
    T_EQ(START + 333333333, hw__arrivals_next(&arrivals));
    T_EQ(START + 666666666, hw__arrivals_next(&arrivals));
    T_EQ(START + 1000000000, hw__arrivals_next(&arrivals));
    for (int i = 4; i < 3000; i++) {
        hw__arrivals_next(&arrivals);
    }
    T_EQ(START + INT64_C(1000000000000), hw__arrivals_next(&arrivals));
}

static void test_poisson_gaps_are_exponential(void) {
    /* Over 200000 gaps of 1 us the standard error is 0.22 % of the mean, and 0.11 points of a
     * share. The bounds are far wider, and the seed is fixed anyway. */
    struct hw__arrivals arrivals;
    hw__arrivals_start(&arrivals, HW_LOAD_POISSON, 1e6, 42, START);
    int64_t before_ns = START;
    int longer = 0;
    for (int i = 0; i < COUNT; i++) {
        int64_t due_ns = hw__arrivals_next(&arrivals);
        T_TRUE(due_ns >= before_ns);
        longer += due_ns - before_ns > 1000;
        before_ns = due_ns;
    }
    int64_t mean_ps = (before_ns - START) / (COUNT / 1000);
    T_TRUE(mean_ps > 980000 && mean_ps < 1020000);
    /* A gap is longer than the mean with probability 1/e = 36.8 %. */
    T_TRUE(longer > COUNT / 1000 * 360 && longer < COUNT / 1000 * 376);
}

static void test_a_seed_gives_the_same_gaps_again(void) {
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct hw__arrivals one;
        struct hw__arrivals same;
        struct hw__arrivals next;
        int different = 0;
        hw__arrivals_start(&one, HW_LOAD_POISSON, 1000, seed, START);
        hw__arrivals_start(&same, HW_LOAD_POISSON, 1000, seed, START);
        hw__arrivals_start(&next, HW_LOAD_POISSON, 1000, seed + 1, START);
        for (int i = 0; i < 100; i++) {
            int64_t due_ns = hw__arrivals_next(&one);
            T_EQ(due_ns, hw__arrivals_next(&same));
            different += due_ns != hw__arrivals_next(&next);
        }
        T_TRUE(different > 90);
    }
}

int main(void) {
    t_start();
    T_RUN(test_uniform_gaps_do_not_drift);
    T_RUN(test_poisson_gaps_are_exponential);
    T_RUN(test_a_seed_gives_the_same_gaps_again);
    return 0;
}
