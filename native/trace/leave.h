// SPDX-License-Identifier: MIT
/* The end of a process by _exit(), as os._exit() calls it: multiprocessing ends its forked children
 * so. exit() is not called, so nothing ends the session; and a thread that computes alone until
 * then has no event that tells for how long. So the time of the call is kept in the header. */
#ifndef HEADWAY_TRACE_LEAVE_H
#define HEADWAY_TRACE_LEAVE_H

/* Watches the interpreter's calls of _exit(). Without effect if the interpreter has no such call,
 * or if it cannot be watched. */
void hw__leave_watch(const void *runtime);

/* Undoes hw__leave_watch(). */
void hw__leave_unwatch(void);

#endif
