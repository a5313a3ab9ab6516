// SPDX-License-Identifier: MIT
#ifndef HEADWAY_PINGPONG_H
#define HEADWAY_PINGPONG_H

#include <stdint.h>

#include "headway/api.h"

/* The kind of the two tasks. */
#define HW_PINGPONG_THREADS 0   /* two new threads of this process */
#define HW_PINGPONG_PROCESSES 1 /* two new children, forked from this process */

/* Instead of a CPU number: the task may run wherever the calling thread may run. */
#define HW_PINGPONG_UNPINNED (-1)

/* The result of one ping-pong. */
struct hw_pingpong_result {
    int64_t elapsed_ns;           /* first send to last receive of task a; start-up is excluded */
    int64_t final_value;          /* 2 * rounds: each task added 1 in each round */
    int64_t voluntary_switches;   /* times a task blocked, over both tasks; -1 if not known */
    int64_t involuntary_switches; /* times a task was preempted, over both tasks; -1 if not known */
};

/* Passes an 8-byte integer between the tasks a and b through two pipes. Each task adds 1 before it
 * sends the integer on. A round is a -> b -> a: two transfers, and so two context switches if the
 * tasks share a CPU.
 *
 * kind:   HW_PINGPONG_THREADS or HW_PINGPONG_PROCESSES.
 * rounds: at least 1, at most INT64_MAX / 2.
 * cpu_a, cpu_b: the CPU each task is pinned to, or HW_PINGPONG_UNPINNED.
 * out:    filled on success, unchanged otherwise.
 *
 * The function blocks until both tasks have ended and have been joined or reaped; a signal does not
 * end it early. When it returns, the calling thread's affinity and signal mask and the process's
 * signal dispositions are as before. With HW_PINGPONG_PROCESSES, no other thread should reap
 * children that it does not know (waitpid(-1)).
 *
 * Returns 0, or a negative errno: -EINVAL for an argument out of range or a CPU that the process
 * may not use, -EPIPE if a task was killed half-way, else the error of pipe2, pthread_create, fork
 * or mmap. */
HW_API int hw_pingpong(int kind, int64_t rounds, int cpu_a, int cpu_b,
                       struct hw_pingpong_result *out);

/* Measures one direction only. Task a sends the time through a pipe. Task b reads it, records how
 * long ago that time was, and acknowledges through the other pipe. Only then does task a send
 * again.
 *
 * The acknowledgement shows that task b is done with the last time stamp and on its way back into
 * read(). It cannot show that task b already sleeps there; whether it does is part of the spread
 * that this variant exists to show.
 *
 * kind, rounds, cpu_a, cpu_b and the blocking are as in hw_pingpong().
 * latencies_ns: room for `rounds` values; filled in the order of sending. After a failure its
 * content is unspecified.
 *
 * Returns 0 or a negative errno, as hw_pingpong() does. */
HW_API int hw_pingpong_one_way(int kind, int64_t rounds, int cpu_a, int cpu_b,
                               int64_t *latencies_ns);

#endif
