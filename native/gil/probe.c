// SPDX-License-Identifier: MIT
#include "gil/probe.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gil/hooks.h"
#include "headway/clock.h"

/* How long the helper may take to start and to wait: a thousand times what it needs on a busy
 * machine. When this time is over, the GIL that the caller holds is not the one that
 * PyGILState_Ensure() acquires. */
#define PATIENCE_NS INT64_C(2000000000)

/* How often the helper tries to acquire the GIL twice in a row. It needs some 100 ns between the
 * two acquires, in which another thread seldom gets the GIL. */
#define TRIES 16

/* Address space, which the C library keeps after the helper's end. */
#define STACK_BYTES (512 << 10)

struct helper {
    const struct hw__probe_calls *calls;
    struct hw__sighting sighting;
    /* The three fields below are futexes: 0, then 1. */
    atomic_uint ready; /* the helper has a thread state, and has released the GIL again */
    atomic_uint go;    /* the caller holds the GIL again */
    atomic_uint seen;  /* the helper waits for the GIL */
};

static void post(atomic_uint *done) {
    atomic_store(done, 1);
    (void)syscall(SYS_futex, done, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Waits until `done` is posted: for `patience_ns` at most or, if that is negative, without a limit.
 * Time is CLOCK_MONOTONIC, which cannot be set back. Returns 0 or -ETIMEDOUT. */
static int wait_for(atomic_uint *done, int64_t patience_ns) {
    int64_t until_ns = hw_now_ns() + patience_ns;
    while (atomic_load(done) == 0) {
        int64_t left_ns = until_ns - hw_now_ns();
        if (patience_ns >= 0 && left_ns <= 0) {
            return -ETIMEDOUT;
        }
        struct timespec span = {left_ns / 1000000000, left_ns % 1000000000};
        (void)syscall(SYS_futex, done, FUTEX_WAIT_PRIVATE, 0, patience_ns < 0 ? NULL : &span, NULL,
                      0);
    }
    return 0;
}

static void post_seen(void *context) { post(&((struct helper *)context)->seen); }

/* Acquires the GIL once more, with no hold of another thread since the calling thread's last one.
 *
 * A compiler may give take_gil() two calls of signal(): one where `last_holder` changes, and one
 * where it stays (CPython 3.14 and 3.15). A thread alone in an interpreter with a GIL of its own
 * only comes to the second one. The caller must hold the GIL at `memory`. */
static void acquire_again(const struct hw__probe_calls *calls,
                          const struct hw__gil_memory *memory) {
    unsigned long switches = 0;
    int tries = 0;
    do {
        switches = HW__READ(memory->switch_number);
        calls->restore(calls->save());
    } while (HW__READ(memory->switch_number) != switches && ++tries < TRIES);
}

static void *help(void *argument) {
    struct helper *helper = argument;
    /* The first acquire is not watched: in a free-threaded build the making of a thread state may
     * stop the world, for which the caller must have released the GIL. */
    int state = helper->calls->ensure();
    void *saved = helper->calls->save();
    post(&helper->ready);
    (void)wait_for(&helper->go, -1);
    hw__hooks_watch(&helper->sighting);
    helper->calls->restore(saved);
    if (helper->sighting.acquire_sites[0] != 0) {
        acquire_again(helper->calls, helper->sighting.memory);
    }
    hw__hooks_watch(NULL);
    helper->calls->release(state);
    return NULL;
}

int hw__gil_probe(const struct hw__probe_calls *calls, struct hw__gil_memory **memory) {
    struct helper helper = {.calls = calls, .sighting = {.memory = NULL, .seen = post_seen}};
    helper.sighting.context = &helper;

    /* The helper blocks all signals: the program's handlers must not run in it. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_t thread;
    int error = -pthread_attr_init(&attributes);
    if (error == 0) {
        (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
        error = -pthread_create(&thread, &attributes, help, &helper);
        pthread_attr_destroy(&attributes);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        void *state = calls->save();
        (void)wait_for(&helper.ready, -1);
        calls->restore(state);
        post(&helper.go);
        error = wait_for(&helper.seen, PATIENCE_NS);
        /* Now the helper waits, or has acquired another GIL. In either case it ends when the
         * caller's GIL is free. */
        state = calls->save();
        pthread_join(thread, NULL);
        if (error == 0 && helper.sighting.acquire_sites[0] == 0) {
            error = -EPROTO;
        }
        /* This acquire comes mostly without a wait, after another thread's hold. */
        hw__hooks_watch(error == 0 ? &helper.sighting : NULL);
        calls->restore(state);
        hw__hooks_watch(NULL);
    }
    if (error == 0) {
        for (int i = 0; i < HW__ACQUIRE_SITES && helper.sighting.acquire_sites[i] != 0; i++) {
            hw__gil_learn_site(helper.sighting.acquire_sites[i]);
        }
        *memory = helper.sighting.memory;
    }
    return error;
}

void *hw__interpreter_symbol(const char *name) { return dlsym(RTLD_DEFAULT, name); }

bool hw__gil_is_mine(const struct hw__gil_memory *memory) {
    void *(*state)(void) = (void *(*)(void))(uintptr_t)hw__interpreter_symbol("PyThreadState_Get");
    return state != NULL && HW__READ(memory->locked) == 1 &&
           HW__READ(memory->last_holder) == state();
}

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
    /* A hook that knew the site already may have made the record at the helper's acquire. */
    bool acquire;
    struct hw__gil *gil = hw__gil_find(&memory->cond, &acquire);
    return gil != NULL || hw__gil_add(memory, true) != NULL ? 0 : -EPROTO;
}
