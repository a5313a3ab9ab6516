// SPDX-License-Identifier: MIT
/* Finds out which lock a thread spins for. sched_yield() has no argument, but the code that calls
 * it reads the lock again and again, so that it keeps the lock's address in a register that a call
 * preserves. Each build, and each place of the code, uses another register. The register is learnt
 * by comparison: when a thread parks right after a spin, the lock is known, and the register that
 * had its address at the thread's last yield is the one. After three parks in a row that find
 * another value there, the place is never trusted again.
 *
 * The code also counts its yields, up to 40. Where the count is in a register, two yields of one
 * spin are told from those of two spins: the count is one more, and all other registers are the
 * same. (A loop of the caller that counts in another register could look the same.) A time between
 * them does not tell that: a thread that was off the core comes back with cold caches. */
#ifndef HEADWAY_GIL_SPINNING_H
#define HEADWAY_GIL_SPINNING_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the address of the replacement for sched_yield(). The replacement calls `function` with
 * the lock's address, or with 0 where the lock is not known, and with whether the calling thread's
 * last yield was of the same spin, by the registers. */
uintptr_t hw__spinning_replacement(int (*function)(uintptr_t lock, bool same_spin));

/* The most from the last yield to the park: later, the registers are those of another spin. Written
 * by tests, in which a thread may be off its core between the two. */
extern int64_t hw__spinning_fresh_ns;

/* Learns from a park: the calling thread is about to park for this lock, which is of a kind that
 * threads spin for. */
void hw__spinning_learn(uintptr_t lock);

/* Has a helper thread wait for a PyMutex of the library, so that the most usual place is known from
 * the beginning. Takes some 100 us, rarely a multiple of that. Does nothing where there is no
 * PyMutex_Lock(). */
void hw__spinning_calibrate(void);

#endif
