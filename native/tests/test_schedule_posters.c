// SPDX-License-Identifier: MIT
/* A policy learns whether the holder of the GIL has itself woken a waiter, by a semaphore, as
 * CPython's locks and queues do. */
#include "gil_world.h"
#include "headway/schedule.h"

#include <semaphore.h>

static char problem[300];

/* A policy that notes the flags of each waiter of which the engine asks. */
static _Atomic uint32_t asked_flags;
static _Atomic int asked;

static void ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    thread->key = gil->now_ns;
    thread->lane = 0;
}

static int64_t patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder) {
    (void)gil;
    (void)holder;
    atomic_store(&asked_flags, waiter->flags);
    atomic_fetch_add(&asked, 1);
    return HW_NEVER;
}

static const struct hw_policy_option none[] = {{.name = NULL}};
static const struct hw_policy noting = {
    .abi = HW_POLICY_ABI, .name = "noting", .options = none, .ready = ready, .patience = patience};

static sem_t posted;
static atomic_bool comes; /* the waiter has a record and is about to wait for the semaphore */
static bool by_clock;     /* written before the waiter's thread starts */

static void *wait_for_post(void *unused) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    PyEval_RestoreThread(me);
    PyEval_SaveThread();
    atomic_store(&comes, true);
    struct timespec late = {.tv_sec = INT32_MAX};
    int result =
        by_clock ? fake_sem_clockwait(&posted, CLOCK_MONOTONIC, &late) : fake_sem_wait(&posted);
    T_EQ(0, result);
    PyEval_RestoreThread(me);
    PyEval_SaveThread();
    fake_state_free(me);
    return unused;
}

/* Waits, without the GIL, until the waiter has its record. */
static void await_the_waiter(void) {
    void *me = PyEval_SaveThread();
    while (!atomic_load(&comes)) {
        sched_yield();
    }
    PyEval_RestoreThread(me);
}

static void *post(void *unused) {
    T_EQ(0, fake_sem_post(&posted));
    return unused;
}

/* Has a thread woken by the holder or by another thread, and returns whether the policy saw that
 * the holder had woken it. The caller holds the GIL. */
static bool seen_as_woken(bool by_holder) {
    pthread_t waiter, poster;
    atomic_store(&comes, false);
    T_EQ(0, pthread_create(&waiter, NULL, wait_for_post, NULL));
    await_the_waiter();
    int before = atomic_load(&asked);
    if (by_holder) {
        post(NULL);
    } else {
        T_EQ(0, pthread_create(&poster, NULL, post, NULL));
        T_EQ(0, pthread_join(poster, NULL));
    }
    while (atomic_load(&asked) == before) {
        sched_yield();
    }
    bool woken = (atomic_load(&asked_flags) & HW_THREAD_WOKEN) != 0;
    world_join(waiter);
    return woken;
}

/* The holder's own post counts, and no other: not that of another thread, also where the holder has
 * posted the same semaphore earlier. */
static void test_whose_post_it_was(void) {
    T_EQ(0, hw_schedule_start(&noting, "watchdog_ms=0", problem, sizeof problem));
    for (int clock = 0; clock < 2; clock++) {
        by_clock = clock != 0;
        T_EQ(true, seen_as_woken(true));
        T_EQ(false, seen_as_woken(false));
        T_EQ(true, seen_as_woken(true));
    }
    T_EQ(0, hw_schedule_stop());
    T_TRUE(!world_hooked());
}

/* A thread that was woken once is not seen as woken at its later waits. */
static atomic_bool stop;

static void *come_and_go(void *unused) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    PyEval_RestoreThread(me);
    PyEval_SaveThread();
    atomic_store(&comes, true);
    T_EQ(0, fake_sem_wait(&posted));
    while (!atomic_load(&stop)) {
        PyEval_RestoreThread(me);
        PyEval_SaveThread();
    }
    fake_state_free(me);
    return unused;
}

static void test_a_wake_up_counts_for_one_wait(void) {
    pthread_t waiter;
    atomic_store(&comes, false);
    atomic_store(&stop, false);
    T_EQ(0, hw_schedule_start(&noting, "watchdog_ms=0", problem, sizeof problem));
    T_EQ(0, pthread_create(&waiter, NULL, come_and_go, NULL));
    await_the_waiter();
    post(NULL);
    bool woken = true;
    while (woken) { /* until it has waited for the GIL once more */
        void *me = PyEval_SaveThread();
        sched_yield();
        PyEval_RestoreThread(me);
        int before = atomic_load(&asked);
        for (int i = 0; i < 1000 && atomic_load(&asked) == before; i++) {
            sched_yield();
        }
        woken = atomic_load(&asked) == before || (atomic_load(&asked_flags) & HW_THREAD_WOKEN) != 0;
    }
    atomic_store(&stop, true);
    world_join(waiter);
    T_EQ(0, hw_schedule_stop());
}

int main(void) {
    t_start();
    T_EQ(0, sem_init(&posted, 0, 0));
    world_begin();
    world_enter();
    T_RUN(test_whose_post_it_was);
    T_RUN(test_a_wake_up_counts_for_one_wait);
    world_leave();
    return 0;
}
