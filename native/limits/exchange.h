// SPDX-License-Identifier: MIT
/* The two tasks of a ping-pong. The code is the same for threads and processes. */
#ifndef HEADWAY_LIMITS_EXCHANGE_H
#define HEADWAY_LIMITS_EXCHANGE_H

#include <stdint.h>

/* The result of a task. HW__REPORT_NONE is its value until the task has ended, so a task that is
 * killed reports -EPIPE. */
#define HW__REPORT_NONE ((struct hw__report){.error = -EPIPE})
struct hw__report {
    int error;           /* 0 or a negative errno; -EPIPE: the peer, or the task itself, died */
    int64_t elapsed_ns;  /* first send to last receive (task 0 only) */
    int64_t final_value; /* the integer after the last round (ping-pong, task 0 only) */
    int64_t voluntary;   /* times this task blocked during the exchange; -1 if not known */
    int64_t involuntary; /* times this task was preempted during the exchange; -1 if not known */
};

/* One task of a pair. Task 0 sends first; task 1 answers. */
struct hw__task {
    int index;                 /* 0 or 1 */
    int read_fd;               /* this task's end of the pipe from its peer; -1 once closed */
    int write_fd;              /* this task's end of the pipe to its peer; -1 once closed */
    int64_t rounds;            /* at least 1 */
    int64_t *latencies_ns;     /* NULL: ping-pong; else one-way: task 1 fills `rounds` values */
    struct hw__report *report; /* written once, at the end */
};

/* Makes both pipes and fills the pair. The reports start as HW__REPORT_NONE. All ends are
 * close-on-exec.
 *
 * Returns 0, or a negative errno with nothing to close. */
int hw__pair_open(struct hw__task pair[2], struct hw__report reports[2], int64_t rounds,
                  int64_t *latencies_ns);

/* Closes the ends that the task still has open. This function can't fail. */
void hw__task_close(struct hw__task *task);

/* Ends the wait of both tasks in hw__task_await_admission(). Needs all ends of the pair open, so it
 * neither blocks nor raises SIGPIPE.
 *
 * Returns 0 or a negative errno. */
int hw__pair_admit(const struct hw__task pair[2]);

/* Waits until hw__pair_admit() was called, by another process. Async-signal-safe.
 *
 * Returns 0 or a negative errno; -EPIPE if nobody is left to call it. */
int hw__task_await_admission(const struct hw__task *task);

/* Runs the task to its end, fills its report and closes its ends. A task that ends early thus wakes
 * its peer with EOF or EPIPE, provided that no other process or thread holds copies of those ends.
 * SIGPIPE must be blocked. Async-signal-safe.
 *
 * This function can't fail; errors are in the report. */
void hw__task_run(struct hw__task *task);

#endif
