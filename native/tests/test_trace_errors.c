// SPDX-License-Identifier: MIT
/* What a start that fails leaves behind, which is nothing; and odd ways to use a session. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "gil_world.h"
#include "process.h"
#include "trace_file.h"

static int start(const char *name) { return world_try_start(name, WORLD_MAX_BYTES, false); }

/* There is no session and no hook, and no descriptor more than before. */
static void check_nothing(int fds) {
    T_EQ(0, hw_trace_active());
    T_EQ(-ESRCH, hw_trace_stop());
    T_TRUE(!world_hooked());
    T_EQ(fds, count_fds());
    world_yield();
}

/* One session at a time: a second one is refused, and the first goes on. */
static void test_start_twice(void) {
    int fds = count_fds();
    T_EQ(0, start("first.hwt"));
    T_EQ(fds, count_fds()); /* a session with a file keeps no descriptor */
    T_EQ(-EALREADY, start("second.hwt"));
    T_EQ(-1, access(world_path("second.hwt"), F_OK));
    T_EQ(1, hw_trace_active());
    T_TRUE(world_hooked());
    world_yield();
    T_EQ(0, hw_trace_stop());
    check_nothing(fds);
    struct trace trace = trace_open(world_path("first.hwt"));
    T_EQ(3, trace.event_count);
    trace_close(&trace);
}

/* A file that is there already stays as it is. */
static void test_path_taken(void) {
    int fds = count_fds();
    FILE *file = fopen(world_path("taken.hwt"), "w");
    T_TRUE(file != NULL);
    fputs("mine", file);
    fclose(file);
    T_EQ(-EEXIST, start("taken.hwt"));
    check_nothing(fds);
    struct stat status;
    T_EQ(0, stat(world_path("taken.hwt"), &status));
    T_EQ(4, status.st_size);
    T_EQ(-EEXIST, start("."));
    check_nothing(fds);
}

static void test_no_folder(void) {
    int fds = count_fds();
    T_EQ(-ENOENT, start("none/file.hwt"));
    check_nothing(fds);
}

/* A path that has no room for the longer name of a child's file is refused. */
static void test_long_path(void) {
    int fds = count_fds();
    static char path[HW__PATH_MAX + 1];
    memset(path, 'x', HW__PATH_MAX);
    struct hw_trace_options options = world_options(path);
    T_EQ(-ENAMETOOLONG, hw_trace_start(&options));
    path[HW__PATH_MAX - 20] = '\0';
    T_EQ(-ENAMETOOLONG, hw_trace_start(&options));
    check_nothing(fds);
}

/* After errors, and sessions without end, all works as the first time. */
static void test_again_and_again(void) {
    int fds = count_fds();
    for (int i = 0; i < 5; i++) {
        T_EQ(-ENOENT, start("none/file.hwt"));
        T_EQ(0, start("again.hwt"));
        world_yield();
        T_EQ(0, hw_trace_stop());
        struct trace trace = trace_open(world_path("again.hwt"));
        T_EQ(3, trace.event_count);
        T_EQ(1, trace.header->thread_count);
        trace_close(&trace);
        T_EQ(0, unlink(world_path("again.hwt")));
        T_EQ(0, start(""));
        T_EQ(0, hw_trace_stop());
    }
    check_nothing(fds);
}

/* Without a session, what may be called does nothing. */
static void test_calls_without_a_session(void) {
    int64_t hold_ns = 1, wait_ns = 1;
    hw_trace_name(gettid(), "nobody");
    T_EQ(-ESRCH, hw_gil_times(&hold_ns, &wait_ns));
    T_EQ(0, hold_ns);
    T_EQ(0, wait_ns);
    T_EQ(0, hw_trace_active());
}

/* Texts that are too long for the header are cut, and end there. */
static void test_long_texts(void) {
    static char text[4000];
    memset(text, 'a', sizeof text - 1);
    struct hw_trace_options options = world_options(world_path("texts.hwt"));
    options.command = options.executable = options.program = text;
    options.command_bytes = sizeof text;
    T_EQ(0, hw_trace_start(&options));
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("texts.hwt"));
    T_EQ(HW__COMMAND_BYTES - 1, strnlen(trace.header->command, HW__COMMAND_BYTES));
    T_EQ(HW__PATH_BYTES - 1, strnlen(trace.header->executable, HW__PATH_BYTES));
    T_EQ(HW__PATH_BYTES - 1, strnlen(trace.header->program, HW__PATH_BYTES));
    trace_close(&trace);
}

/* A file that somebody moves in the middle gets its end where it now is, ... */
static void test_file_moved(void) {
    T_EQ(0, start("here.hwt"));
    char from[128];
    strcpy(from, world_path("here.hwt"));
    T_EQ(0, rename(from, world_path("there.hwt")));
    world_yield();
    T_EQ(0, hw_trace_stop());
    T_EQ(-1, access(from, F_OK));
    struct trace trace = trace_open(world_path("there.hwt"));
    T_TRUE(trace.header->end_ns != 0);
    T_EQ(3, trace.event_count);
    trace_close(&trace);
}

/* ... and another one that has been put in its place is not touched. */
static void test_another_file_in_its_place(void) {
    T_EQ(0, start("place.hwt"));
    char from[128];
    strcpy(from, world_path("place.hwt"));
    T_EQ(0, rename(from, world_path("elsewhere.hwt")));
    FILE *file = fopen(from, "w");
    T_TRUE(file != NULL);
    fputs("mine", file);
    fclose(file);
    T_EQ(0, hw_trace_stop());
    struct stat status;
    T_EQ(0, stat(from, &status));
    T_EQ(4, status.st_size);
}

/* A limit on the size of files makes a smaller file; too small a limit is an error. Python has
 * SIGXFSZ ignored. In a child, as a limit cannot be raised again by all. */
static void with_small_limit(void) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {4 << 20, 4 << 20};
    T_EQ(0, setrlimit(RLIMIT_FSIZE, &limit));
    T_EQ(0, start("limit.hwt"));
    for (int i = 0; i < 100; i++) {
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("limit.hwt"));
    T_TRUE(trace.header->chunk_count >= 64);
    T_TRUE(trace.header->chunks_offset + trace.header->chunk_count * HW__CHUNK_BYTES <= 4 << 20);
    T_EQ(201, trace.event_count);
    trace_close(&trace);
    int fds = count_fds();
    limit.rlim_cur = 1 << 20;
    T_EQ(0, setrlimit(RLIMIT_FSIZE, &limit));
    T_EQ(-EFBIG, start("small.hwt"));
    T_EQ(-1, access(world_path("small.hwt"), F_OK));
    check_nothing(fds);
}

static void test_limit_of_file_size(void) { world_wait(world_fork(with_small_limit)); }

/* A process that exits with a session on has an end in its file, though nobody stopped it. */
static void exit_in_session(void) {
    T_EQ(0, start("exit.hwt"));
    world_yield();
    exit(0);
}

static void test_exit(void) {
    world_wait(world_fork(exit_in_session));
    struct trace trace = trace_open(world_path("exit.hwt"));
    T_TRUE(trace.header->end_ns != 0);
    T_EQ(3, trace.event_count);
    trace_close(&trace);
}

/* Another program in the same process ends the session without a word; what was written stays. */
static void exec_in_session(void) {
    T_EQ(0, start("exec.hwt"));
    world_yield();
    execl("/bin/true", "true", (char *)NULL);
}

static void test_exec(void) {
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
    T_RUN(test_path_taken);
    T_RUN(test_no_folder);
    T_RUN(test_long_path);
    T_RUN(test_again_and_again);
    T_RUN(test_long_texts);
    T_RUN(test_file_moved);
    T_RUN(test_another_file_in_its_place);
    world_leave();
    return 0;
}
