// SPDX-License-Identifier: MIT
#ifndef HEADWAY_CLOCK_H
#define HEADWAY_CLOCK_H

#include <stdint.h>

#include "headway/api.h"

/* Reads CLOCK_MONOTONIC, which is one clock for all threads and processes of the machine. The clock
 * is never set back and does not count time spent suspended. Only differences between values have a
 * meaning. Async-signal-safe.
 *
 * Returns nanoseconds. This function can't fail. */
HW_API int64_t hw_now_ns(void);

#endif
