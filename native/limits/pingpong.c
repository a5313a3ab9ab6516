// SPDX-License-Identifier: MIT
#include "headway/pingpong.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "limits/exchange.h"
#include "limits/pair.h"
#include "limits/place.h"

/* The most rounds whose latencies, plus a page for the reports, have a size that fits a
 * ptrdiff_t. */
#define MAX_STAMPS ((int64_t)((PTRDIFF_MAX - 4096) / (ptrdiff_t)sizeof(int64_t)))

/* Tells whether the arguments that both variants share are in range. This function can't fail. */
static bool valid(int kind, int64_t rounds, int cpu_a, int cpu_b) {
    return (kind == HW_PINGPONG_THREADS || kind == HW_PINGPONG_PROCESSES) && rounds >= 1 &&
           rounds <= INT64_MAX / 2 && hw__cpu_in_range(cpu_a) && hw__cpu_in_range(cpu_b);
}

/* Runs one pair of tasks. latencies_ns is as in struct hw__task.
 *
 * Returns 0 with both reports filled, or a negative errno. */
static int run_pair(int kind, int64_t rounds, const int cpus[2], int64_t *latencies_ns,
                    struct hw__report reports[2]) {
    struct hw__task pair[2];
    int error = hw__pair_open(pair, reports, rounds, latencies_ns);
    if (error != 0) {
        return error;
    }
    error = kind == HW_PINGPONG_THREADS ? hw__pair_run_threads(pair, cpus)
                                        : hw__pair_run_processes(pair, cpus);
    if (error != 0) {
        return error;
    }
    /* When one task fails, the other one reports -EPIPE. Return the cause, not the consequence. */
    if (reports[0].error != 0 && reports[0].error != -EPIPE) {
        return reports[0].error;
    }
    return reports[1].error != 0 ? reports[1].error : reports[0].error;
}

/* Returns the sum of what both tasks counted, or -1 if either count is not known. */
static int64_t sum_known(int64_t first, int64_t second) {
    return first < 0 || second < 0 ? -1 : first + second;
}

int hw_pingpong(int kind, int64_t rounds, int cpu_a, int cpu_b, struct hw_pingpong_result *out) {
    if (out == NULL || !valid(kind, rounds, cpu_a, cpu_b)) {
        return -EINVAL;
    }
    struct hw__report reports[2];
    int error = run_pair(kind, rounds, (const int[2]){cpu_a, cpu_b}, NULL, reports);
    if (error != 0) {
        return error;
    }
    *out = (struct hw_pingpong_result){
        .elapsed_ns = reports[0].elapsed_ns,
        .final_value = reports[0].final_value,
        .voluntary_switches = sum_known(reports[0].voluntary, reports[1].voluntary),
        .involuntary_switches = sum_known(reports[0].involuntary, reports[1].involuntary),
    };
    return 0;
}

int hw_pingpong_one_way(int kind, int64_t rounds, int cpu_a, int cpu_b, int64_t *latencies_ns) {
    if (latencies_ns == NULL || !valid(kind, rounds, cpu_a, cpu_b) || rounds > MAX_STAMPS) {
        return -EINVAL;
    }
    struct hw__report reports[2];
    return run_pair(kind, rounds, (const int[2]){cpu_a, cpu_b}, latencies_ns, reports);
}
