// SPDX-License-Identifier: MIT
/* Waits for locks in free-threaded builds with the GIL off. The interpreter's threads block only in
 * sem_wait() and sem_clockwait(). These calls come from the parking lot (Python/parking_lot.c), on
 * which threads wait for a PyMutex, an object's lock, an event and stop-the-world, and from
 * PyThread_acquire_lock*(). Before a thread parks for a PyMutex, it spins in sched_yield()
 * (Python/lock.c: 40 times). The hooks see the beginning and the end of each of these waits; an
 * acquire of a free lock calls none of these functions.
 *
 * The thread's struct wait_entry, which lies on its stack, tells what a parked thread waits for:
 * the address of the lock stands right before the semaphore. For a spinning thread that address is
 * in a register (spinning.h). Where the address is that of an object's `ob_mutex`, the object's
 * type has a name. Addresses that may be wrong are asked about first (peek.h). These system calls
 * take time that a thread has which is about to sleep. */
#ifndef HEADWAY_GIL_PARKING_H
#define HEADWAY_GIL_PARKING_H

#include <stdint.h>

#include "headway/trace.h"

/* Puts the hooks into the image that has `runtime`. Without a `layout` (NULL), types of objects are
 * not found.
 *
 * Returns 0 or a negative errno, with the image as it was. */
int hw__parking_install(const void *runtime, const struct hw_stack_layout *layout);
int hw__parking_repair(void);
int hw__parking_remove(void);

#endif
