// SPDX-License-Identifier: MIT
/* HdrHistogram's log-linear buckets (Gil Tene, https://hdrhistogram.org), fixed at 1 ns, 3600 s and
 * 3 digits. Three digits need 2000 linear steps, so a bucket has 2048 sub-buckets. Bucket b holds
 * values below 2048 << b in steps of 1 << b. The lower half of each bucket but the first repeats
 * the bucket before it, and is not stored. */
#include "headway/histogram.h"

#define HALF_BITS 10
#define HALF (1 << HALF_BITS)
#define LINEAR (2 * HALF)

/* Returns b, the bucket of an index and the binary logarithm of its step; 0 for the linear indices
 * and for the first half above them. This function can't fail. */
static int bucket_of(int index) { return index < LINEAR ? 0 : (index >> HALF_BITS) - 1; }

int hw_histogram_index(int64_t value_ns) {
    /* The first bucket holds all values that fit its sub-buckets: the mask keeps b from going below
     * 0. */
    int bits = 64 - __builtin_clzll((uint64_t)value_ns | (LINEAR - 1));
    int bucket = bits - (HALF_BITS + 1);
    return (bucket << HALF_BITS) + (int)(value_ns >> bucket);
}

int64_t hw_histogram_lowest_ns(int index) {
    int bucket = bucket_of(index);
    return (int64_t)(index - (bucket << HALF_BITS)) << bucket;
}

int64_t hw_histogram_highest_ns(int index) {
    return hw_histogram_lowest_ns(index) + (INT64_C(1) << bucket_of(index)) - 1;
}

/* Widens the range of the histogram, when `total` does not count the new values yet. This function
 * can't fail. */
static void widen(struct hw_histogram *histogram, int64_t min_ns, int64_t max_ns) {
    if (histogram->total == 0 || min_ns < histogram->min_ns) {
        histogram->min_ns = min_ns;
    }
    if (histogram->total == 0 || max_ns > histogram->max_ns) {
        histogram->max_ns = max_ns;
    }
}

void hw_histogram_record(struct hw_histogram *histogram, int64_t value_ns) {
    if (value_ns < 0 || value_ns > HW_HISTOGRAM_MAX_NS) {
        value_ns = value_ns < 0 ? 0 : HW_HISTOGRAM_MAX_NS;
        histogram->clamped++;
    }
    widen(histogram, value_ns, value_ns);
    histogram->counts[hw_histogram_index(value_ns)]++;
    histogram->total++;
}

void hw_histogram_add(struct hw_histogram *histogram, const struct hw_histogram *from) {
    if (from->total == 0) {
        return;
    }
    widen(histogram, from->min_ns, from->max_ns);
    for (int index = 0; index < HW_HISTOGRAM_LENGTH; index++) {
        histogram->counts[index] += from->counts[index];
    }
    histogram->total += from->total;
    histogram->clamped += from->clamped;
}

int64_t hw_histogram_percentile_ns(const struct hw_histogram *histogram, double percentile) {
    double asked = percentile < 100 ? percentile : 100;
    int64_t wanted = (int64_t)(asked * (double)histogram->total / 100 + 0.5);
    wanted = wanted < 1 ? 1 : wanted;
    int64_t counted = 0;
    for (int index = 0; index < HW_HISTOGRAM_LENGTH; index++) {
        counted += histogram->counts[index];
        if (counted >= wanted) {
            return percentile > 0 ? hw_histogram_highest_ns(index) : hw_histogram_lowest_ns(index);
        }
    }
    return 0;
}

int64_t hw_histogram_min_ns(const struct hw_histogram *histogram) {
    return histogram->total == 0 ? 0
                                 : hw_histogram_lowest_ns(hw_histogram_index(histogram->min_ns));
}

int64_t hw_histogram_max_ns(const struct hw_histogram *histogram) {
    return histogram->total == 0 ? 0
                                 : hw_histogram_highest_ns(hw_histogram_index(histogram->max_ns));
}

double hw_histogram_mean_ns(const struct hw_histogram *histogram) {
    double sum_ns = 0;
    for (int index = 0; index < HW_HISTOGRAM_LENGTH; index++) {
        if (histogram->counts[index] != 0) {
            int64_t middle_ns =
                hw_histogram_lowest_ns(index) + ((INT64_C(1) << bucket_of(index)) >> 1);
            sum_ns += (double)histogram->counts[index] * (double)middle_ns;
        }
    }
    return histogram->total == 0 ? 0 : sum_ns / (double)histogram->total;
}
