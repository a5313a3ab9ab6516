// SPDX-License-Identifier: MIT
/* After a hook, errno is what the real function leaves; after success, that is its value from
 * before the call. */
#include <semaphore.h>
#include <signal.h>

#include "gil/parking.h"
#include "gil_world.h"
#include "headway/schedule.h"

#define CANARY 4242
#define ROUNDS 300

static struct timespec past = {0, 1};

/* Acquires and releases a GIL that other threads want, too, so that there are requests. */
static void *contend(void *gil) {
    struct fake_state *me = fake_state_new(gil);
    for (int i = 0; i < ROUNDS; i++) {
        errno = CANARY;
        PyEval_RestoreThread(me);
        T_EQ(CANARY, errno);
        for (int spin = 0; spin < 2000; spin++) {
            fake_check();
        }
        T_EQ(CANARY, errno);
        PyEval_SaveThread();
        T_EQ(CANARY, errno);
    }
    fake_state_free(me);
    return NULL;
}

static void contend_for(struct fake_gil *gil) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        T_EQ(0, pthread_create(&threads[i], NULL, contend, gil));
    }
    for (int i = 0; i < 3; i++) {
        world_join(threads[i]);
    }
}

/* Calls each hook by itself: with condition variables that are no GIL's, and with a GIL that no
 * other thread wants, until that GIL rests. */
static void call_each(void) {
    static struct fake_gil own;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    fake_gil_init(&own);
    errno = CANARY;
    pthread_mutex_lock(&mutex);
    T_EQ(ETIMEDOUT, fake_timedwait(&cond, &mutex, &past));
    T_EQ(CANARY, errno);
    T_EQ(0, fake_signal(&cond));
    T_EQ(CANARY, errno);
    pthread_mutex_unlock(&mutex);
    T_EQ(0, fake_destroy(&cond));
    T_EQ(CANARY, errno);
    contend_for(&own);
    errno = CANARY;
    fake_gil_destroy(&own);
    T_EQ(CANARY, errno);
    for (int i = 0; i < 10000; i++) {
        world_yield();
    }
    T_EQ(CANARY, errno);
    contend_for(fake_main_gil());
}

static void test_traced(void) {
    world_start("errno.hwt");
    call_each();
    T_EQ(0, hw_trace_stop());
}

static void test_scheduled(void) {
    static const char *const policies[] = {"fair", "stock", "bfs", "priority"};
    char problem[300];
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        const struct hw_policy *policy = hw_policy_find(policies[i], problem, sizeof problem);
        T_TRUE(policy != NULL);
        const char *options = i == 0 ? "os_slice_us=100 os_batch=1" : "";
        T_EQ(0, hw_schedule_start(policy, options, problem, sizeof problem));
        call_each();
        T_EQ(0, hw_schedule_stop());
    }
}

/* ---------------------------------------------------------------- semaphores */
struct parked {
    pthread_t thread;
    sem_t semaphore;
    _Atomic pid_t tid;
    int64_t timeout_ns; /* 0: none */
    int result, error;
};

static void *park(void *argument) {
    struct parked *parked = argument;
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += 1000;
    atomic_store(&parked->tid, gettid());
    errno = CANARY;
    if (parked->timeout_ns == 0) {
        parked->result = fake_sem_wait(&parked->semaphore);
    } else {
        parked->result = fake_sem_clockwait(&parked->semaphore, CLOCK_MONOTONIC,
                                            parked->timeout_ns > 0 ? &deadline : &past);
    }
    parked->error = errno;
    return NULL;
}

static void ignore(int number) { (void)number; }

/* How a wait ends: by a post before the wait or during it, by a signal, or at a deadline in the
 * past. */
enum how { BEFORE, ASLEEP, SIGNAL, PAST };

static void check_park(int64_t timeout_ns, enum how how, int result, int error) {
    struct parked parked = {.timeout_ns = timeout_ns};
    T_EQ(0, sem_init(&parked.semaphore, 0, how == BEFORE));
    T_EQ(0, pthread_create(&parked.thread, NULL, park, &parked));
    if (how == ASLEEP || how == SIGNAL) {
        while (atomic_load(&parked.tid) == 0) {
            sched_yield();
        }
        world_await_asleep(parked.tid);
    }
    if (how == ASLEEP) {
        T_EQ(0, sem_post(&parked.semaphore));
    } else if (how == SIGNAL) {
        T_EQ(0, pthread_kill(parked.thread, SIGUSR1));
    }
    T_EQ(0, pthread_join(parked.thread, NULL));
    T_EQ(result, parked.result);
    T_EQ(error, parked.error);
    T_EQ(0, sem_destroy(&parked.semaphore));
}

static void test_parked(void) {
    struct sigaction action = {.sa_handler = ignore};
    T_EQ(0, sigaction(SIGUSR1, &action, NULL));
    struct hw_stack_layout layout = fake_layout(false);
    world_start("parked.hwt");
    T_EQ(0, hw__parking_install(fake_runtime(), &layout));
    for (int64_t timeout_ns = 0; timeout_ns <= 1; timeout_ns++) {
        check_park(timeout_ns, BEFORE, 0, CANARY);
        check_park(timeout_ns, ASLEEP, 0, CANARY);
        check_park(timeout_ns, SIGNAL, -1, EINTR);
    }
    check_park(-1, PAST, -1, ETIMEDOUT);
    T_EQ(0, hw__parking_remove());
    T_EQ(0, hw_trace_stop());
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_traced);
    T_RUN(test_scheduled);
    T_RUN(test_parked);
    world_leave();
    return 0;
}
