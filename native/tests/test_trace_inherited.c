// SPDX-License-Identifier: MIT
/* A forked child that asks about its session before its first event, as it can without a GIL. The
 * answers are about the child, and never about its parent. */
#include "gil_world.h"
#include "trace_file.h"

static char parents_path[HW__FILE_BYTES];

static void ask_first(void) {
    int64_t hold_ns, wait_ns;
    hw_trace_name((int32_t)gettid(), "child"); /* before the child has a memory of its own */
    T_TRUE(strcmp(parents_path, hw_trace_path()) != 0);
    T_EQ(getpid(), hw__session.header->pid);
    T_EQ(1, hw_trace_active());
    T_EQ(0, hw_trace_collected_ns());
    T_EQ(0, hw_gil_times(&hold_ns, &wait_ns));
    T_EQ(0, hold_ns);
    T_EQ(-EALREADY, world_try_start("second.hwt", WORLD_MAX_BYTES, false));
    fake_after_fork_child();
    world_yield();
    T_EQ(0, hw_trace_stop());
}

static void test_a_collected_session(void) {
    world_collect("app.hwt");
    world_yield();
    collect();
    strcpy(parents_path, hw_trace_path());
    T_TRUE(parents_path[0] != '\0');
    pid_t pid = world_raw_fork(ask_first);
    world_wait(pid);
    T_EQ(0, hw_trace_stop());
    char name[64];
    snprintf(name, sizeof name, "app.%d.hwt", (int)pid);
    struct trace trace = trace_open(world_path(name));
    T_EQ(pid, trace.header->pid);
    T_EQ(3, trace.event_count);
    T_EQ(0, strcmp("child", trace.slots[0].name));
    trace_close(&trace);
    trace = trace_open(world_path("app.hwt"));
    T_EQ(getpid(), trace.header->pid);
    T_EQ(3, trace.event_count);
    trace_close(&trace);
}

static void begin_own(void) {
    int64_t hold_ns, wait_ns;
    T_EQ(-ESRCH, hw_gil_longest(&hold_ns, &wait_ns));
    T_EQ(0, hw_trace_in_memory());
    T_EQ('\0', hw_trace_path()[0]);
    T_EQ(0, hw_trace_active());
    world_start("own.hwt");
    T_EQ(getpid(), hw__session.header->pid);
    T_EQ(0, hw_trace_stop());
}

/* A session that is its process's alone: the child has none, and can begin one. */
static void test_a_session_without_a_collector(void) {
    world_start("alone.hwt");
    world_wait(world_raw_fork(begin_own));
    T_EQ(1, hw_trace_active());
    T_EQ(0, hw_trace_stop());
}

static void is_not_recorded(void) {
    T_EQ(0, hw_trace_active()); /* an answer, and no endless wait for a thread that is not here */
    T_EQ(HW__LOST, hw__session.inherited);
    world_start("own.hwt");
    T_EQ(1, hw_trace_active());
    T_EQ(0, hw_trace_stop());
}

static void end_it(void) {
    T_EQ(0, hw_trace_stop());
    T_EQ(-ESRCH, hw_trace_stop());
}

/* The process is in the state in which it is for a moment when a thread cannot make the memory of a
 * forked child; another thread forks at this moment. */
static void fork_meanwhile(void) {
    hw__session.header = NULL;
    hw__session.control = NULL;
    hw__session.inherited = HW__ADOPTING;
    world_wait(world_raw_fork(is_not_recorded));
    world_wait(world_raw_fork(end_it));
}

static void test_a_fork_while_the_memory_cannot_be_made(void) {
    world_collect("failing.hwt");
    world_wait(world_raw_fork(fork_meanwhile));
    T_EQ(0, hw_trace_stop());
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_a_collected_session);
    T_RUN(test_a_session_without_a_collector);
    T_RUN(test_a_fork_while_the_memory_cannot_be_made);
    world_leave();
    return 0;
}
