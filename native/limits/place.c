// SPDX-License-Identifier: MIT
#include "limits/place.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>

bool hw__cpu_in_range(int cpu) { return cpu == HW__UNPINNED || (cpu >= 0 && cpu < CPU_SETSIZE); }

int hw__pin_self(int cpu) {
    if (cpu == HW__UNPINNED) {
        return 0;
    }
    if (!hw__cpu_in_range(cpu)) {
        return -EINVAL;
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0 ? 0 : -errno;
}

void hw__block_signals(void) {
    sigset_t all;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
}
