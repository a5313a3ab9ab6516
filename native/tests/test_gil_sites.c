// SPDX-License-Identifier: MIT
/* Other threads acquire the GIL while the probe learns from where acquires are signalled. */
#include <limits.h>

#include "gil_world.h"

/* Another thread acquires and releases the main GIL, before each acquire of the probe's helper from
 * the second one on, `intrusions` times. The stand-in's state tells one thread from another, so the
 * helper can do this itself. */
static pthread_t starter;
static struct fake_state *intruder;
static atomic_int intrusions, intruded;
static _Thread_local bool has_acquired;

static void intrude(void) {
    if (pthread_equal(pthread_self(), starter)) {
        return;
    }
    if (has_acquired && atomic_load(&intruded) < atomic_load(&intrusions)) {
        atomic_fetch_add(&intruded, 1);
        fake_restore_doomed(fake_main_gil(), intruder);
    }
    has_acquired = true;
}

/* Starts a session while another thread gets in between `times` times. Then a thread alone at its
 * GIL acquires the GIL three times. Returns whether the GIL has a record then. */
static bool finds_a_thread_alone(int times) {
    static struct fake_gil own;
    struct fake_state *alone = world_alone_at(&own), *me = fake_current();

    starter = pthread_self();
    intruder = fake_state_new(fake_main_gil());
    atomic_store(&intrusions, times);
    fake_before_restore(intrude);
    world_start("sites.hwt");
    fake_before_restore(NULL);

    T_TRUE(PyEval_SaveThread() == me);
    for (int i = 0; i < 3; i++) {
        PyEval_RestoreThread(alone);
        T_TRUE(PyEval_SaveThread() == alone);
    }
    PyEval_RestoreThread(me);
    bool found = world_record(&own) != NULL;
    T_EQ(0, hw_trace_stop());
    fake_state_free(intruder);
    fake_state_free(alone);
    fake_gil_destroy(&own);
    return found;
}

/* Where another thread always gets in between, the session begins all the same, and a GIL of which
 * only acquires after the thread's own holds come is passed on. */
static void never_alone(void) {
    T_TRUE(!finds_a_thread_alone(INT_MAX));
    T_TRUE(atomic_load(&intruded) > 3);
}

static void test_another_thread_always_intrudes(void) { world_wait(world_fork(never_alone)); }

/* The helper tries again where another thread has had the GIL in between. */
static void test_another_thread_intrudes_at_first(void) {
    T_TRUE(finds_a_thread_alone(3));
    T_EQ(3, atomic_load(&intruded));
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_another_thread_always_intrudes);
    T_RUN(test_another_thread_intrudes_at_first);
    world_leave();
    return 0;
}
