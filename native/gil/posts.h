// SPDX-License-Identifier: MIT
/* Semaphores: CPython's locks, queues and conditions wake a thread by sem_post(), and wait in
 * sem_wait(), sem_clockwait() or, in older builds, sem_timedwait(). While a policy is on, these
 * calls are hooked, so that a policy knows which thread has woken a waiter: the holder of the GIL
 * itself, or something outside (a socket, a timer). The hooks change nothing about the calls.
 *
 * A free-threaded build is not hooked: its GIL is off, or its waits belong to gil/parking.h. */
#ifndef HEADWAY_GIL_POSTS_H
#define HEADWAY_GIL_POSTS_H

/* Only one thread at a time may call these functions: hooks.c calls them while it changes the
 * hooks. hw__posts_pause() and hw__posts_resume() are async-signal-safe. */

/* Hooks the calls of the image that has `runtime`, or does nothing where it does not make them: a
 * policy then does not learn who woke a waiter. */
void hw__posts_install(const void *runtime);

/* Takes the hooks out for a while, where that takes no system call (hw__patch_pause()). */
void hw__posts_pause(void);
void hw__posts_resume(void);

/* Takes the hooks out. Calls that have begun end in the hooks. */
void hw__posts_remove(void);

#endif
