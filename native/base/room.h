// SPDX-License-Identifier: MIT
/* How much address space we may take from a program. */
#ifndef HEADWAY_BASE_ROOM_H
#define HEADWAY_BASE_ROOM_H

#include <stdbool.h>
#include <stddef.h>

/* A mapping of so many bytes is ours to make: where the program had a limit of its address space
 * (RLIMIT_AS) when the library was loaded, one may take a sixteenth of it; and three times as much
 * must be free now, as the program may have limited itself since. Most of what we map is never
 * touched, but it would be gone for the program.
 *
 * It only maps and unmaps, as starting a thread does: hooks call it, and a seccomp filter of the
 * program's may end the process for other calls. errno stays. */
bool hw__room_for(size_t bytes);

/* A memory file may have so many bytes. The limit of files (RLIMIT_FSIZE) applies to it, too, and
 * who makes one grow beyond it gets a signal. */
bool hw__room_in_file(size_t bytes);

#endif
