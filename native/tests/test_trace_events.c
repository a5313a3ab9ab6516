// SPDX-License-Identifier: MIT
/* The events of a GIL are exactly what its threads did. */
#include "gil_world.h"
#include "trace_file.h"

#define WORKERS 6
#define ROUNDS 300

/* Returns the calling thread's slot in the current session. */
static const struct hw__slot *own_slot(void) {
    for (uint32_t i = 0; i < HW__MAX_THREADS; i++) {
        if (hw__session.slots[i].tid == gettid() && hw__session.slots[i].state != HW__SLOT_FREE) {
            return &hw__session.slots[i];
        }
    }
    return NULL;
}

/* One thread: every event and their order are known beforehand. */
static void test_one_thread(void) {
    world_start("one.hwt");
    for (int i = 0; i < 3; i++) {
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("one.hwt"));
    T_EQ(7, trace.event_count);
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        T_EQ(i % 2 == 0 ? HW__ACQUIRE : HW__RELEASE, event->kind);
        T_EQ(i == 0 ? HW__ASSUMED : 0, event->flags & (HW__ASSUMED | HW__FORCED));
        T_EQ(0, event->gil);
        T_EQ(0, event->value);
        T_EQ(1, trace.events[i].serial);
    }
    const struct hw__slot *slot = &trace.slots[0];
    T_EQ(HW__SLOT_HOLDING, slot->state);
    T_EQ(gettid(), slot->tid);
    T_EQ(trace.events[6].event.time_ns, slot->since_ns);
    T_EQ(4, slot->holds);
    T_EQ(0, slot->waits);
    trace_check_slots(&trace);
    trace_close(&trace);
}

/* The file's header describes the process. */
static void test_header(void) {
    world_start("header.hwt");
    T_EQ(1, hw_trace_active());
    T_EQ(0, strcmp("", hw_trace_path())); /* there is no collector */
    T_EQ(0, hw_trace_stop());
    T_EQ(0, hw_trace_active());
    struct trace trace = trace_open(world_path("header.hwt"));
    const struct hw__header *header = trace.header;
    T_EQ(0x1234567890ABCDEF, header->family);
    T_EQ(getpid(), header->pid);
    T_EQ(getppid(), header->parent_pid);
    T_EQ(0x030E00F0, header->python_version);
    T_EQ(HW__GIL_ENABLED, header->flags);
    T_EQ(FAKE_INTERVAL_US, header->interval_us);
    T_EQ(0, memcmp("python\0app.py", header->command, sizeof "python\0app.py"));
    T_EQ(0, strcmp("/usr/bin/python", header->executable));
    T_EQ(0, strcmp("app.py", header->program));
    /* one chunk of events, and one of the GIL */
    T_EQ(1, header->chunks_taken - (trace.meta_count > 0));
    T_EQ(header->chunks_offset + header->chunks_taken * HW__CHUNK_BYTES, trace.size);
    trace_close(&trace);
}

/* Many threads contend for the GIL. The file has everything that they counted themselves, no more
 * and no less; one thread holds at a time (trace_open() checks that); and the slots agree. */
static void test_threads_fight(void) {
    struct world_worker workers[WORKERS];
    memset(workers, 0, sizeof workers);
    world_start("fight.hwt");
    long taken = 1, dropped = 0, forced = 0;
    for (int i = 0; i < WORKERS; i++) {
        workers[i].gil = fake_main_gil();
        workers[i].rounds = ROUNDS;
        workers[i].spins = 10 + 300 * (i % 2);
        world_go(&workers[i]);
    }
    for (int i = 0; i < WORKERS; i++) {
        world_join(workers[i].thread);
        taken += 1 + atomic_load(&workers[i].taken);
        dropped += 1 + atomic_load(&workers[i].dropped);
        forced += atomic_load(&workers[i].forced);
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("fight.hwt"));
    T_TRUE(trace.complete);
    T_EQ(WORKERS + 1, trace.header->thread_count);
    T_EQ(taken, trace.kinds[HW__ACQUIRE]);
    T_EQ(dropped, trace.kinds[HW__RELEASE]);
    T_EQ(WORKERS, trace.kinds[HW__EXIT]);
    T_EQ(trace.kinds[HW__WAIT], trace.sums.waits);
    /* a request may come just as a thread releases anyway */
    T_TRUE(trace.sums.forced >= (uint64_t)forced);
    T_TRUE(trace.sums.forced <= trace.kinds[HW__REQUEST]);
    T_EQ(0, trace.kinds[HW__INTERVAL]);
    trace_check_slots(&trace);
    trace_close(&trace);
}

/* A waiter makes a request to a holder that does not release, and the event of the release has the
 * flag FORCED. */
static void test_forced(void) {
    world_start("forced.hwt");
    struct world_worker worker = {.gil = fake_main_gil(), .rounds = 1};
    int64_t before_ns = hw_now_ns();
    world_go(&worker);
    while (!fake_check()) {
    }
    world_join(worker.thread);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("forced.hwt"));
    T_TRUE(trace.kinds[HW__REQUEST] >= 1);
    T_TRUE(trace.sums.forced >= 1);
    bool found = false;
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        /* an interval later; the counter may be read a little early */
        if (event->kind == HW__REQUEST) {
            T_TRUE(event->time_ns > before_ns + FAKE_INTERVAL_US * 999);
        }
        if (!found && trace.events[i].serial == 1 && event->kind == HW__RELEASE) {
            T_EQ(HW__FORCED, event->flags & HW__FORCED); /* the main thread's first release */
            found = true;
        }
    }
    T_TRUE(found);
    T_TRUE(trace.sums.worst_wait_ns > 0);
    trace_check_slots(&trace);
    trace_close(&trace);
}

/* If a waiter may have no event, as in a forked child that has no memory, the time of its request
 * is not known. */
static void test_a_request_without_an_event(void) {
    struct hw__gil *gil = &hw__gils[0];
    world_start("");
    atomic_store(&hw__session.inherited, HW__LOST);
    gil->requested_ns = -1;
    struct world_worker worker = {.gil = fake_main_gil(), .rounds = 1};
    world_go(&worker);
    while (!hw__gil_is_asked(gil)) {
        sched_yield(); /* while this thread holds the GIL */
    }
    T_EQ(0, pthread_mutex_lock(&fake_main_gil()->memory.mutex));
    T_EQ(0, gil->requested_ns);
    T_EQ(0, pthread_mutex_unlock(&fake_main_gil()->memory.mutex));
    atomic_store(&hw__session.inherited, 0);
    world_join(worker.thread);
    T_EQ(0, hw_trace_stop());
}

/* Returns the first event of the thread after its first release on request; *asked_ns and
 * *released_ns: when the request was made, and answered. */
static const struct hw__event *after_forced(const struct trace *trace, uint32_t serial,
                                            int64_t *asked_ns, int64_t *released_ns) {
    const struct hw__event *next = NULL;
    *released_ns = *asked_ns = 0;
    for (size_t i = 0; i < trace->event_count && next == NULL; i++) {
        const struct hw__event *event = &trace->events[i].event;
        if (trace->events[i].serial != serial) {
            continue;
        }
        if (*released_ns != 0) {
            next = event;
        } else if (event->kind == HW__RELEASE && (event->flags & HW__FORCED) != 0) {
            *released_ns = event->time_ns;
        }
    }
    for (size_t i = 0; i < trace->event_count; i++) { /* each thread has its events in a row */
        const struct hw__event *event = &trace->events[i].event;
        if (event->kind == HW__REQUEST && event->time_ns <= *released_ns &&
            event->time_ns > *asked_ns) {
            *asked_ns = event->time_ns;
        }
    }
    return next;
}

/* Releases the GIL for a call of 3 ms, once a waiter has made a request. The thread's next event
 * must be after that call. */
static void call_when_asked(void) {
    const int64_t away_ns = 3000000;
    world_start("called.hwt");
    struct world_worker worker = {.gil = fake_main_gil(), .rounds = 1};
    world_go(&worker);
    while (!atomic_load_explicit(&hw__gils[0].requested, memory_order_relaxed)) {
    }
    void *state = PyEval_SaveThread();
    usleep((useconds_t)(away_ns / 1000));
    PyEval_RestoreThread(state);
    world_join(worker.thread);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("called.hwt"));
    int64_t asked_ns, released_ns;
    const struct hw__event *next = after_forced(&trace, 1, &asked_ns, &released_ns);
    T_TRUE(next != NULL);
    T_TRUE(next->time_ns >= released_ns + away_ns);
    trace_close(&trace);
}

/* A call that begins just after a request is no wait: the thread has looked for the hand-off, and
 * did not want the GIL then. */
static void test_a_call_soon_after_a_request_is_no_wait(void) {
    for (int turn = 0; turn < 10; turn++) {
        call_when_asked();
    }
}

/* A preempted thread waits for the GIL from its release on, however late it has a core to ask for
 * it. A thread that made a call wants it when the call is over. */
static void test_a_preempted_thread_waits_from_its_release_on(void) {
    int preempted = 0;
    for (int turn = 0; turn < 40; turn++) {
        bool calls = turn % 2 != 0;
        world_start("preempted.hwt");
        struct world_worker worker = {.gil = fake_main_gil(), .rounds = 1};
        world_go(&worker);
        if (calls) {
            while (!atomic_load_explicit(&hw__gils[0].requested, memory_order_relaxed)) {
            }
            usleep(5000); /* a call of C answers late */
            void *state = PyEval_SaveThread();
            usleep(3000);
            PyEval_RestoreThread(state);
        } else {
            while (!fake_check()) {
            }
        }
        int64_t late_ns = fake_late_ns();
        world_join(worker.thread);
        T_EQ(0, hw_trace_stop());
        struct trace trace = trace_open(world_path("preempted.hwt"));
        int64_t asked_ns, released_ns;
        const struct hw__event *next = after_forced(&trace, 1, &asked_ns, &released_ns);
        T_TRUE(next != NULL);
        if (calls) {
            T_TRUE(next->time_ns >= released_ns + 3000000);
        } else if (released_ns - asked_ns < 900000 && late_ns < 30000) {
            T_EQ(HW__WAIT, next->kind);
            T_EQ(released_ns, next->time_ns);
            preempted++;
        }
        trace_check_slots(&trace);
        trace_close(&trace);
    }
    T_TRUE(preempted > 0);
}

/* Returns the header's flags of a session of this version, in which this thread releases the GIL in
 * the main interpreter, and in a sub-interpreter that shares the GIL if `shared`. */
static uint32_t flags_with(uint32_t python_version, bool shared) {
    struct hw_trace_options options = world_options("");
    options.python_version = python_version;
    T_EQ(0, world_start_with("interpreters.hwt", &options));
    world_yield();
    fake_current()->of_another = shared;
    world_yield();
    fake_current()->of_another = false;
    uint32_t flags = hw__session.header->flags;
    T_EQ(0, hw_trace_stop());
    return flags;
}

/* From 3.9 to 3.12, where a request reaches no other interpreter, the header tells that there was
 * one at the main GIL. */
static void test_a_shared_gil_is_told(void) {
    T_EQ(HW__GIL_ENABLED, flags_with(0x030C01F0, false));
    T_EQ(HW__GIL_ENABLED | HW__SUBINTERPRETERS, flags_with(0x030C01F0, true));
    T_EQ(HW__GIL_ENABLED | HW__SUBINTERPRETERS, flags_with(0x030900F0, true));
    T_EQ(HW__GIL_ENABLED, flags_with(0x030812F0, true));
    T_EQ(HW__GIL_ENABLED, flags_with(0x030D00A1, true));
}

static int64_t thread_cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* For the time between two holds, an event tells how much of it the thread was running. It must lie
 * between the readings of the thread's own clocks inside and outside of the recorder's. */
static void test_computing_is_told_from_waiting(void) {
    enum { ROUNDS_AWAY = 8 }; /* fewer than are measured after a pause */
    double least[ROUNDS_AWAY], most[ROUNDS_AWAY];
    world_start("away.hwt");
    for (int i = 0; i < ROUNDS_AWAY; i++) {
        int64_t outer_cpu = thread_cpu_ns(), outer = hw_now_ns();
        void *state = PyEval_SaveThread();
        int64_t inner = hw_now_ns(), inner_cpu = thread_cpu_ns();
        if (i % 2 == 0) {
            while (thread_cpu_ns() - inner_cpu < 300000) {
            }
        } else {
            usleep(300);
        }
        int64_t inner_ran = thread_cpu_ns() - inner_cpu, inner_ns = hw_now_ns() - inner;
        PyEval_RestoreThread(state);
        int64_t outer_ns = hw_now_ns() - outer, outer_ran = thread_cpu_ns() - outer_cpu;
        least[i] = (double)inner_ran / (double)outer_ns;
        most[i] = (double)outer_ran / (double)inner_ns;
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("away.hwt"));
    int found = 0;
    for (size_t i = 1; i < trace.event_count; i++) { /* the first acquire is assumed */
        const struct hw__event *event = &trace.events[i].event;
        if (event->kind != HW__ACQUIRE) {
            T_EQ(HW__RELEASE, event->kind);
            continue;
        }
        unsigned told = (unsigned)event->flags >> HW__RAN_SHIFT;
        T_TRUE(told != 0);
        double step = 1.0 / HW__RAN_ALL, share = (told - 1) * step;
        T_TRUE(share + 2 * step >= least[found]);
        T_TRUE(share - step <= most[found]);
        found++;
    }
    T_EQ(ROUNDS_AWAY, found);
    trace_close(&trace);
}

/* A thread that has used all readings up, and then is away for long, is measured in any case. */
static void test_a_long_time_away_is_measured_after_many_short_ones(void) {
    enum { LONG_ONES = 6, SHORT_ONES = 100, LONG_NS = 60000000 };
    double least[LONG_ONES], most[LONG_ONES];
    world_start("long.hwt");
    for (int i = 0; i < LONG_ONES; i++) {
        for (int j = 0; j < SHORT_ONES; j++) {
            void *state = PyEval_SaveThread();
            for (int64_t since_ns = hw_now_ns(); hw_now_ns() - since_ns < 20000;) {
            }
            PyEval_RestoreThread(state);
        }
        int64_t outer_cpu = thread_cpu_ns(), outer = hw_now_ns();
        void *state = PyEval_SaveThread();
        int64_t inner = hw_now_ns(), inner_cpu = thread_cpu_ns();
        if (i % 2 == 0) {
            while (hw_now_ns() - inner < LONG_NS) {
            }
        } else {
            usleep(LONG_NS / 1000);
        }
        int64_t inner_ran = thread_cpu_ns() - inner_cpu, inner_ns = hw_now_ns() - inner;
        PyEval_RestoreThread(state);
        least[i] = (double)inner_ran / (double)(hw_now_ns() - outer);
        most[i] = (double)(thread_cpu_ns() - outer_cpu) / (double)inner_ns;
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("long.hwt"));
    int found = 0;
    for (size_t i = 1; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        int64_t away_ns = event->time_ns - trace.events[i - 1].event.time_ns;
        if ((event->kind != HW__ACQUIRE && event->kind != HW__HOLD) || away_ns < LONG_NS) {
            continue;
        }
        unsigned told = (unsigned)event->flags >> HW__RAN_SHIFT;
        T_TRUE(told != 0);
        double share = (double)(told - 1) / HW__RAN_ALL;
        T_TRUE(share + 0.02 >= least[found]);
        T_TRUE(share - 0.13 <= most[found]); /* an eighth of the time may be of short times away */
        found++;
    }
    T_EQ(LONG_ONES, found);
    trace_close(&trace);
}

/* A collector that reads CPU times from the system itself gets none in the events. */
static void test_who_watches_is_told_no_cpu_times(void) {
    const int64_t least_ns[HW_HOMES] = {0};
    world_collect("watched.hwt");
    collect_answer();
    T_EQ(0, hw_collect_watch(collected[collected_count - 1].collection, least_ns));
    for (int i = 0; i < 4; i++) {
        void *state = PyEval_SaveThread();
        usleep(300);
        PyEval_RestoreThread(state);
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("watched.hwt"));
    for (size_t i = 0; i < trace.event_count; i++) {
        T_EQ(0, trace.events[i].event.flags >> HW__RAN_SHIFT);
    }
    T_TRUE(trace.event_count >= 8);
    trace_close(&trace);
}

/* A hold that was not measured from its beginning is measured from the first request on, with any
 * usual switch interval: the event of its release tells how much of it the thread was not running.
 */
static void test_a_hold_is_measured_from_the_request_on(void) {
    int64_t outer = hw_now_ns(), outer_cpu = thread_cpu_ns();
    world_start("measured.hwt");
    struct world_worker worker = {.gil = fake_main_gil(), .rounds = 1};
    long asked = atomic_load(&fake_main_gil()->asked);
    world_go(&worker);
    while (atomic_load(&fake_main_gil()->asked) == asked) {
        sched_yield(); /* while this thread holds the GIL */
    }
    int64_t inner_cpu = thread_cpu_ns(), inner = hw_now_ns();
    usleep(5000);
    int64_t inner_off = hw_now_ns() - inner;
    inner_off -= thread_cpu_ns() - inner_cpu;
    void *me = PyEval_SaveThread();
    int64_t outer_off = outer_cpu - thread_cpu_ns();
    outer_off += hw_now_ns() - outer;
    T_EQ(0, pthread_join(worker.thread, NULL));
    PyEval_RestoreThread(me);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("measured.hwt"));
    T_EQ(HW__ACQUIRE, trace.events[0].event.kind);
    T_EQ(HW__RELEASE, trace.events[1].event.kind);
    unsigned told = (unsigned)trace.events[1].event.flags >> HW__RAN_SHIFT;
    T_TRUE(told != 0);
    double hold_ns = (double)(trace.events[1].event.time_ns - trace.events[0].event.time_ns);
    double step = hold_ns / HW__RAN_ALL, off_ns = hold_ns - (told - 1) * step;
    T_TRUE(off_ns + step >= (double)inner_off);
    T_TRUE(off_ns - 2 * step <= (double)outer_off);
    trace_close(&trace);
}

/* Of a hold that is measured from its beginning, the request tells how much of it the holder was
 * not running until then. */
static void test_a_request_tells_what_the_holder_ran_before(void) {
    world_start("before.hwt");
    void *me = PyEval_SaveThread();
    usleep(1000);
    int64_t outer = hw_now_ns(), outer_cpu = thread_cpu_ns();
    PyEval_RestoreThread(me); /* the time away is the first one, and is measured */
    int64_t inner_cpu = thread_cpu_ns(), inner = hw_now_ns();
    usleep(5000);
    int64_t inner_off = hw_now_ns() - inner - (thread_cpu_ns() - inner_cpu);
    struct world_worker worker = {.gil = fake_main_gil(), .rounds = 1};
    long asked = atomic_load(&fake_main_gil()->asked);
    world_go(&worker);
    while (atomic_load(&fake_main_gil()->asked) == asked) {
        sched_yield(); /* while this thread holds the GIL */
    }
    int64_t outer_off = hw_now_ns() - outer - (thread_cpu_ns() - outer_cpu);
    me = PyEval_SaveThread();
    T_EQ(0, pthread_join(worker.thread, NULL));
    PyEval_RestoreThread(me);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("before.hwt"));
    T_EQ(HW__ACQUIRE, trace.events[2].event.kind);
    T_EQ(1, trace.kinds[HW__REQUEST]);
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        if (event->kind == HW__REQUEST) {
            unsigned told = (unsigned)event->flags >> HW__RAN_SHIFT;
            T_TRUE(told != 0);
            double held_ns = (double)(event->time_ns - trace.events[2].event.time_ns);
            double step = held_ns / HW__RAN_ALL, off_ns = held_ns - (told - 1) * step;
            T_TRUE(off_ns + step >= (double)inner_off);
            T_TRUE(off_ns - 2 * step <= (double)outer_off);
        }
    }
    trace_close(&trace);
}

/* A long hold is measured although no thread makes a request, if the thread's CPU time was read
 * shortly before it: a thread alone that lost its core, or slept, does not look as if it computed.
 */
static void test_a_long_hold_without_a_request_is_measured(void) {
    world_start("alone.hwt");
    int64_t outer = hw_now_ns(), outer_cpu = thread_cpu_ns();
    world_yield(); /* read at its begin, and mostly too short to be read at its end */
    int64_t inner_cpu = thread_cpu_ns(), inner = hw_now_ns();
    usleep(30000);
    int64_t inner_off = hw_now_ns() - inner - (thread_cpu_ns() - inner_cpu);
    world_yield();
    int64_t outer_off = hw_now_ns() - outer - (thread_cpu_ns() - outer_cpu);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("alone.hwt"));
    T_EQ(HW__RELEASE, trace.events[3].event.kind);
    unsigned told = (unsigned)trace.events[3].event.flags >> HW__RAN_SHIFT;
    T_TRUE(told != 0);
    double hold_ns = (double)(trace.events[3].event.time_ns - trace.events[2].event.time_ns);
    double step = hold_ns / HW__RAN_ALL, off_ns = hold_ns - (told - 1) * step;
    T_TRUE(off_ns + 2 * step >= (double)inner_off);
    T_TRUE(off_ns - 2 * step <= (double)outer_off);
    trace_close(&trace);
}

/* Holds the GIL again and again for 30 ms, and is away for 20 us in between. Returns how often, as
 * a pointer: at least twice, so that the first time away has an end in the trace. */
static void *yields_often(void *unused) {
    (void)unused;
    void *state = fake_state_new(fake_main_gil());
    int64_t begin_ns = hw_now_ns();
    intptr_t rounds = 0;
    while (rounds < 2 || hw_now_ns() - begin_ns < 30000000) {
        PyEval_RestoreThread(state);
        PyEval_SaveThread();
        int64_t since_ns = hw_now_ns();
        while (hw_now_ns() - since_ns < 20000) {
        }
        sched_yield();
        rounds++;
    }
    fake_state_free(state);
    return (void *)rounds;
}

/* If threads release the GIL again and again, CPU times are read only now and then, the fewer for
 * each thread the more threads there are. */
static void test_of_many_times_away_few_are_looked_at(void) {
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    for (int count = 1; count <= THREADS; count += THREADS - 1) {
        world_start("few.hwt");
        void *state = PyEval_SaveThread();
        int64_t begin_ns = hw_now_ns();
        intptr_t rounds = 0;
        for (int i = 0; i < count; i++) {
            T_EQ(0, pthread_create(&threads[i], NULL, yields_often, NULL));
        }
        for (int i = 0; i < count; i++) {
            void *made = NULL;
            T_EQ(0, pthread_join(threads[i], &made));
            rounds += (intptr_t)made;
        }
        int64_t length_ns = hw_now_ns() - begin_ns;
        PyEval_RestoreThread(state);
        T_EQ(0, hw_trace_stop());
        struct trace trace = trace_open(world_path("few.hwt"));
        int told = 0;
        for (size_t i = 1; i < trace.event_count; i++) {
            const struct hw__event *event = &trace.events[i].event;
            bool ends_it = event->kind == HW__ACQUIRE || event->kind == HW__WAIT;
            told += ends_it && event->flags >> HW__RAN_SHIFT != 0;
        }
        /* Each thread's own: one in 100 ms, and each that is longer than 50 ms, as on a machine
         * without a free core. */
        int64_t own = (1 + count) * (1 + length_ns / 100000000 + length_ns / 50000000);
        T_TRUE(told >= count && told <= 17 + length_ns / 1000000 + own);
        T_TRUE(told <= 1 + rounds); /* at most those that were away for long */
        trace_close(&trace);
    }
}

/* Many threads wait for one hold and make requests again and again. The first request is recorded,
 * and no other. */
static void test_a_hold_is_asked_once(void) {
    struct world_worker workers[WORKERS];
    memset(workers, 0, sizeof workers);
    world_start("asked.hwt");
    long asked = atomic_load(&fake_main_gil()->asked);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].gil = fake_main_gil();
        workers[i].rounds = 1;
        world_go(&workers[i]);
    }
    while (atomic_load(&fake_main_gil()->asked) < asked + 3L * WORKERS) {
        sched_yield(); /* while this thread holds the GIL */
    }
    for (int i = 0; i < WORKERS; i++) {
        world_join(workers[i].thread);
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("asked.hwt"));
    int64_t let_go = INT64_MAX;
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        if (trace.events[i].serial == 1 && event->kind == HW__RELEASE && event->time_ns < let_go) {
            let_go = event->time_ns;
            T_EQ(HW__FORCED, event->flags & HW__FORCED);
        }
    }
    int requests = 0;
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        requests += event->kind == HW__REQUEST && event->time_ns < let_go;
    }
    T_EQ(1, requests);
    trace_check_slots(&trace);
    trace_close(&trace);
}

/* A new switch interval is recorded with the next acquire. */
static void test_interval_changes(void) {
    world_start("interval.hwt");
    world_yield();
    fake_set_interval(fake_main_gil(), 7000);
    world_yield();
    world_yield();
    fake_set_interval(fake_main_gil(), FAKE_INTERVAL_US);
    world_yield();
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("interval.hwt"));
    uint32_t expected[] = {7000, FAKE_INTERVAL_US};
    int seen = 0;
    for (size_t i = 0; i < trace.event_count; i++) {
        if (trace.events[i].event.kind == HW__INTERVAL) {
            T_TRUE(seen < 2);
            T_EQ(expected[seen++], trace.events[i].event.value);
        }
    }
    T_EQ(2, seen);
    trace_close(&trace);
}

/* A thread reads its times after each thing that it does. They grow as they should, and in the end
 * they agree with its slot. */
static void *ask_for_times(void *argument) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    int64_t hold_ns = 0, wait_ns = 0, hold_before = 0, wait_before = 0, begin = hw_now_ns();
    T_EQ(0, hw_gil_times(&hold_ns, &wait_ns));
    T_EQ(0, hold_ns);
    T_EQ(0, wait_ns);
    for (int i = 0; i < ROUNDS; i++) {
        PyEval_RestoreThread(me);
        T_EQ(0, hw_gil_times(&hold_ns, &wait_ns));
        T_TRUE(hold_ns >= hold_before && wait_ns >= wait_before);
        T_TRUE(hold_ns + wait_ns <= hw_now_ns() - begin);
        hold_before = hold_ns;
        wait_before = wait_ns;
        T_EQ(0, hw_gil_times(&hold_ns, &wait_ns));
        T_TRUE(hold_ns > hold_before); /* the hold goes on */
        T_EQ(wait_before, wait_ns);
        PyEval_SaveThread();
        T_EQ(0, hw_gil_times(&hold_ns, &wait_ns));
        T_TRUE(hold_ns > hold_before);
        hold_before = hold_ns;
    }
    const struct hw__slot *slot = own_slot();
    T_TRUE(slot != NULL);
    T_EQ(slot->hold_ns, hold_ns);
    T_EQ(slot->wait_ns, wait_ns);
    T_EQ(ROUNDS, slot->holds);
    fake_state_free(me);
    return argument;
}

/* The longest hold since the last call, which includes the hold that goes on. Each call starts a
 * new period. */
static void test_longest_since_asked(void) {
    world_start("longest.hwt");
    int64_t hold_ns, wait_ns, asked;
    usleep(3000);
    asked = hw_now_ns();
    T_EQ(0, hw_gil_longest(&hold_ns, &wait_ns));
    T_TRUE(hold_ns >= 3000000);
    T_EQ(0, wait_ns);
    for (int i = 0; i < 2; i++) { /* earlier holds are forgotten */
        int64_t before = asked;
        world_yield();
        world_yield();
        asked = hw_now_ns();
        T_EQ(0, hw_gil_longest(&hold_ns, &wait_ns));
        T_TRUE(hold_ns > 0 && hold_ns <= hw_now_ns() - before);
    }
    T_EQ(0, hw_trace_stop());
    T_EQ(-ESRCH, hw_gil_longest(&hold_ns, &wait_ns));
}

static void check_times(const char *name) {
    world_start(name);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        T_EQ(0, pthread_create(&threads[i], NULL, ask_for_times, NULL));
    }
    for (int i = 0; i < 3; i++) {
        world_join(threads[i]);
    }
    T_EQ(0, hw_trace_stop());
    int64_t hold_ns = 1, wait_ns = 1;
    T_EQ(-ESRCH, hw_gil_times(&hold_ns, &wait_ns));
    T_EQ(0, hold_ns);
    T_EQ(0, wait_ns);
}

static void test_times(void) {
    check_times("times.hwt");
    struct trace trace = trace_open(world_path("times.hwt"));
    trace_check_slots(&trace);
    trace_close(&trace);
}

/* A session in memory keeps the counters and nothing else, and leaves nothing behind. */
static void test_in_memory(void) {
    check_times("");
    world_start("");
    T_EQ(2, hw_trace_active());
    T_EQ(0, strcmp("", hw_trace_path()));
    T_TRUE(hw__session.fd >= 0);
    for (int i = 0; i < 10; i++) {
        world_yield();
    }
    const struct hw__slot *slot = own_slot();
    T_TRUE(slot != NULL);
    T_EQ(11, slot->holds);
    T_EQ(0, hw__session.header->chunk_count);
    T_EQ(0, hw__session.header->dropped_events);
    T_EQ(HW__GIL_ENABLED | HW__COUNTERS_ONLY, hw__session.header->flags);
    /* Another process can read the memory through the descriptor. */
    collect_memory(world_path("counters.hwt"), hw__session.fd);
    struct trace trace = trace_open(world_path("counters.hwt"));
    T_EQ(0, trace.event_count);
    T_EQ(11, trace_slots(&trace).holds);
    trace_close(&trace);
    int fd = hw__session.fd;
    T_EQ(0, hw_trace_stop());
    T_EQ(-1, fcntl(fd, F_GETFD));
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_one_thread);
    T_RUN(test_header);
    T_RUN(test_forced);
    T_RUN(test_a_request_without_an_event);
    T_RUN(test_a_preempted_thread_waits_from_its_release_on);
    T_RUN(test_a_call_soon_after_a_request_is_no_wait);
    T_RUN(test_a_shared_gil_is_told);
    T_RUN(test_computing_is_told_from_waiting);
    T_RUN(test_a_hold_is_measured_from_the_request_on);
    T_RUN(test_a_request_tells_what_the_holder_ran_before);
    T_RUN(test_a_long_hold_without_a_request_is_measured);
    T_RUN(test_of_many_times_away_few_are_looked_at);
    T_RUN(test_a_long_time_away_is_measured_after_many_short_ones);
    T_RUN(test_longest_since_asked);
    T_RUN(test_who_watches_is_told_no_cpu_times);
    T_RUN(test_a_hold_is_asked_once);
    T_RUN(test_interval_changes);
    T_RUN(test_threads_fight);
    T_RUN(test_times);
    T_RUN(test_in_memory);
    world_leave();
    return 0;
}
