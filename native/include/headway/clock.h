// SPDX-License-Identifier: MIT
#ifndef HEADWAY_CLOCK_H
#define HEADWAY_CLOCK_H

#include <stdint.h>

#include "headway/api.h"

/* Reads CLOCK_MONOTONIC: one clock for all threads and processes of the machine, never set back,
 * not counting time spent suspended. Async-signal-safe. Differences mean something; the value
 * itself does not.
 *
 * Returns nanoseconds. This function can't fail. */
HW_API int64_t hw_now_ns(void);

#endif
