// SPDX-License-Identifier: MIT
/* Limits how much address space Headway takes from a program. */
#ifndef HEADWAY_BASE_ROOM_H
#define HEADWAY_BASE_ROOM_H

#include <stdbool.h>
#include <stddef.h>

/* Returns whether Headway may map so many bytes. There are two conditions:
 *
 * - If the program's address space was limited (RLIMIT_AS) when the library was loaded, the mapping
 *   has at most a sixteenth of that limit.
 * - Three times as many bytes are free besides the mapping, as the program may have limited itself
 *   since.
 *
 * Most of what Headway maps is never touched, but the program could not use that address space.
 *
 * The function only maps and unmaps, as the start of a thread does: hooks call it, and a seccomp
 * filter of the program may kill the process for other calls. errno is preserved. */
bool hw__room_for(size_t bytes);

/* Returns whether a memory file may have so many bytes. The limit on the size of files
 * (RLIMIT_FSIZE) holds for memory files, too, and a process that lets one grow beyond it gets a
 * signal. errno is preserved. */
bool hw__room_in_file(size_t bytes);

/* Tells whether the kernel counts every page of memory that it promises (vm.overcommit_memory is
 * 2). A page of a memory file is promised when it is first touched, and where no more may be
 * promised, that touch is a SIGBUS. Reads a file of /proc; false if that is not to be had. errno is
 * preserved. */
bool hw__room_is_counted(void);

/* Returns whether such a kernel promises so many bytes, with three times as many left for others.
 * Reads a file of /proc; false if that is not to be had. errno is preserved. */
bool hw__room_to_promise(size_t bytes);

/* The two files. Tests set other ones. */
extern const char *hw__room_overcommit, *hw__room_meminfo;

#endif
