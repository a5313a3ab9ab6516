// SPDX-License-Identifier: MIT
/* Writes a line on stderr from code that must not wait: from a hook, or in a thread that holds a
 * GIL.
 *
 * A thread of its own writes the line, and ends when it has done so. So the caller goes on whatever
 * stderr is: a full pipe that nobody reads, a closed socket, a stopped disk, a terminal that stops
 * background processes which write. No signal (SIGPIPE, SIGTTOU) reaches the program. If the thread
 * cannot be started, exit() tries to write the line once more.
 *
 * There is no line if the process had no stderr when the library was loaded, or if its descriptor 2
 * is anything else by now: it may be the program's database, connection or pipe. There is none
 * either after hw__say_mute(), or if a seccomp filter forbids the calls that the line takes
 * (allowed.h). */
#ifndef HEADWAY_BASE_SAY_H
#define HEADWAY_BASE_SAY_H

#include <stdatomic.h>

#define HW__SAY_BYTES 400 /* the most that a line has, including its newline and NUL */

/* Writes "headway: process PID: TEXT". Any thread may call this function, with any mutex of
 * Headway's or of a GIL held; a signal handler may not, as the function starts a thread. errno is
 * preserved. If too many lines wait to be written, the line is dropped. */
void hw__say(const char *text);

/* As hw__say(), but only the first time for each `said`, which must begin as false. Forked children
 * inherit it. */
void hw__say_once(atomic_bool *said, const char *text);

/* Drops all later lines: another program reads this process's stderr. Forked children inherit it.
 * Any thread may call this function. */
void hw__say_mute(void);

/* Takes descriptor 2 for the process's stderr. Runs when the library is loaded; a test calls it for
 * a stderr of its own, while no other thread calls a function of this file. */
void hw__say_look(void);

/* Must be called in a forked child. Drops the lines that are not written yet: they are the
 * parent's. */
void hw__say_after_fork(void);

#endif
