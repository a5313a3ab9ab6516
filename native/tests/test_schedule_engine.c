// SPDX-License-Identifier: MIT
/* The engine under the stand-in for the interpreter. Threads acquire and release a GIL by CPython's
 * protocol while a policy is on, starts and stops, or errs, or while the process forks. */
#include <fcntl.h>

#include "base/say.h"
#include "engine/doze.h"
#include "engine/sched.h"
#include "engine/wake.h"
#include "gil/scheduler.h"
#include "gil_world.h"
#include "headway/schedule.h"
#include "policy/policies.h"
#include "trace_file.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#define MS 1000000
#define WORKERS 6
#define ROUNDS 100
#define LONG                                                                                       \
    (WORLD_TSAN ? 30000                                                                            \
                : 300000) /* checks for a request in a hold: longer than a switch interval */

static char problem[300];

static void schedule(const struct hw_policy *policy, const char *options) {
    T_EQ(0, hw_schedule_start(policy, options, problem, sizeof problem));
}

static void unschedule(void) {
    T_EQ(0, hw_schedule_stop());
    T_TRUE(!world_hooked());
}

static struct hw_schedule_counts counts(void) {
    struct hw_schedule_counts found;
    T_EQ(0, hw_schedule_counts(&found));
    return found;
}

static struct world_worker workers[WORKERS];

static void start_workers(struct fake_gil *gil, long rounds, int spins, atomic_bool *stop) {
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].gil = gil;
        workers[i].rounds = rounds;
        workers[i].spins = i % 2 == 0 ? spins : 1; /* half of them compute, half release often */
        workers[i].stop = stop;
        world_go(&workers[i]);
    }
}

static void join_workers(void) {
    for (int i = 0; i < WORKERS; i++) {
        world_join(workers[i].thread);
    }
}

/* Under each policy all threads finish, and the engine has seen each acquire. */
static void test_all_come_through(void) {
    for (int i = 0; hw_policy_at(i) != NULL; i++) {
        schedule(hw_policy_at(i), "");
        T_TRUE(strcmp(hw_policy_at(i)->name, hw_schedule_active()) == 0);
        struct hw_schedule_counts before = counts();
        int rounds = t_rounds(ROUNDS);
        start_workers(fake_main_gil(), rounds, LONG, NULL);
        join_workers();
        struct hw_schedule_counts after = counts();
        long taken = 0, forced = 0;
        for (int j = 0; j < WORKERS; j++) {
            taken += atomic_load(&workers[j].taken);
            forced += atomic_load(&workers[j].forced);
            T_TRUE(atomic_load(&workers[j].taken) >= rounds);
        }
        /* This includes the main thread's acquires after each join, if there was one. */
        T_TRUE(after.acquires - before.acquires >= taken);
        T_TRUE(after.acquires - before.acquires <= taken + 2 * WORKERS);
        T_TRUE(forced > 0);
        T_TRUE(after.asked > 0);
        T_TRUE(after.worst_wait_ns <= after.wait_ns);
        T_EQ(1, after.threads); /* threads that ended gave their records back */
        T_EQ(0, after.without);
        unschedule();
        T_TRUE(hw_schedule_active()[0] == '\0');
    }
}

static void is_left_alone(struct hw__runner *runner) {
    T_EQ(SCHED_OTHER, sched_getscheduler(runner->tid));
}

/* How often a woken thread gave up its core, and how often a thread that woke another one did. */
static atomic_int yields, callers_yields;

int sched_yield(void) {
    const struct hw__runner *me = hw__runner_known();
    if (me != NULL && atomic_load(&me->gives_way_until_ns) != 0) {
        atomic_fetch_add(&yields, 1);
    } else if (me != NULL && gettid() != getpid()) { /* otherwise this test yields */
        atomic_fetch_add(&callers_yields, 1);
    }
    return (int)syscall(SYS_sched_yield);
}

/* Wants the GIL for a moment at a time, and blocks without it in between. */
static void *moments(void *stop) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    for (int i = 0; i < 10 * ROUNDS; i++) {
        PyEval_RestoreThread(me);
        PyEval_SaveThread();
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    atomic_store((atomic_bool *)stop, true);
    fake_state_free(me);
    return NULL;
}

static bool slices_count(void) {
    struct utsname system;
    int major, minor;
    T_EQ(0, uname(&system));
    T_EQ(2, sscanf(system.release, "%d.%d", &major, &minor));
    return major > 6 || (major == 6 && minor >= 12);
}

static int yields_under(const struct hw_policy *policy, const char *options) {
    schedule(policy, options);
    int before = atomic_load(&yields);
    start_workers(fake_main_gil(), ROUNDS, LONG, NULL);
    join_workers();
    atomic_bool stop = false;
    struct world_worker computes = {
        .gil = fake_main_gil(), .rounds = LONG, .spins = 40 * LONG, .stop = &stop};
    pthread_t thread;
    T_EQ(0, pthread_create(&thread, NULL, moments, &stop));
    world_go(&computes);
    world_join(thread);
    world_join(computes.thread);
    unschedule();
    return atomic_load(&yields) - before;
}

/* On a core that all threads share, a CPU-bound thread that was woken lets the thread that woke it
 * run on first. It does not with yield=0, nor under `stock`. The thread that wakes another one
 * gives up the core only with a short time slice of the operating system. */
static void test_gives_way(void) {
    cpu_set_t all, one;
    T_EQ(0, sched_getaffinity(0, sizeof all, &all));
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    T_EQ(0, sched_setaffinity(0, sizeof one, &one));
    int before = atomic_load(&callers_yields);
    /* after a yield to another program, the thread does not yield again for a while */
    int seen = 0;
    for (int i = 0; i < 30 && seen == 0; i++) {
        seen = yields_under(&hw__policy_fair, "");
    }
    T_TRUE(seen > 0);
    T_EQ(0, yields_under(&hw__policy_fair, "yield=0 os_slice_us=100"));
    T_EQ(0, yields_under(&hw__policy_stock, "os_slice_us=100"));
    T_EQ(before, atomic_load(&callers_yields));
    for (int i = 0; i < 30 && atomic_load(&callers_yields) == before; i++) {
        yields_under(&hw__policy_fair, "os_slice_us=100");
    }
    T_TRUE(slices_count() == (atomic_load(&callers_yields) > before));
    T_EQ(0, sched_setaffinity(0, sizeof all, &all));
}

/* Releases the GIL with one waiter in the queue, for a call that is expected to last `away_ns`,
 * with `budget_ns` left for grace. Returns whether the GIL was left free. */
static bool is_graced(int64_t away_ns, int64_t budget_ns) {
    static struct hw__runner other;
    struct hw__sched *sched = hw__sched_of(world_record(fake_main_gil()));
    pthread_mutex_t *mutex = &sched->memory->mutex;
    T_EQ(0, pthread_mutex_lock(mutex));
    struct hw__runner *me = hw__sched_runner(sched);
    sched->ledger.phase = HW__PHASE_HELD;
    sched->ledger.holder = &me->waiter;
    sched->ledger.view.holder = &me->waiter.seen;
    sched->ledger.request.made = false;
    sched->ledger.called = NULL;
    me->waiter.seen.acquired_ns = hw__sched_time(sched);
    for (size_t i = 0; i < sizeof me->waiter.away_ns / sizeof *me->waiter.away_ns; i++) {
        me->waiter.away_ns[i] = (uint16_t)away_ns;
    }
    other.waiter.seen.key = INT64_MAX / 2;
    other.waiter.seen.lane = 1; /* it is CPU-bound */
    other.waiter.wake_at_ns = me->waiter.seen.acquired_ns;
    hw__ledger_enqueue(&sched->ledger, &other.waiter);
    hw__doze_prepare(&other);
    sched->ledger.budget_ns = budget_ns;
    sched->ledger.budget_at_ns = me->waiter.seen.acquired_ns;
    int locked = HW__READ(sched->memory->locked);
    sched->memory->locked = 0;
    hw__sched_release(world_record(fake_main_gil()));
    sched->memory->locked = locked;
    bool graced = sched->ledger.phase == HW__PHASE_GRACE;
    sched->ledger.phase = HW__PHASE_FREE;
    hw__ledger_leave(&sched->ledger, &other.waiter);
    T_EQ(0, pthread_mutex_unlock(mutex));
    hw__wake_unlocked(mutex);
    return graced;
}

/* The shortest calls get grace even if the budget is used up, to a certain point. */
static void test_grace(void) {
    schedule(&hw__policy_fair, "");
    T_TRUE(is_graced(1000, MS / 10));
    T_TRUE(is_graced(6000, MS / 10));
    T_TRUE(!is_graced(20000, MS / 10));
    T_TRUE(is_graced(1000, -MS / 10));
    T_TRUE(!is_graced(6000, -MS / 10));
    T_TRUE(!is_graced(1000, -MS));
    unschedule();
}

/* The calling thread has the GIL, and so passes over a waiter that was woken before. Returns
 * whether its release wakes `second`, too. */
static bool calls_another(int64_t burst_ns) {
    static struct hw__runner first, second;
    struct hw__gil *gil = world_record(fake_main_gil());
    struct hw__sched *sched = hw__sched_of(gil);
    pthread_mutex_t *mutex = &sched->memory->mutex;
    T_EQ(0, pthread_mutex_lock(mutex));
    int locked = HW__READ(sched->memory->locked);
    int64_t barged = sched->ledger.counts.barged;
    first = second = (struct hw__runner){.waiter.seen = {.key = INT64_MAX / 4}};
    second.waiter.seen.key++;
    second.waiter.seen.burst_ns = burst_ns;
    hw__ledger_enqueue(&sched->ledger, &first.waiter);
    hw__ledger_enqueue(&sched->ledger, &second.waiter);
    hw__doze_prepare(&first);
    hw__doze_prepare(&second);
    sched->memory->locked = 0;
    hw__sched_release(gil);
    T_TRUE(sched->ledger.called == &first.waiter && first.waiter.place == 0 &&
           second.waiter.place != 0);
    hw__sched_release(gil); /* the first waiter may still come */
    T_TRUE(second.waiter.place != 0);
    hw__sched_acquire(gil);
    hw__sched_release(gil);
    bool another = second.waiter.place == 0;
    T_EQ(another ? (intptr_t)&second.waiter : (intptr_t)&first.waiter,
         (intptr_t)sched->ledger.called);
    T_EQ(HW__STAGE_CALLED, first.waiter.stage);
    T_EQ(another ? HW__STAGE_CALLED : HW__STAGE_QUEUED, second.waiter.stage);
    hw__sched_acquire(gil);
    sched->memory->locked = locked;
    hw__ledger_leave(&sched->ledger, &first.waiter);
    hw__ledger_leave(&sched->ledger, &second.waiter);
    T_EQ(barged, sched->ledger.counts.barged);
    T_EQ(0, pthread_mutex_unlock(mutex));
    hw__wake_unlocked(mutex);
    return another;
}

static void test_calls_another_where_nobody_computes(void) {
    schedule(&hw__policy_fair, "");
    T_TRUE(calls_another(MS / 10));
    T_TRUE(!calls_another(10 * MS));
    unschedule();
}

/* A thread that was preempted and comes back to a free GIL leaves the GIL to the waiter that was
 * woken, for as long as that waiter may be on its way. */
static void test_leaves_it_to_who_was_called(void) {
    static struct hw__runner called;
    schedule(&hw__policy_fair, "");
    struct hw__gil *gil = world_record(fake_main_gil());
    struct hw__sched *sched = hw__sched_of(gil);
    pthread_mutex_t *mutex = &sched->memory->mutex;
    void *state = PyEval_SaveThread();

    T_EQ(0, pthread_mutex_lock(mutex));
    struct hw__runner *me = hw__sched_runner(sched);
    hw__ledger_enqueue(&sched->ledger, &me->waiter);
    hw__doze_prepare(me);
    me->waiter.wake_at_ns = 42;
    hw__sched_locked(gil); /* no waiter was woken */
    T_EQ(42, me->waiter.wake_at_ns);
    hw__ledger_dequeue(&sched->ledger, &me->waiter);
    called.waiter.stage = HW__STAGE_CALLED;
    sched->ledger.called = &called.waiter;
    sched->ledger.called_ns = hw__sched_time(sched);
    hw__sched_locked(gil); /* this thread does not want the GIL */
    T_EQ(42, me->waiter.wake_at_ns);
    hw__ledger_enqueue(&sched->ledger, &me->waiter);
    hw__doze_prepare(me);
    int64_t called_ns = sched->ledger.called_ns = hw__sched_time(sched);
    T_EQ(0, pthread_mutex_unlock(mutex));
    PyEval_RestoreThread(state);
    T_TRUE(hw__sched_time(sched) - called_ns >= MS);
    sched->ledger.called = NULL;
    unschedule();
}

/* A policy starts and stops while threads wait, hold the GIL, and sleep in either kind of wait.
 * Every other time it has the operating system's help, of which nothing remains. */
static void test_comes_and_goes(void) {
    atomic_bool stop = false;
    start_workers(fake_main_gil(), 0, 500, &stop);
    for (int i = 0; i < 40; i++) {
        schedule(hw_policy_at(i % 4), i / 4 % 2 == 0 ? "" : "os_slice_us=500 os_batch=1");
        world_await(&workers[i % WORKERS].taken, 30);
        unschedule();
        hw__runners_each(is_left_alone);
        world_await(&workers[(i + 1) % WORKERS].taken, 3);
    }
    atomic_store(&stop, true);
    join_workers();
}

/* A second start without a stop, and a stop without a start, are errors. */
static void test_twice(void) {
    T_EQ(-ESRCH, hw_schedule_stop());
    schedule(hw_policy_at(0), "");
    T_EQ(-EALREADY, hw_schedule_start(hw_policy_at(1), "", problem, sizeof problem));
    unschedule();
    T_EQ(-ESRCH, hw_schedule_stop());
}

/* Options: each wrong one is named, and then no policy is on. */
static void test_options(void) {
    const struct hw_policy *fair = hw_policy_at(0);
    static const char *const wrong[] = {"nothing=1",      "latency_us",
                                        "latency_us=",    "latency_us=1e3",
                                        "latency_us=999", "spin_us=1001",
                                        "spin_us=-1",     "=5",
                                        "spin_us=5 x",    "latency_us=99999999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        T_EQ(-EINVAL, hw_schedule_start(fair, wrong[i], problem, sizeof problem));
        T_TRUE(problem[0] != '\0');
        T_TRUE(!world_hooked());
    }
    schedule(fair, "latency_us=20000 spin_us=5");
    T_EQ(20000, hw__sched_of(world_record(fake_main_gil()))->ledger.view.options[0]);
    T_EQ(5000, hw__sched_of(world_record(fake_main_gil()))->ledger.settings.spin_ns);
    unschedule();
}

/* A policy and a recording are on at once, and each of them ends first in turn. The file is whole,
 * and its waits are those of the policy. */
static void test_recorded_meanwhile(void) {
    for (int i = 0; i < 8; i++) {
        atomic_bool stop = false;
        start_workers(fake_main_gil(), 0, 500, &stop);
        bool outside = i % 2 == 0;
        if (outside) {
            schedule(hw_policy_at(i / 2), "");
        }
        world_start("scheduled.hwt");
        if (!outside) {
            schedule(hw_policy_at(i / 2), "");
        }
        for (int j = 0; j < WORKERS; j++) {
            world_await(&workers[j].taken, 5);
        }
        if (!outside) {
            T_EQ(0, hw_schedule_stop());
            T_TRUE(world_hooked());
        }
        T_EQ(0, hw_trace_stop());
        if (outside) {
            T_TRUE(world_hooked());
            unschedule();
        }
        atomic_store(&stop, true);
        join_workers();
        struct trace trace = trace_open(world_path("scheduled.hwt"));
        T_TRUE(trace.complete);
        T_TRUE(trace.kinds[HW__ACQUIRE] > 0);
        T_TRUE(trace.kinds[HW__WAIT] > 0);
        trace_check_slots(&trace);
        trace_close(&trace);
        T_EQ(0, unlink(world_path("scheduled.hwt")));
    }
}

/* ------------------------------------------------------------ policies that err */
static void no_ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    thread->key = gil->now_ns; /* first come, first served */
}
static void no_acquired(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    (void)gil, (void)thread;
}
static void no_released(struct hw_policy_gil *gil, struct hw_policy_thread *thread, int64_t held) {
    (void)gil, (void)thread, (void)held;
}
static int64_t no_patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                           const struct hw_policy_thread *holder) {
    (void)gil, (void)waiter, (void)holder;
    return HW_NEVER;
}
static int64_t all_patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                            const struct hw_policy_thread *holder) {
    (void)gil, (void)waiter, (void)holder;
    return INT64_MIN;
}

/* The waiter that came last goes first, so the one that has waited longest waits for ever. */
static void last_ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    thread->key = -gil->now_ns;
}

static const struct hw_policy_option none[] = {{.name = NULL}};
static const struct hw_policy never = {.abi = HW_POLICY_ABI,
                                       .name = "never",
                                       .options = none,
                                       .ready = no_ready,
                                       .acquired = no_acquired,
                                       .released = no_released,
                                       .patience = no_patience};
static const struct hw_policy always = {.abi = HW_POLICY_ABI,
                                        .name = "always",
                                        .options = none,
                                        .ready = no_ready,
                                        .acquired = no_acquired,
                                        .released = no_released,
                                        .patience = all_patience};
static const struct hw_policy last_first = {.abi = HW_POLICY_ABI,
                                            .name = "last-first",
                                            .options = none,
                                            .ready = last_ready,
                                            .acquired = no_acquired,
                                            .released = no_released,
                                            .patience = all_patience};

/* Senseless values do no harm: a waiter that makes requests at once and for ever, or never while
 * the others release by themselves. */
static void test_strange_patience(void) {
    schedule(&always, "watchdog_ms=0");
    start_workers(fake_main_gil(), ROUNDS, 500, NULL);
    join_workers();
    unschedule();
    schedule(&never, "watchdog_ms=0");
    start_workers(fake_main_gil(), ROUNDS, 500, NULL);
    join_workers();
    unschedule();
}

/* A thread that starves is found, the policy is removed, one line says so, and the thread gets the
 * GIL. */
static void check_removal(const struct hw_policy *policy, int spins, const char *why) {
    int pipes[2], saved = dup(STDERR_FILENO);
    T_EQ(0, pipe(pipes));
    atomic_bool stop = false;
    schedule(policy, "watchdog_ms=50");
    T_EQ(STDERR_FILENO, dup2(pipes[1], STDERR_FILENO));
    hw__say_look();
    start_workers(fake_main_gil(), 0, spins, &stop);
    while (hw_schedule_active()[0] != '\0') {
        void *me = PyEval_SaveThread();
        sched_yield();
        PyEval_RestoreThread(me);
    }
    for (int i = 0; i < WORKERS; i++) {
        world_await(&workers[i].taken, 1);
    }
    atomic_store(&stop, true);
    join_workers();
    char line[500] = "";
    T_TRUE(read(pipes[0], line, sizeof line - 1) > 0); /* another thread writes it */
    T_EQ(STDERR_FILENO, dup2(saved, STDERR_FILENO));
    hw__say_look();
    close(pipes[1]);
    T_TRUE(strstr(line, "headway: process ") == line && strstr(line, ": the policy ") != NULL);
    T_TRUE(strstr(line, policy->name) != NULL && strstr(line, why) != NULL);
    T_TRUE(strchr(line, '\n') == line + strlen(line) - 1);
    close(pipes[0]);
    close(saved);
    T_TRUE(counts().worst_wait_ns >= 50LL * MS); /* the wait that the removal has ended */
    T_EQ(-ESRCH, hw_schedule_stop()); /* removes the hooks, which the watchdog cannot do */
    T_TRUE(!world_hooked());
    schedule(hw_policy_at(0), "");
    unschedule();
}

/* The threads that starve another one are CPU-bound and make requests to each other; or no thread
 * makes a request. */
static void test_watchdog(void) {
    check_removal(&last_first, LONG, "it let a thread starve");
    check_removal(&never, 600 * LONG, "it lets no thread request the GIL");
}

/* The watchdog's message reaches no one, because the pipe is full or closed. The program goes on,
 * and gets no signal. */
static void test_watchdog_in_vain(void) {
    for (int closed = 0; closed < 2; closed++) {
        int pipes[2], saved = dup(STDERR_FILENO);
        char junk[4096] = "";
        atomic_bool stop = false;
        T_EQ(0, pipe2(pipes, O_NONBLOCK));
        while (write(pipes[1], junk, sizeof junk) > 0) {
        }
        T_EQ(0, fcntl(pipes[1], F_SETFL, 0));
        if (closed) {
            close(pipes[0]);
        }
        schedule(&last_first, "watchdog_ms=50");
        T_EQ(STDERR_FILENO, dup2(pipes[1], STDERR_FILENO));
        hw__say_look();
        start_workers(fake_main_gil(), 0, LONG, &stop);
        while (hw_schedule_active()[0] != '\0') {
            world_yield();
        }
        for (int i = 0; i < WORKERS; i++) {
            world_await(&workers[i].taken, 2);
        }
        atomic_store(&stop, true);
        join_workers();
        T_EQ(STDERR_FILENO, dup2(saved, STDERR_FILENO));
        hw__say_look();
        close(saved);
        close(pipes[1]);
        if (!closed) {
            close(pipes[0]);
        }
        T_EQ(-ESRCH, hw_schedule_stop());
    }
}

/* A policy finds no data of another policy, neither in a thread nor in the GIL. */
static void test_nothing_left_over(void) {
    static const int64_t zero[8];
    schedule(hw_policy_at(0), "");
    world_yield();
    struct hw__runner *me = hw__runner_known();
    T_TRUE(memcmp(me->waiter.seen.own, zero, sizeof me->waiter.seen.own) != 0);
    unschedule();
    me->waiter.stage =
        HW__STAGE_ASKING; /* the thread ended between its request and the wait for the answer */
    schedule(&never, "");
    world_yield();
    T_EQ(0, memcmp(me->waiter.seen.own, zero, sizeof me->waiter.seen.own));
    T_EQ(0, memcmp(me->sched->ledger.view.own, zero, sizeof me->sched->ledger.view.own));
    T_EQ(0, me->waiter.seen.key);
    T_EQ(HW__STAGE_AWAY, me->waiter.stage);
    unschedule();
}

/* ------------------------------------------------------------ fork, threads, interpreters */
static void in_child(void) {
    T_TRUE(hw_schedule_active()[0] != '\0');
    if (!WORLD_TSAN) { /* which has no threads after a fork */
        start_workers(fake_main_gil(), 20, 500, NULL);
        join_workers();
    }
    world_yield();
    T_TRUE(counts().acquires > 0);
    T_EQ(0, hw_schedule_stop());
}

/* Forks at arbitrary points: in the child, no thread waits for the threads that are not there.
 * Under `priority` the watchdog may end the policy: a fork takes long, and so the forking thread
 * counts as CPU-bound, which the threads that release often can starve. */
static void test_fork(void) {
    for (int i = 0; i < 12; i++) {
        atomic_bool stop = false;
        const struct hw_policy *policy = hw_policy_at(i % 4);
        schedule(policy, "");
        start_workers(fake_main_gil(), 0, 500, &stop);
        world_await(&workers[0].taken, 3);
        pid_t child = world_fork(in_child);
        world_await(&workers[1].taken, 3);
        atomic_store(&stop, true);
        join_workers();
        void *me = PyEval_SaveThread();
        world_wait(child);
        PyEval_RestoreThread(me);
        int error = hw_schedule_stop();
        T_TRUE(error == 0 || (error == -ESRCH && strcmp(policy->name, "priority") == 0));
        T_TRUE(!world_hooked());
    }
}

static void *take_once(void *argument) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    PyEval_RestoreThread(me);
    fake_check();
    PyEval_SaveThread();
    fake_state_free(me);
    return argument;
}

/* A thousand threads at once, three times: each gets its turn, and none keeps a record. */
static void test_a_thousand_threads(void) {
    enum { MANY = WORLD_TSAN ? 200 : 1000 };
    static pthread_t threads[MANY];
    schedule(hw_policy_at(0), "");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            T_EQ(0, pthread_create(&threads[i], NULL, take_once, NULL));
        }
        void *me = PyEval_SaveThread();
        for (int i = 0; i < MANY; i++) {
            T_EQ(0, pthread_join(threads[i], NULL));
        }
        PyEval_RestoreThread(me);
        T_EQ(1, counts().threads);
    }
    unschedule();
}

/* Makes threads acquire and release another interpreter's GIL, while the main one is held. */
static void work_on(struct fake_gil *own) {
    start_workers(own, ROUNDS, 500, NULL);
    for (int i = 0; i < WORKERS; i++) {
        T_EQ(0, pthread_join(workers[i].thread, NULL));
    }
}

/* A sub-interpreter's own GIL has its own queue. The main GIL is held all the time. */
static void test_own_gil(void) {
    static struct fake_gil own;
    fake_gil_init(&own);
    schedule(hw_policy_at(0), "");
    work_on(&own);
    struct hw__gil *record = world_record(&own);
    T_TRUE(record != NULL && !record->main);
    T_TRUE(hw__sched_of(record)->ledger.counts.acquires >= WORKERS * ROUNDS);
    T_EQ(0, counts().acquires);
    fake_gil_destroy(&own);
    T_TRUE(world_record(&own) == NULL);
    unschedule();
}

/* CPython frees a sub-interpreter's GIL without notice. A child that is forked later, and a stop,
 * do not touch the GIL's memory. */
static void in_child_without_the_other(void) {
    world_yield();
    T_EQ(0, hw_schedule_stop());
}

static void test_own_gil_is_gone(void) {
    for (int i = 0; i < 2; i++) {
        struct fake_gil *own =
            mmap(NULL, sizeof *own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        T_TRUE(own != MAP_FAILED);
        fake_gil_init(own);
        schedule(hw_policy_at(0), "");
        work_on(own);
        T_TRUE(world_record(own) != NULL);
        T_EQ(0, munmap(own, sizeof *own));
        world_wait(world_fork(in_child_without_the_other));
        unschedule();
    }
}

/* A child goes on under the policy even if the thread that forked it has a GIL of its own. */
static void test_fork_beside_own_gil(void) {
    static struct fake_gil own;
    fake_gil_init(&own);
    schedule(hw_policy_at(0), "");
    work_on(&own);
    void *main_state = PyEval_SaveThread();
    struct fake_state *me = fake_state_new(&own);
    PyEval_RestoreThread(me);
    pid_t pid = fork();
    T_TRUE(pid >= 0);
    if (pid == 0) {
        t_start();
        struct hw__sched *sched = hw__sched_of(world_record(&own));
        T_TRUE(sched->ledger.policy == NULL);
        PyEval_RestoreThread(PyEval_SaveThread());
        T_TRUE(sched->ledger.policy == hw__sched_policy());
        _exit(0);
    }
    PyEval_SaveThread();
    fake_state_free(me);
    world_wait(pid);
    PyEval_RestoreThread(main_state);
    fake_gil_destroy(&own);
    unschedule();
}

/* Hints that were given before the policy started count, and only for the thread that gave them. */
static void *give_hint(void *argument) {
    T_EQ(-EINVAL, hw_schedule_hint(20, 0));
    T_EQ(-EINVAL, hw_schedule_hint(-21, 0));
    T_EQ(0, hw_schedule_hint(-5, 1));
    struct fake_state *me = fake_state_new(fake_main_gil());
    PyEval_RestoreThread(me);
    const struct hw__runner *runner = hw__runner_known();
    T_EQ(-5, runner->waiter.seen.priority);
    T_TRUE((runner->waiter.seen.flags & HW_THREAD_URGENT) != 0);
    PyEval_SaveThread();
    fake_state_free(me);
    return argument;
}

static void test_hints(void) {
    pthread_t thread;
    schedule(hw_policy_at(0), "");
    T_EQ(0, pthread_create(&thread, NULL, give_hint, NULL));
    world_join(thread);
    T_EQ(0, hw__runner_known()->waiter.seen.priority);
    unschedule();
}

/* A woken thread that does not come (it has ended in the meantime) stops no other. */
static void test_called_in_vain(void) {
    schedule(hw_policy_at(0), "");
    struct hw__sched *sched = hw__sched_of(world_record(fake_main_gil()));
    static struct hw__runner ghost;
    start_workers(fake_main_gil(), ROUNDS, 500, NULL);
    for (int i = 0; i < 50; i++) {
        pthread_mutex_lock(&fake_main_gil()->memory.mutex);
        ghost.waiter.stage = HW__STAGE_CALLED;
        sched->ledger.called = &ghost.waiter;
        sched->ledger.called_ns = hw_now_ns();
        pthread_mutex_unlock(&fake_main_gil()->memory.mutex);
        world_yield();
    }
    join_workers();
    unschedule();
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_twice);
    T_RUN(test_options);
    T_RUN(test_hints);
    T_RUN(test_all_come_through);
    T_RUN(test_gives_way);
    T_RUN(test_calls_another_where_nobody_computes);
    T_RUN(test_leaves_it_to_who_was_called);
    T_RUN(test_grace);
    T_RUN(test_comes_and_goes);
    T_RUN(test_recorded_meanwhile);
    T_RUN(test_strange_patience);
    T_RUN(test_watchdog);
    T_RUN(test_watchdog_in_vain);
    T_RUN(test_nothing_left_over);
    T_RUN(test_called_in_vain);
    T_RUN(test_own_gil);
    T_RUN(test_own_gil_is_gone);
    T_RUN(test_fork_beside_own_gil);
    T_RUN(test_a_thousand_threads);
    T_RUN(test_fork);
    world_leave();
    return 0;
}
