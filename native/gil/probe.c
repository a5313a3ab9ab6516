// SPDX-License-Identifier: MIT
#include "gil/probe.h"

#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>

#include "gil/hooks.h"

/* How long the helper may take to start and to wait: a thousand times what it needs on a busy
 * machine. Past it, the GIL that the caller holds is not the one that PyGILState_Ensure() takes. */
#define PATIENCE_S 2

struct helper {
    const struct hw__probe_calls *calls;
    struct hw__sighting sighting;
    sem_t ready; /* it has a thread state, and let the GIL go again */
    sem_t go;    /* the caller holds the GIL again */
    sem_t seen;  /* it waits for the GIL */
};

static void post_seen(void *context) { sem_post(&((struct helper *)context)->seen); }

static void *help(void *argument) {
    struct helper *helper = argument;
    /* First without being watched: in a free-threaded build, making a thread state may stop the
     * world, for which the caller must have let go. */
    int state = helper->calls->ensure();
    void *saved = helper->calls->save();
    sem_post(&helper->ready);
    while (sem_wait(&helper->go) != 0) {
    }
    hw__hooks_watch(&helper->sighting);
    helper->calls->restore(saved);
    hw__hooks_watch(NULL);
    helper->calls->release(state);
    return NULL;
}

/* Waits for the semaphore. Returns 0 or -ETIMEDOUT. */
static int wait_for(sem_t *semaphore) {
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += PATIENCE_S;
    while (sem_timedwait(semaphore, &deadline) != 0) {
        if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

int hw__gil_probe(const struct hw__probe_calls *calls, struct hw__gil_memory **memory) {
    struct helper helper = {.calls = calls, .sighting = {.memory = NULL, .seen = post_seen}};
    helper.sighting.context = &helper;
    sem_init(&helper.ready, 0, 0);
    sem_init(&helper.go, 0, 0);
    sem_init(&helper.seen, 0, 0);

    /* The program's signals are not for this thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int error = -pthread_create(&thread, NULL, help, &helper);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        void *state = calls->save();
        while (sem_wait(&helper.ready) != 0) {
        }
        calls->restore(state);
        sem_post(&helper.go);
        error = wait_for(&helper.seen);
        /* Now it waits, or it has taken another GIL; in either case it comes to its end when this
         * one is free. */
        state = calls->save();
        pthread_join(thread, NULL);
        calls->restore(state);
        if (error == 0 && helper.sighting.acquire_site == 0) {
            error = -EPROTO;
        }
    }
    sem_destroy(&helper.ready);
    sem_destroy(&helper.go);
    sem_destroy(&helper.seen);
    if (error == 0) {
        hw__gil_learn_site(helper.sighting.acquire_site);
        *memory = helper.sighting.memory;
    }
    return error;
}

void *hw__interpreter_symbol(const char *name) { return dlsym(RTLD_DEFAULT, name); }

int hw__gil_find_main(void) {
    struct hw__probe_calls calls = {
        .ensure = (int (*)(void))(uintptr_t)hw__interpreter_symbol("PyGILState_Ensure"),
        .release = (void (*)(int))(uintptr_t)hw__interpreter_symbol("PyGILState_Release"),
        .save = (void *(*)(void))(uintptr_t)hw__interpreter_symbol("PyEval_SaveThread"),
        .restore = (void (*)(void *))(uintptr_t)hw__interpreter_symbol("PyEval_RestoreThread"),
    };
    if (calls.ensure == NULL || calls.release == NULL || calls.save == NULL ||
        calls.restore == NULL) {
        return -ENOENT;
    }
    struct hw__gil_memory *memory;
    int error = hw__gil_probe(&calls, &memory);
    if (error != 0) {
        return error;
    }
    /* A hook that knew the site already may have made the record when the helper acquired. */
    bool acquire;
    struct hw__gil *gil = hw__gil_find(&memory->cond, &acquire);
    return gil != NULL || hw__gil_add(memory, true) != NULL ? 0 : -EPROTO;
}
