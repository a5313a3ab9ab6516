// SPDX-License-Identifier: MIT
/* Threads that compute give up their core for a moment to one that wants it for a moment. */
#ifndef HEADWAY_ENGINE_YIELD_H
#define HEADWAY_ENGINE_YIELD_H

#include <stdint.h>

#include "engine/runner.h"

/* The calling thread yields its core, unless it lost too much by that of late. Without any mutex.
 * Returns for how long, in nanoseconds. */
int64_t hw__yield(struct hw__runner *self);

/* For whom it yielded did not run meanwhile. Where the yield was long, another program had the
 * core: what goes to those is limited. */
void hw__yield_in_vain(struct hw__runner *self, int64_t yield_ns);

#endif
