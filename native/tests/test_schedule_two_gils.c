// SPDX-License-Identifier: MIT
/* Threads that go from the main interpreter's GIL to another one's, as interp.exec() makes them
 * do. */
#include "engine/sched.h"
#include "gil_world.h"
#include "headway/schedule.h"
#include "policy/policies.h"

#include <sys/mman.h>

#define ROUNDS 20
#define MOST_TIMES 20

static char problem[300];

static void schedule(int policy) {
    T_EQ(0, hw_schedule_start(hw_policy_at(policy), "", problem, sizeof problem));
}

/* ------------------------------------------------------------ to and fro */
static struct fake_gil own;
static atomic_bool stop;
static atomic_long elsewhere; /* how often a thread had to leave the main queue */

static void *compute(void *gil) {
    struct fake_state *me = fake_state_new(gil);
    while (!atomic_load(&stop)) {
        PyEval_RestoreThread(me);
        for (int i = 0; i < 100000 && !atomic_load(&stop); i++) {
            fake_check();
        }
        PyEval_SaveThread();
    }
    fake_state_free(me);
    return NULL;
}

/* Computes, so that it is expected back at once after each preemption. Then it releases the GIL
 * by itself while there is a request, in the very call of C, and goes over to the other
 * interpreter. */
static void *go_over(void *argument) {
    struct fake_state *here = fake_state_new(fake_main_gil()), *there = fake_state_new(&own);
    PyEval_RestoreThread(here);
    for (int i = 0; i < t_rounds(ROUNDS); i++) {
        for (int forced = 0; forced < 6;) {
            forced += fake_check();
        }
        while (!atomic_load(&fake_main_gil()->drop_request)) {
        }
        PyEval_SaveThread();
        const struct hw__runner *runner = hw__runner_known();
        pthread_mutex_lock(&fake_main_gil()->memory.mutex);
        bool waits = runner->waiter.place != 0;
        pthread_mutex_unlock(&fake_main_gil()->memory.mutex);
        atomic_fetch_add(&elsewhere, waits);
        PyEval_RestoreThread(there);
        T_EQ(0, runner->waiter.place);
        PyEval_SaveThread();
        PyEval_RestoreThread(here);
    }
    PyEval_SaveThread();
    fake_state_free(here);
    fake_state_free(there);
    return argument;
}

static void go_to_another_gil(int policy) {
    fake_gil_init(&own);
    schedule(policy);
    atomic_store(&stop, false);
    pthread_t beside[2], traveller;
    T_EQ(0, pthread_create(&beside[0], NULL, compute, fake_main_gil()));
    T_EQ(0, pthread_create(&beside[1], NULL, compute, &own));
    T_EQ(0, pthread_create(&traveller, NULL, go_over, NULL));
    world_join(traveller);
    atomic_store(&stop, true);
    world_join(beside[0]);
    world_join(beside[1]);
    T_TRUE(strcmp(hw_policy_at(policy)->name, hw_schedule_active()) == 0);
    T_EQ(0, hw_schedule_stop());
    fake_gil_destroy(&own);
}

/* Whether a thread is in the main queue when it goes over depends on the system's scheduler: on a
 * busy machine it may be in none of all rounds. So there are further rounds until it was. */
static void test_goes_to_another_gil(void) {
    for (int times = 0; times < MOST_TIMES && atomic_load(&elsewhere) == 0; times++) {
        for (int policy = 0; hw_policy_at(policy) != NULL; policy++) {
            go_to_another_gil(policy);
        }
    }
    T_TRUE(atomic_load(&elsewhere) > 0); /* otherwise the test tried nothing */
}

/* ------------------------------------------------------------ the other one ends */
/* A thread is back from another interpreter that has ended, and has not been seen since. Its hint
 * touches nothing of that interpreter's. */
static void test_hint_after_the_other_has_ended(void) {
    struct fake_gil *other =
        mmap(NULL, sizeof *other, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    T_TRUE(other != MAP_FAILED);
    fake_gil_init(other);
    schedule(0);
    void *main_state = PyEval_SaveThread();
    struct fake_state *there = fake_state_new(other);
    PyEval_RestoreThread(there);
    PyEval_SaveThread();
    fake_state_free(there);
    T_TRUE(hw__runner_known()->sched == hw__sched_of(world_record(other)));
    T_EQ(0, munmap(other, sizeof *other)); /* as CPython does, without notice */
    T_EQ(0, hw_schedule_hint(5, 1));
    PyEval_RestoreThread(main_state);
    T_EQ(5, hw__runner_known()->waiter.seen.priority);
    T_TRUE((hw__runner_known()->waiter.seen.flags & HW_THREAD_URGENT) != 0);
    T_EQ(0, hw_schedule_hint(0, 0));
    world_yield();
    T_EQ(0, hw__runner_known()->waiter.seen.priority);
    T_EQ(0, hw_schedule_stop());
}

/* A thread of the other interpreter starts a policy: it is not taken for the holder of the main
 * GIL, nor is its time there counted as such a hold. */
static void test_start_from_the_other(void) {
    static struct fake_gil other;
    fake_gil_init(&other);
    schedule(0);
    T_EQ(0, hw_schedule_stop());
    const struct hw__ledger *ledger = &hw__sched_of(&hw__gils[0])->ledger;
    void *main_state = PyEval_SaveThread();
    struct fake_state *there = fake_state_new(&other);
    PyEval_RestoreThread(there);
    schedule(0);
    T_TRUE(ledger->policy != NULL && ledger->holder == NULL);
    PyEval_SaveThread();
    PyEval_RestoreThread(main_state);
    world_yield();
    T_EQ(0, hw_schedule_stop());
    schedule(0);
    T_TRUE(ledger->holder == &hw__runner_known()->waiter);
    T_EQ(0, hw_schedule_stop());
    fake_state_free(there);
    fake_gil_destroy(&other);
}

/* Each start has a number of its own, and the counts keep the number of the policy that they are
 * of. */
static void test_numbers(void) {
    uint32_t last = 0;
    for (int policy = 0; policy < 2; policy++) {
        schedule(policy);
        uint32_t number = hw_schedule_number();
        T_TRUE(number != 0 && number != last);
        T_EQ(number, hw_schedule_counted());
        T_EQ(-EALREADY, hw_schedule_start(hw_policy_at(2), "", problem, sizeof problem));
        T_EQ(-EINVAL, hw_schedule_check(hw_policy_at(2), "no=1", problem, sizeof problem));
        T_EQ(0, hw_schedule_check(hw_policy_at(2), "slice_us=5000", problem, sizeof problem));
        T_EQ(number, hw_schedule_number());
        T_EQ(0, hw_schedule_stop());
        T_EQ(0, hw_schedule_number());
        T_EQ(number, hw_schedule_counted());
        last = number;
    }
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_goes_to_another_gil);
    T_RUN(test_hint_after_the_other_has_ended);
    T_RUN(test_start_from_the_other);
    T_RUN(test_numbers);
    world_leave();
    return 0;
}
