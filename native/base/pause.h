// SPDX-License-Identifier: MIT
/* Waits for another thread that is about to finish, where no thread can report that. */
#ifndef HEADWAY_BASE_PAUSE_H
#define HEADWAY_BASE_PAUSE_H

/* One round of such a loop. The first rounds keep the core, for some 0.1 ms in all; further rounds
 * sleep, from 50 us up to 1 ms. The function does not yield the core: under SCHED_FIFO a yield
 * never lets a thread of lower priority run, and a seccomp filter that the program has installed
 * may kill the process for the call. `rounds` must begin at 0. errno is preserved. */
void hw__pause(unsigned *rounds);

/* One round of a loop that lasts less than a microsecond. */
static inline void hw__pause_core(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

#endif
