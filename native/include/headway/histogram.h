// SPDX-License-Identifier: MIT
#ifndef HEADWAY_HISTOGRAM_H
#define HEADWAY_HISTOGRAM_H

#include <stdint.h>

#include "headway/api.h"

/* A histogram of times, compatible with an HdrHistogram (Gil Tene, https://hdrhistogram.org) for 1
 * ns to 3600 s with 3 significant digits: it has the same buckets at the same indices, and the same
 * percentiles, minimum, maximum and mean as HdrHistogram's C version and the ports of that version.
 * Buckets are linear below 2048 ns. Above, there are 1024 for each power of two, so that a value is
 * known to 1/1024.
 *
 * There is no lock: only one thread at a time may use a histogram. */

/* The number of counts: 32 powers of two above the linear half, 1024 each. */
#define HW_HISTOGRAM_LENGTH 33792

/* The greatest time; longer times are counted as this one. */
#define HW_HISTOGRAM_MAX_NS INT64_C(3600000000000)

/* A zeroed histogram is empty. */
struct hw_histogram {
    int64_t total;   /* values recorded */
    int64_t clamped; /* values recorded that were below 0 or above the maximum */
    int64_t min_ns;  /* the least value recorded; undefined while total is 0 */
    int64_t max_ns;  /* the greatest value recorded */
    int64_t counts[HW_HISTOGRAM_LENGTH]; /* by index; hw_histogram_lowest_ns() gives the value */
};

/* Records one value. A value out of range counts as the nearest value within it, and in `clamped`.
 *
 * This function can't fail. */
HW_API void hw_histogram_record(struct hw_histogram *histogram, int64_t value_ns);

/* Adds all values of `from` to `histogram`, as if they had been recorded there.
 *
 * This function can't fail. */
HW_API void hw_histogram_add(struct hw_histogram *histogram, const struct hw_histogram *from);

/* Returns the index at which a value from 0 to HW_HISTOGRAM_MAX_NS is counted. This function can't
 * fail. */
HW_API int hw_histogram_index(int64_t value_ns);

/* Returns the least of the values, in ns, that are counted at `index` (0 to
 * HW_HISTOGRAM_LENGTH - 1). This function can't fail. */
HW_API int64_t hw_histogram_lowest_ns(int index);

/* Returns the greatest of the values, in ns, that are counted at `index`. This function can't
 * fail. */
HW_API int64_t hw_histogram_highest_ns(int index);

/* Finds the value that `percentile` (0 to 100) percent of all values do not exceed.
 *
 * Returns the greatest value, in ns, that is counted at its index; for percentile 0, the least
 * value that is counted at the first index in use; for an empty histogram, 0. This function can't
 * fail. */
HW_API int64_t hw_histogram_percentile_ns(const struct hw_histogram *histogram, double percentile);

/* Returns the lowest value, in ns, that is counted at the index of the least recorded one, or 0 for
 * an empty histogram. This function can't fail. */
HW_API int64_t hw_histogram_min_ns(const struct hw_histogram *histogram);

/* Returns the highest value, in ns, that is counted at the index of the greatest recorded one, or 0
 * for an empty histogram. This function can't fail. */
HW_API int64_t hw_histogram_max_ns(const struct hw_histogram *histogram);

/* Returns the mean in ns, or 0 for an empty histogram. Each value is taken as the middle of the
 * values that are counted at its index. This function can't fail. */
HW_API double hw_histogram_mean_ns(const struct hw_histogram *histogram);

#endif
