// SPDX-License-Identifier: MIT
/* The histogram: its buckets are HdrHistogram's, and cover every value once. The comparison with
 * another implementation is in tests/property/test_histogram.py. */
#include "headway/histogram.h"

#include <string.h>

#include "t.h"

static struct hw_histogram one;
static struct hw_histogram other;
static struct hw_histogram both;

static void empty(void) {
    memset(&one, 0, sizeof one);
    memset(&other, 0, sizeof other);
    memset(&both, 0, sizeof both);
}

static void test_every_index_starts_where_the_one_before_ends(void) {
    T_EQ(0, hw_histogram_lowest_ns(0));
    for (int index = 0; index < HW_HISTOGRAM_LENGTH; index++) {
        int64_t lowest_ns = hw_histogram_lowest_ns(index);
        int64_t highest_ns = hw_histogram_highest_ns(index);
        T_TRUE(lowest_ns <= highest_ns);
        T_EQ(index, hw_histogram_index(lowest_ns));
        T_EQ(index, hw_histogram_index(highest_ns));
        if (index > 0) {
            T_EQ(hw_histogram_highest_ns(index - 1) + 1, lowest_ns);
        }
    }
    T_TRUE(hw_histogram_highest_ns(HW_HISTOGRAM_LENGTH - 1) >= HW_HISTOGRAM_MAX_NS);
}

static void test_three_digits_are_kept(void) {
    uint64_t state = 1;
    for (int i = 0; i < 100000; i++) {
        int64_t value_ns = (int64_t)(t_random(&state) % (uint64_t)HW_HISTOGRAM_MAX_NS);
        value_ns >>= t_random(&state) % 40;
        int index = hw_histogram_index(value_ns);
        int64_t width_ns = hw_histogram_highest_ns(index) - hw_histogram_lowest_ns(index);
        T_TRUE(width_ns * 1000 <= value_ns);
    }
}

static void test_known_places(void) {
    /* As HdrHistogram 0.10 gives them for (1, 3600000000000, 3). */
    T_EQ(2047, hw_histogram_index(2047));
    T_EQ(2048, hw_histogram_index(2048));
    T_EQ(2048, hw_histogram_index(2049));
    T_EQ(3071, hw_histogram_index(4095));
    T_EQ(3072, hw_histogram_index(4096));
    T_EQ(11169, hw_histogram_index(1000000));
    T_EQ(18267, hw_histogram_index(123456789));
    T_EQ(33420, hw_histogram_index(HW_HISTOGRAM_MAX_NS));
}

static void test_an_empty_one_has_only_zeros(void) {
    empty();
    T_EQ(0, hw_histogram_percentile_ns(&one, 50));
    T_EQ(0, hw_histogram_min_ns(&one));
    T_EQ(0, hw_histogram_max_ns(&one));
    T_TRUE(hw_histogram_mean_ns(&one) == 0);
}

static void test_percentiles_of_a_hundred(void) {
    empty();
    for (int value_ns = 1; value_ns <= 100; value_ns++) {
        hw_histogram_record(&one, value_ns);
    }
    T_EQ(1, hw_histogram_percentile_ns(&one, 0));
    T_EQ(1, hw_histogram_percentile_ns(&one, 1));
    T_EQ(50, hw_histogram_percentile_ns(&one, 50));
    T_EQ(99, hw_histogram_percentile_ns(&one, 99));
    T_EQ(100, hw_histogram_percentile_ns(&one, 100));
    T_EQ(100, hw_histogram_percentile_ns(&one, 1000));
    T_EQ(1, hw_histogram_min_ns(&one));
    T_EQ(100, hw_histogram_max_ns(&one));
    T_TRUE(hw_histogram_mean_ns(&one) == 50.5);
}

static void test_values_out_of_range_are_clamped_and_counted(void) {
    empty();
    hw_histogram_record(&one, -1);
    hw_histogram_record(&one, INT64_MIN);
    hw_histogram_record(&one, HW_HISTOGRAM_MAX_NS);
    hw_histogram_record(&one, HW_HISTOGRAM_MAX_NS + 1);
    hw_histogram_record(&one, INT64_MAX);
    T_EQ(5, one.total);
    T_EQ(4, one.clamped);
    T_EQ(2, one.counts[0]);
    T_EQ(3, one.counts[hw_histogram_index(HW_HISTOGRAM_MAX_NS)]);
    T_EQ(0, one.min_ns);
    T_EQ(HW_HISTOGRAM_MAX_NS, one.max_ns);
}

static void test_a_sum_is_as_if_all_had_been_recorded_there(void) {
    empty();
    uint64_t state = 2;
    hw_histogram_add(&one, &other);
    T_EQ(0, one.total);
    for (int i = 0; i < 2000; i++) {
        int64_t value_ns = (int64_t)(t_random(&state) >> (t_random(&state) % 64));
        hw_histogram_record(i % 3 == 0 ? &one : &other, value_ns);
        hw_histogram_record(&both, value_ns);
    }
    hw_histogram_add(&one, &other);
    T_EQ(0, memcmp(&one, &both, sizeof one));
    memset(&other, 0, sizeof other);
    hw_histogram_add(&one, &other);
    hw_histogram_add(&other, &one);
    T_EQ(0, memcmp(&one, &both, sizeof one));
    T_EQ(0, memcmp(&other, &both, sizeof one));
}

int main(void) {
    t_start();
    T_RUN(test_every_index_starts_where_the_one_before_ends);
    T_RUN(test_three_digits_are_kept);
    T_RUN(test_known_places);
    T_RUN(test_an_empty_one_has_only_zeros);
    T_RUN(test_percentiles_of_a_hundred);
    T_RUN(test_values_out_of_range_are_clamped_and_counted);
    T_RUN(test_a_sum_is_as_if_all_had_been_recorded_there);
    return 0;
}
