// SPDX-License-Identifier: MIT
/* CPU-bound threads yield their core to threads that need it briefly. */
#ifndef HEADWAY_ENGINE_YIELD_H
#define HEADWAY_ENGINE_YIELD_H

#include <stdint.h>

#include "engine/runner.h"

/* Yields the calling thread's core, unless a recent yield cost the thread too much. The caller must
 * hold no mutex. Returns for how many nanoseconds it yielded; 0: it did not. */
int64_t hw__yield(struct hw__runner *self);

/* The calling thread has woken up: yields its core as hw__yield(), if its waker told it to and it
 * has not waited long for the core. Returns the same. */
int64_t hw__give_way(struct hw__runner *self);

/* Records that the thread for which `self` yielded did not run during the yield. If the yield was
 * long, another program had the core; the time lost to other programs is limited. */
void hw__yield_in_vain(struct hw__runner *self, int64_t yield_ns);

#endif
