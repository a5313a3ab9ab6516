// SPDX-License-Identifier: MIT
/* How much address space we may take from a program. */
#ifndef HEADWAY_BASE_ROOM_H
#define HEADWAY_BASE_ROOM_H

#include <stdbool.h>
#include <stddef.h>

/* A mapping of so many bytes is ours to make: where the program has a limit of its address space
 * (RLIMIT_AS), one may take a sixteenth of it. Most of what we map is never touched, but it would
 * be gone for the program. */
bool hw__room_for(size_t bytes);

#endif
