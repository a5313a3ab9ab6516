// SPDX-License-Identifier: MIT
/* Ping-pong when a participant dies: nobody hangs, and no process is left behind. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#include "headway/pingpong.h"
#include "limits/exchange.h"
#include "limits/place.h"
#include "process.h"

#define FOREVER INT64_C(1000000000000)

static bool is_slow_after_fork; /* the parent's; the test's thread writes and reads it */

static void *run_forever(void *argument) {
    struct hw_pingpong_result result;
    *(int *)argument = hw_pingpong(HW_PINGPONG_PROCESSES, FOREVER, -1, -1, &result);
    return NULL;
}

static void test_a_killed_child_ends_the_call(void) {
    for (int victim = 0; victim < 2; victim++) {
        struct surroundings before = look_around();
        pthread_t thread;
        pid_t children[2];
        int returned = 0;
        T_EQ(0, pthread_create(&thread, NULL, run_forever, &returned));
        find_children(getpid(), children);
        T_EQ(0, kill(children[victim], SIGKILL));
        T_EQ(0, pthread_join(thread, NULL));
        T_EQ(-EPIPE, returned);
        check_unchanged(&before);
    }
}

/* Opens every pipe of a process for reading and writing, so that neither EOF nor EPIPE can occur
 * before the caller closes them. Fills held[] and returns how many there are. */
static int hold_pipes(pid_t pid, int held[], int room) {
    char path[64];
    char target[64];
    int count = 0;
    for (int fd = 0; fd < 64 && count < room; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        if (readlink(path, target, sizeof target) > 5 && memcmp(target, "pipe:", 5) == 0) {
            held[count] = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
            /* fails if the child has just closed its peer's end */
            count += held[count] >= 0 ? 1 : 0;
        }
    }
    return count;
}

static void test_a_killed_child_ends_the_call_though_others_hold_its_pipes(void) {
    struct surroundings before = look_around();
    pthread_t thread;
    pid_t children[2];
    int held[16];
    int returned = 0;
    T_EQ(0, pthread_create(&thread, NULL, run_forever, &returned));
    find_children(getpid(), children);
    int count = hold_pipes(children[0], held, 16);
    T_TRUE(count >= 2);
    T_EQ(0, kill(children[0], SIGKILL));
    T_EQ(0, pthread_join(thread, NULL));
    T_EQ(-EPIPE, returned);
    for (int i = 0; i < count; i++) {
        T_EQ(0, close(held[i]));
    }
    check_unchanged(&before);
}

static void test_children_die_with_the_parent(void) {
    pid_t children[2];
    /* Orphans become our children, so that we can wait for them. */
    T_EQ(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
    pid_t host = fork();
    T_TRUE(host >= 0);
    if (host == 0) {
        int returned;
        run_forever(&returned);
        _exit(1);
    }
    find_children(host, children);
    T_EQ(0, kill(host, SIGKILL));
    T_EQ(host, waitpid(host, NULL, 0));
    for (int i = 0; i < 2; i++) {
        int status = 0;
        T_EQ(children[i], waitpid(children[i], &status, 0));
        T_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
    }
    T_EQ(0, prctl(PR_SET_CHILD_SUBREAPER, 0));
}

static void pause_after_fork(void) {
    nanosleep(&(struct timespec){.tv_nsec = is_slow_after_fork ? 20000000 : 0}, NULL);
}

/* Such a host's kernel reaps a child as soon as it ends. Children that began their exchange before
 * the parent has put them into their group would have ended by then: the pause after each fork is
 * longer than the exchange. */
static void test_a_host_that_ignores_its_children_gets_its_result(void) {
    T_TRUE(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    T_EQ(0, pthread_atfork(NULL, pause_after_fork, NULL));
    for (int slow = 0; slow < 2; slow++) {
        is_slow_after_fork = slow == 1;
        struct hw_pingpong_result result;
        T_EQ(0, hw_pingpong(HW_PINGPONG_PROCESSES, 100, -1, -1, &result));
        T_EQ(200, result.final_value);
    }
    is_slow_after_fork = false;
    T_TRUE(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
}

static void *run_task(void *argument) {
    hw__block_signals();
    hw__task_run(argument);
    return NULL;
}

static void test_a_task_whose_peer_is_gone_ends_with_epipe(void) {
    for (int survivor = 0; survivor < 2; survivor++) {
        struct surroundings before = look_around();
        struct hw__task pair[2];
        struct hw__report reports[2];
        pthread_t thread;
        T_EQ(0, hw__pair_open(pair, reports, FOREVER, NULL));
        T_EQ(0, pthread_create(&thread, NULL, run_task, &pair[survivor]));
        hw__task_close(&pair[1 - survivor]);
        T_EQ(0, pthread_join(thread, NULL));
        T_EQ(-EPIPE, reports[survivor].error);
        T_EQ(-EPIPE, reports[1 - survivor].error);
        check_unchanged(&before);
    }
}

int main(void) {
    t_start();
    T_RUN(test_a_killed_child_ends_the_call);
    T_RUN(test_a_killed_child_ends_the_call_though_others_hold_its_pipes);
    T_RUN(test_children_die_with_the_parent);
    T_RUN(test_a_host_that_ignores_its_children_gets_its_result);
    T_RUN(test_a_task_whose_peer_is_gone_ends_with_epipe);
    return 0;
}
