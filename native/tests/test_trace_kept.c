// SPDX-License-Identifier: MIT
/* The memory of a session without a collector, kept beyond the session's end, whatever the program
 * does with its descriptors; and what a caller is told about that memory. */
#include "gil_world.h"
#include "trace_file.h"

static struct hw_trace_kept kept;

/* Copies the kept memory into a file. */
static struct trace copied(const char *name) {
    int file = open(world_path(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    T_TRUE(file >= 0);
    struct hw_collection *copy = hw_collect_open_kept(&kept, file);
    T_TRUE(copy != NULL);
    struct hw_collect_state state;
    hw_collect_pass(copy, 1, &state);
    T_EQ(0, state.error);
    hw_collect_close(copy);
    close(file);
    return trace_open(world_path(name));
}

static void start(int64_t bytes) {
    struct hw_trace_options options = world_options("");
    options.bytes = bytes;
    T_EQ(0, hw_trace_start(&options));
}

static void yield(long times) {
    for (long i = 0; i < times; i++) {
        world_yield();
    }
}

static void test_kept_beyond_the_end(void) {
    start(WORLD_MAX_BYTES);
    T_EQ(0, hw_trace_keep(&kept));
    T_EQ(hw_trace_in_memory(), kept.session);
    world_yield();
    T_EQ(0, hw_trace_stop());
    T_EQ(0, hw_trace_in_memory());
    T_EQ(1, world_mapped_memories());
    start(WORLD_MAX_BYTES);
    T_TRUE(hw_trace_in_memory() != kept.session);
    T_EQ(0, hw_trace_stop());
    struct trace trace = copied("kept.hwt");
    T_EQ(3, trace.event_count);
    T_TRUE(trace.complete && trace.header->end_ns != 0);
    trace_check_slots(&trace);
    trace_close(&trace);
    hw_trace_let_go(&kept);
    T_EQ(0, world_mapped_memories());
}

/* Chunks that were mapped later are in the memory, too. */
static void test_of_a_large_memory_all_is_kept(void) {
    enum { CHUNKS = 600 };
    start(CHUNKS * HW__CHUNK_BYTES);
    T_EQ(0, hw_trace_keep(&kept));
    yield(500 * (long)TRACE_CHUNK_EVENTS);
    T_EQ(0, hw_trace_stop());
    struct trace trace = copied("large.hwt");
    T_TRUE(trace.complete && trace.header->chunk_count > 256); /* more than at first */
    T_EQ(1 + 500 * TRACE_CHUNK_EVENTS, trace.kinds[HW__ACQUIRE]);
    trace_close(&trace);
    hw_trace_let_go(&kept);
}

/* The program closes the descriptor, and opens a file of its own, which gets the same number. */
static void test_the_program_closes_all_descriptors(void) {
    start(WORLD_MAX_BYTES);
    T_EQ(0, hw_trace_keep(&kept));
    T_EQ(0, close(hw__session.fd));
    int file_of_the_program = open("/dev/null", O_RDONLY | O_CLOEXEC);
    T_EQ(hw__session.fd, file_of_the_program);
    world_yield();
    struct trace trace = copied("so_far.hwt");
    T_EQ(3, trace.event_count);
    trace_close(&trace);
    T_EQ(0, hw_trace_stop());
    T_EQ(0, close(file_of_the_program));
    trace = copied("closed.hwt");
    T_EQ(3, trace.event_count);
    trace_close(&trace);
    hw_trace_let_go(&kept);
}

static void test_without_such_a_memory(void) {
    T_EQ(-ESRCH, hw_trace_keep(&kept));
    T_EQ(0, hw_trace_in_memory());
    world_collect("collected.hwt");
    T_EQ(-ESRCH, hw_trace_keep(&kept));
    T_EQ(0, hw_trace_in_memory());
    T_EQ(0, hw_trace_stop());
    collect_forget();
}

static void let_go(void) {
    T_EQ(0, hw_trace_in_memory()); /* the session is the parent's */
    T_EQ(-ESRCH, hw_trace_keep(&kept));
    hw_trace_let_go(&kept);
}

static void test_a_forked_child_lets_go_for_itself(void) {
    start(WORLD_MAX_BYTES);
    T_EQ(0, hw_trace_keep(&kept));
    world_wait(world_raw_fork(let_go));
    T_EQ(0, hw_trace_stop());
    struct trace trace = copied("parents.hwt");
    T_EQ(1, trace.event_count);
    trace_close(&trace);
    hw_trace_let_go(&kept);
}

/* Where the program has closed its standard streams, their numbers stay free. */
static void test_no_standard_stream_is_the_memory(void) {
    static const int streams[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
    int saved[3], memory;
    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(streams[i], F_DUPFD_CLOEXEC, 10);
        close(streams[i]);
    }
    struct hw_trace_options options = world_options("");
    int error = hw_trace_start(&options);
    memory = hw__session.fd;
    bool free_again = fcntl(STDIN_FILENO, F_GETFD) == -1 && fcntl(STDOUT_FILENO, F_GETFD) == -1 &&
                      fcntl(STDERR_FILENO, F_GETFD) == -1;
    for (int i = 0; i < 3; i++) {
        if (saved[i] >= 0) {
            dup2(saved[i], streams[i]);
            close(saved[i]);
        }
    }
    T_EQ(0, error);
    T_TRUE(memory > STDERR_FILENO);
    T_TRUE(free_again);
    T_EQ(FD_CLOEXEC, fcntl(memory, F_GETFD));
    T_EQ(0, hw_trace_stop());
    T_EQ(-1, fcntl(memory, F_GETFD));
}

static void *take_the_gil(void *argument) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    PyEval_RestoreThread(me);
    PyEval_SaveThread();
    fake_state_free(me);
    return argument;
}

static void test_other_threads_are_told(void) {
    uint64_t threads, holds, threads_later, holds_later;
    T_EQ(-ESRCH, hw_trace_others(&threads, &holds));
    start(0);
    T_EQ(0, hw_trace_others(&threads, &holds));
    yield(10);
    T_EQ(0, hw_trace_others(&threads_later, &holds_later));
    T_EQ(threads, threads_later);
    T_EQ(0, holds);
    T_EQ(0, holds_later);
    pthread_t thread;
    T_EQ(0, pthread_create(&thread, NULL, take_the_gil, NULL));
    world_join(thread);
    T_EQ(0, hw_trace_others(&threads_later, &holds_later));
    T_EQ(threads + 1, threads_later);
    T_EQ(1, holds_later);
    T_EQ(0, hw_trace_stop());
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_kept_beyond_the_end);
    T_RUN(test_of_a_large_memory_all_is_kept);
    T_RUN(test_the_program_closes_all_descriptors);
    T_RUN(test_without_such_a_memory);
    T_RUN(test_a_forked_child_lets_go_for_itself);
    T_RUN(test_no_standard_stream_is_the_memory);
    T_RUN(test_other_threads_are_told);
    world_leave();
    return 0;
}
