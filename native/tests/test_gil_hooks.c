// SPDX-License-Identifier: MIT
/* The hooks are installed and removed while the interpreter's threads run. */
#include "gil_world.h"
#include "trace_file.h"

#define WORKERS 4
#define SESSIONS 30

/* Installing or removing the hooks twice has the effect of once, and calls work the same in either
 * state. */
static void test_install_and_remove(void) {
    for (int i = 0; i < 3; i++) {
        T_EQ(0, hw__hooks_install(fake_runtime(), HW__FOR_TRACE));
        T_EQ(0, hw__hooks_install(fake_runtime(), HW__FOR_TRACE));
        T_TRUE(world_hooked());
        world_yield();
        T_EQ(0, hw__hooks_remove(HW__FOR_TRACE));
        T_EQ(0, hw__hooks_remove(HW__FOR_TRACE));
        T_TRUE(!world_hooked());
        world_yield();
    }
}

/* A slot that the loader has bound in the meantime is hooked again, and removing restores the
 * function that it was bound to. */
static void test_repair(void) {
    uintptr_t *slots[4], old;
    int count;
    T_EQ(0, hw__got_find(fake_runtime(), "pthread_cond_signal", slots, 4, &count));
    T_EQ(0, hw__hooks_install(fake_runtime(), HW__FOR_TRACE));
    T_EQ(0, hw__hooks_repair());
    T_EQ(0, hw__got_write(slots[0], (uintptr_t)hw__real.signal, &old));
    T_TRUE(!world_hooked());
    T_EQ(1, hw__hooks_repair());
    T_TRUE(world_hooked());
    T_EQ(0, hw__hooks_remove(HW__FOR_TRACE));
    T_EQ((uintptr_t)hw__real.signal, hw__got_read(slots[0]));
}

/* An address that is in no image, and an image that calls none of the functions, are refused. */
static void test_nothing_to_hook(void) {
    int local = 0;
    T_EQ(-ENOENT, hw__hooks_install(&local, HW__FOR_TRACE));
    void *library = dlopen("libm.so.6", RTLD_LAZY);
    T_TRUE(library != NULL);
    T_EQ(-ENXIO, hw__hooks_install(dlsym(library, "cos"), HW__FOR_TRACE));
    T_EQ(0, dlclose(library));
    T_TRUE(!world_hooked());
}

/* Runs sessions one after the other while threads acquire and release GILs. Each file is whole, at
 * whatever point the threads were when the session began and ended. */
static void run_sessions(struct fake_gil **gils, int gil_count, const char *name, int sessions) {
    struct world_worker workers[WORKERS];
    atomic_bool stop = false;
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].gil = gils[i % gil_count];
        workers[i].spins = 20;
        workers[i].stop = &stop;
        world_go(&workers[i]);
    }
    for (int i = 0; i < sessions; i++) {
        world_start(name);
        for (int j = 0; j < WORKERS; j++) {
            world_await(&workers[j].taken, 2);
        }
        T_EQ(0, hw_trace_stop());
        T_TRUE(!world_hooked());
        struct trace trace = trace_open(world_path(name));
        T_TRUE(trace.complete);
        T_TRUE(trace.header->end_ns != 0);
        T_TRUE(trace.kinds[HW__ACQUIRE] >= WORKERS);
        T_EQ(0, trace.kinds[HW__EXIT]);
        trace_check_slots(&trace);
        trace_close(&trace);
        T_EQ(0, unlink(world_path(name)));
        world_await(&workers[0].taken, 2);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < WORKERS; i++) {
        world_join(workers[i].thread);
    }
}

static void test_sessions_while_threads_run(void) {
    struct fake_gil *gils[] = {fake_main_gil()};
    run_sessions(gils, 1, "run.hwt", t_rounds(SESSIONS));
}

/* The same where some threads have a GIL that the session does not know yet. Nothing but their own
 * GIL's mutex orders these threads. */
static void test_sessions_while_other_interpreters_run(void) {
    static struct fake_gil own[2];
    fake_gil_init(&own[0]);
    fake_gil_init(&own[1]);
    struct fake_gil *gils[] = {fake_main_gil(), &own[0], &own[1]};
    run_sessions(gils, 3, "others.hwt", t_rounds(SESSIONS));
    fake_gil_destroy(&own[0]);
    fake_gil_destroy(&own[1]);
}

/* A thread that does not use the interpreter, and calls the functions that any thread may call. */
static atomic_bool asker_stop;
static atomic_long asked;

static void *ask(void *unused) {
    while (!atomic_load(&asker_stop)) {
        int64_t hold_ns, wait_ns;
        int active = hw_trace_active();
        T_TRUE(active == 0 || active == 1);
        int error = hw_gil_times(&hold_ns, &wait_ns);
        T_TRUE(error == 0 || error == -ESRCH);
        T_EQ(0, hold_ns);
        T_EQ(0, wait_ns);
        atomic_fetch_add(&asked, 1);
    }
    return unused;
}

/* hw_trace_active() and hw_gil_times() may be called by any thread at any time. */
static void test_asked_while_sessions_come_and_go(void) {
    pthread_t thread;
    T_EQ(0, pthread_create(&thread, NULL, ask, NULL));
    for (int i = 0; i < 10; i++) {
        world_start("asked.hwt");
        world_await(&asked, 2);
        T_EQ(0, hw_trace_stop());
        world_await(&asked, 2);
    }
    atomic_store(&asker_stop, true);
    world_join(thread);
}

static int (*signal_really)(pthread_cond_t *);

/* A thread that sleeps in a wait for the GIL. */
static struct sleeper {
    pthread_t thread;
    _Atomic pid_t tid;
} sleeper;

static void *sleep_in_wait(void *argument) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    atomic_store(&sleeper.tid, gettid());
    PyEval_RestoreThread(me);
    PyEval_SaveThread();
    fake_state_free(me);
    return argument;
}

static void send_to_sleep(void) {
    atomic_store(&sleeper.tid, 0);
    T_EQ(0, pthread_create(&sleeper.thread, NULL, sleep_in_wait, NULL));
    while (atomic_load(&sleeper.tid) == 0) {
        sched_yield();
    }
    world_await_asleep(atomic_load(&sleeper.tid));
}

/* A session ends while a thread waits: the wait has no end in the file, and the thread wakes in a
 * hook that is no longer installed and has nothing to record. */
static void test_stop_while_a_thread_waits(void) {
    fake_set_interval(fake_main_gil(), 3600000000UL);
    world_start("waits.hwt");
    send_to_sleep();
    T_EQ(0, hw_trace_stop());
    world_join(sleeper.thread);
    struct trace trace = trace_open(world_path("waits.hwt"));
    T_EQ(1, trace.kinds[HW__WAIT]);
    T_EQ(1, trace.kinds[HW__ACQUIRE]);
    T_EQ(HW__SLOT_WAITING, trace.slots[1].state);
    T_EQ(0, trace.slots[1].waits);
    trace_close(&trace);
}

/* A session ends and another one begins while a thread waits. The second session sees the thread
 * acquire the GIL, without the wait, whose beginning it has not seen. */
static void test_next_session_while_a_thread_waits(void) {
    world_start("one.hwt");
    send_to_sleep();
    T_EQ(0, hw_trace_stop());
    world_start("two.hwt");
    world_join(sleeper.thread);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("one.hwt"));
    T_EQ(1, trace.kinds[HW__WAIT]);
    trace_close(&trace);
    trace = trace_open(world_path("two.hwt"));
    T_EQ(0, trace.kinds[HW__REQUEST]);
    T_TRUE(trace.kinds[HW__WAIT] <= 1); /* the main thread may have to wait after the join */
    T_EQ(3, trace.kinds[HW__ACQUIRE]);
    T_EQ(2, trace.kinds[HW__RELEASE]);
    trace_close(&trace);
    fake_set_interval(fake_main_gil(), FAKE_INTERVAL_US);
}

/* A release after a request is recorded after the signal; any other release is recorded before
 * it. */
static atomic_long signals_before, signals_after;

static int note_and_signal(pthread_cond_t *cond) {
    if (cond == &fake_main_gil()->memory.cond) {
        bool is_recorded = hw__gils[0].holder == NULL;
        T_TRUE(is_recorded != hw__gil_is_asked(&hw__gils[0]));
        atomic_fetch_add(is_recorded ? &signals_after : &signals_before, 1);
    }
    return signal_really(cond);
}

static void test_who_is_asked_signals_first(void) {
    signal_really = hw__real.signal;
    atomic_bool stop = false;
    struct world_worker worker = {.gil = fake_main_gil(), .spins = 1, .stop = &stop};
    world_start("asked-first.hwt");
    hw__real.signal = note_and_signal;
    world_go(&worker);
    world_await(&worker.taken, 1);
    while (atomic_load(&signals_before) < 3) {
        (void)fake_check();
    }
    world_await(&worker.taken, 1);
    atomic_store(&stop, true);
    world_join(worker.thread);
    hw__real.signal = signal_really;
    T_TRUE(atomic_load(&signals_after) > 0);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("asked-first.hwt"));
    T_TRUE(trace.sums.forced >= 3);
    trace_close(&trace);
}

/* A thread that finds the GIL's mutex locked waits for the GIL from then on, even if the GIL itself
 * is free by the time that the thread has the mutex. */
static void test_the_mutex_is_waited_for(void) {
    struct fake_gil *gil = fake_main_gil();
    world_start("mutex.hwt");
    int64_t begin_ns = hw_now_ns();
    void *me = PyEval_SaveThread();
    T_EQ(0, pthread_mutex_lock(gil->mutex));
    send_to_sleep();
    int64_t free_ns = hw_now_ns();
    T_EQ(0, pthread_mutex_unlock(gil->mutex));
    T_EQ(0, pthread_join(sleeper.thread, NULL));
    PyEval_RestoreThread(me);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("mutex.hwt"));
    T_EQ(1, trace.kinds[HW__WAIT]);
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        if (event->kind == HW__WAIT) {
            T_TRUE(event->time_ns > begin_ns && event->time_ns < free_ns);
            T_EQ(HW__ACQUIRE, trace.events[i + 1].event.kind);
            T_TRUE(trace.events[i + 1].event.time_ns > free_ns);
        }
    }
    T_EQ(1, trace.sums.waits);
    trace_close(&trace);
}

static atomic_int other_tid;

/* Takes the GIL, 20 ms after it has had to wait for the GIL's mutex for another reason. */
static void *add_pending_call(void *unused) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    atomic_store(&other_tid, gettid());
    fake_add_pending_call(fake_main_gil());
    for (int64_t since_ns = hw_now_ns(); hw_now_ns() - since_ns < 20000000;) {
    }
    PyEval_RestoreThread(me);
    PyEval_SaveThread();
    fake_state_free(me);
    return unused;
}

static void *take_once(void *unused) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    atomic_store(&other_tid, gettid());
    PyEval_RestoreThread(me);
    PyEval_SaveThread();
    fake_state_free(me);
    return unused;
}

/* Begins a session in which waits for the mutex are seen by its address, and releases the GIL.
 * Starts a thread, and waits until it sleeps for the mutex, which the caller then has. Returns the
 * calling thread's state. */
static void *start_to_want_the_mutex(const char *name, void *(*function)(void *),
                                     pthread_t *thread) {
    world_start(name);
    send_to_sleep();
    world_join(sleeper.thread);
    void *me = PyEval_SaveThread();
    T_EQ(0, pthread_mutex_lock(fake_main_gil()->mutex));
    atomic_store(&other_tid, 0);
    T_EQ(0, pthread_create(thread, NULL, function, NULL));
    while (atomic_load(&other_tid) == 0) {
    }
    world_await_asleep(atomic_load(&other_tid));
    return me;
}

/* Returns how many waits the third thread had that began before `until_ns`. The main thread may
 * have to wait, too, and the sleeper has. */
static int waits_of_third(const char *name, int64_t until_ns) {
    struct trace trace = trace_open(world_path(name));
    int waits = 0;
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        waits +=
            event->kind == HW__WAIT && trace.events[i].serial == 3 && event->time_ns < until_ns;
    }
    T_EQ(3, trace.header->thread_count);
    trace_close(&trace);
    return waits;
}

/* A thread that waited for the mutex without wanting the GIL has no wait when it later finds the
 * GIL free. */
static void test_the_mutex_was_for_something_else(void) {
    pthread_t thread;
    void *me = start_to_want_the_mutex("pending.hwt", add_pending_call, &thread);
    T_EQ(0, pthread_mutex_unlock(fake_main_gil()->mutex));
    T_EQ(0, pthread_join(thread, NULL));
    PyEval_RestoreThread(me);
    T_EQ(0, hw_trace_stop());
    T_EQ(0, waits_of_third("pending.hwt", INT64_MAX));
}

/* A thread that has waited for the mutex, and then loses its core before it has the GIL, has waited
 * from the beginning. */
static void test_the_mutex_is_held_for_long(void) {
    pthread_t thread;
    struct hw__gil_memory *memory = &fake_main_gil()->memory;
    void *me = start_to_want_the_mutex("held.hwt", take_once, &thread);
    T_EQ(0, pthread_mutex_lock(&memory->switch_mutex)); /* keeps it from having the GIL */
    int64_t free_ns = hw_now_ns();
    T_EQ(0, pthread_mutex_unlock(&memory->mutex));
    while (hw_now_ns() - free_ns < 1000000) {
    }
    T_EQ(0, pthread_mutex_unlock(&memory->switch_mutex));
    T_EQ(0, pthread_join(thread, NULL));
    PyEval_RestoreThread(me);
    T_EQ(0, hw_trace_stop());
    T_EQ(1, waits_of_third("held.hwt", free_ns));
}

/* Acquires and releases the GIL once, in a thread of its own that need not wait for it. */
static void take_it_from_another_thread(void) {
    pthread_t thread;
    void *me = PyEval_SaveThread();
    T_EQ(0, pthread_create(&thread, NULL, take_once, NULL));
    T_EQ(0, pthread_join(thread, NULL));
    PyEval_RestoreThread(me);
}

/* Waits for the mutex are hooked while several threads use the GIL, and for some releases after
 * that. */
static void test_the_mutex_is_watched_while_threads_wait(void) {
    uint32_t usual = hw__hooks_quiet;
    hw__hooks_quiet = 3;
    world_start("watched.hwt");
    for (int i = 0; i < 3; i++) {
        T_TRUE(world_hooks("pthread_mutex_lock"));
        world_yield();
    }
    T_TRUE(!world_hooks("pthread_mutex_lock"));
    world_yield();
    T_TRUE(!world_hooks("pthread_mutex_lock"));
    send_to_sleep();
    T_TRUE(world_hooks("pthread_mutex_lock"));
    world_join(sleeper.thread);
    for (int i = 0; i < 4; i++) {
        world_yield();
    }
    T_TRUE(!world_hooks("pthread_mutex_lock"));
    take_it_from_another_thread();
    T_TRUE(world_hooks("pthread_mutex_lock"));
    for (int i = 0; i < 2; i++) { /* never three releases of one thread in a row */
        world_yield();
        take_it_from_another_thread();
        T_TRUE(world_hooks("pthread_mutex_lock"));
    }
    T_EQ(0, hw_trace_stop());
    T_TRUE(!world_hooks("pthread_mutex_lock"));
    hw__hooks_quiet = usual;
}

/* In a crowd of waiters, only a limited number wake as early as the interpreter wants them to. */
enum { WAITERS = 200, PUNCTUAL = 128, CROWD_FROM = 150, LATE_AT_MOST = WAITERS - PUNCTUAL };
#define EACH_NS 50000

static struct timespec wanted;
static _Atomic int64_t slept[WAITERS]; /* how much later than wanted, in units of EACH_NS */
static __thread int waiter;            /* the calling thread's index in `slept` */
static atomic_int asleep;
static atomic_int once_more; /* the waiter that must wake and wait again */
static atomic_bool gone;
static int (*sleep_really)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

static int note_and_sleep(pthread_cond_t *cond, pthread_mutex_t *mutex,
                          const struct timespec *deadline) {
    int64_t more_ns = (deadline->tv_sec - wanted.tv_sec) * INT64_C(1000000000) +
                      (deadline->tv_nsec - wanted.tv_nsec);
    T_TRUE(deadline->tv_nsec >= 0 && deadline->tv_nsec < 1000000000);
    T_EQ(0, more_ns % EACH_NS);
    T_TRUE(more_ns >= 0 && more_ns / EACH_NS <= LATE_AT_MOST);
    atomic_store(&slept[waiter], more_ns / EACH_NS);
    atomic_fetch_add(&asleep, 1); /* before the mutex is unlocked */
    int result = 0;
    while (!atomic_load(&gone) && atomic_load(&once_more) != waiter) {
        result = sleep_really(cond, mutex, deadline);
    }
    return result;
}

static void *be_one_of_many(void *number) {
    struct fake_gil *gil = fake_main_gil();
    waiter = (int)(intptr_t)number;
    T_EQ(0, pthread_mutex_lock(gil->mutex));
    T_EQ(0, fake_timedwait(&gil->memory.cond, gil->mutex, &wanted));
    if (atomic_load(&once_more) == waiter) {
        atomic_store(&once_more, -1);
        T_EQ(0, fake_timedwait(&gil->memory.cond, gil->mutex, &wanted));
    }
    T_EQ(0, pthread_mutex_unlock(gil->mutex));
    return number;
}

/* Checks that `punctual` waiters sleep until the deadline, and each of the others EACH_NS longer
 * than the one before. */
static void check_sleepers(int punctual) {
    int at[LATE_AT_MOST + 1] = {0};
    for (int i = 0; i < WAITERS; i++) {
        at[atomic_load(&slept[i])]++;
    }
    T_EQ(punctual, at[0]);
    for (int i = 1; i <= WAITERS - punctual; i++) {
        T_EQ(1, at[i]);
    }
    T_EQ((uint32_t)punctual, atomic_load(&hw__gils[0].punctual));
    T_EQ((uint32_t)(WAITERS - punctual), atomic_load(&hw__gils[0].late));
}

static void wait_for_sleepers(int count) {
    while (atomic_load(&asleep) < count) {
        sched_yield();
    }
}

static void wake_all(void) {
    T_EQ(0, pthread_mutex_lock(fake_main_gil()->mutex));
    T_EQ(0, pthread_cond_broadcast(&fake_main_gil()->memory.cond));
    T_EQ(0, pthread_mutex_unlock(fake_main_gil()->mutex));
}

static void none_sleeps_here(void) {
    T_EQ(0, atomic_load(&hw__gils[0].punctual));
    T_EQ(0, atomic_load(&hw__gils[0].late));
    exit(0);
}

/* Makes WAITERS threads wait, of which `punctual` are expected to be punctual. */
static void let_many_wait(unsigned crowd_from, int punctual) {
    pthread_t threads[WAITERS];
    struct hw__late late = hw__hooks_late;
    hw__hooks_late = (struct hw__late){.waiters = crowd_from, .punctual = PUNCTUAL};
    T_EQ(0, clock_gettime(CLOCK_REALTIME, &wanted));
    wanted.tv_sec += 3600;
    wanted.tv_nsec = 999999999; /* so that the later deadlines are in the next second */
    atomic_store(&asleep, 0);
    atomic_store(&once_more, -1);
    atomic_store(&gone, false);
    sleep_really = hw__real.timedwait;
    hw__real.timedwait = note_and_sleep;
    world_start("many.hwt");
    for (int i = 0; i < WAITERS; i++) {
        T_EQ(0, pthread_create(&threads[i], NULL, be_one_of_many, (void *)(intptr_t)i));
    }
    wait_for_sleepers(WAITERS);
    check_sleepers(punctual);
    world_wait(world_fork(none_sleeps_here));
    if (punctual < WAITERS &&
        punctual > PUNCTUAL) { /* a waiter that wakes and waits again becomes a late one */
        int who = 0;
        while (atomic_load(&slept[who]) != 0) {
            who++;
        }
        atomic_store(&once_more, who);
        wake_all();
        wait_for_sleepers(WAITERS + 1);
        check_sleepers(punctual - 1);
    }
    atomic_store(&gone, true);
    wake_all();
    for (int i = 0; i < WAITERS; i++) {
        world_join(threads[i]);
    }
    T_EQ(0, atomic_load(&hw__gils[0].punctual));
    T_EQ(0, atomic_load(&hw__gils[0].late));
    T_EQ(0, hw_trace_stop());
    hw__real.timedwait = sleep_really;
    hw__hooks_late = late;
}

static void test_many_wait(void) {
    let_many_wait(WAITERS, WAITERS); /* no crowd yet: the deadlines are unchanged */
    let_many_wait(CROWD_FROM, CROWD_FROM);
    let_many_wait(0, PUNCTUAL);
}

/* A wait on a GIL's condition variable, but with another mutex than the GIL's, is not recorded. */
static void test_another_mutex(void) {
    pthread_mutex_t another = PTHREAD_MUTEX_INITIALIZER;
    const struct timespec past = {0, 1};
    world_start("another.hwt");
    T_EQ(0, pthread_mutex_lock(&another));
    T_EQ(ETIMEDOUT, fake_timedwait(&fake_main_gil()->memory.cond, &another, &past));
    T_EQ(0, pthread_mutex_unlock(&another));
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("another.hwt"));
    T_EQ(0, trace.kinds[HW__WAIT]);
    trace_close(&trace);
}

/* An embedder closes the interpreter's library while hooks are in it. The library stays loaded,
 * because threads may come back to it, and the hooks are removed from it later. */
static void test_image_is_closed(void) {
    void *library = dlopen(FAKE_OTHER, RTLD_NOW | RTLD_LOCAL);
    T_TRUE(library != NULL);
    T_EQ(0, hw__hooks_install(dlsym(library, "_PyRuntime"), HW__FOR_TRACE));
    T_EQ(0, dlclose(library));
    library = dlopen(FAKE_OTHER, RTLD_NOW | RTLD_NOLOAD);
    T_TRUE(library != NULL);
    T_EQ(0, hw__hooks_remove(HW__FOR_TRACE));
    T_EQ(0, dlclose(library));
}

/* A thread of a real-time class waits for a thread of the usual class on the same core, and leaves
 * that core to it. */
static void *be_busy(void *go) {
    while (!atomic_load((atomic_bool *)go)) {
    }
    atomic_store(&hw__gils[0].busy, false);
    return NULL;
}

static int64_t own_cpu_ns(void) {
    struct timespec now;
    T_EQ(0, clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now));
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void on_one_core(void) {
    cpu_set_t one;
    pthread_t thread;
    atomic_bool go = false;
    struct sched_param urgent = {.sched_priority = 1};
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    T_EQ(0, sched_setaffinity(0, sizeof one, &one));
    atomic_store(&hw__gils[0].busy, true);
    T_EQ(0, pthread_create(&thread, NULL, be_busy, &go));
    if (sched_setscheduler(0, SCHED_FIFO, &urgent) != 0) {
        fprintf(stderr, "not without the right to use SCHED_FIFO\n");
    }
    atomic_store(&go, true);
    int64_t before_ns = own_cpu_ns();
    hw__gil_unrecord(&hw__gils[0]);
    /* Otherwise the kernel lets the other thread run only when it throttles the real-time class:
     * after 950 ms. */
    T_TRUE(own_cpu_ns() - before_ns < 300000000);
    T_EQ(0, pthread_join(thread, NULL));
    exit(0);
}

static void test_real_time(void) { world_wait(world_fork(on_one_core)); }

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_install_and_remove);
    T_RUN(test_repair);
    T_RUN(test_nothing_to_hook);
    T_RUN(test_stop_while_a_thread_waits);
    T_RUN(test_next_session_while_a_thread_waits);
    T_RUN(test_sessions_while_threads_run);
    T_RUN(test_sessions_while_other_interpreters_run);
    T_RUN(test_asked_while_sessions_come_and_go);
    T_RUN(test_who_is_asked_signals_first);
    T_RUN(test_the_mutex_is_waited_for);
    T_RUN(test_the_mutex_was_for_something_else);
    T_RUN(test_the_mutex_is_held_for_long);
    T_RUN(test_the_mutex_is_watched_while_threads_wait);
    T_RUN(test_many_wait);
    T_RUN(test_another_mutex);
    T_RUN(test_image_is_closed);
    T_RUN(test_real_time);
    world_leave();
    return 0;
}
