// SPDX-License-Identifier: MIT
/* Waiting for another thread that is about to be done, where nobody can tell us that it is. */
#ifndef HEADWAY_BASE_PAUSE_H
#define HEADWAY_BASE_PAUSE_H

/* Once round such a loop: at first keeps the core, for some 0.1 ms in all; then sleeps, 50 us and
 * longer up to 1 ms. It does not yield: under SCHED_FIFO a yield never lets a thread of lower
 * priority run, and a seccomp filter that the program has installed itself may end it for the call.
 * `rounds` begins at 0. errno stays. */
void hw__pause(unsigned *rounds);

/* Once round a loop of less than a microsecond. */
static inline void hw__pause_core(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

#endif
