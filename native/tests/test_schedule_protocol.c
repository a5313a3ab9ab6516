// SPDX-License-Identifier: MIT
/* Faults that the models of native/model/ found in the code, each as a test of the code itself. The
 * fault that fork.pml found is in test_schedule_fork.c. */
#include "base/lease.h"
#include "engine/sched.h"
#include "engine/wake.h"
#include "gil/scheduler.h"
#include "gil_world.h"
#include "headway/clock.h"
#include "headway/schedule.h"
#include "policy/policies.h"
#include "schedule/carry_out.h"
#include "schedule/habits.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static char problem[300];

static void schedule(int policy) {
    T_EQ(0, hw_schedule_start(hw_policy_at(policy), "", problem, sizeof problem));
}

static struct hw__gil *main_gil(void) { return world_record(fake_main_gil()); }

/* ------------------------------------------------------------ generation.pml */
static struct fake_gil own;

/* The calling thread, which has the main GIL, acquires the other GIL and then the main one
 * again. */
static void visit(struct fake_gil *gil) {
    struct fake_state *there = fake_state_new(gil);
    void *here = PyEval_SaveThread();
    PyEval_RestoreThread(there);
    PyEval_SaveThread();
    PyEval_RestoreThread(here);
    fake_state_free(there);
}

static void test_a_watchdog_removes_no_other_policy(void) {
    schedule(0);
    visit(&own);
    struct hw__sched *sched = hw__sched_of(world_record(&own));
    T_TRUE(sched->ledger.policy == hw_policy_at(0));
    T_EQ(0, hw_schedule_stop());
    schedule(1);
    T_TRUE(
        /* the watchdog has found fault with the first policy */
        !hw__sched_remove(sched, HW__LEASE_WATCHDOG));
    T_TRUE(hw__sched_policy() == hw_policy_at(1));
    struct hw__sched *mains = hw__sched_of(main_gil());
    hw__registry_lock();
    /* another thread starts or stops something */
    T_TRUE(!hw__sched_remove(mains, HW__LEASE_WATCHDOG));
    hw__registry_unlock();
    T_TRUE(hw__sched_remove(mains, HW__LEASE_WATCHDOG));
    T_TRUE(hw__sched_policy() == NULL);
    (void)hw_schedule_stop();
}

static void in_child_of_a_removal(void) {
    T_TRUE(hw__sched_of(main_gil())->ledger.policy == NULL);
    world_yield();
    T_TRUE(!atomic_load(&main_gil()->scheduled));
}

/* A watchdog at another GIL has removed the policy, and nothing has happened at this GIL since. */
static void test_a_fork_revives_no_policy(void) {
    schedule(0);
    visit(&own); /* at that GIL, the last policy ends here */
    visit(&own);
    T_TRUE(hw__sched_remove(hw__sched_of(world_record(&own)), HW__LEASE_WATCHDOG));
    T_TRUE(hw__sched_of(main_gil())->ledger.policy != NULL);
    world_wait(world_fork(in_child_of_a_removal));
    (void)hw_schedule_stop();
}

static void test_nothing_is_adopted_while_somebody_starts_or_stops(void) {
    schedule(0);
    visit(&own);
    struct hw__gil *gil = world_record(&own);
    T_EQ(0, hw_schedule_stop());
    schedule(1);
    hw__registry_lock();
    visit(&own); /* at that GIL, the first policy ends here */
    visit(&own);
    T_TRUE(!atomic_load(&gil->scheduled));
    hw__registry_unlock();
    visit(&own);
    T_TRUE(atomic_load(&gil->scheduled));
    T_TRUE(hw__sched_of(gil)->ledger.policy == hw_policy_at(1));
    T_EQ(0, hw_schedule_stop());
}

/* ------------------------------------------------------------ rest.pml */
static void test_no_rest_beside_a_trace(void) {
    schedule(0);
    world_start("");
    T_TRUE(!hw__hooks_rest(&fake_main_gil()->memory, false));
    T_TRUE(hw__hooks_resting() == NULL);
    T_EQ(0, hw_trace_stop());
    T_TRUE(hw__hooks_rest(&fake_main_gil()->memory, false));
    T_TRUE(hw__hooks_resting() != NULL);
    T_EQ(0, hw_schedule_stop());
    T_TRUE(hw__hooks_resting() == NULL);
}

/* ------------------------------------------------------------ stop.pml */
static void *take_once(void *argument) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    PyEval_RestoreThread(me);
    PyEval_SaveThread();
    fake_state_free(me);
    return argument;
}

static void test_who_ends_a_policy_wakes_at_once(void) {
    schedule(0);
    struct hw__sched *sched = hw__sched_of(main_gil());
    pthread_mutex_t *mutex = &fake_main_gil()->memory.mutex;
    pthread_t thread;
    T_EQ(0, pthread_create(&thread, NULL, take_once, NULL));
    for (bool waits = false; !waits;) {
        pthread_mutex_lock(mutex);
        waits = hw__ledger_waiting(&sched->ledger) > 0;
        if (waits) {
            hw__sched_end(main_gil());
            T_TRUE(!hw__wake_pending());
        }
        pthread_mutex_unlock(mutex);
        sched_yield();
    }
    world_join(thread);
    T_EQ(0, hw_schedule_stop());
}

/* In the wait for a hand-off the GIL's mutex is not held, and another thread may just be emptying
 * the GIL's record. */
static void test_wait_while_the_record_is_emptied(void) {
    schedule(0);
    world_yield();
    struct hw__gil *gil = main_gil();
    struct hw__gil_memory *memory = atomic_load(&gil->memory);
    hw__runner_known()->waiter.forced = 3;
    pthread_mutex_lock(&memory->switch_mutex);
    atomic_store(&gil->memory, NULL);
    T_EQ(0, hw__sched_wait(gil, &memory->switch_cond, &memory->switch_mutex));
    atomic_store(&gil->memory, memory);
    pthread_mutex_unlock(&memory->switch_mutex);
    T_EQ(0, hw_schedule_stop());
}

/* At a sub-interpreter's own GIL, a preempted thread is in no queue. It must wait for the hand-off
 * as without us, or it would acquire the GIL before the waiter that it has called. */
static void test_a_preempted_thread_waits_at_an_own_gil(void) {
    schedule(0);
    struct fake_state *me = fake_state_new(&own);
    void *here = PyEval_SaveThread();
    PyEval_RestoreThread(me);
    PyEval_SaveThread();
    struct hw__gil *gil = world_record(&own);
    T_TRUE(gil != NULL && !gil->main);
    struct hw__runner *runner = hw__sched_runner(hw__sched_of(gil));
    runner->waiter.forced = 3;
    T_TRUE(hw__habits_waits_on(&runner->waiter));
    pthread_mutex_lock(&own.memory.switch_mutex);
    int64_t before_ns = hw_now_ns();
    T_EQ(0, hw__sched_wait(gil, &own.memory.switch_cond, &own.memory.switch_mutex));
    T_TRUE(hw_now_ns() - before_ns >= HW__HAND_OVER_NS); /* nobody signals */
    pthread_mutex_unlock(&own.memory.switch_mutex);
    PyEval_RestoreThread(here);
    fake_state_free(me);
    T_EQ(0, hw_schedule_stop());
}

/* ------------------------------------------------------------ handshake.pml */
static void test_a_hook_that_has_nothing_to_do_marks_nothing(void) {
    struct hw__gil *gil = main_gil();
    T_TRUE(!atomic_load(&gil->recorded));
    atomic_store(&gil->busy, true);
    T_TRUE(!hw__gil_enter(gil, atomic_load(&gil->memory)));
    T_TRUE(atomic_load(&gil->busy));
    atomic_store(&gil->busy, false);
}

static void unrecord_without_membarrier(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    struct hw__gil *gil = main_gil();
    hw__gil_record(gil);
    if (!atomic_load(&gil->light) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        fprintf(stderr, "  not tried: no membarrier(2), or no filter of system calls, to be had\n");
        return;
    }
    int64_t before_ns = hw_now_ns();
    hw__gil_unrecord(gil);
    T_TRUE(hw_now_ns() - before_ns >= 10000000);
    before_ns = hw_now_ns();
    hw__gil_unrecord(gil); /* no hook can be in it */
    T_TRUE(!atomic_load(&gil->recorded));
}

static void test_the_barrier_is_refused(void) {
    world_wait(world_fork(unrecord_without_membarrier));
}

/* ------------------------------------------------------------ wake.pml */
static void *ask_and_exit(void *argument) {
    struct hw__runner *runner = hw__runner_self();
    T_TRUE(runner != NULL);
    (void)hw__wake_may_spin(runner);
    return argument;
}

/* Up to CPython 3.13, a daemon thread that was about to spin leaves at the interpreter's end. */
static void test_a_thread_that_exits_does_not_spin(void) {
    schedule(0);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct hw__runner *self = hw__runner_self();
    bool may = hw__wake_may_spin(self);
    hw__wake_spin_ends(self);
    for (long i = 0; i < cores; i++) {
        pthread_t thread;
        T_EQ(0, pthread_create(&thread, NULL, ask_and_exit, NULL));
        world_join(thread);
    }
    T_EQ(may, hw__wake_may_spin(self)); /* false on one core */
    hw__wake_spin_ends(self);
    T_EQ(0, hw_schedule_stop());
}

/* ------------------------------------------------------------ reborn.pml */
static void test_a_record_becomes_another_gils_last_of_all(void) {
    static struct hw__gil_memory memories[HW__MAX_GILS + 1];
    struct hw__gil *first = hw__gil_add(&memories[0], false);
    T_TRUE(first != NULL);
    hw__gil_remove(first);
    struct hw__gil *second = hw__gil_add(&memories[1], false);
    T_TRUE(second != NULL && second != first);
    T_TRUE(hw__gil_add(&memories[0], false) == first); /* the same record as before */
    hw__gil_remove(first);
    struct hw__gil *last = NULL;
    for (int i = 2; i <= HW__MAX_GILS && last != first; i++) {
        last = hw__gil_add(&memories[i], false);
    }
    T_TRUE(last == first);
    T_TRUE(hw__gil_add(&memories[0], false) == NULL);
    for (int i = 1; i < HW__MAX_GILS; i++) {
        hw__gil_remove(&hw__gils[i]);
    }
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_no_rest_beside_a_trace);
    T_RUN(test_who_ends_a_policy_wakes_at_once);
    T_RUN(test_wait_while_the_record_is_emptied);
    T_RUN(test_a_hook_that_has_nothing_to_do_marks_nothing);
    T_RUN(test_the_barrier_is_refused);
    T_RUN(test_a_thread_that_exits_does_not_spin);
    fake_gil_init(&own);
    T_RUN(test_a_watchdog_removes_no_other_policy);
    T_RUN(test_a_fork_revives_no_policy);
    T_RUN(test_nothing_is_adopted_while_somebody_starts_or_stops);
    T_RUN(test_a_preempted_thread_waits_at_an_own_gil);
    fake_gil_destroy(&own);
    T_RUN(test_a_record_becomes_another_gils_last_of_all);
    world_leave();
    return 0;
}
