// SPDX-License-Identifier: MIT
/* A library for chaos_soak.py: forks from threads that Python does not know. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILD_CODE = 7, PATIENCE_S = 60, STEP_NS = 1000000 };

/* Waits for a child, which may hang in a fork handler. Returns 0 if the child
 * ended as it must. */
static long check(pid_t child) {
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (;;) {
        int status;
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) {
            return !(WIFEXITED(status) && WEXITSTATUS(status) == CHILD_CODE);
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((ended < 0 && errno != EINTR) || now.tv_sec - begun.tv_sec > PATIENCE_S) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return 1;
        }
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
}

static void *fork_often(void *wrong) {
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(CHILD_CODE);
        }
        *(long *)wrong += child < 0 ? 1 : check(child);
    }
    return NULL;
}

/* Forks in two threads of its own. Returns the number of children that did not
 * end as they must. */
long fork_in_threads(void) {
    pthread_t threads[2];
    long wrong[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, fork_often, &wrong[i]) != 0) {
            return -1;
        }
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    return wrong[0] + wrong[1];
}
