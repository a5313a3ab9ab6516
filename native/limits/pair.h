// SPDX-License-Identifier: MIT
/* The two ways to run a pair of tasks in parallel. */
#ifndef HEADWAY_LIMITS_PAIR_H
#define HEADWAY_LIMITS_PAIR_H

#include "limits/exchange.h"

/* Runs the pair as two new threads and joins them. Closes all ends of the pair, also on failure.
 * The result of each task is in its report.
 *
 * cpus: the CPU that each task is pinned to, or HW__UNPINNED.
 *
 * Returns 0 if the tasks were run at all, else a negative errno. */
int hw__pair_run_threads(struct hw__task pair[2], const int cpus[2]);

/* Runs the pair as two forked children and reaps them. The rest is as in hw__pair_run_threads().
 *
 * Returns 0 if the tasks were run at all, else a negative errno. */
int hw__pair_run_processes(struct hw__task pair[2], const int cpus[2]);

#endif
