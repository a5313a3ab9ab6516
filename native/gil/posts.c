// SPDX-License-Identifier: MIT
#include "gil/posts.h"

#include <dlfcn.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "elf/got.h"
#include "elf/patch.h"
#include "gil/hooks.h"
#include "gil/scheduler.h"

static struct hw__patch patch;

static int (*real_post)(sem_t *);
static int (*real_wait)(sem_t *);
static int (*real_timedwait)(sem_t *, const struct timespec *);
static int (*real_clockwait)(sem_t *, clockid_t, const struct timespec *);

/* The poster is noted before the post: the woken thread may look at once. sem_post() may be called
 * by a signal handler, and hw__sched_posts() allows that. */
static int hook_post(sem_t *semaphore) {
    if (hw__hooks_resting() == NULL) {
        hw__sched_posts(semaphore);
    }
    return real_post(semaphore);
}

static int told(sem_t *semaphore, int result) {
    if (result == 0 && hw__hooks_resting() == NULL) {
        hw__sched_was_posted(semaphore);
    }
    return result;
}

static int hook_wait(sem_t *semaphore) { return told(semaphore, real_wait(semaphore)); }

static int hook_timedwait(sem_t *semaphore, const struct timespec *deadline) {
    return told(semaphore, real_timedwait(semaphore, deadline));
}

static int hook_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *deadline) {
    return told(semaphore, real_clockwait(semaphore, clock, deadline));
}

/* Finds the real functions, once: a thread may still be in a hook of an earlier policy. */
static bool resolve(void) {
    if (real_post != NULL) {
        return true;
    }
    real_wait = (int (*)(sem_t *))(uintptr_t)hw__next_function("sem_wait");
    real_timedwait =
        (int (*)(sem_t *, const struct timespec *))(uintptr_t)hw__next_function("sem_timedwait");
    real_clockwait = (int (*)(sem_t *, clockid_t, const struct timespec *))(
        uintptr_t)hw__next_function("sem_clockwait");
    if (real_wait != NULL && real_timedwait != NULL) {
        real_post = (int (*)(sem_t *))(uintptr_t)hw__next_function("sem_post");
    }
    return real_post != NULL;
}

void hw__posts_install(const void *runtime) {
    /* A function of builds without a GIL alone, which parking.c hooks. */
    if (dlsym(RTLD_DEFAULT, "_Py_MergeZeroLocalRefcount") != NULL) {
        return;
    }
    if (!resolve()) {
        return;
    }
    /* Only the hook of sem_post() pauses, which costs time at each release of a lock. The others
     * are called where a thread sleeps, and a slot that is not bound yet could not be paused. */
    struct hw__patch_entry entries[4] = {
        {"sem_post", (uintptr_t)hook_post, true, true},
        {"sem_wait", (uintptr_t)hook_wait, true, false},
        {"sem_timedwait", (uintptr_t)hook_timedwait, false, false}};
    int count = 3;
    if (real_clockwait != NULL) { /* from glibc 2.30 on */
        entries[count++] =
            (struct hw__patch_entry){"sem_clockwait", (uintptr_t)hook_clockwait, false, false};
    }
    (void)hw__patch_install(&patch, runtime, entries, count);
}

void hw__posts_pause(void) { hw__patch_pause(&patch); }

void hw__posts_resume(void) { hw__patch_resume(&patch); }

void hw__posts_remove(void) { hw__patch_remove(&patch); }
