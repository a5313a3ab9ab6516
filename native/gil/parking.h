// SPDX-License-Identifier: MIT
/* Free-threaded builds with the GIL off: waits on locks. The interpreter's threads block in
 * sem_wait() and sem_clockwait() alone: those of the parking lot (Python/parking_lot.c), on which a
 * PyMutex, an object's lock, an event and stop-the-world wait, and those of
 * PyThread_acquire_lock*(). Before it parks, who wants a PyMutex spins in sched_yield()
 * (Python/lock.c: 40 times). Hooks see each of these waits with its beginning and end; a lock that
 * is free comes nowhere near them.
 *
 * What a parked thread waits for is told by struct wait_entry, which lies on its stack: the address
 * of the lock stands right before the semaphore. That of a spinning one is in a register: see
 * spinning.h. Where that address is an object's `ob_mutex`, the object's type has a name. All this
 * memory is read through process_vm_readv(), which fails where reading would crash: a thread that
 * is about to sleep has the time. */
#ifndef HEADWAY_GIL_PARKING_H
#define HEADWAY_GIL_PARKING_H

#include <stdint.h>

#include "headway/trace.h"

/* Puts the hooks into the image that has `runtime`.
 *
 * Returns 0 or a negative errno, with the image as it was. */
int hw__parking_install(const void *runtime, const struct hw_stack_layout *layout);
int hw__parking_repair(void);
int hw__parking_remove(void);

#endif
