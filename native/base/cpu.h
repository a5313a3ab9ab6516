// SPDX-License-Identifier: MIT
/* The clock of another thread's CPU time. */
#ifndef HEADWAY_BASE_CPU_H
#define HEADWAY_BASE_CPU_H

#include <stdint.h>
#include <time.h>

/* Returns the clock of the CPU time of a thread of this process, by its native id. The number is
 * the kernel's (include/linux/posix-timers_types.h: CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED). It
 * is that of pthread_getcpuclockid(), which wants a pthread_t. */
static inline clockid_t hw__cpu_clock(int32_t tid) {
    return (clockid_t)((~(uint32_t)tid << 3) | 6u);
}

#endif
