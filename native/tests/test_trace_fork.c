// SPDX-License-Identifier: MIT
/* A process that forks: each child writes its own file, and none touches another's. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "gil_world.h"
#include "trace_file.h"

#define YIELDS 5

static const char *child_name(const char *stem, pid_t pid) {
    static _Thread_local char name[64];
    snprintf(name, sizeof name, "%s.%d.hwt", stem, (int)pid);
    return name;
}

static bool exists(const char *name) { return access(world_path(name), F_OK) == 0; }

static void yield_and_stop(void) {
    T_EQ(1, world_mapped_memories()); /* its own; the parent's is not mapped in the child */
    for (int i = 0; i < YIELDS; i++) {
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    T_TRUE(!world_hooked());
    T_EQ(-ESRCH, hw_trace_stop());
}

/* Checks the file of a child that yielded YIELDS times, and of its one thread. */
static void check_child(const char *name, pid_t pid, pid_t parent, bool ended) {
    struct trace trace = trace_open(world_path(name));
    T_EQ(pid, trace.header->pid);
    T_EQ(parent, trace.header->parent_pid);
    T_EQ(0x1234567890ABCDEF, trace.header->family);
    T_EQ(0x030E00F0, trace.header->python_version);
    T_EQ(FAKE_INTERVAL_US, trace.header->interval_us);
    T_EQ(0, memcmp("python\0app.py", trace.header->command, sizeof "python\0app.py"));
    T_EQ(0, strcmp("app.py", trace.header->program));
    T_EQ(ended, trace.header->end_ns != 0);
    T_TRUE(trace.complete);
    T_EQ(1, trace.header->thread_count);
    T_EQ(pid, trace.slots[0].tid);
    T_EQ(1 + YIELDS, trace.kinds[HW__ACQUIRE]);
    T_EQ(YIELDS, trace.kinds[HW__RELEASE]);
    T_EQ(1, trace_count_meta(&trace, 0, HW__META_GIL, NULL));
    trace_check_slots(&trace);
    trace_close(&trace);
}

static void remove_hooks(void) { T_EQ(0, hw__hooks_remove(HW__FOR_TRACE)); }

/* A thread of the parent had just begun to remove a hook, or to install it again, when the child
 * was forked. The child can still do so itself. */
static void test_fork_while_hooks_change(void) {
    world_start("change.hwt");
    T_TRUE(hw__hooks_try_change());
    pid_t pid = world_fork(remove_hooks);
    world_wait(pid);
    hw__hooks_end_change();
    T_EQ(0, hw_trace_stop());
}

/* A child's file begins with its acquire of the GIL; the parent's file has only the parent's
 * events. */
static void test_child(void) {
    world_collect("app.hwt");
    world_yield();
    pid_t pid = world_fork(yield_and_stop);
    world_yield();
    world_wait(pid);
    world_yield();
    T_EQ(0, hw_trace_stop());
    check_child(child_name("app", pid), pid, getpid(), true);
    struct trace trace = trace_open(world_path("app.hwt"));
    T_EQ(getpid(), trace.header->pid);
    T_TRUE(trace.complete);
    T_EQ(1, trace.header->thread_count);
    T_EQ(4, trace.kinds[HW__ACQUIRE]);
    T_EQ(3, trace.kinds[HW__RELEASE]);
    trace_check_slots(&trace);
    trace_close(&trace);
    T_EQ(0, unlink(world_path("app.hwt")));
}

static uint32_t parents_chunks;

static void yield_and_count(void) {
    yield_and_stop();
    T_EQ(parents_chunks, hw__session.chunk_count);
}

/* Another process that has the memory changes the number of chunks there. Parent and child go on
 * with the number that the parent chose. */
static void test_the_number_of_chunks_changes(void) {
    world_collect("chunks.hwt");
    collect_answer();
    parents_chunks = hw__session.chunk_count;
    for (int i = 0; i < 2; i++) {
        hw__session.header->chunk_count = i == 0 ? 0 : UINT32_MAX;
        world_yield();
        world_wait(world_fork(yield_and_count));
    }
    hw__session.header->chunk_count = parents_chunks;
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("chunks.hwt"));
    T_TRUE(trace.complete);
    T_EQ(3, trace.kinds[HW__ACQUIRE]);
    trace_close(&trace);
}

static void yield_and_quit(void) {
    for (int i = 0; i < YIELDS; i++) {
        world_yield();
    }
}

static void yield_and_exit(void) {
    yield_and_quit();
    exit(0);
}

/* The file of a child that ends by _exit() has no end; the file of one that ends by exit() has. */
static void test_ways_to_end(void) {
    world_collect("app.hwt");
    pid_t quits = world_fork(yield_and_quit);
    world_wait(quits);
    pid_t exits = world_fork(yield_and_exit);
    world_wait(exits);
    check_child(child_name("app", quits), quits, getpid(), false);
    check_child(child_name("app", exits), exits, getpid(), true);
    struct trace trace = trace_open(world_path("app.hwt"));
    T_EQ(0, trace.header->end_ns); /* the parent's session goes on */
    trace_close(&trace);
    T_EQ(0, hw_trace_stop());
    T_EQ(0, unlink(world_path("app.hwt")));
}

static void only_exec(void) { execl("/bin/true", "true", (char *)NULL); }

static void only_stop(void) {
    T_EQ(0, hw_trace_stop());
    T_EQ(0, hw_trace_active());
    fake_after_fork_child();
    world_yield();
}

static void only_exit(void) { exit(0); }

/* A child that only runs another program, or exits, or stops before its first event, leaves no
 * file, and does not end its parent's. */
static void test_child_without_events(void) {
    void (*children[])(void) = {only_exec, only_stop, only_exit};
    world_collect("app.hwt");
    for (int i = 0; i < 3; i++) {
        pid_t pid = world_raw_fork(children[i]);
        world_wait(pid);
        T_TRUE(!exists(child_name("app", pid)));
        struct trace trace = trace_open(world_path("app.hwt"));
        T_EQ(0, trace.header->end_ns);
        T_EQ(1 + 2 * i, trace.event_count);
        trace_close(&trace);
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    T_EQ(0, unlink(world_path("app.hwt")));
}

static int to_parent[2]; /* a pipe for a grandchild's pid */

static void grandchild(void) {
    pid_t pid = getpid();
    T_EQ(sizeof pid, write(to_parent[1], &pid, sizeof pid));
    yield_and_stop();
}

static void fork_again(void) {
    world_yield();
    world_wait(world_fork(grandchild));
    for (int i = 1; i < YIELDS; i++) {
        world_yield();
    }
}

/* A grandchild's file is named after the first process's, as its parent's is. */
static void test_child_of_a_child(void) {
    T_EQ(0, pipe(to_parent));
    world_collect("app.hwt");
    pid_t pid = world_fork(fork_again);
    world_wait(pid);
    pid_t grand;
    T_EQ(sizeof grand, read(to_parent[0], &grand, sizeof grand));
    T_EQ(0, hw_trace_stop());
    check_child(child_name("app", pid), pid, getpid(), false);
    check_child(child_name("app", grand), grand, pid, true);
    T_EQ(0, unlink(world_path("app.hwt")));
}

static void start_again(void) {
    T_EQ(0, hw_trace_stop());
    world_collect("other.hwt");
    pid_t pid = world_fork(yield_and_quit);
    world_wait(pid);
    T_EQ(0, hw_trace_stop());
    collect();
    T_TRUE(!exists(child_name("app", pid)));
    T_TRUE(exists(child_name("other", pid)));
}

/* A child ends its session and starts another one: the files of its own children are named after
 * that session. */
static void test_child_with_a_session_of_its_own(void) {
    world_collect("app.hwt");
    world_wait(world_fork(start_again));
    T_EQ(0, hw_trace_stop());
    unlink(world_path("other.hwt"));
}

static void lose_collector(void) {
    int64_t hold_ns, wait_ns;
    T_EQ(0, unlink(collect_door));
    fake_after_fork_child();
    T_EQ(0, hw_trace_active());
    T_EQ(-ESRCH, hw_gil_times(&hold_ns, &wait_ns));
    world_yield();
    T_EQ(-ESRCH, hw_trace_stop());
    world_start("new.hwt"); /* a new session is possible then */
    world_yield();
    T_EQ(0, hw_trace_stop());
}

/* A child that cannot reach the collector goes on without a session and is counted; its parent goes
 * on with its own session. */
static void test_no_collector_to_be_had(void) {
    world_collect("lost.hwt");
    world_wait(world_raw_fork(lose_collector));
    world_yield();
    T_EQ(1, hw__session.control->lost_children);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("lost.hwt"));
    T_EQ(3, trace.event_count);
    trace_close(&trace);
}

static void not_recorded(void) {
    T_EQ(0, hw_trace_active());
    world_yield();
    T_EQ(-ESRCH, hw_trace_stop());
}

/* A session without a collector is its process's alone. */
static void test_not_collected(void) {
    world_start("alone.hwt");
    world_wait(world_fork(not_recorded));
    world_yield();
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("alone.hwt"));
    T_EQ(3, trace.event_count);
    trace_close(&trace);
}

static ino_t parents_memory;

static ino_t memory_inode(void) {
    struct stat file;
    T_EQ(0, fstat(hw__session.fd, &file));
    return file.st_ino;
}

static void in_memory(void) {
    T_TRUE(memory_inode() != parents_memory);
    T_EQ(2, hw_trace_active());
    world_yield();
    T_EQ(getpid(), hw__session.header->pid);
    T_EQ(2, hw__session.slots[0].holds);
    T_EQ(getpid(), hw__session.slots[0].tid);
    T_EQ(0, hw_trace_stop());
}

/* If the session is in memory, the child gets its own. */
static void test_in_memory(void) {
    world_start("");
    parents_memory = memory_inode();
    for (int i = 0; i < 3; i++) {
        world_yield();
    }
    world_wait(world_fork(in_memory));
    T_TRUE(memory_inode() == parents_memory);
    T_EQ(4, hw__session.slots[0].holds);
    T_EQ(getpid(), hw__session.slots[0].tid);
    T_EQ(0, hw_trace_stop());
}

/* A child whose threads come and go. */
static void with_threads(void) {
    struct world_worker worker = {.gil = fake_main_gil(), .rounds = 20};
    for (int i = 0; i < 3; i++) {
        world_go(&worker);
        world_join(worker.thread);
    }
    T_EQ(0, hw_trace_stop());
}

static void test_child_with_threads(void) {
    world_collect("app.hwt");
    pid_t pid = world_fork(with_threads);
    world_wait(pid);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path(child_name("app", pid)));
    T_TRUE(trace.complete);
    T_EQ(4, trace.header->thread_count);
    T_EQ(3, trace.kinds[HW__EXIT]);
    T_EQ(1 + 3 * 21, trace.kinds[HW__ACQUIRE]);
    trace_check_slots(&trace);
    trace_close(&trace);
    T_EQ(0, unlink(world_path("app.hwt")));
}

/* The process forks while other threads are recording, at two GILs. The children have none of those
 * threads' events, and the parent misses none. */
static void test_fork_while_threads_record(void) {
    enum { FORKS = 8, WORKERS = 3 };
    static struct fake_gil own;
    struct world_worker workers[WORKERS];
    atomic_bool stop = false;
    pid_t children[FORKS];
    fake_gil_init(&own);
    memset(workers, 0, sizeof workers);
    world_collect("app.hwt");
    /* The collector would give them all of the memory: they record as long as it takes. */
    atomic_store(&hw__session.control->limit, hw__session.chunk_count);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].gil = i == 0 ? &own : fake_main_gil();
        workers[i].stop = &stop;
        world_go(&workers[i]);
    }
    for (int i = 0; i < FORKS; i++) {
        world_await(&workers[i % WORKERS].taken, 3);
        children[i] = world_fork(yield_and_stop);
    }
    for (int i = 0; i < FORKS; i++) {
        world_wait(children[i]);
    }
    atomic_store(&stop, true);
    uint64_t taken = 0;
    for (int i = 0; i < WORKERS; i++) {
        world_join(workers[i].thread);
        taken += (uint64_t)atomic_load(&workers[i].taken);
    }
    T_EQ(0, hw_trace_stop());
    for (int i = 0; i < FORKS; i++) {
        check_child(child_name("app", children[i]), children[i], getpid(), true);
    }
    struct trace trace = trace_open(world_path("app.hwt"));
    T_EQ(1 + WORKERS, trace.header->thread_count);
    T_EQ(taken, trace.kinds[HW__ACQUIRE] - trace.slots[0].holds);
    trace_check_slots(&trace);
    trace_close(&trace);
    fake_gil_destroy(&own);
    T_EQ(0, unlink(world_path("app.hwt")));
}

static atomic_int locked; /* 1: the other thread holds the mutex; 2: it may unlock it */

static void *lock_other_mutex(void *argument) {
    T_EQ(0, pthread_mutex_lock(argument));
    atomic_store(&locked, 1);
    while (atomic_load(&locked) != 2) {
        sched_yield();
    }
    T_EQ(0, pthread_mutex_unlock(argument));
    return NULL;
}

/* The process forks while a thread of another interpreter has its own GIL's mutex locked. The mutex
 * stays locked in the child for ever, and the child's session does not wait for it. */
static void test_fork_while_another_gil_is_locked(void) {
    static struct fake_gil own;
    fake_gil_init(&own);
    struct world_worker worker = {.gil = &own, .rounds = 1};
    world_collect("app.hwt");
    world_go(&worker);
    world_join(worker.thread);
    T_TRUE(world_record(&own) != NULL);
    pthread_t thread;
    T_EQ(0, pthread_create(&thread, NULL, lock_other_mutex, &own.memory.mutex));
    while (atomic_load(&locked) != 1) {
        sched_yield();
    }
    pid_t pid = world_fork(yield_and_stop);
    world_wait(pid);
    atomic_store(&locked, 2);
    world_join(thread);
    T_EQ(0, hw_trace_stop());
    check_child(child_name("app", pid), pid, getpid(), true);
    fake_gil_destroy(&own);
}

/* Another library's handler before a fork: it ends a thread of its own, and waits for it. */
static struct world_worker *ended_before_fork;

static void *name_itself(void *unused) {
    (void)unused;
    hw_trace_name((int32_t)syscall(SYS_gettid), "named before a fork");
    return NULL;
}

static void prepare_of_another_library(void) {
    if (ended_before_fork != NULL) {
        pthread_t thread;
        T_EQ(0, pthread_create(&thread, NULL, name_itself, NULL));
        T_EQ(0, pthread_join(thread, NULL));
        atomic_store(ended_before_fork->stop, true);
        world_join(ended_before_fork->thread);
    }
}

static void do_nothing(void) {}

/* Our handler was registered later, so it runs before that one, and has the registry's lock
 * meanwhile. */
static void test_fork_beside_a_library_that_ends_its_thread(void) {
    atomic_bool stop = false;
    struct world_worker worker = {.gil = fake_main_gil(), .stop = &stop};
    world_collect("beside.hwt");
    world_go(&worker);
    world_await(&worker.dropped, 3);
    ended_before_fork = &worker;
    pid_t pid = world_raw_fork(do_nothing);
    ended_before_fork = NULL;
    world_wait(pid);
    struct world_worker another = {.gil = fake_main_gil(), .rounds = 5};
    world_go(&another);
    world_join(another.thread);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("beside.hwt"));
    T_TRUE(trace.complete);
    T_EQ(3, trace.header->thread_count);
    T_EQ(2, trace.kinds[HW__EXIT]);
    trace_check_slots(&trace);
    trace_close(&trace);
    T_EQ(0, unlink(world_path("beside.hwt")));
}

/* The program has closed all descriptors, and has a file of its own under the number of ours. */
static int file_of_the_program;

static void keep_the_file(void) {
    struct stat file;
    T_EQ(2, hw_trace_active());
    T_TRUE(hw__session.fd != file_of_the_program);
    T_EQ(0, fstat(file_of_the_program, &file));
    T_TRUE(S_ISCHR(file.st_mode));
    T_EQ(0, hw_trace_stop());
    T_EQ(0, fstat(file_of_the_program, &file));
}

static void test_a_descriptor_that_is_the_program_s_by_now(void) {
    world_start("");
    T_EQ(0, close(hw__session.fd));
    file_of_the_program = open("/dev/null", O_RDONLY);
    T_EQ(hw__session.fd, file_of_the_program);
    world_wait(world_fork(keep_the_file));
    T_EQ(0, hw_trace_stop());
    T_EQ(0, close(file_of_the_program));
}

int main(void) {
    t_start();
    /* registered before our handler */
    T_EQ(0, pthread_atfork(prepare_of_another_library, NULL, NULL));
    world_begin();
    world_enter();
    T_RUN(test_child);
    T_RUN(test_the_number_of_chunks_changes);
    T_RUN(test_fork_while_hooks_change);
    T_RUN(test_ways_to_end);
    T_RUN(test_child_without_events);
    T_RUN(test_child_of_a_child);
    T_RUN(test_child_with_a_session_of_its_own);
    T_RUN(test_no_collector_to_be_had);
    T_RUN(test_not_collected);
    T_RUN(test_in_memory);
    T_RUN(test_child_with_threads);
    T_RUN(test_fork_while_threads_record);
    T_RUN(test_fork_while_another_gil_is_locked);
    T_RUN(test_fork_beside_a_library_that_ends_its_thread);
    T_RUN(test_a_descriptor_that_is_the_program_s_by_now);
    world_leave();
    return 0;
}
