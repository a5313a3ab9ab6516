// SPDX-License-Identifier: MIT
/* Starts of a session and of a policy: two at a time, and from an interpreter that has a GIL of its
 * own. */
#include "engine/sched.h"
#include "gil_world.h"
#include "headway/schedule.h"
#include "trace_file.h"

static char problem[200];

static int start_session(void) { return world_try_start("start.hwt", WORLD_MAX_BYTES, false); }

static int start_policy(void) {
    return hw_schedule_start(hw_policy_at(0), "", problem, sizeof problem);
}

/* A start that another thread makes while the first one's probe has released the GIL. */
static struct {
    int (*start)(void);
    int error;
} second;

static void *start_second(void *unused) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    PyEval_RestoreThread(me);
    second.error = second.start();
    PyEval_SaveThread();
    fake_state_free(me);
    return unused;
}

static void start_beside(void) {
    pthread_t thread;
    fake_before_restore(NULL);
    T_EQ(0, pthread_create(&thread, NULL, start_second, NULL));
    T_EQ(0, pthread_join(thread, NULL));
}

/* Makes two starts, the second one in the middle of the first. Only the first one succeeds. */
static void start_both(int (*start)(void)) {
    if (atomic_load(&hw__gils[0].memory) != NULL) {
        hw__gil_remove(&hw__gils[0]); /* so that it is probed for */
    }
    second.start = start;
    second.error = 0;
    fake_before_restore(start_beside);
    T_EQ(0, start());
    T_EQ(-EALREADY, second.error);
    T_TRUE(world_hooked());
}

/* A session does not begin over another one. */
static void test_two_sessions(void) {
    start_both(start_session);
    uint64_t id = hw__session.id;
    T_EQ(-EALREADY, start_session());
    T_EQ(id, hw__session.id);
    world_yield();
    T_EQ(0, hw_trace_stop());
    T_TRUE(!world_hooked());
    struct trace trace = trace_open(world_path("start.hwt"));
    T_TRUE(trace.complete);
    trace_check_slots(&trace);
    trace_close(&trace);
}

/* A policy does not begin over another one. */
static void test_two_policies(void) {
    start_both(start_policy);
    T_TRUE(atomic_load(&hw__gils[0].scheduled));
    world_yield();
    T_EQ(0, hw_schedule_stop());
    T_TRUE(!world_hooked());
}

static int stop_policy(void) { return hw_schedule_stop(); }

/* A stop takes no hooks out that a start has just put in. */
static void test_a_stop_beside_a_start(void) {
    hw__gil_remove(&hw__gils[0]);
    second.start = stop_policy;
    second.error = 0;
    fake_before_restore(start_beside);
    T_EQ(0, start_policy());
    T_EQ(-ESRCH, second.error);
    T_TRUE(world_hooked());
    T_EQ(0, hw_schedule_stop());
}

/* A child that is forked in the middle of a start can make one of its own. */
static void start_in_child(void) {
    T_EQ(0, start_policy());
    T_EQ(0, hw_schedule_stop());
    T_EQ(0, world_try_start("", 0, false));
    T_EQ(0, hw_trace_stop());
}

static int fork_child(void) {
    world_wait(world_fork(start_in_child));
    return 1;
}

static void test_a_fork_beside_a_start(void) {
    int (*const starts[])(void) = {start_session, start_policy};
    for (size_t i = 0; i < 2; i++) {
        hw__gil_remove(&hw__gils[0]);
        second.start = fork_child;
        second.error = 0;
        fake_before_restore(start_beside);
        T_EQ(0, starts[i]());
        T_EQ(1, second.error);
        T_EQ(0, i == 0 ? hw_trace_stop() : hw_schedule_stop());
    }
}

/* A thread of an interpreter with a GIL of its own does not hold the main GIL, and is not recorded
 * as its holder. */
static void test_from_another_interpreter(void) {
    static struct fake_gil own;
    fake_gil_init(&own);
    void *me = PyEval_SaveThread();
    struct fake_state *other = fake_state_new(&own);
    PyEval_RestoreThread(other);
    T_EQ(0, start_session());
    T_TRUE(hw__gils[0].holder == NULL);
    T_EQ(0, start_policy());
    T_TRUE(PyEval_SaveThread() == other);
    PyEval_RestoreThread(me);
    T_TRUE(hw__gils[0].holder != NULL);
    T_EQ(0, hw_schedule_stop());
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("start.hwt"));
    for (size_t i = 0; i < trace.event_count; i++) {
        T_EQ(0, trace.events[i].event.flags & HW__ASSUMED);
    }
    T_EQ(1, trace.kinds[HW__ACQUIRE]);
    trace_close(&trace);
    fake_state_free(other);
    fake_gil_destroy(&own);
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_two_sessions);
    T_RUN(test_two_policies);
    T_RUN(test_a_stop_beside_a_start);
    T_RUN(test_a_fork_beside_a_start);
    T_RUN(test_from_another_interpreter);
    world_leave();
    return 0;
}
