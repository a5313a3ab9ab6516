// SPDX-License-Identifier: MIT
/* A line on stderr from code that must not wait: a hook, or a thread that holds a GIL.
 *
 * The line is written by a thread of its own, which ends when it is done. So whatever stderr is (a
 * full pipe that nobody reads, a closed socket, a stopped disk, a terminal that stops writers from
 * the background), the caller goes on, and no signal (SIGPIPE, SIGTTOU) reaches the program. Where
 * there can be no such thread, the line is tried once more at exit().
 *
 * A process that was started without a stderr gets no line: descriptor 2 may be a file of its own
 * by now. */
#ifndef HEADWAY_BASE_SAY_H
#define HEADWAY_BASE_SAY_H

#include <stdatomic.h>

#define HW__SAY_BYTES 400 /* a line has no more, with its newline and NUL */

/* Says "headway: process PID: TEXT". Any thread, with any mutex of ours or of a GIL held; not from
 * a signal handler, as it starts a thread. errno stays. The line is dropped where too many wait to
 * be written. */
void hw__say(const char *text);

/* The same, the first time only for each `said`, which begins as false. Forked children inherit it.
 */
void hw__say_once(atomic_bool *said, const char *text);

/* In a forked child: what is not said yet is the parent's. */
void hw__say_after_fork(void);

#endif
