// SPDX-License-Identifier: MIT
/* The probe does not use the wall clock for its deadlines, because someone may set that clock back
 * in the meantime, and the probe's caller holds the GIL. */
#include <sys/syscall.h>

#include "gil/probe.h"
#include "gil_world.h"

/* Replaces the C library's function in this program. A deadline by the wall clock is decades away,
 * as if the clock had been set back right after it was read. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_REALTIME) {
        now->tv_sec += 1000000000;
    }
    return result;
}

/* No thread holds the GIL that the probe looks for, so no wait for it is seen. */
static void test_gives_up(void) {
    struct hw__probe_calls calls = {.ensure = PyGILState_Ensure,
                                    .release = PyGILState_Release,
                                    .save = PyEval_SaveThread,
                                    .restore = PyEval_RestoreThread};
    struct hw__gil_memory *memory;
    T_EQ(0, hw__hooks_install(fake_runtime(), HW__FOR_TRACE));
    void *me = PyEval_SaveThread();
    T_EQ(-ETIMEDOUT, hw__gil_probe(&calls, &memory));
    PyEval_RestoreThread(me);
    T_EQ(0, hw__hooks_remove(HW__FOR_TRACE));
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_gives_up);
    world_leave();
    return 0;
}
