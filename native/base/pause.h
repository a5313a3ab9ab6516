// SPDX-License-Identifier: MIT
/* Waiting for another thread that is about to be done, where nobody can tell us that it is. */
#ifndef HEADWAY_BASE_PAUSE_H
#define HEADWAY_BASE_PAUSE_H

/* Once round such a loop: at first yields the core; from a hundred rounds on sleeps, 50 us and then
 * longer up to 1 ms. A yield alone may be for ever: under SCHED_FIFO it never lets a thread of
 * lower priority run, which may be the one that is waited for. `rounds` begins at 0. errno stays.
 */
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
