// SPDX-License-Identifier: MIT
#include "schedule/runner.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/room.h"
#include "base/say.h"
#include "schedule/help.h"
#include "schedule/sched.h"
#include "schedule/wake.h"

/* glibc keeps the values of the first keys in the thread itself; setting a later one allocates. */
#define KEYS_WITHOUT_ALLOCATION 32

/* Fewer records are not worth a policy. */
#define LEAST_ROOM 1024

/* Set once, before any hook looks. Pages that no thread used take no memory. */
static struct hw__runner *runners;

static uint32_t most; /* of them; written before `runners` */
static pthread_key_t key;
static _Atomic int count;
static _Atomic uint32_t turn; /* where to look first for a free record; any value will do */

static __thread struct hw__runner *self __attribute__((tls_model("initial-exec")));

/* The thread has let its GIL go for good; it waits for none, but may be taken for waiting. */
static void on_exit_of_thread(void *value) {
    struct hw__runner *runner = value;
    hw__sched_leave(runner);
    hw__wake_spin_ends(runner); /* one that it was to begin, and has left instead */
    self = NULL;
    atomic_fetch_sub(&count, 1);
    atomic_store_explicit(&runner->used, false, memory_order_release);
}

int hw__runners_init(void) {
    if (runners != NULL) {
        return 0;
    }
    int error = pthread_key_create(&key, on_exit_of_thread);
    if (error != 0) {
        return -error;
    }
    if (key >= KEYS_WITHOUT_ALLOCATION) {
        pthread_key_delete(key);
        return -EMFILE;
    }
    for (uint32_t room = HW__MAX_RUNNERS; room >= LEAST_ROOM; room /= 2) {
        error = ENOMEM;
        if (!hw__room_for(room * sizeof(struct hw__runner))) {
            continue;
        }
        void *memory = mmap(NULL, room * sizeof(struct hw__runner), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory != MAP_FAILED) {
            most = room;
            runners = memory;
            return 0;
        }
        error = errno;
    }
    pthread_key_delete(key);
    return -error;
}

uint32_t hw__runners_most(void) { return most; }

struct hw__runner *hw__runner_known(void) { return self; }

struct hw__runner *hw__runner_self(void) {
    if (self != NULL) {
        return self;
    }
    if (runners == NULL) {
        return NULL;
    }
    if ((uint32_t)atomic_load(&count) >= most) {
        static atomic_bool said;
        hw__say_once(&said,
                     "more threads than the scheduler has room for: further ones wait for the "
                     "GIL as without headway");
        return NULL;
    }
    uint32_t first = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < most; i++) {
        /* The lowest that is free, so that few pages are touched; from `turn` on where many end and
         * begin. */
        struct hw__runner *runner = &runners[i < 64 ? i : (first + i) % most];
        bool used = false;
        if (!atomic_load_explicit(&runner->used, memory_order_relaxed) &&
            atomic_compare_exchange_strong(&runner->used, &used, true)) {
            memset((char *)runner + offsetof(struct hw__runner, place), 0,
                   offsetof(struct hw__runner, used) - offsetof(struct hw__runner, place));
            runner->tid = gettid();
            runner->cpu = -1;
            if (pthread_setspecific(key, runner) != 0) {
                atomic_store(&runner->used, false);
                return NULL;
            }
            hw__help_begin(runner);
            atomic_fetch_add(&count, 1);
            return self = runner;
        }
    }
    return NULL;
}

void hw__runners_after_fork(void) {
    for (int i = 0; runners != NULL && i < (int)most && atomic_load(&count) > 0; i++) {
        if (atomic_load_explicit(&runners[i].used, memory_order_relaxed)) {
            atomic_fetch_sub(&count, 1);
            atomic_store(&runners[i].spinning, false);
            if (&runners[i] != self) {
                atomic_store(&runners[i].used, false);
            }
        }
    }
    if (self != NULL) {
        atomic_store(&count, 1);
        self->tid = gettid();
        self->place = 0;
        self->waiting = false;
        self->left_ns = 0;
    }
}

void hw__runners_each(void (*visit)(struct hw__runner *runner)) {
    int left = atomic_load(&count);
    for (int i = 0; runners != NULL && i < (int)most && left > 0; i++) {
        if (atomic_load(&runners[i].used)) {
            visit(&runners[i]);
            left--;
        }
    }
}

int hw__runners_count(void) { return atomic_load(&count); }
