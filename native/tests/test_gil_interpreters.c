// SPDX-License-Identifier: MIT
/* Interpreters with a GIL of their own: found at their first acquire, told apart, ended. */
#include "gil_world.h"
#include "trace_file.h"

/* Makes another thread acquire and release a GIL `times` times, and waits for that thread without
 * the main GIL. */
static void use(struct fake_gil *gil, long times) {
    struct world_worker worker = {.gil = gil, .rounds = times};
    world_go(&worker);
    world_join(worker.thread);
}

static size_t count(const struct trace *trace, uint32_t gil, uint32_t kind) {
    size_t found = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        found += trace->events[i].event.gil == gil && trace->events[i].event.kind == kind;
    }
    return found;
}

/* Each GIL has a number, an announcement and events of its own; the main one has number 0. */
static void test_told_apart(void) {
    static struct fake_gil own[2];
    world_start("apart.hwt");
    fake_gil_init(&own[0]);
    fake_gil_init(&own[1]);
    T_TRUE(world_record(&own[0]) == NULL);
    use(&own[0], 3);
    T_EQ(1, world_record(&own[0])->index);
    T_TRUE(!world_record(&own[0])->main);
    T_TRUE(world_record(&own[1]) == NULL);
    use(&own[1], 5);
    T_EQ(2, world_record(&own[1])->index);
    use(&own[0], 4);
    T_EQ(0, world_record(fake_main_gil())->index);
    T_EQ(0, hw_trace_stop());
    /* From here on no hook would see the end of these GILs, so their records are gone. */
    T_TRUE(world_record(&own[0]) == NULL);
    T_TRUE(world_record(&own[1]) == NULL);
    T_TRUE(world_record(fake_main_gil()) != NULL);
    fake_gil_destroy(&own[0]);
    fake_gil_destroy(&own[1]);

    struct trace trace = trace_open(world_path("apart.hwt"));
    T_TRUE(trace.complete);
    T_EQ(3, trace.header->gil_count);
    T_EQ(4, count(&trace, 0, HW__ACQUIRE)); /* the assumed one, and one after each join */
    T_EQ(7, count(&trace, 1, HW__ACQUIRE));
    T_EQ(7, count(&trace, 1, HW__RELEASE));
    T_EQ(5, count(&trace, 2, HW__ACQUIRE));
    for (int i = 0; i < 2; i++) {
        const struct hw__meta_gil *record = NULL;
        T_EQ(1, trace_count_meta(&trace, i + 1, HW__META_GIL, (const void **)&record));
        T_EQ((uintptr_t)&own[i].memory, record->address);
        T_EQ(i + 1, record->index);
        T_EQ(0, record->main);
    }
    trace_check_slots(&trace);
    trace_close(&trace);
}

/* A GIL that is not the main one tells its first switch interval before its first acquire, in each
 * session, and then each change. The header has the main GIL's. */
static void test_tells_its_interval(void) {
    static struct fake_gil own;
    fake_gil_init(&own);
    for (int session = 0; session < 2; session++) {
        world_start("interval.hwt");
        fake_set_interval(&own, 2000);
        use(&own, 2);
        fake_set_interval(&own, 3000);
        use(&own, 2);
        uint32_t index = world_record(&own)->index;
        T_EQ(0, hw_trace_stop());
        struct trace trace = trace_open(world_path("interval.hwt"));
        uint32_t expected[] = {2000, 3000};
        int seen = 0, acquires = 0;
        for (size_t i = 0; i < trace.event_count; i++) {
            const struct hw__event *event = &trace.events[i].event;
            acquires += event->gil == index && event->kind == HW__ACQUIRE;
            if (event->kind == HW__INTERVAL) {
                T_TRUE(seen < 2);
                T_EQ(index, event->gil);
                T_EQ(2 * seen, acquires);
                T_EQ(expected[seen++], event->value);
            }
        }
        T_EQ(2, seen);
        T_EQ(FAKE_INTERVAL_US, trace.header->interval_us);
        trace_close(&trace);
    }
    fake_gil_destroy(&own);
}

/* The end of a GIL is recorded. A GIL that comes back at the same address is another one, although
 * it gets the number of the first. */
static void test_ends_and_comes_back(void) {
    static struct fake_gil own;
    uint32_t index = 0;
    world_start("back.hwt");
    for (int i = 0; i < 3; i++) {
        fake_gil_init(&own);
        use(&own, 2);
        T_TRUE(world_record(&own) != NULL);
        T_TRUE(i == 0 || world_record(&own)->index == index);
        index = world_record(&own)->index;
        fake_gil_destroy(&own);
        T_TRUE(world_record(&own) == NULL);
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("back.hwt"));
    T_EQ(3, trace_count_meta(&trace, (int)index, HW__META_GIL, NULL));
    T_EQ(3, trace_count_meta(&trace, (int)index, HW__META_GIL_END, NULL));
    T_EQ(6, count(&trace, index, HW__ACQUIRE));
    T_EQ(index + 1, trace.header->gil_count);
    trace_close(&trace);
}

/* For a GIL that is older than the session, and is held when the session begins, the next acquire
 * is the first event, after its switch interval. */
static void test_older_than_the_session(void) {
    static struct fake_gil own;
    fake_gil_init(&own);
    void *me = PyEval_SaveThread();
    struct fake_state *other = fake_state_new(&own);
    PyEval_RestoreThread(other);
    T_TRUE(PyEval_SaveThread() == other);
    PyEval_RestoreThread(me);

    /* A thread that holds the GIL while the session begins. */
    atomic_bool stop = false;
    struct world_worker holder = {.gil = &own, .stop = &stop};
    world_go(&holder);
    world_await(&holder.taken, 1);
    world_start("older.hwt");
    world_await(&holder.taken, 10);
    atomic_store(&stop, true);
    world_join(holder.thread);
    uint32_t index = world_record(&own)->index;
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("older.hwt"));
    T_TRUE(count(&trace, index, HW__ACQUIRE) >= 9);
    uint32_t expected[] = {HW__INTERVAL, HW__ACQUIRE};
    size_t seen = 0;
    for (size_t i = 0; i < trace.event_count && seen < 2; i++) {
        if (trace.events[i].event.gil == index) {
            T_EQ(expected[seen++], trace.events[i].event.kind);
        }
    }
    T_EQ(2, seen);
    trace_close(&trace);
    fake_state_free(other);
    fake_gil_destroy(&own);
}

/* A thread alone at its GIL, which had it last when the session begins, signals its acquires from
 * another place than a thread that follows another one. It is recorded from its first acquire on.
 */
static void test_alone_since_before_the_session(void) {
    static struct fake_gil own;
    struct fake_state *alone = world_alone_at(&own), *me = fake_current();
    world_start("alone.hwt");
    T_TRUE(PyEval_SaveThread() == me);
    unsigned long switches = HW__READ(own.memory.switch_number);
    for (int i = 0; i < 3; i++) {
        PyEval_RestoreThread(alone);
        T_TRUE(PyEval_SaveThread() == alone);
    }
    T_EQ(switches, HW__READ(own.memory.switch_number));
    PyEval_RestoreThread(me);
    T_TRUE(world_record(&own) != NULL);
    uint32_t index = world_record(&own)->index;
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("alone.hwt"));
    T_EQ(3, count(&trace, index, HW__ACQUIRE));
    T_EQ(3, count(&trace, index, HW__RELEASE));
    trace_close(&trace);
    fake_state_free(alone);
    fake_gil_destroy(&own);
}

/* Interpreters come one after another, and their GILs go without notice, as CPython's do. Each is
 * recorded: where no record is free, that of the GIL that was not used for longest becomes a new
 * GIL's. A GIL that is still there then is found anew; one that is held or wanted stays. */
static void test_one_after_another(void) {
    enum { MANY = HW__MAX_GILS + 40 };
    static struct fake_gil many[MANY], held;
    int64_t idle_ns = hw__gil_idle_ns;
    hw__gil_idle_ns = 0;
    world_start("after.hwt");
    fake_gil_init(&held);
    struct fake_state *holding = fake_state_new(&held), *me = fake_current();
    T_TRUE(PyEval_SaveThread() == me);
    PyEval_RestoreThread(holding);
    struct hw__gil *kept = world_record(&held);
    T_TRUE(kept != NULL);
    for (int i = 0; i < MANY; i++) {
        fake_gil_init(&many[i]);
        struct world_worker worker = {.gil = &many[i], .rounds = 2};
        world_go(&worker);
        pthread_join(worker.thread, NULL);
        T_TRUE(world_record(&many[i]) != NULL);
    }
    T_TRUE(world_record(&held) == kept);
    T_TRUE(PyEval_SaveThread() == holding);
    PyEval_RestoreThread(me);
    T_EQ(HW__MAX_GILS, hw__gil_count());
    T_TRUE(world_record(&many[0]) == NULL);
    use(&many[0], 3);
    T_TRUE(world_record(&many[0]) != NULL);
    uint32_t index = world_record(&many[0])->index;
    T_EQ(0, hw_trace_stop());
    hw__gil_idle_ns = idle_ns;

    struct trace trace = trace_open(world_path("after.hwt"));
    T_TRUE(trace.complete);
    T_EQ(HW__MAX_GILS, trace.header->gil_count);
    size_t begun = 0, ended = 0, acquires = 0;
    for (int i = 1; i < HW__MAX_GILS; i++) {
        begun += trace_count_meta(&trace, i, HW__META_GIL, NULL);
        ended += trace_count_meta(&trace, i, HW__META_GIL_END, NULL);
        acquires += count(&trace, (uint32_t)i, HW__ACQUIRE);
    }
    T_EQ(MANY + 2, begun); /* the held one, and the first one twice */
    T_EQ(MANY + 2 - (HW__MAX_GILS - 1), ended);
    T_EQ(1 + 2 * MANY + 3, acquires);
    T_EQ(2, trace_count_meta(&trace, (int)index, HW__META_GIL, NULL));
    trace_close(&trace);
    fake_state_free(holding);
    for (int i = 0; i < MANY; i++) {
        fake_gil_destroy(&many[i]);
    }
    fake_gil_destroy(&held);
}

/* There are more GILs in use than records for them: the others are not recorded. */
static void test_too_many(void) {
    enum { MANY = HW__MAX_GILS + 5 };
    static struct fake_gil many[MANY];
    int64_t idle_ns = hw__gil_idle_ns;
    hw__gil_idle_ns = INT64_MAX; /* all are in use */
    world_start("many.hwt");
    for (int i = 0; i < MANY; i++) {
        fake_gil_init(&many[i]);
        use(&many[i], 1);
    }
    T_EQ(HW__MAX_GILS, hw__gil_count());
    T_TRUE(world_record(&many[HW__MAX_GILS - 2]) != NULL);
    T_TRUE(world_record(&many[HW__MAX_GILS - 1]) == NULL);
    fake_gil_destroy(&many[0]); /* makes room for one */
    use(&many[MANY - 1], 1);
    T_TRUE(world_record(&many[MANY - 1]) != NULL);
    T_EQ(0, hw_trace_stop());
    hw__gil_idle_ns = idle_ns;
    for (int i = 1; i < MANY; i++) {
        fake_gil_destroy(&many[i]);
    }
    struct trace trace = trace_open(world_path("many.hwt"));
    T_EQ(HW__MAX_GILS, trace.header->gil_count);
    T_TRUE(trace.complete);
    trace_close(&trace);
}

/* The main interpreter ends in a session and is initialised again: its GIL is still number 0, and
 * main. */
static void test_main_comes_back(void) {
    world_start("main.hwt");
    world_leave();
    T_TRUE(world_record(fake_main_gil()) == NULL);
    world_enter();
    T_EQ(0, world_record(fake_main_gil())->index);
    T_TRUE(world_record(fake_main_gil())->main);
    world_yield();
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("main.hwt"));
    T_EQ(2, trace_count_meta(&trace, 0, HW__META_GIL, NULL));
    T_EQ(1, trace_count_meta(&trace, 0, HW__META_GIL_END, NULL));
    T_EQ(3, count(&trace, 0, HW__ACQUIRE));
    T_EQ(2, count(&trace, 0, HW__RELEASE));
    trace_close(&trace);
}

/* The main interpreter ends in a session, and the next session begins when it has been initialised
 * again. */
static void test_main_comes_back_between_sessions(void) {
    world_start("first.hwt");
    world_leave();
    T_EQ(0, hw_trace_stop());
    world_enter();
    world_start("second.hwt");
    world_yield();
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("second.hwt"));
    T_EQ(2, count(&trace, 0, HW__ACQUIRE));
    trace_close(&trace);
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_told_apart);
    T_RUN(test_tells_its_interval);
    T_RUN(test_ends_and_comes_back);
    T_RUN(test_older_than_the_session);
    T_RUN(test_alone_since_before_the_session);
    T_RUN(test_one_after_another);
    T_RUN(test_too_many);
    T_RUN(test_main_comes_back);
    T_RUN(test_main_comes_back_between_sessions);
    world_leave();
    return 0;
}
