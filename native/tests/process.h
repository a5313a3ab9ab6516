// SPDX-License-Identifier: MIT
/* Checks that a call left its process as it found it, and finds a process's children. */
#ifndef HEADWAY_TESTS_PROCESS_H
#define HEADWAY_TESTS_PROCESS_H

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "t.h"

/* The state of the calling thread and process that no experiment may change. */
struct surroundings {
    cpu_set_t affinity;
    sigset_t mask;
    void (*sigpipe)(int);
    int fds;
};

static inline int count_fds(void) {
    DIR *directory = opendir("/proc/self/fd");
    T_TRUE(directory != NULL);
    int count = 0;
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

static inline struct surroundings look_around(void) {
    struct surroundings now;
    struct sigaction action;
    memset(&now, 0, sizeof now);
    T_EQ(0, sched_getaffinity(0, sizeof now.affinity, &now.affinity));
    T_EQ(0, pthread_sigmask(SIG_SETMASK, NULL, &now.mask));
    T_EQ(0, sigaction(SIGPIPE, NULL, &action));
    now.sigpipe = action.sa_handler;
    now.fds = count_fds();
    return now;
}

/* Checks that nothing has changed since `before`, and that no child is left, running or zombie. */
static inline void check_unchanged(const struct surroundings *before) {
    struct surroundings now = look_around();
    T_TRUE(CPU_EQUAL(&before->affinity, &now.affinity));
    for (int signal = 1; signal < 32; signal++) {
        T_EQ(sigismember(&before->mask, signal), sigismember(&now.mask, signal));
    }
    T_TRUE(before->sigpipe == now.sigpipe);
    T_EQ(before->fds, now.fds);
    T_EQ(-1, waitpid(-1, NULL, WNOHANG));
    T_EQ(ECHILD, errno);
}

/* Returns the first (or last) CPU that this process may use. */
static inline int usable_cpu(bool last) {
    cpu_set_t affinity;
    T_EQ(0, sched_getaffinity(0, sizeof affinity, &affinity));
    int found = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE && (last || found < 0); cpu++) {
        if (CPU_ISSET((size_t)cpu, &affinity)) {
            found = cpu;
        }
    }
    return found;
}

/* Polls until `parent` has two children, and fills them in ascending order. */
static inline void find_children(pid_t parent, pid_t children[2]) {
    for (int found = 0; found < 2; sched_yield()) {
        found = 0;
        DIR *directory = opendir("/proc");
        T_TRUE(directory != NULL);
        for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
            char path[300];
            int ppid = 0;
            snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
            FILE *file =
                entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
            if (file == NULL) {
                continue;
            }
            if (fscanf(file, "%*d %*s %*c %d", &ppid) == 1 && ppid == parent && found < 2) {
                children[found++] = (pid_t)atoi(entry->d_name);
            }
            fclose(file);
        }
        closedir(directory);
    }
}

#endif
