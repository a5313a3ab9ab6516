// SPDX-License-Identifier: MIT
#include "engine/runner.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/parts.h"
#include "base/say.h"
#include "base/tls.h"
#include "engine/help.h"
#include "engine/sched.h"
#include "engine/wake.h"

/* The number of records that a search for a free one looks at first. */
#define LOWEST 64

/* The number of records that are mapped at first. */
#define FIRST_RUNNERS 1024

/* The records. More of them are mapped when as many threads are alive as there are records. */
static struct hw__parts runners = {.item_bytes = sizeof(struct hw__runner), .first = FIRST_RUNNERS};
/* The number of mapped records. Stored with release order and read with acquire order, so that a
 * reader finds the records mapped. */
static _Atomic uint32_t mapped;

static pthread_key_t key;

/* The number of threads that have a record. Any thread changes its own part of it. A mere count: a
 * record's `used` says whether it has an owner, and orders the accesses to it. */
static _Atomic int count;

/* Where a search begins after LOWEST records; any value is right. Relaxed. */
static _Atomic uint32_t turn;

static HW__TLS struct hw__runner *self;

/* Runs at the end of a thread, which has released its GIL for the last time. The thread waits for
 * no GIL, but may still stand in a queue (hw__decide_wait_at_once()). */
static void on_exit_of_thread(void *value) {
    struct hw__runner *runner = value;
    hw__sched_leave(runner);
    hw__wake_spin_ends(runner); /* it may count as a spinner without having begun to spin */
    self = NULL;
    atomic_fetch_sub(&count, 1);
    atomic_store_explicit(&runner->used, false, memory_order_release);
}

static struct hw__runner *runner_at(uint32_t i) { return hw__parts_at(&runners, i); }

/* Maps the part of the table that begins with the record `begin`, if it is not mapped. Returns
 * whether it is mapped now. */
static bool map_more(uint32_t begin) {
    if (begin >= HW__MAX_RUNNERS || !hw__parts_have(&runners, begin)) {
        return false;
    }
    uint32_t end = hw__part_begin(hw__part_of(begin, FIRST_RUNNERS) + 1, FIRST_RUNNERS);
    atomic_compare_exchange_strong(&mapped, &begin, end);
    return true;
}

int hw__runners_init(void) {
    if (atomic_load(&mapped) > 0) {
        return 0;
    }
    int error = pthread_key_create(&key, on_exit_of_thread);
    if (error != 0) {
        return -error;
    }
    error = key >= HW__KEYS_WITHOUT_ALLOCATION ? EMFILE : map_more(0) ? 0 : ENOMEM;
    if (error != 0) {
        pthread_key_delete(key);
    }
    return -error;
}

struct hw__runner *hw__runner_known(void) { return self; }

struct hw__runner *hw__runner_self(void) {
    if (self != NULL) {
        return self;
    }
    uint32_t room = atomic_load_explicit(&mapped, memory_order_acquire);
    if (room == 0) {
        return NULL;
    }
    if ((uint32_t)atomic_load(&count) >= room && !map_more(room)) {
        static atomic_bool said;
        hw__say_once(&said,
                     "more threads than the scheduler has room for: further ones wait for the "
                     "GIL as without headway");
        return NULL;
    }
    room = atomic_load_explicit(&mapped, memory_order_acquire);
    uint32_t first = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < LOWEST + room; i++) {
        /* Takes the lowest free record, so that few pages are touched. After LOWEST records in use
         * it goes on from `turn`, since many threads may begin and end at the same time. */
        struct hw__runner *runner = runner_at(i < LOWEST ? i : (first + i) % room);
        bool used = false;
        if (!atomic_load_explicit(&runner->used, memory_order_relaxed) &&
            atomic_compare_exchange_strong(&runner->used, &used, true)) {
            memset((char *)runner + offsetof(struct hw__runner, waiter), 0,
                   offsetof(struct hw__runner, used) - offsetof(struct hw__runner, waiter));
            runner->tid = gettid();
            runner->waiter.core = -1;
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
    uint32_t room = atomic_load(&mapped);
    for (uint32_t i = 0; i < room && atomic_load(&count) > 0; i++) {
        struct hw__runner *runner = runner_at(i);
        if (atomic_load_explicit(&runner->used, memory_order_relaxed)) {
            atomic_fetch_sub(&count, 1);
            atomic_store(&runner->spinning, false);
            if (runner != self) {
                atomic_store(&runner->used, false);
            }
        }
    }
    if (self != NULL) {
        atomic_store(&count, 1);
        self->tid = gettid();
        self->waiter.place = 0;
        self->waiter.stage = HW__STAGE_AWAY;
        self->waiter.left_ns = 0;
        atomic_store(&self->early, 0);
    }
}

void hw__runners_each(void (*visit)(struct hw__runner *runner)) {
    int left = atomic_load(&count);
    uint32_t room = atomic_load(&mapped);
    for (uint32_t i = 0; i < room && left > 0; i++) {
        if (atomic_load(&runner_at(i)->used)) {
            visit(runner_at(i));
            left--;
        }
    }
}

int hw__runners_count(void) { return atomic_load(&count); }
