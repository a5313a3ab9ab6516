// SPDX-License-Identifier: MIT
/* The two ways to run a pair of tasks side by side. */
#ifndef HEADWAY_LIMITS_PAIR_H
#define HEADWAY_LIMITS_PAIR_H

#include "limits/exchange.h"

/* Runs the pair as two new threads and joins them.
 *
 * cpus: where task 0 and task 1 are pinned, or HW__UNPINNED.
 * Closes all ends of the pair in any case; the outcome of each task is in its report.
 *
 * Returns 0 if the tasks were run at all, else a negative errno. */
int hw__pair_run_threads(struct hw__task pair[2], const int cpus[2]);

/* Runs the pair as two forked children and reaps them. `cpus`, the ends and the reports are as
 * above.
 *
 * Returns 0 if the tasks were run at all, else a negative errno. */
int hw__pair_run_processes(struct hw__task pair[2], const int cpus[2]);

#endif
