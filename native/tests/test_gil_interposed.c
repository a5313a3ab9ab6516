// SPDX-License-Identifier: MIT
/* Where a library replaces a function of the C library (counting_cond.c, as libfaketime and others
 * do), the hooks call the replacement. */
#include "gil_world.h"

extern atomic_long counted_waits;

static void test_called_by_the_hooks(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    const struct timespec past = {0, 1};
    for (int hooked = 0; hooked < 2; hooked++) {
        if (hooked) {
            world_start("interposed.hwt");
        }
        T_EQ(hooked, world_hooks("pthread_cond_timedwait"));
        long before = atomic_load(&counted_waits);
        T_EQ(0, pthread_mutex_lock(&mutex));
        T_EQ(ETIMEDOUT, fake_timedwait(&cond, &mutex, &past));
        T_EQ(0, pthread_mutex_unlock(&mutex));
        T_EQ(before + 1, atomic_load(&counted_waits));
    }
    T_EQ(0, hw_trace_stop());
}

/* A function that nothing replaces is the C library's own. */
static void test_others(void) {
    T_TRUE(hw__next_function("pthread_cond_signal") == hw__real_function("pthread_cond_signal"));
    T_TRUE(hw__next_function("pthread_cond_timedwait") !=
           hw__real_function("pthread_cond_timedwait"));
    T_TRUE(hw__next_function("no_such_function") == NULL);
}

int main(void) {
    t_start();
    if (WORLD_TSAN) {
        /* The thread sanitizer replaces the same function, and its calls bypass every other
         * library. */
        fprintf(stderr, "not with the thread sanitizer\n");
        return 0;
    }
    world_begin();
    world_enter();
    T_RUN(test_called_by_the_hooks);
    T_RUN(test_others);
    world_leave();
    return 0;
}
