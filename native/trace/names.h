// SPDX-License-Identifier: MIT
/* Names that Python has given to threads without a record. A thread gets its record with its first
 * event, and takes its name from here then. At the beginning of a session in a process that runs
 * already, no thread has a record, and each may get its first event much later. So it is in a
 * forked child.
 *
 * No function waits. There is room for 1,024 names; a further one takes the place of an earlier
 * one. */
#ifndef HEADWAY_TRACE_NAMES_H
#define HEADWAY_TRACE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/format.h"

/* Keeps a name, instead of an earlier one for the same thread. Several threads may call it. */
void hw__names_keep(int32_t tid, const char text[HW__NAME_BYTES]);

/* Gives the name that is kept for the thread, and keeps it no longer. Returns false if there is
 * none; `text` is left as it was. */
bool hw__names_take(int32_t tid, char text[HW__NAME_BYTES]);

/* Keeps no name any more. */
void hw__names_forget(void);

#endif
