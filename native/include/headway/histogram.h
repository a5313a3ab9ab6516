// SPDX-License-Identifier: MIT
#ifndef HEADWAY_HISTOGRAM_H
#define HEADWAY_HISTOGRAM_H

#include <stdint.h>

#include "headway/api.h"

/* A histogram of times, compatible with HdrHistogram (Gil Tene, https://hdrhistogram.org) made for
 * 1 ns to 3600 s with 3 significant digits: the same buckets at the same indices, the same
 * percentiles, minimum, maximum and mean as its C version and the ports of that. Buckets are linear
 * below 2048 ns, then 1024 to each power of two, so that a value is known to 1/1024.
 *
 * Nothing here locks: a histogram belongs to one thread at a time. */

/* How many counts there are: 32 powers of two above the linear half, 1024 each. */
#define HW_HISTOGRAM_LENGTH 33792

/* Longer times are counted as this one. */
#define HW_HISTOGRAM_MAX_NS INT64_C(3600000000000)

/* A zeroed one is empty. */
struct hw_histogram {
    int64_t total;                       /* how many values were recorded */
    int64_t clamped;                     /* of these, how many were above the maximum or below 0 */
    int64_t min_ns;                      /* the least as recorded; meaningless while total is 0 */
    int64_t max_ns;                      /* the greatest as recorded */
    int64_t counts[HW_HISTOGRAM_LENGTH]; /* by index; hw_histogram_lowest_ns() tells of what */
};

/* Counts one value. One out of range counts as the nearest within, and in `clamped`.
 *
 * This function can't fail. */
HW_API void hw_histogram_record(struct hw_histogram *histogram, int64_t value_ns);

/* Adds all that `from` has counted to `histogram`, as if it had been recorded there.
 *
 * This function can't fail. */
HW_API void hw_histogram_add(struct hw_histogram *histogram, const struct hw_histogram *from);

/* Finds where a value from 0 to HW_HISTOGRAM_MAX_NS is counted.
 *
 * Returns the index. This function can't fail. */
HW_API int hw_histogram_index(int64_t value_ns);

/* The least of the values that are counted at `index`, from 0 to HW_HISTOGRAM_LENGTH - 1.
 *
 * Returns nanoseconds. This function can't fail. */
HW_API int64_t hw_histogram_lowest_ns(int index);

/* The greatest of the values that are counted at `index`.
 *
 * Returns nanoseconds. This function can't fail. */
HW_API int64_t hw_histogram_highest_ns(int index);

/* The value that `percentile` (0 to 100) of all values do not exceed, as the greatest that is
 * counted with it; percentile 0 gives the least of the first.
 *
 * Returns nanoseconds, 0 for an empty histogram. This function can't fail. */
HW_API int64_t hw_histogram_percentile_ns(const struct hw_histogram *histogram, double percentile);

/* The lowest value counted with the least recorded one.
 *
 * Returns nanoseconds, 0 for an empty histogram. This function can't fail. */
HW_API int64_t hw_histogram_min_ns(const struct hw_histogram *histogram);

/* The highest value counted with the greatest recorded one.
 *
 * Returns nanoseconds, 0 for an empty histogram. This function can't fail. */
HW_API int64_t hw_histogram_max_ns(const struct hw_histogram *histogram);

/* The mean, each value taken as the middle of those it is counted with.
 *
 * Returns nanoseconds, 0 for an empty histogram. This function can't fail. */
HW_API double hw_histogram_mean_ns(const struct hw_histogram *histogram);

#endif
