// SPDX-License-Identifier: MIT
/* DESIGN. Both tasks are children. If the caller were one of them, it would have to change and
 * restore its own affinity and signal mask. One task would run in the host's process, which may be
 * huge, and the other in a copy, so the two would not be alike.
 *
 * FORK. The host may have any number of threads, and locks that they hold stay locked in the child.
 * A child therefore calls async-signal-safe functions only and ends with _exit(). All signals are
 * blocked before the fork and stay blocked in the child, because the host's handlers must not run
 * there (CPython's would write to the wakeup pipe that the child shares with the host). The host's
 * pthread_atfork handlers do run, as for any fork().
 *
 * DEATH. A child dies with the thread that forked it (PR_SET_PDEATHSIG), which is the one that
 * waits here. The children form a process group of their own, so that the parent can wait for
 * *either* child without touching the host's other children. When one child ends badly, the parent
 * kills the group. EOF would not be enough: it does not reach the surviving child if another thread
 * of the host forked meanwhile and holds copies of the ends.
 *
 * ADMISSION. A child does nothing that could end it before the parent has put both into their
 * group. Where the host ignores SIGCHLD the kernel reaps a child at its end, and setpgid() would
 * find neither it nor its group.
 *
 * REPORTS come back through shared memory. Exit statuses would be lost if the host ignores SIGCHLD
 * or reaps children that it does not know. */
#include "limits/pair.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limits/place.h"

/* Memory that the children write and the parent reads. No atomics are needed: each child writes
 * only its own parts, and the parent reads after waitpid(), which orders. */
struct shared {
    struct hw__report reports[2]; /* one per child */
    int64_t latencies_ns[];       /* one-way only: `rounds` values from child 1 */
};

/* The code of child `index`. All signals must be blocked. */
static noreturn void child_main(struct hw__task pair[2], int index, int cpu, pid_t parent) {
    struct hw__task *task = &pair[index];
    /* If the parent died between fork() and prctl(), there is no parent to die with. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(1);
    }
    hw__task_close(&pair[1 - index]);
    int error = hw__task_await_admission(task);
    if (error == 0) {
        error = hw__pin_self(cpu);
    }
    if (error != 0) {
        task->report->error = error;
        _exit(1);
    }
    hw__task_run(task);
    _exit(task->report->error == 0 ? 0 : 1);
}

/* Forks both children into a process group named after the first, and admits them to the exchange.
 *
 * Returns 0, or a negative errno; then `pids` has the children that were made (0 for none). */
static int fork_children(struct hw__task pair[2], const int cpus[2], pid_t pids[2]) {
    pid_t parent = getpid();
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            child_main(pair, i, cpus[i], parent);
        }
        if (pid < 0) {
            return -errno;
        }
        pids[i] = pid;
        if (setpgid(pid, pids[0]) != 0) {
            return -errno;
        }
    }
    return hw__pair_admit(pair);
}

/* Kills and reaps the children of a fork_children() that failed. They may be in different groups.
 *
 * This function can't fail. */
static void kill_children(const pid_t pids[2]) {
    for (int i = 0; i < 2; i++) {
        if (pids[i] != 0) {
            kill(pids[i], SIGKILL);
            while (waitpid(pids[i], NULL, 0) < 0 && errno == EINTR) {
            }
        }
    }
}

/* Waits until both children of the group have ended. Kills the second one if the first ended badly.
 * ECHILD means that the host reaps all children, and that both have ended.
 *
 * This function can't fail. */
static void reap_group(pid_t group) {
    for (int left = 2; left > 0;) {
        int status = 0;
        if (waitpid(-group, &status, 0) < 0) {
            if (errno == EINTR) {
                continue;
            }
            return;
        }
        left--;
        if (left > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
            kill(-group, SIGKILL);
        }
    }
}

/* Forks the children, closes the parent's copies of the ends, and waits for the children.
 *
 * Returns 0 if both tasks were run at all, else a negative errno. */
static int run_children(struct hw__task pair[2], const int cpus[2]) {
    pid_t pids[2] = {0, 0};
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = fork_children(pair, cpus, pids);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);

    hw__task_close(&pair[0]);
    hw__task_close(&pair[1]);
    if (error == 0) {
        reap_group(pids[0]);
    } else {
        kill_children(pids);
    }
    return error;
}

int hw__pair_run_processes(struct hw__task pair[2], const int cpus[2]) {
    int64_t *latencies_ns = pair[1].latencies_ns;
    size_t latencies_size =
        latencies_ns == NULL ? 0 : (size_t)pair[1].rounds * sizeof *latencies_ns;
    size_t size = sizeof(struct shared) + latencies_size;
    struct shared *shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        int error = -errno;
        hw__task_close(&pair[0]);
        hw__task_close(&pair[1]);
        return error;
    }

    struct hw__task inside[2] = {pair[0], pair[1]}; /* the pair with reports in shared memory */
    for (int i = 0; i < 2; i++) {
        shared->reports[i] = HW__REPORT_NONE;
        inside[i].report = &shared->reports[i];
        if (latencies_ns != NULL) {
            inside[i].latencies_ns = shared->latencies_ns;
        }
    }
    int error = run_children(inside, cpus);
    for (int i = 0; i < 2; i++) {
        pair[i].read_fd = pair[i].write_fd = -1; /* closed through `inside` */
        *pair[i].report = shared->reports[i];
    }
    if (latencies_ns != NULL) {
        memcpy(latencies_ns, shared->latencies_ns, latencies_size);
    }
    munmap(shared, size);
    return error;
}
