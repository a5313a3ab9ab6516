// SPDX-License-Identifier: MIT
/* A start that fails leaves nothing behind; and unusual ways to use a session. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "gil_world.h"
#include "process.h"
#include "trace_file.h"

static int start(const char *name) { return world_try_start(name, WORLD_MAX_BYTES, false); }

/* Checks that there is no session, no hook, and no additional descriptor. */
static void check_nothing(int fds) {
    T_EQ(0, hw_trace_active());
    T_EQ(-ESRCH, hw_trace_stop());
    T_TRUE(!world_hooked());
    T_EQ(fds, count_fds());
    world_yield();
}

/* One session at a time: a second one is refused, and the first goes on. */
static void test_start_twice(void) {
    collect_forget();
    int before = count_fds();
    const char *door = collect_listen(world_path("first.hwt"));
    struct hw_trace_options options = world_options(door);
    int fds = count_fds();
    T_EQ(0, hw_trace_start(&options));
    T_EQ(fds, count_fds()); /* a session that is collected keeps no descriptor */
    T_EQ(-EALREADY, start("second.hwt"));
    T_EQ(1, hw_trace_active());
    T_TRUE(world_hooked());
    world_yield();
    T_EQ(0, hw_trace_stop());
    check_nothing(fds);
    struct trace trace = trace_open(world_path("first.hwt"));
    T_EQ(3, trace.event_count);
    T_TRUE(trace.header->end_ns != 0);
    trace_close(&trace);
    collect_forget();
    T_EQ(before, count_fds());
}

/* Without a listening collector there is no session, and the program goes on without one. */
static void test_no_collector(void) {
    int fds = count_fds();
    struct hw_trace_options options = world_options(world_path("nobody"));
    T_EQ(-ECONNREFUSED, hw_trace_start(&options));
    check_nothing(fds);
    options.door = collect_listen(world_path("gone.hwt"));
    collect_forget();
    T_EQ(-ECONNREFUSED, hw_trace_start(&options));
    check_nothing(fds);
}

/* The process does not wait for a collector whose queue is full. */
static void test_collector_does_not_answer(void) {
    struct hw_trace_options options = world_options(collect_listen(world_path("busy.hwt")));
    T_EQ(0, listen(collect_listener, 0));
    int error = 0;
    for (int i = 0; i < 10 && error == 0; i++) {
        error = hw_trace_start(&options);
        T_TRUE(error == 0 || error == -EAGAIN);
        if (error == 0) {
            T_EQ(0, hw_trace_stop());
        }
    }
    T_EQ(-EAGAIN, error);
    check_nothing(count_fds());
    collect_forget();
}

/* A socket's path has a maximal length. */
static void test_long_door(void) {
    int fds = count_fds();
    char path[HW__DOOR_BYTES + 1];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    struct hw_trace_options options = world_options(path);
    T_EQ(-ENAMETOOLONG, hw_trace_start(&options));
    check_nothing(fds);
}

/* After errors, and after sessions without an end, everything works as it did the first time. */
static void test_again_and_again(void) {
    int fds = count_fds();
    for (int i = 0; i < 5; i++) {
        struct hw_trace_options options = world_options(world_path("nobody"));
        T_EQ(-ECONNREFUSED, hw_trace_start(&options));
        T_EQ(0, start("again.hwt"));
        world_yield();
        T_EQ(0, hw_trace_stop());
        struct trace trace = trace_open(world_path("again.hwt"));
        T_EQ(3, trace.event_count);
        T_EQ(1, trace.header->thread_count);
        trace_close(&trace);
        collect_forget();
        T_EQ(0, start(""));
        T_EQ(0, hw_trace_stop());
    }
    check_nothing(fds);
}

/* Without a session, the functions that may be called do nothing. */
static void test_calls_without_a_session(void) {
    int64_t hold_ns = 1, wait_ns = 1;
    hw_trace_name(gettid(), "nobody");
    T_EQ(-ESRCH, hw_gil_times(&hold_ns, &wait_ns));
    T_EQ(0, hold_ns);
    T_EQ(0, wait_ns);
    T_EQ(0, hw_trace_active());
}

/* Texts that are too long for the header are cut, and are terminated. */
static void test_long_texts(void) {
    static char text[4000];
    memset(text, 'a', sizeof text - 1);
    struct hw_trace_options options = world_options("");
    options.command = options.executable = options.program = text;
    options.command_bytes = sizeof text;
    T_EQ(0, world_start_with("texts.hwt", &options));
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("texts.hwt"));
    T_EQ(HW__COMMAND_BYTES - 1, strnlen(trace.header->command, HW__COMMAND_BYTES));
    T_EQ(HW__PATH_BYTES - 1, strnlen(trace.header->executable, HW__PATH_BYTES));
    T_EQ(HW__PATH_BYTES - 1, strnlen(trace.header->program, HW__PATH_BYTES));
    trace_close(&trace);
}

/* A limit on the size of files applies to memory files, too. There is less memory then; a limit
 * that is too small is an error, and never the signal. The test runs in a child, because not
 * everyone can raise a limit again. */
static void with_small_limit(void) {
    const uint64_t bytes = TRACE_SLOTS_BYTES + (2 << 20);
    struct rlimit limit = {bytes, bytes};
    T_EQ(0, setrlimit(RLIMIT_FSIZE, &limit));
    T_EQ(0, start("limit.hwt"));
    T_TRUE(hw__session.bytes <= bytes);
    for (int i = 0; i < 100; i++) {
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("limit.hwt"));
    T_EQ(201, trace.event_count);
    trace_close(&trace);
    collect_forget();
    int fds = count_fds();
    limit.rlim_cur = 1 << 20;
    T_EQ(0, setrlimit(RLIMIT_FSIZE, &limit));
    T_EQ(-EFBIG, start("small.hwt"));
    check_nothing(fds);
}

static void test_limit_of_file_size(void) { world_wait(world_fork(with_small_limit)); }

/* A process that exits during a session has an end in its file, although nothing stopped the
 * session. */
static void exit_in_session(void) {
    struct hw_trace_options options = world_options(collect_door);
    T_EQ(0, hw_trace_start(&options));
    world_yield();
    exit(0);
}

static void test_exit(void) {
    collect_listen(world_path("exit.hwt"));
    world_wait(world_fork(exit_in_session));
    struct trace trace = trace_open(world_path("exit.hwt"));
    T_TRUE(trace.header->end_ns != 0);
    T_EQ(3, trace.event_count);
    trace_close(&trace);
}

/* exec() of another program ends the session without notice; what was written stays. */
static void exec_in_session(void) {
    struct hw_trace_options options = world_options(collect_door);
    T_EQ(0, hw_trace_start(&options));
    world_yield();
    execl("/bin/true", "true", (char *)NULL);
}

static void test_exec(void) {
    collect_listen(world_path("exec.hwt"));
    world_wait(world_fork(exec_in_session));
    struct trace trace = trace_open(world_path("exec.hwt"));
    T_EQ(0, trace.header->end_ns);
    T_EQ(3, trace.event_count);
    trace_close(&trace);
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_limit_of_file_size);
    T_RUN(test_exit);
    T_RUN(test_exec);
    T_RUN(test_calls_without_a_session);
    T_RUN(test_start_twice);
    T_RUN(test_no_collector);
    T_RUN(test_collector_does_not_answer);
    T_RUN(test_long_door);
    T_RUN(test_again_and_again);
    T_RUN(test_long_texts);
    world_leave();
    return 0;
}
