// SPDX-License-Identifier: MIT
/* Helpers that the tests of the recorder share: the stand-in's main thread, a session, a folder for
 * its files, and threads that acquire and release a GIL and count what they do. */
#ifndef HEADWAY_TESTS_GIL_WORLD_H
#define HEADWAY_TESTS_GIL_WORLD_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "elf/got.h"
#include "fake_interpreter.h"
#include "gil/gil.h"
#include "gil/hooks.h"
#include "headway/clock.h"
#include "headway/trace.h"
#include "t.h"
#include "trace/session.h"
#include "trace_collect.h"

#if defined(__SANITIZE_THREAD__)
#define WORLD_TSAN 1
#else
#define WORLD_TSAN 0
#endif

/* These sanitizers map memory at any time, and end the process if they cannot. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WORLD_CAN_LIMIT 0
#else
#define WORLD_CAN_LIMIT 1
#endif

#define WORLD_MAX_BYTES (64 << 20)

static char world_folder[64]; /* removed with its contents when the test is over */
static pid_t world_owner;

static inline const char *world_path(const char *name) {
    static _Thread_local char path[128];
    snprintf(path, sizeof path, "%s/%s", world_folder, name);
    return path;
}

static inline void world_remove_folder(void) {
    if (getpid() == world_owner) {
        char command[128];
        snprintf(command, sizeof command, "rm -rf %s", world_folder);
        (void)!system(command);
    }
}

/* Makes the folder, and chooses the functions that the hooks call.
 *
 * The product calls the C library itself, past any sanitizer. The thread sanitizer learns only from
 * its own interceptor that a wait unlocks the mutex and locks it again. In that sanitizer's build
 * the hooks call the interceptor: otherwise it would see one mutex locked twice and no order
 * between threads at all.
 *
 * In both builds the table is filled in beforehand. A library that fills in the table keeps itself
 * loaded, which an executable cannot do (in test_trace_library.c the library does it). */
static inline void world_begin(void) {
#if WORLD_TSAN
#define WORLD_REAL(name, symbol, required, pauses, parameters) hw__real.name = symbol;
#else
#define WORLD_REAL(name, symbol, required, pauses, parameters)                                     \
    hw__real.name = (int(*) parameters)(uintptr_t)hw__next_function(#symbol);
#endif
    HW__GIL_FUNCTIONS(WORLD_REAL)
#undef WORLD_REAL
    world_owner = getpid();
    const char *parent = getenv("TMPDIR");
    snprintf(world_folder, sizeof world_folder, "%s/headway-XXXXXX",
             parent == NULL || strlen(parent) > 40 ? "/tmp" : parent);
    T_TRUE(mkdtemp(world_folder) != NULL);
    T_EQ(0, atexit(world_remove_folder));
}

/* Initialises the interpreter: the calling thread becomes the main one and holds the GIL. */
static inline void world_enter(void) {
    fake_gil_init(fake_main_gil());
    PyEval_RestoreThread(fake_state_new(fake_main_gil()));
}

/* Ends the interpreter. The caller must hold the GIL. */
static inline void world_leave(void) {
    fake_state_free(PyEval_SaveThread());
    fake_gil_destroy(fake_main_gil());
}

/* Returns the options of a session. `door` is the collector's address, "" for none. */
static inline struct hw_trace_options world_options(const char *door) {
    return (struct hw_trace_options){
        .door = door,
        .bytes = WORLD_MAX_BYTES,
        .family = 0x1234567890ABCDEF,
        .python_version = 0x030E00F0,
        .gil_enabled = 1,
        .command = "python\0app.py",
        .command_bytes = sizeof "python\0app.py",
        .executable = "/usr/bin/python",
        .program = "app.py",
    };
}

/* Starts a session with these options, in this process alone (world_collect() also follows
 * children). trace_open(world_path(name)) then returns what has been recorded so far. Returns 0, or
 * an error of hw_trace_start(). */
static inline int world_start_with(const char *name, const struct hw_trace_options *options) {
    int error = hw_trace_start(options);
    if (error == 0) {
        collect_memory(world_path(name), hw__session.fd);
    }
    return error;
}

/* Starts a session, which only counts if the name is "". Returns 0, or an error of
 * hw_trace_start(). */
static inline int world_try_start(const char *name, int64_t bytes, bool stacks) {
    struct hw_trace_options options = world_options("");
    options.bytes = name[0] == '\0' ? 0 : bytes;
    options.has_layout = stacks;
    options.layout = fake_layout(false);
    return name[0] == '\0' ? hw_trace_start(&options) : world_start_with(name, &options);
}

/* Starts a session that is collected, and followed into children, whose files are named after
 * `name`. Returns 0, or an error of hw_trace_start(). */
static inline int world_try_collect(const char *name, int64_t bytes) {
    struct hw_trace_options options = world_options(collect_listen(world_path(name)));
    options.bytes = bytes;
    return hw_trace_start(&options);
}

static inline void world_collect(const char *name) {
    T_EQ(0, world_try_collect(name, WORLD_MAX_BYTES));
}

static inline void world_start(const char *name) {
    T_EQ(0, world_try_start(name, WORLD_MAX_BYTES, false));
}

/* Releases the GIL and acquires it again, as a blocking call does. */
static inline void world_yield(void) { PyEval_RestoreThread(PyEval_SaveThread()); }

/* Returns how many mappings of recorders' memories there are. */
static inline int world_mapped_memories(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    T_TRUE(maps != NULL);
    int count = 0;
    char line[8192];
    while (fgets(line, sizeof line, maps) != NULL) {
        count += strstr(line, "/memfd:headway") != NULL;
    }
    fclose(maps);
    return count;
}

/* Limits the address space for our own requests: `bytes` is less than is mapped already, so nothing
 * else can be mapped while the limit holds. RLIM_INFINITY ends the limit. */
static inline void world_limit_address_space(rlim_t bytes) {
    struct rlimit limit;
    T_EQ(0, getrlimit(RLIMIT_AS, &limit));
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    T_EQ(0, setrlimit(RLIMIT_AS, &limit));
}

/* Returns whether the interpreter's image calls the hook of `symbol`: its slot must point into the
 * image that the hooks are in. */
static inline bool world_hooks(const char *symbol) {
    uintptr_t *slots[8];
    int count;
    Dl_info slot, ours;
    T_EQ(0, hw__got_find(fake_runtime(), symbol, slots, 8, &count));
    T_TRUE(dladdr((void *)hw__got_read(slots[0]), &slot) != 0);
    T_TRUE(dladdr((void *)(uintptr_t)hw__hooks_install, &ours) != 0);
    return slot.dli_fbase == ours.dli_fbase;
}

static inline bool world_hooked(void) { return world_hooks("pthread_cond_signal"); }

/* Makes a GIL with one thread, which had it last: the thread signals its next acquires from another
 * place than after another thread's hold. Returns the thread's state. */
static inline struct fake_state *world_alone_at(struct fake_gil *gil) {
    fake_gil_init(gil);
    struct fake_state *alone = fake_state_new(gil);
    void *me = PyEval_SaveThread();
    PyEval_RestoreThread(alone);
    T_TRUE(PyEval_SaveThread() == alone);
    PyEval_RestoreThread(me);
    return alone;
}

/* Returns the record of a GIL, or NULL. */
static inline struct hw__gil *world_record(struct fake_gil *gil) {
    bool acquire;
    return hw__gil_find(&gil->memory.cond, &acquire);
}

/* A thread that acquires and releases a GIL. */
struct world_worker {
    pthread_t thread;
    struct fake_gil *gil;
    long rounds;       /* how often it acquires the GIL; 0: until it is told to stop */
    int spins;         /* how often it checks for a request during a hold */
    atomic_bool *stop; /* NULL: none */
    atomic_long taken; /* how often it has acquired the GIL */
    atomic_long dropped;
    atomic_long forced; /* how many of its releases followed a request */
};

static inline bool world_stops(const struct world_worker *worker) {
    return worker->stop != NULL && atomic_load(worker->stop);
}

static inline void *world_work(void *argument) {
    struct world_worker *worker = argument;
    struct fake_state *me = fake_state_new(worker->gil);
    for (long i = 0; worker->rounds == 0 || i < worker->rounds; i++) {
        if (world_stops(worker)) {
            break;
        }
        PyEval_RestoreThread(me);
        atomic_fetch_add(&worker->taken, 1);
        /* a hold may be of seconds: the end of the test does not wait for it */
        for (int spin = 0; spin < worker->spins && (spin % 1000 != 0 || !world_stops(worker));
             spin++) {
            if (fake_check()) {
                atomic_fetch_add(&worker->forced, 1);
                atomic_fetch_add(&worker->dropped, 1);
                atomic_fetch_add(&worker->taken, 1);
            }
        }
        PyEval_SaveThread();
        atomic_fetch_add(&worker->dropped, 1);
        if (worker->rounds == 0) {
            /* such a worker may have a GIL for itself, and the file must still be read */
            sched_yield();
        }
    }
    fake_state_free(me);
    return NULL;
}

static inline void world_go(struct world_worker *worker) {
    T_EQ(0, pthread_create(&worker->thread, NULL, world_work, worker));
}

/* Joins a thread without the GIL, as Python's join() does. */
static inline void world_join(pthread_t thread) {
    void *me = PyEval_SaveThread();
    T_EQ(0, pthread_join(thread, NULL));
    PyEval_RestoreThread(me);
}

/* Waits, without the GIL, until a counter has grown by `by`. */
static inline void world_await(atomic_long *counter, long by) {
    long start = atomic_load(counter);
    while (atomic_load(counter) < start + by) {
        if (fake_current() != NULL) {
            world_yield();
        }
        sched_yield();
    }
}

/* Waits until a thread sleeps in the kernel. Nothing else in it blocks, so it sleeps in the mutex
 * or condition variable that the test expects. */
static inline void world_await_asleep(pid_t tid) {
    char state = 'R';
    while (state != 'S') {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
        FILE *file = fopen(path, "r");
        T_TRUE(file != NULL);
        T_EQ(1, fscanf(file, "%*d (%*[^)]) %c", &state));
        fclose(file);
        sched_yield();
    }
}

/* Runs `child` in a forked child that the interpreter knows of, and returns the child's process id.
 * The child exits with status 0 if `child` returns. */
static inline pid_t world_fork(void (*child)(void)) {
    pid_t pid = fork();
    T_TRUE(pid >= 0);
    if (pid == 0) {
        t_start();
        collect_after_fork();
        fake_after_fork_child();
        child();
        _exit(0);
    }
    return pid;
}

/* Forks a child whose interpreter does not know of the fork yet: there has been no event. */
static inline pid_t world_raw_fork(void (*child)(void)) {
    pid_t pid = fork();
    T_TRUE(pid >= 0);
    if (pid == 0) {
        t_start();
        child();
        _exit(0);
    }
    return pid;
}

static inline void world_wait(pid_t pid) {
    int status;
    T_EQ(pid, waitpid(pid, &status, 0));
    T_EQ(0, status);
}

#endif
