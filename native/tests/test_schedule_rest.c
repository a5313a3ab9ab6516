// SPDX-License-Identifier: MIT
/* A GIL under a policy rests if only one thread wants it, and comes back under the policy when a
 * thread has to wait. This test is built twice: with an interpreter whose slots the hooks can be
 * removed from at any moment, and with one whose slots are read-only (FAKE_CLOSED), where the hooks
 * only pass calls on. */
#include "engine/sched.h"
#include "gil_world.h"
#include "headway/clock.h"
#include "headway/schedule.h"
#include "policy/policies.h"
#include "trace_file.h"

#define WORKERS 4

/* More acquires than a GIL needs to go to rest. */
#define ALONE 6000

/* How often a GIL goes to rest while another thread rouses it. */
#define DISTURBANCES (WORLD_TSAN ? 500 : 5000)

#ifdef FAKE_CLOSED
#define CLOSED 1
#else
#define CLOSED 0
#endif

static char problem[300];

static void schedule(int policy) {
    T_EQ(0, hw_schedule_start(hw_policy_at(policy), "", problem, sizeof problem));
}

static struct hw_schedule_counts counts(void) {
    struct hw_schedule_counts found;
    T_EQ(0, hw_schedule_counts(&found));
    return found;
}

/* Checks that all hooks are installed or, at rest, only those that a waiter needs. */
static void check_hooks(bool all) {
    bool expected = all || CLOSED;
    T_EQ(expected, world_hooks("pthread_cond_signal"));
    T_EQ(expected, world_hooks("pthread_mutex_lock"));
    T_EQ(expected, world_hooks("pthread_mutex_unlock"));
    T_TRUE(world_hooks("pthread_cond_timedwait"));
    T_TRUE(world_hooks("pthread_cond_wait"));
}

/* Rouses the GIL if it rests: only a GIL that does not rest can be seen to go to rest. */
static void rouse(void) {
    while (!hw__hooks_rouse()) { /* another thread changes the hooks */
    }
}

static void go_to_rest(void) {
    rouse();
    int64_t before = counts().rests;
    for (int i = 0; i < ALONE; i++) {
        world_yield();
    }
    T_EQ(before + 1, counts().rests);
    T_TRUE(hw__hooks_resting() == &fake_main_gil()->memory);
}

static struct world_worker workers[WORKERS];

static void start_workers(struct fake_gil *gil, atomic_bool *stop) {
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].gil = gil;
        workers[i].spins = i % 2 == 0 ? 3000 : 1;
        workers[i].stop = stop;
        world_go(&workers[i]);
    }
}

static void stop_workers(atomic_bool *stop) {
    atomic_store(stop, true);
    for (int i = 0; i < WORKERS; i++) {
        world_join(workers[i].thread);
    }
}

static void take_turns(void) {
    atomic_bool stop = false;
    start_workers(fake_main_gil(), &stop);
    for (int i = 0; i < WORKERS; i++) {
        world_await(&workers[i].taken, 20);
    }
    stop_workers(&stop);
}

static void test_rests_and_is_roused(void) {
    for (int policy = 0; hw_policy_at(policy) != NULL; policy++) {
        schedule(policy);
        check_hooks(true);
        for (int i = 0; i < 3; i++) {
            go_to_rest();
            check_hooks(false);
            int64_t acquires = counts().acquires;
            for (int j = 0; j < 100; j++) {
                world_yield();
            }
            T_EQ(acquires, counts().acquires); /* no hook sees the acquires */
            int64_t granted = counts().granted;
            take_turns();
            T_TRUE(counts().granted > granted); /* the policy wakes them */
        }
        T_EQ(0, hw_schedule_stop());
        T_TRUE(!world_hooked());
    }
}

/* Other threads want the GIL all the time. It may still rest, because no thread has computed. */
static void go_idle(void) {
    struct hw__sched *sched = hw__sched_of(world_record(fake_main_gil()));
    pthread_mutex_t *mutex = &fake_main_gil()->memory.mutex;
    rouse();
    pthread_mutex_lock(mutex);
    sched->ledger.idle_at_ns = 0;
    pthread_mutex_unlock(mutex);
    for (bool idle = false; !idle;) {
        world_yield();
        pthread_mutex_lock(mutex);
        idle = sched->ledger.idle_at_ns != 0 && hw__hooks_resting() != NULL;
        if (idle) {
            check_hooks(false); /* a waiter rouses the GIL with the mutex held */
        }
        pthread_mutex_unlock(mutex);
    }
}

/* Where no thread is CPU-bound, CPython is left alone until a thread holds the GIL for an interval
 * while others wait. The interval is a second, because the system keeps no thread from running for
 * that long. */
static void test_is_idle_where_nobody_computes(void) {
    fake_set_interval(fake_main_gil(), 1000000);
    T_EQ(0, hw_schedule_start(&hw__policy_fair, "compute_us=1000000", problem, sizeof problem));
    atomic_bool stop = false;
    start_workers(fake_main_gil(), &stop);
    /* A busy machine may keep a holder from its core for a second: then the GIL is roused, and the
     * look at it begins again. */
    for (bool rested = false; !rested;) {
        go_idle();
        struct hw_schedule_counts before = counts();
        for (int i = 0; i < WORKERS; i++) {
            world_await(&workers[i].taken, 20);
        }
        struct hw_schedule_counts after = counts();
        rested = hw__hooks_resting() != NULL && after.rests == before.rests;
        if (rested) {
            T_EQ(before.acquires, after.acquires);
        }
    }

    int64_t begun_ns = hw_now_ns();
    while (hw__hooks_resting() != NULL) { /* while this thread holds the GIL */
    }
    T_TRUE(hw_now_ns() - begun_ns > 500 * 1000000);
    check_hooks(true);
    struct hw__sched *sched = hw__sched_of(world_record(fake_main_gil()));
    pthread_mutex_lock(&fake_main_gil()->memory.mutex);
    T_TRUE(sched->ledger.request.made && sched->ledger.stranger_ns != 0 &&
           sched->ledger.stranger_ns <= begun_ns + 100000000);
    pthread_mutex_unlock(&fake_main_gil()->memory.mutex);
    int64_t used_ns = hw__runner_self()->waiter.seen.used_ns;
    fake_check();
    T_TRUE(hw__runner_self()->waiter.seen.used_ns - used_ns > 500 * 1000000);

    /* The GIL does not rest either if a thread is urgent: the next waiter rouses it. */
    go_idle();
    T_EQ(0, hw_schedule_hint(0, 1));
    while (hw__hooks_resting() != NULL) {
        world_yield();
    }
    T_EQ(0, hw_schedule_hint(0, 0));
    atomic_store(&hw__sched_any_urgent, false);
    stop_workers(&stop);
    T_EQ(0, hw_schedule_stop());
    fake_set_interval(fake_main_gil(), FAKE_INTERVAL_US);
}

static void *take(void *taken) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    PyEval_RestoreThread(me);
    atomic_fetch_add((atomic_long *)taken, 1);
    PyEval_SaveThread();
    fake_state_free(me);
    return NULL;
}

/* A waiter gets the GIL soon from a holder that is unknown, and not only after an interval. */
static void test_asks_a_stranger(void) {
    schedule(0);
    fake_set_interval(fake_main_gil(), 10000000);
    go_to_rest();
    atomic_long taken = 0;
    pthread_t thread;
    T_EQ(0, pthread_create(&thread, NULL, take, &taken));
    while (atomic_load(&taken) == 0) { /* holds the GIL until there is a request */
        fake_check();
    }
    check_hooks(true);
    T_TRUE(counts().worst_wait_ns < 5000000000);
    T_TRUE(counts().asked > 0);
    world_join(thread);
    fake_set_interval(fake_main_gil(), FAKE_INTERVAL_US);
    T_EQ(0, hw_schedule_stop());
}

static void hold_for(int64_t span_ns) {
    int64_t until = hw_now_ns() + span_ns;
    while (hw_now_ns() < until) {
    }
}

/* A thread has held the GIL since before any thread waited, in C code, for longer than the
 * watchdog's limit. The policy is not to blame. */
static void test_a_strangers_long_hold(void) {
    T_EQ(0, hw_schedule_start(hw_policy_at(0), "watchdog_ms=2000", problem, sizeof problem));
    go_to_rest();
    atomic_bool stop = false;
    start_workers(fake_main_gil(), &stop);
    hold_for(2500000000);
    for (int j = 0; j < WORKERS; j++) {
        world_await(&workers[j].taken, 50);
    }
    stop_workers(&stop);
    T_TRUE(strcmp(hw_policy_at(0)->name, hw_schedule_active()) == 0);
    T_EQ(0, hw_schedule_stop());
}

/* The policy fair, which also reports what it learns of the main thread. */
static const struct hw__runner *observed;
static atomic_int forced_releases;
/* How far the main thread's key is ahead of the policy's CLOCK, the virtual time that CPU-bound
 * threads have reached, when the main thread began to wait; 0: not yet. On a busy machine the other
 * threads come one by one, and the first of them is far behind that time. */
static int64_t key_ahead_ns;
#define CLOCK own[3] /* as in policy/fair.c */

static bool is_observed(const struct hw_policy_thread *thread) {
    return observed != NULL && thread == &observed->waiter.seen;
}

static void see_release(struct hw_policy_gil *gil, struct hw_policy_thread *thread,
                        int64_t held_ns) {
    if (is_observed(thread) && (thread->flags & HW_THREAD_FORCED) != 0) {
        T_TRUE(held_ns > 0);
        atomic_fetch_add(&forced_releases, 1);
    }
    hw_policy_at(0)->released(gil, thread, held_ns);
}

static void see_ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    hw_policy_at(0)->ready(gil, thread);
    bool computes = is_observed(thread) && thread->lane == 1;
    if (computes && gil->in_lane[0] + gil->in_lane[1] > 0 && key_ahead_ns == 0) {
        key_ahead_ns = thread->key - gil->CLOCK;
    }
}

static struct hw_policy make_spy(void) {
    struct hw_policy spy = *hw_policy_at(0);
    spy.released = see_release;
    spy.ready = see_ready;
    return spy;
}

/* A thread that acquired the GIL unseen is known at its release: the policy learns of it, and the
 * thread is put in the queue. */
static void test_meets_a_stranger(void) {
    struct hw_policy spy = make_spy();
    T_EQ(0, hw_schedule_start(&spy, "", problem, sizeof problem));
    for (int i = 0; i < 5; i++) {
        go_to_rest();
        observed = hw__runner_known();
        atomic_store(&forced_releases, 0);
        atomic_long taken = 0;
        pthread_t thread;
        T_EQ(0, pthread_create(&thread, NULL, take, &taken));
        while (!fake_check()) { /* computes until there is a request */
        }
        T_TRUE(atomic_load(&forced_releases) > 0);
        world_join(thread);
        observed = NULL;
    }
    T_EQ(0, hw_schedule_stop());
}

/* Such a thread pays back two slices at most, like a thread that was seen to acquire the GIL and
 * held it for as long. */
static void test_forgives_a_stranger(void) {
    const int64_t slice_ns = 10000000;
    struct hw_policy spy = make_spy();
    T_EQ(0, hw_schedule_start(&spy, "latency_us=20000", problem, sizeof problem));
    go_to_rest();
    observed = hw__runner_known();
    atomic_store(&forced_releases, 0);
    key_ahead_ns = 0;
    atomic_bool stop = false;
    start_workers(fake_main_gil(), &stop);
    hold_for(60 * slice_ns);
    while (key_ahead_ns == 0) { /* by now all the others are there, or will be soon */
        fake_check();
    }
    T_TRUE(atomic_load(&forced_releases) > 0);
    T_TRUE(key_ahead_ns < 5 * slice_ns);
    stop_workers(&stop);
    observed = NULL;
    T_EQ(0, hw_schedule_stop());
}

/* A thread that was woken came late, and found the GIL free while it rested: its wait was over
 * then. */
static atomic_int late_step;

static void *come_late(void *argument) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    PyEval_RestoreThread(me);
    pthread_mutex_lock(&fake_main_gil()->memory.mutex);
    struct hw__runner *runner = hw__sched_runner(hw__sched_of(world_record(fake_main_gil())));
    runner->waiter.stage = HW__STAGE_WANTS; /* as if its acquire had not been seen */
    runner->waiter.seen.ready_ns = 1;
    pthread_mutex_unlock(&fake_main_gil()->memory.mutex);
    PyEval_SaveThread();
    atomic_store(&late_step, 1);
    while (atomic_load(&late_step) == 1) {
        sched_yield();
    }
    PyEval_RestoreThread(me); /* the main thread holds the GIL */
    PyEval_SaveThread();
    atomic_store(&late_step, 3);
    fake_state_free(me);
    return argument;
}

static void test_no_wait_outlasts_a_rest(void) {
    schedule(0);
    atomic_store(&late_step, 0);
    pthread_t thread;
    T_EQ(0, pthread_create(&thread, NULL, come_late, NULL));
    while (atomic_load(&late_step) == 0) {
        world_yield();
    }
    go_to_rest();
    atomic_store(&late_step, 2);
    while (atomic_load(&late_step) == 2) {
        fake_check();
    }
    T_TRUE(counts().asked > 0); /* the thread did wait */
    T_TRUE(counts().worst_wait_ns < hw_now_ns() / 2);
    world_join(thread);
    T_EQ(0, hw_schedule_stop());
}

/* A thread that waits for another GIL rouses this one while it goes to rest. Either every hook that
 * was removed is known to be removed, or none is removed. */
static atomic_int disturbance, disturbed;

static void *disturb(void *argument) {
    for (int i = 1; i <= DISTURBANCES; i++) {
        while (atomic_load(&disturbance) < i) {
        }
        (void)hw__hooks_rouse();
        atomic_store(&disturbed, i);
    }
    return argument;
}

static void test_roused_at_any_moment(void) {
    schedule(0);
    pthread_t thread;
    T_EQ(0, pthread_create(&thread, NULL, disturb, NULL));
    for (int i = 1; i <= DISTURBANCES; i++) {
        atomic_store(&disturbance, i);
        for (int j = 0; j < i % 4; j++) { /* this thread holds the GIL, and no other wants it */
            (void)hw__hooks_rest(&fake_main_gil()->memory, false);
        }
        while (atomic_load(&disturbed) < i) {
        }
        if (hw__hooks_resting() == NULL) {
            T_TRUE(world_hooked());
        }
    }
    T_EQ(0, pthread_join(thread, NULL));
    T_EQ(0, hw_schedule_stop());
    T_TRUE(!world_hooked());
}

/* A policy is stopped, or a recording starts, while the GIL rests. */
static void test_ends_and_is_recorded_at_rest(void) {
    schedule(0);
    go_to_rest();
    T_EQ(0, hw_schedule_stop());
    T_TRUE(!world_hooked());
    T_TRUE(hw__hooks_resting() == NULL);

    schedule(0);
    go_to_rest();
    world_start("rested.hwt");
    check_hooks(true);
    for (int i = 0; i < ALONE; i++) {
        world_yield();
    }
    check_hooks(true); /* the recording must see every event */
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("rested.hwt"));
    T_TRUE(trace.kinds[HW__ACQUIRE] >= ALONE);
    trace_close(&trace);
    go_to_rest();
    T_EQ(0, hw_schedule_stop());
}

static void in_child(void) {
    check_hooks(true);
    T_TRUE(hw__hooks_resting() == NULL);
    if (!WORLD_TSAN) { /* which has no threads after a fork */
        take_turns();
    }
    go_to_rest();
    T_EQ(0, hw_schedule_stop());
}

static void test_fork_at_rest(void) {
    schedule(0);
    go_to_rest();
    pid_t child = world_fork(in_child);
    world_wait(child);
    T_TRUE(hw__hooks_resting() != NULL);
    take_turns();
    T_EQ(0, hw_schedule_stop());
}

static bool has_called(struct fake_gil *gil) {
    struct hw__gil *record = world_record(gil);
    if (record == NULL) {
        return false;
    }
    pthread_mutex_lock(&gil->memory.mutex);
    bool called = hw__sched_of(record)->ledger.counts.granted > 0;
    pthread_mutex_unlock(&gil->memory.mutex);
    return called;
}

/* Another interpreter's own GIL is found and scheduled while the main one rests. */
static void test_another_gil(void) {
    static struct fake_gil own;
    fake_gil_init(&own);
    schedule(0);
    go_to_rest();
    atomic_bool stop = false;
    start_workers(&own, &stop);
    while (!has_called(&own)) {
        sched_yield();
    }
    check_hooks(true);
    if (!CLOSED) { /* with read-only slots, the main GIL was not disturbed */
        go_to_rest();
        check_hooks(true); /* the other GIL needs them */
    }
    for (int i = 0; i < WORKERS; i++) {
        world_await(&workers[i].taken, 20);
    }
    stop_workers(&stop);
    fake_gil_destroy(&own);
    T_EQ(0, hw_schedule_stop());
}

/* The GIL goes to rest and back many times while other threads come and go. */
static void test_to_and_fro(void) {
    schedule(0);
    for (int i = 0; i < 50; i++) {
        atomic_long taken = 0;
        pthread_t thread;
        T_EQ(0, pthread_create(&thread, NULL, take, &taken));
        for (int j = 0; j < ALONE || atomic_load(&taken) == 0; j++) {
            world_yield();
        }
        world_join(thread);
    }
    T_TRUE(counts().rests > 0);
    T_EQ(0, hw_schedule_stop());
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_rests_and_is_roused);
    T_RUN(test_is_idle_where_nobody_computes);
    T_RUN(test_asks_a_stranger);
    T_RUN(test_a_strangers_long_hold);
    T_RUN(test_meets_a_stranger);
    T_RUN(test_forgives_a_stranger);
    T_RUN(test_no_wait_outlasts_a_rest);
    T_RUN(test_roused_at_any_moment);
    T_RUN(test_ends_and_is_recorded_at_rest);
    T_RUN(test_fork_at_rest);
    T_RUN(test_to_and_fro);
    T_RUN(test_another_gil);
    world_leave();
    return 0;
}
