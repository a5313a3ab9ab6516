// SPDX-License-Identifier: MIT
#ifndef HEADWAY_PINGPONG_H
#define HEADWAY_PINGPONG_H

#include <stdint.h>

#include "headway/api.h"

/* What the two tasks are. */
#define HW_PINGPONG_THREADS 0   /* two new threads of this process */
#define HW_PINGPONG_PROCESSES 1 /* two new children, forked from this process */

/* Instead of a CPU number: the task may run wherever the calling thread may. */
#define HW_PINGPONG_UNPINNED (-1)

/* What one ping-pong took. */
struct hw_pingpong_result {
    int64_t elapsed_ns;           /* first send to last receive of task a; start-up is excluded */
    int64_t final_value;          /* 2 * rounds: each task added 1 in each round */
    int64_t voluntary_switches;   /* times a task blocked meanwhile, over both; -1 if not known */
    int64_t involuntary_switches; /* times one was preempted, over both; -1 if not known */
};

/* Passes an 8-byte integer between tasks a and b through two pipes. Each adds 1 before it sends the
 * integer on. A round is a -> b -> a: two hand-overs, and so two context switches where the tasks
 * share a CPU.
 *
 * kind:   HW_PINGPONG_THREADS or HW_PINGPONG_PROCESSES.
 * rounds: at least 1, at most INT64_MAX / 2.
 * cpu_a, cpu_b: the CPU each task is pinned to, or HW_PINGPONG_UNPINNED.
 * out:    filled on success, untouched otherwise.
 *
 * Blocks until both tasks have ended and been joined or reaped; a signal does not cut it short. The
 * calling thread's affinity and signal mask, and the process's signal dispositions, are as before
 * when it returns. With HW_PINGPONG_PROCESSES the caller should not reap children it does not know
 * (waitpid(-1)).
 *
 * Returns 0, or a negative errno: -EINVAL for an argument out of range or a CPU the process may not
 * use, -EPIPE when a task was killed half-way, else what pipe2, pthread_create, fork or mmap
 * reported. */
HW_API int hw_pingpong(int kind, int64_t rounds, int cpu_a, int cpu_b,
                       struct hw_pingpong_result *out);

/* Measures one direction only. Task a sends the time through a pipe; task b reads it and notes how
 * long ago that was, then acknowledges through the other pipe, and only then does a send again.
 *
 * The acknowledgement shows that b is done with the last stamp and on its way back into read(); it
 * cannot show that b already sleeps there. Whether it does is part of the spread this variant
 * exists to exhibit.
 *
 * kind, rounds, cpu_a, cpu_b and the blocking are as in hw_pingpong().
 * latencies_ns: room for `rounds` values; filled in sending order. On failure its contents are
 * unspecified.
 *
 * Returns 0 or a negative errno, as hw_pingpong() does. */
HW_API int hw_pingpong_one_way(int kind, int64_t rounds, int cpu_a, int cpu_b,
                               int64_t *latencies_ns);

#endif
