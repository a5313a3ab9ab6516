// SPDX-License-Identifier: MIT
/* How the main interpreter's GIL is found, and what is not mistaken for it. */
#include "gil_world.h"
#include "trace_file.h"

/* A GIL that was just acquired is plausible. If any one value is impossible, the GIL is not
 * plausible. */
static void test_what_looks_like_a_gil(void) {
    static struct hw__gil_memory memory;
    static int64_t state;
    memory.interval_us = 5000;
    memory.last_holder = &state;
    memory.locked = 1;
    T_TRUE(hw__gil_plausible(&memory, &memory.mutex));
    T_TRUE(!hw__gil_plausible(&memory, &memory.switch_mutex));
    memory.locked = 0;
    T_TRUE(!hw__gil_plausible(&memory, &memory.mutex));
    memory.locked = -1;
    T_TRUE(!hw__gil_plausible(&memory, &memory.mutex));
    memory.locked = 1;
    memory.last_holder = NULL;
    T_TRUE(!hw__gil_plausible(&memory, &memory.mutex));
    memory.last_holder = (const char *)&state + 1;
    T_TRUE(!hw__gil_plausible(&memory, &memory.mutex));
}

/* A GIL may have any switch interval, as after sys.setswitchinterval(1e-7) or (1e13). Where the
 * interval is converted, it is neither 0 nor does it overflow. */
static void test_any_switch_interval(void) {
    static struct hw__gil_memory memory;
    static int64_t state;
    static const struct {
        unsigned long us;
        uint32_t as_us;
        int64_t as_ns;
    } cases[] = {{0, 1, 1000},
                 {5000, 5000, 5000000},
                 {1000000000000, UINT32_MAX, 1000000000000000},
                 {10000000000000000, UINT32_MAX, HW__INTERVAL_MOST_NS},
                 {(unsigned long)-1, UINT32_MAX, HW__INTERVAL_MOST_NS}};
    memory.last_holder = &state;
    memory.locked = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memory.interval_us = cases[i].us;
        T_TRUE(hw__gil_plausible(&memory, &memory.mutex));
        T_EQ(cases[i].as_us, hw__gil_interval_us(&memory));
        T_EQ(cases[i].as_ns, hw__gil_interval_ns(&memory));
    }
}

/* Checks that a start that failed leaves nothing behind (no session, file, record or hook), and
 * that the interpreter goes on. */
static void check_nothing_left(const char *name) {
    T_EQ(0, hw_trace_active());
    T_EQ(-ESRCH, hw_trace_stop());
    T_EQ(-1, access(world_path(name), F_OK));
    T_TRUE(atomic_load(&hw__gils[0].memory) == NULL);
    T_TRUE(!world_hooked());
    world_yield();
}

/* If the GIL's mutex is at another place than expected, no wait for the GIL is seen. */
static void test_another_layout(void) {
    struct fake_gil *gil = fake_main_gil();
    void *me = PyEval_SaveThread();
    gil->mutex = &gil->elsewhere;
    PyEval_RestoreThread(me);
    T_EQ(-ETIMEDOUT, world_try_start("layout.hwt", WORLD_MAX_BYTES, false));
    check_nothing_left("layout.hwt");
    me = PyEval_SaveThread();
    gil->mutex = &gil->memory.mutex;
    PyEval_RestoreThread(me);
}

/* A caller that does not hold the GIL gets an error, because no thread waits for the GIL then. */
static void test_caller_without_the_gil(void) {
    void *me = PyEval_SaveThread();
    T_EQ(-ETIMEDOUT, world_try_start("without.hwt", WORLD_MAX_BYTES, false));
    PyEval_RestoreThread(me);
    check_nothing_left("without.hwt");
}

/* An interpreter that does not signal its acquires cannot be recorded. */
static void test_no_forced_switching(void) {
    fake_main_gil()->no_switching = true;
    T_EQ(-EPROTO, world_try_start("protocol.hwt", WORLD_MAX_BYTES, false));
    check_nothing_left("protocol.hwt");
    fake_main_gil()->no_switching = false;
}

/* Condition variables of other code. The second one is surrounded by all that a GIL has, with the
 * mutex right after it, but is not locked. */
static struct decoy {
    struct hw__gil_memory memory;
    pthread_mutex_t elsewhere;
    bool told, heard;
} decoys[2];

static struct timespec past(void) { return (struct timespec){.tv_sec = 1}; }

/* Waits until a deadline that has passed already. */
static void wait_in_vain(struct decoy *decoy, pthread_mutex_t *mutex) {
    struct timespec deadline = past();
    T_EQ(0, pthread_mutex_lock(mutex));
    T_EQ(ETIMEDOUT, fake_timedwait(&decoy->memory.cond, mutex, &deadline));
    T_EQ(0, fake_signal(&decoy->memory.switch_cond));
    T_EQ(0, pthread_mutex_unlock(mutex));
}

static atomic_int vain_waits;

static void wait_in_vain_for_both(void) {
    wait_in_vain(&decoys[0], &decoys[0].elsewhere);
    wait_in_vain(&decoys[1], &decoys[1].memory.mutex);
    atomic_fetch_add(&vain_waits, 1);
}

static void init_decoys(void) {
    for (int i = 0; i < 2; i++) {
        struct decoy *decoy = &decoys[i];
        memset(decoy, 0, sizeof *decoy);
        decoy->memory.interval_us = 5000;
        decoy->memory.last_holder = &decoys[1 - i];
        decoy->memory.locked = i == 0 ? 1 : 0;
        T_EQ(0, pthread_cond_init(&decoy->memory.cond, NULL));
        T_EQ(0, pthread_cond_init(&decoy->memory.switch_cond, NULL));
        T_EQ(0, pthread_mutex_init(&decoy->memory.mutex, NULL));
        T_EQ(0, pthread_mutex_init(&decoy->elsewhere, NULL));
    }
}

/* The probe ignores the waits that its own helper makes before it waits for the GIL. */
static void test_probe_finds_the_gil_behind_decoys(void) {
    init_decoys();
    fake_before_restore(wait_in_vain_for_both);
    world_start("found.hwt");
    fake_before_restore(NULL);
    T_TRUE(atomic_load(&vain_waits) >= 2);
    T_TRUE(atomic_load(&hw__gils[0].memory) == &fake_main_gil()->memory);
    T_TRUE(hw__gils[0].main);
    T_TRUE(hw__gils[0].recorded);
    T_EQ(1, hw__gil_count());
    T_TRUE(world_hooked());
    T_EQ(0, hw_trace_stop());
    T_TRUE(!world_hooked());

    struct trace trace = trace_open(world_path("found.hwt"));
    T_EQ(1, trace.header->gil_count);
    T_EQ(FAKE_INTERVAL_US, trace.header->interval_us);
    const struct hw__meta_gil *record = NULL;
    T_EQ(1, trace_count_meta(&trace, 0, HW__META_GIL, (const void **)&record));
    T_EQ((uintptr_t)&fake_main_gil()->memory, record->address);
    T_EQ(1, record->main);
    T_EQ(1, trace.event_count); /* the assumed acquire; the probe ran before the session */
    T_EQ(HW__ACQUIRE, trace.events[0].event.kind);
    T_EQ(HW__ASSUMED, trace.events[0].event.flags);
    trace_close(&trace);
}

/* A thread that waits until the decoy is signalled, and signals back. */
static void *run_decoy(void *argument) {
    struct decoy *decoy = argument;
    pthread_mutex_t *mutex = decoy == decoys ? &decoy->elsewhere : &decoy->memory.mutex;
    struct timespec never = {.tv_sec = INT32_MAX};
    T_EQ(0, pthread_mutex_lock(mutex));
    while (!decoy->told) {
        T_EQ(0, fake_timedwait(&decoy->memory.cond, mutex, &never));
    }
    decoy->heard = true;
    T_EQ(0, fake_signal(&decoy->memory.switch_cond));
    T_EQ(0, pthread_mutex_unlock(mutex));
    return NULL;
}

/* In a session, all functions on other code's condition variables work as they should, and none of
 * their calls is recorded. That holds even where the memory looks like a GIL that was just
 * acquired, because the calls come from another place. */
static void test_decoys_are_passed_on(void) {
    init_decoys();
    decoys[1].memory.locked = 1;
    world_start("decoys.hwt");
    for (int i = 0; i < 2; i++) {
        struct decoy *decoy = &decoys[i];
        pthread_mutex_t *mutex = i == 0 ? &decoy->elsewhere : &decoy->memory.mutex;
        pthread_t thread;
        T_EQ(0, pthread_create(&thread, NULL, run_decoy, decoy));
        T_EQ(0, pthread_mutex_lock(mutex));
        decoy->told = true;
        T_EQ(0, fake_signal(&decoy->memory.cond));
        while (!decoy->heard) {
            T_EQ(0, fake_wait(&decoy->memory.switch_cond, mutex));
        }
        T_EQ(0, pthread_mutex_unlock(mutex));
        T_EQ(0, pthread_join(thread, NULL));
        wait_in_vain(decoy, mutex);
        T_EQ(0, fake_destroy(&decoy->memory.cond));
        T_EQ(0, fake_destroy(&decoy->memory.switch_cond));
    }
    T_EQ(1, hw__gil_count());
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("decoys.hwt"));
    T_EQ(1, trace.event_count);
    T_EQ(1, trace.header->gil_count);
    T_EQ(1, trace.header->thread_count);
    trace_close(&trace);
}

/* The second session knows the GIL already, and starts no thread to find it. */
static void test_the_probe_runs_once(void) {
    fake_before_restore(wait_in_vain_for_both); /* a probe would call this */
    init_decoys();
    int before = atomic_load(&vain_waits);
    world_start("again.hwt");
    fake_before_restore(NULL);
    T_EQ(before, atomic_load(&vain_waits));
    T_EQ(0, hw_trace_stop());
}

int main(void) {
    t_start();
    world_begin();
    T_RUN(test_what_looks_like_a_gil);
    T_RUN(test_any_switch_interval);
    world_enter();
    T_RUN(test_another_layout);
    T_RUN(test_caller_without_the_gil);
    T_RUN(test_no_forced_switching);
    T_RUN(test_probe_finds_the_gil_behind_decoys);
    T_RUN(test_decoys_are_passed_on);
    T_RUN(test_the_probe_runs_once);
    world_leave();
    return 0;
}
