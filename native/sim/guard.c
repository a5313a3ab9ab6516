// SPDX-License-Identifier: MIT
#include "sim/guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "base/tls.h"

#define STACK_BYTES (64 << 10)

/* The seconds of CPU time after which a policy that has not returned never will: a call takes
 * microseconds, also with thousands of threads. */
#define MOST_S 3

static const int guarded[HW__GUARD_SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGVTALRM};

/* The guard of the calling thread; NULL: none. Its signal handlers read it. */
static HW__TLS struct hw__guard *volatile mine;

/* Ends the process. Async-signal-safe. */
static _Noreturn void give_up(const char *what, const char *hint) {
    char text[512] = "error: the simulation ";
    hw__text_append(text, sizeof text, what);
    hw__text_append(text, sizeof text, mine->policies);
    hw__text_append(text, sizeof text, "\n\nhint: ");
    hw__text_append(text, sizeof text, hint);
    hw__text_append(text, sizeof text, "\n");
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written; /* there is nobody left to tell */
    _exit(1);
}

static void on_crash(int number) {
    if (mine == NULL) { /* another thread: its crash is not the policy's */
        signal(number, SIG_DFL);
        return; /* to the instruction that crashed, or to abort(), which raises the signal again */
    }
    const char *name = number == SIGSEGV  ? "SIGSEGV"
                       : number == SIGBUS ? "SIGBUS"
                       : number == SIGFPE ? "SIGFPE"
                       : number == SIGILL ? "SIGILL"
                                          : "SIGABRT";
    char what[96] = "crashed (";
    hw__text_append(what, sizeof what, name);
    hw__text_append(what, sizeof what, ") in or after a call of the policy ");
    give_up(what, "compile the policy with `-g -fsanitize=address`, or run this command under gdb");
}

static void on_tick(int number) {
    (void)number;
    if (mine == NULL) {
        return;
    }
    int64_t steps = *(const volatile int64_t *)mine->steps;
    mine->since_s = steps == mine->last_steps ? mine->since_s + 1 : 0;
    mine->last_steps = steps;
    if (mine->since_s >= MOST_S) {
        give_up("made no step for " HW__TEXT_OF(MOST_S) " s of CPU time in a call of the policy ",
                "each function of a policy must return at once: look for a loop without an end");
    }
}

void hw__guard_begin(struct hw__guard *guard, const char *policies, const int64_t *steps) {
    guard->policies = policies;
    guard->steps = steps;
    guard->last_steps = *steps;
    guard->stack = malloc(STACK_BYTES);
    mine = guard;
    if (guard->stack != NULL) {
        stack_t own = {.ss_sp = guard->stack, .ss_size = STACK_BYTES};
        sigaltstack(&own, &guard->before_stack);
    }
    for (int i = 0; i < HW__GUARD_SIGNALS; i++) {
        struct sigaction action = {.sa_handler = guarded[i] == SIGVTALRM ? on_tick : on_crash,
                                   .sa_flags = SA_ONSTACK | SA_RESTART};
        sigaction(guarded[i], &action, &guard->before[i]);
    }
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    if (sigismember(&blocked, SIGVTALRM) == 1) {
        return; /* a tick would stay pending, and find no handler later */
    }
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGVTALRM};
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    const struct itimerspec each = {.it_interval = {.tv_sec = 1}, .it_value = {.tv_sec = 1}};
    guard->has_timer = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &guard->timer) == 0;
    if (guard->has_timer) {
        timer_settime(guard->timer, 0, &each, NULL);
    }
}

void hw__guard_end(struct hw__guard *guard) {
    if (guard->has_timer) {
        timer_delete(guard->timer);
    }
    for (int i = 0; i < HW__GUARD_SIGNALS; i++) {
        sigaction(guarded[i], &guard->before[i], NULL);
    }
    if (guard->stack != NULL) {
        sigaltstack(&guard->before_stack, NULL);
        free(guard->stack);
    }
    mine = NULL;
}
