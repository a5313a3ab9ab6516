// SPDX-License-Identifier: MIT
/* The recorder as it is shipped: libheadway.so, loaded at run time. It finds the C library's
 * functions itself, and keeps itself loaded. */
#include <link.h>

#include "gil_world.h"
#include "trace_file.h"

/* The functions that are looked up by name. */
static struct {
    void *handle;
    int (*start)(const struct hw_trace_options *);
    int (*stop)(void);
    int (*active)(void);
    int (*times)(int64_t *, int64_t *);
} library;

static void load(void) {
    T_TRUE(getenv("HEADWAY_LIBRARY") != NULL); /* set by CTest */
    library.handle = dlopen(getenv("HEADWAY_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    T_TRUE(library.handle != NULL);
    library.start = (int (*)(const struct hw_trace_options *))(uintptr_t)dlsym(library.handle,
                                                                               "hw_trace_start");
    library.stop = (int (*)(void))(uintptr_t)dlsym(library.handle, "hw_trace_stop");
    library.active = (int (*)(void))(uintptr_t)dlsym(library.handle, "hw_trace_active");
    library.times = (int (*)(int64_t *, int64_t *))(uintptr_t)dlsym(library.handle, "hw_gil_times");
    T_TRUE(library.start != NULL && library.stop != NULL && library.active != NULL &&
           library.times != NULL);
}

/* Returns the descriptor of the library's memory, as other processes find it. */
static int memory(void) {
    for (int fd = 0; fd < 1024; fd++) {
        char path[64], name[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        (void)!readlink(path, name, sizeof name - 1);
        if (strcmp(name, "/memfd:headway (deleted)") == 0) {
            return fd;
        }
    }
    return -1;
}

/* A session while threads contend, without any preparation by the test. */
static void test_a_session(void) {
    struct hw_trace_options options = world_options("");
    struct world_worker workers[3];
    memset(workers, 0, sizeof workers);
    T_EQ(0, library.start(&options));
    collect_memory(world_path("library.hwt"), memory());
    T_EQ(1, library.active());
    long taken = 1;
    for (int i = 0; i < 3; i++) {
        workers[i].gil = fake_main_gil();
        workers[i].rounds = 200;
        workers[i].spins = 50;
        world_go(&workers[i]);
    }
    for (int i = 0; i < 3; i++) {
        world_join(workers[i].thread);
        taken += 1 + atomic_load(&workers[i].taken);
    }
    int64_t hold_ns, wait_ns;
    T_EQ(0, library.times(&hold_ns, &wait_ns));
    T_TRUE(hold_ns > 0);
    T_EQ(0, library.stop());
    T_EQ(0, library.active());
    struct trace trace = trace_open(world_path("library.hwt"));
    T_TRUE(trace.complete);
    T_EQ(taken, trace.kinds[HW__ACQUIRE]);
    T_EQ(3, trace.kinds[HW__EXIT]);
    trace_check_slots(&trace);
    trace_close(&trace);
}

/* The library is closed in the middle of a session: its hooks stay in memory, and it can be loaded
 * again. */
static void test_closed_in_a_session(void) {
    struct hw_trace_options options = world_options("");
    collect_forget(); /* the first session's memory */
    T_EQ(0, library.start(&options));
    collect_memory(world_path("closed.hwt"), memory());
    T_EQ(0, dlclose(library.handle));
    world_yield();
    load();
    T_EQ(1, library.active());
    T_EQ(0, library.stop());
    struct trace trace = trace_open(world_path("closed.hwt"));
    T_EQ(3, trace.event_count);
    trace_close(&trace);
}

/* The library is bound when it is loaded. Binding a function at its first call needs more stack
 * than a small thread has left. */
static void test_binds_nothing_later(void) {
    struct link_map *map;
    bool now = false;
    T_EQ(0, dlinfo(library.handle, RTLD_DI_LINKMAP, (void *)&map));
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        now = now || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_BIND_NOW) != 0);
    }
    T_TRUE(now);
}

int main(void) {
    t_start();
    if (WORLD_TSAN) {
        /* The library calls the C library past the thread sanitizer, which then believes that the
         * GIL's mutex is locked twice: see world_begin(). */
        fprintf(stderr, "not with the thread sanitizer\n");
        return 0;
    }
    world_begin();
    world_enter();
    load();
    T_RUN(test_binds_nothing_later);
    T_RUN(test_a_session);
    T_RUN(test_closed_in_a_session);
    world_leave();
    return 0;
}
