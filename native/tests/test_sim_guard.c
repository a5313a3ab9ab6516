// SPDX-License-Identifier: MIT
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "process.h"
#include "sim/guard.h"

static int64_t steps;

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGVTALRM};

/* The program's own handler: a guard must put it back. */
static void own_handler(int number) { (void)number; }

static void test_what_was_there_is_put_back(void) {
    struct surroundings before = look_around();
    struct sigaction own = {.sa_handler = own_handler}, action;
    sigaction(SIGVTALRM, &own, NULL);
    char stack[SIGSTKSZ > 16384 ? 65536 : 16384];
    stack_t mine = {.ss_sp = stack, .ss_size = sizeof stack}, found;
    stack_t theirs;
    sigaltstack(&mine, &theirs);
    for (int turn = 0; turn < 3; turn++) {
        struct hw__guard guard = {0};
        hw__guard_begin(&guard, "mine", &steps);
        sigaction(SIGSEGV, NULL, &action);
        T_TRUE(action.sa_handler != SIG_DFL);
        hw__guard_end(&guard);
    }
    sigaltstack(NULL, &found);
    T_TRUE(found.ss_sp == mine.ss_sp);
    sigaltstack(&theirs, NULL);
    sigaction(SIGVTALRM, NULL, &action);
    T_TRUE(action.sa_handler == own_handler);
    signal(SIGVTALRM, SIG_DFL);
    check_unchanged(&before);
}

/* Runs the function in a forked child; returns how it ended, with what it wrote on stderr. */
static int in_child(void (*function)(void), char *text, size_t room) {
    int ends[2];
    T_EQ(0, pipe(ends));
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        struct hw__guard guard = {0};
        hw__guard_begin(&guard, "mine", &steps);
        function();
        hw__guard_end(&guard);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t more; (more = read(ends[0], text + length, room - 1 - length)) > 0;) {
        length += (size_t)more;
    }
    text[length] = '\0';
    close(ends[0]);
    int status;
    T_EQ(child, waitpid(child, &status, 0));
    return status;
}

static int number;
static void raise_it(void) { raise(number); }

static void test_a_crash_names_the_policy(void) {
    char text[1024];
    for (size_t i = 0; i + 1 < sizeof signals / sizeof *signals; i++) {
        number = signals[i];
        int status = in_child(raise_it, text, sizeof text);
        T_TRUE(WIFEXITED(status));
        T_EQ(1, WEXITSTATUS(status));
        T_TRUE(strstr(text, "error: the simulation crashed (SIG") == text);
        T_TRUE(strstr(text, " the policy mine\n\nhint: ") != NULL);
    }
}

/* Computes for this long, in CPU time of the thread, and makes a step each time if `goes_on`. */
static void compute(int64_t for_ms, bool goes_on) {
    struct timespec now;
    do {
        steps += goes_on;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < for_ms);
}

static void go_on(void) { compute(3500, true); }
static void loop(void) { compute(60000, false); }

static void test_a_policy_that_does_not_return_is_ended(void) {
    char text[1024];
    int status = in_child(go_on, text, sizeof text);
    T_TRUE(WIFEXITED(status));
    T_EQ(0, WEXITSTATUS(status));
    T_EQ(0, strlen(text));
    status = in_child(loop, text, sizeof text);
    T_TRUE(WIFEXITED(status));
    T_EQ(1, WEXITSTATUS(status));
    T_TRUE(strstr(text, "error: the simulation made no step for 3 s of CPU time") == text);
}

static void *raise_elsewhere(void *unused) {
    (void)unused;
    raise(SIGSEGV);
    return NULL;
}

static void crash_elsewhere(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, raise_elsewhere, NULL);
    pthread_join(thread, NULL);
    raise(SIGSEGV); /* the default action is back: a signal that is raised does not come again */
}

static void test_a_crash_of_another_thread_is_not_the_policys(void) {
    char text[1024];
    int status = in_child(crash_elsewhere, text, sizeof text);
    T_TRUE(WIFSIGNALED(status));
    T_EQ(SIGSEGV, WTERMSIG(status));
    T_EQ(0, strlen(text));
}

int main(void) {
    t_start();
    T_RUN(test_what_was_there_is_put_back);
    T_RUN(test_a_crash_names_the_policy);
    T_RUN(test_a_policy_that_does_not_return_is_ended);
    T_RUN(test_a_crash_of_another_thread_is_not_the_policys);
    return 0;
}
