// SPDX-License-Identifier: MIT
/* This code runs in forked children of threaded processes. It therefore makes no allocation, takes
 * no lock and uses no stdio. getrusage() is not on POSIX's list of async-signal-safe functions, but
 * on Linux it is the bare system call.
 *
 * The tasks need no barrier of their own. Task 1 sends a "ready" once it runs on its CPU. Task 0
 * starts the clock when that has arrived. */
#include "limits/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

#include "headway/clock.h"

#define READY INT64_C(0)    /* task 1 tells task 0 that it is about to read */
#define ADMITTED INT64_C(1) /* the maker of the pair tells a task that it may begin */

/* Sends one value. Writes of 8 bytes are atomic (PIPE_BUF is larger), so a short write is an error.
 *
 * Returns 0 or a negative errno. */
static int send_value(int fd, int64_t value) {
    for (;;) {
        ssize_t sent = write(fd, &value, sizeof value);
        if (sent == (ssize_t)sizeof value) {
            return 0;
        }
        if (sent >= 0) {
            return -EIO;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

/* Waits for one value and receives it.
 *
 * Returns 0 or a negative errno; -EPIPE at end of file. */
static int receive_value(int fd, int64_t *value) {
    for (;;) {
        ssize_t received = read(fd, value, sizeof *value);
        if (received == (ssize_t)sizeof *value) {
            return 0;
        }
        if (received >= 0) {
            return received == 0 ? -EPIPE : -EIO;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

/* Task 0 of the ping-pong.
 *
 * Returns 0 or a negative errno. On success *last is the integer that came back. */
static int ping(const struct hw__task *task, int64_t *last) {
    int64_t value = 0;
    for (int64_t round = 0; round < task->rounds; round++) {
        int error = send_value(task->write_fd, value + 1);
        if (error == 0) {
            error = receive_value(task->read_fd, &value);
        }
        if (error != 0) {
            return error;
        }
    }
    *last = value;
    return 0;
}

/* Task 1 of the ping-pong.
 *
 * Returns 0 or a negative errno. */
static int pong(const struct hw__task *task) {
    for (int64_t round = 0; round < task->rounds; round++) {
        int64_t value = 0;
        int error = receive_value(task->read_fd, &value);
        if (error == 0) {
            error = send_value(task->write_fd, value + 1);
        }
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

/* Task 0 of the one-way variant.
 *
 * Returns 0 or a negative errno. */
static int send_stamps(const struct hw__task *task) {
    for (int64_t round = 0; round < task->rounds; round++) {
        int64_t acknowledged = 0;
        int error = send_value(task->write_fd, hw_now_ns());
        if (error == 0) {
            error = receive_value(task->read_fd, &acknowledged);
        }
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

/* Task 1 of the one-way variant.
 *
 * Returns 0 or a negative errno. */
static int note_stamps(const struct hw__task *task) {
    for (int64_t round = 0; round < task->rounds; round++) {
        int64_t sent_ns = 0;
        int error = receive_value(task->read_fd, &sent_ns);
        if (error != 0) {
            return error;
        }
        task->latencies_ns[round] = hw_now_ns() - sent_ns;
        error = send_value(task->write_fd, round);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

/* Runs the task's half of the exchange. The other half must be known to be ready. Fills all fields
 * of the report except `error` and the switches.
 *
 * Returns 0 or a negative errno. */
static int exchange(const struct hw__task *task, struct hw__report *report) {
    if (task->index == 1) {
        return task->latencies_ns == NULL ? pong(task) : note_stamps(task);
    }
    int64_t start_ns = hw_now_ns();
    int error = task->latencies_ns == NULL ? ping(task, &report->final_value) : send_stamps(task);
    report->elapsed_ns = hw_now_ns() - start_ns;
    return error;
}

int hw__pair_open(struct hw__task pair[2], struct hw__report reports[2], int64_t rounds,
                  int64_t *latencies_ns) {
    int forth[2]; /* from task 0 to task 1 */
    int back[2];  /* from task 1 to task 0 */
    if (pipe2(forth, O_CLOEXEC) != 0) {
        return -errno;
    }
    if (pipe2(back, O_CLOEXEC) != 0) {
        int error = -errno;
        close(forth[0]);
        close(forth[1]);
        return error;
    }
    for (int i = 0; i < 2; i++) {
        reports[i] = HW__REPORT_NONE;
        pair[i] = (struct hw__task){.index = i,
                                    .read_fd = i == 0 ? back[0] : forth[0],
                                    .write_fd = i == 0 ? forth[1] : back[1],
                                    .rounds = rounds,
                                    .latencies_ns = latencies_ns,
                                    .report = &reports[i]};
    }
    return 0;
}

void hw__task_close(struct hw__task *task) {
    if (task->read_fd >= 0) {
        close(task->read_fd);
    }
    if (task->write_fd >= 0) {
        close(task->write_fd);
    }
    task->read_fd = task->write_fd = -1;
}

int hw__pair_admit(const struct hw__task pair[2]) {
    /* Task 0 is first: behind its ADMITTED comes the READY of task 1, in the same pipe. */
    int error = send_value(pair[1].write_fd, ADMITTED);
    return error != 0 ? error : send_value(pair[0].write_fd, ADMITTED);
}

int hw__task_await_admission(const struct hw__task *task) {
    int64_t value = 0;
    return receive_value(task->read_fd, &value);
}

void hw__task_run(struct hw__task *task) {
    struct hw__report report = {.voluntary = -1, .involuntary = -1};
    struct rusage before;
    struct rusage after;
    int64_t ready = READY;

    report.error =
        task->index == 1 ? send_value(task->write_fd, ready) : receive_value(task->read_fd, &ready);
    if (report.error == 0) {
        int counted = getrusage(RUSAGE_THREAD, &before);
        report.error = exchange(task, &report);
        if (counted == 0 && getrusage(RUSAGE_THREAD, &after) == 0) {
            report.voluntary = after.ru_nvcsw - before.ru_nvcsw;
            report.involuntary = after.ru_nivcsw - before.ru_nivcsw;
        }
    }
    *task->report = report;
    hw__task_close(task);
}
