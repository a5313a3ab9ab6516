// SPDX-License-Identifier: MIT
/* Threads that write to the session's memory outside of a hook of the GIL: the session must not end
 * meanwhile. */
#include "gil_world.h"
#include "trace/parks.h"
#include "trace_file.h"

/* A child that shares this process's memory ends by os._exit(). */
static void leave_in_child(void) {
    pid_t pid = vfork();
    if (pid == 0) {
        fake_exit(0);
    }
    world_wait(pid);
}

/* The time of os._exit() is kept, unless the session is about to end: its memory may be gone. */
static void test_leaving(void) {
    world_start("leaving.hwt");
    hw__session.header->left_ns = 0;
    leave_in_child();
    T_TRUE(hw__session.header->left_ns != 0);
    hw__session.header->left_ns = 0;
    hw__parks_close();
    leave_in_child();
    T_EQ(0, hw__session.header->left_ns);
    T_EQ(0, hw_trace_stop());
    leave_in_child();
}

static atomic_int collector_tid;

static void *collect_garbage(void *unused) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    PyEval_RestoreThread(me);
    atomic_store(&collector_tid, gettid());
    hw_trace_collection(2, 0);
    hw_trace_collection(2, 1);
    PyEval_SaveThread();
    fake_state_free(me);
    return unused;
}

/* Returns how many events of collections there are in the memory. */
static int count_collections(void) {
    int found = 0;
    uint32_t taken = (uint32_t)hw__session.header->chunks_taken;
    for (uint32_t i = 0; i < taken; i++) {
        const struct hw__chunk *chunk =
            (const struct hw__chunk *)(hw__session.mapped.parts[0] + i * HW__CHUNK_BYTES);
        const struct hw__event *events = (const struct hw__event *)(chunk + 1);
        for (uint32_t j = 0; j < chunk->used / sizeof *events; j++) {
            found += chunk->kind == HW__CHUNK_EVENTS && events[j].kind == HW__COLLECTED;
        }
    }
    return found;
}

/* A garbage collection is recorded with the registry's lock held, as the end of a session is. */
static void test_collections(void) {
    pthread_t thread;
    world_start("collections.hwt");
    void *me = PyEval_SaveThread();
    hw__registry_lock();
    T_EQ(0, pthread_create(&thread, NULL, collect_garbage, NULL));
    while (atomic_load(&collector_tid) == 0) {
    }
    world_await_asleep(atomic_load(&collector_tid));
    T_EQ(0, count_collections());
    hw__registry_unlock();
    T_EQ(0, pthread_join(thread, NULL));
    PyEval_RestoreThread(me);
    T_EQ(2, count_collections());
    T_EQ(0, hw_trace_stop());
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    if (!WORLD_TSAN) { /* which gives a child of vfork() a memory of its own */
        T_RUN(test_leaving);
    }
    T_RUN(test_collections);
    world_leave();
    return 0;
}
