// SPDX-License-Identifier: MIT
/* Which lock a thread spins for. sched_yield() is called without arguments, but the code that calls
 * it looks at the lock again and again, so that it keeps the lock's address in a register that a
 * call preserves. Which register that is, is another one in each build and at each place of the
 * code. It is learnt by comparison: when a thread parks right after a spin, the lock is known, and
 * the register that had its address when the thread last yielded is the one. Three parks in a row
 * that find another value there have that place never believed again. */
#ifndef HEADWAY_GIL_SPINNING_H
#define HEADWAY_GIL_SPINNING_H

#include <stdint.h>

/* What to call instead of sched_yield(): it calls the function with the lock's address, or with 0
 * where that is not known. */
uintptr_t hw__spinning_replacement(int (*function)(uintptr_t lock));

/* The calling thread is about to park for this lock, which is one that threads spin for. */
void hw__spinning_learn(uintptr_t lock);

/* Has a thread of ours wait for a PyMutex of ours, so that the most usual place is known from the
 * beginning. Takes some 100 us, rarely a multiple. Does nothing where there is no PyMutex_Lock().
 */
void hw__spinning_calibrate(void);

#endif
