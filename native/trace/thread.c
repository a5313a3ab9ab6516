// SPDX-License-Identifier: MIT
#include "trace/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/rare.h"
#include "gil/gil.h"
#include "headway/clock.h"

/* glibc keeps the values of the first keys in the thread itself; setting a later one allocates. */
#define KEYS_WITHOUT_ALLOCATION 32

/* How many events to drop before asking for a chunk again when there was none: asking goes through
 * all chunks. */
#define STARVE_EVENTS 1000

/* So many records are gone round in turn, so that what a thread has counted can be read for a while
 * after its end; more would only touch more memory. */
#define RECENT 512

#define CAPACITY (HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES)

static struct hw__thread threads[HW__MAX_THREADS];
static _Atomic uint32_t high_water; /* no record at or above it was ever used in this session */
/* Where to look first for a free record; any value will do. Begins at 0 in each session, so that no
 * slot is used above as many as there were threads. */
static _Atomic uint32_t turn;

static pthread_key_t key;
static bool key_made, key_usable;

/* initial-exec: no allocation at the first use in a thread, and no call. */
static __thread struct hw__thread *self __attribute__((tls_model("initial-exec")));

/* In which session `self` was made: a record of another one may be another thread's by now. */
static __thread uint64_t self_session __attribute__((tls_model("initial-exec")));

static void release(struct hw__thread *thread) {
    atomic_store_explicit(&thread->used, 0, memory_order_release);
}

static void close_chunk(struct hw__thread *thread) {
    if (thread->chunk != NULL) {
        atomic_store_explicit(&thread->chunk->state, HW__CHUNK_CLOSED, memory_order_release);
    }
    thread->chunk = NULL;
}

static void on_exit_of_thread(void *value) {
    struct hw__thread *thread = value;
    hw__registry_lock();
    if (hw__session.active && !atomic_load(&hw__session.inherited) &&
        thread == hw__thread_known()) {
        hw__thread_emit(thread, HW__EXIT, 0, 0, 0, hw__thread_now(thread));
        close_chunk(thread);
        atomic_store_explicit(&thread->slot->state, HW__SLOT_FREE, memory_order_relaxed);
        /* Who sweeps may be looking at it: not a hook, this can wait. */
        uint32_t in_use = 2;
        while (!atomic_compare_exchange_strong(&thread->used, &in_use, 0) && in_use == 1) {
            in_use = 2;
            sched_yield();
        }
    }
    self = NULL;
    hw__registry_unlock();
}

int hw__threads_init(void) {
    if (!key_made) {
        int error = pthread_key_create(&key, on_exit_of_thread);
        if (error != 0) {
            return -error;
        }
        key_made = true;
        key_usable = key < KEYS_WITHOUT_ALLOCATION;
    }
    return 0;
}

void hw__threads_forget(void) {
    uint32_t n = atomic_load(&high_water);
    for (uint32_t i = 0; i < n; i++) {
        release(&threads[i]);
    }
    atomic_store(&high_water, 0);
    atomic_store(&turn, 0);
}

/* Frees the records of threads that are gone without our having been told: all, where the key is
 * not usable. */
static void sweep(void) {
    for (uint32_t i = 0; i < HW__MAX_THREADS; i++) {
        /* Taken back to 1 meanwhile, so that of two who sweep one frees it. Where its thread lets
         * it go just now, it stays in use until the next sweep. */
        uint32_t in_use = 2;
        if (!atomic_compare_exchange_strong(&threads[i].used, &in_use, 1)) {
            continue;
        }
        if (syscall(SYS_tgkill, getpid(), threads[i].tid, 0) == 0 || errno != ESRCH) {
            atomic_store(&threads[i].used, 2);
            continue;
        }
        atomic_store_explicit(&threads[i].slot->state, HW__SLOT_FREE, memory_order_relaxed);
        close_chunk(&threads[i]);
        release(&threads[i]);
    }
}

static bool claim_at(uint32_t i) {
    uint32_t no = 0;
    if (atomic_load_explicit(&threads[i].used, memory_order_relaxed) != 0 ||
        !atomic_compare_exchange_strong(&threads[i].used, &no, 1)) {
        return false;
    }
    uint32_t seen = atomic_load(&high_water);
    while (seen <= i && !atomic_compare_exchange_weak(&high_water, &seen, i + 1)) {
    }
    return true;
}

static struct hw__thread *claim(void) {
    for (int sweeps = 0; sweeps < 2; sweeps++) {
        for (uint32_t tries = 0; tries < RECENT; tries++) {
            uint32_t i = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) % RECENT;
            if (claim_at(i)) {
                return &threads[i];
            }
        }
        for (uint32_t i = RECENT; i < HW__MAX_THREADS; i++) {
            if (claim_at(i)) {
                return &threads[i];
            }
        }
        sweep();
    }
    return NULL;
}

HW__RARE static struct hw__thread *begin(void) {
    struct hw__header *header = hw__session.header;
    struct hw__thread *thread = claim();
    if (thread == NULL) {
        return NULL;
    }
    struct hw__slot *slot = &hw__session.slots[thread - threads];
    if (!hw__session_room(slot, sizeof *slot)) {
        release(thread);
        return NULL;
    }
    int saved = errno;
    thread->slot = slot;
    thread->chunk = NULL;
    thread->open = NULL;
    thread->fill = thread->starved = 0;
    thread->serial = 1 + atomic_fetch_add(&header->thread_count, 1);
    thread->tid = (int32_t)syscall(SYS_gettid);
    thread->start_ns = hw_now_ns();
    thread->named = false;
    thread->held_since_ns = thread->waiting_since_ns = 0;
    thread->hold_ns = thread->wait_ns = 0;
    thread->was_forced = thread->stateless = false;
    thread->cpu_at_acquire_ns = 0;
    thread->last_ns = thread->start_ns;
    thread->worst_hold_ns = 0;
    thread->node = 0;
    thread->node_gil = thread->depth = 0;
    memset(thread->recent, 0, sizeof thread->recent);
    memset(slot, 0, sizeof *slot);
    slot->tid = thread->tid;
    prctl(PR_GET_NAME, slot->name); /* 16 bytes */
    atomic_store(&slot->since_ns, thread->start_ns);
    atomic_store(&slot->serial, thread->serial);
    atomic_store(&slot->state, HW__SLOT_IDLE);
    self = thread;
    self_session = hw__session.id;
    if (key_usable) {
        pthread_setspecific(key, thread);
    }
    atomic_store(&thread->used, 2); /* sweep() may look at it from now on */
    errno = saved;
    return thread;
}

struct hw__thread *hw__thread_known(void) {
    struct hw__thread *thread = self;
    return thread != NULL && self_session == hw__session.id ? thread : NULL;
}

struct hw__thread *hw__thread_self(void) {
    struct hw__thread *thread = hw__thread_known();
    return thread != NULL ? thread : begin();
}

/* Takes the next chunk, or counts an event as dropped. Returns whether there is one. */
HW__RARE static bool next_chunk(struct hw__thread *thread) {
    struct hw__header *header = hw__session.header;
    if (header->chunk_count == 0) {
        return false; /* counters only: nobody asked for events */
    }
    close_chunk(thread);
    struct hw__chunk *chunk = NULL;
    if (thread->starved > 0) {
        thread->starved--;
    } else {
        chunk = hw__session_chunk(HW__CHUNK_EVENTS, thread->serial, thread->tid);
        thread->starved = chunk == NULL ? STARVE_EVENTS : 0;
    }
    if (chunk == NULL) {
        atomic_fetch_add_explicit(&header->dropped_events, 1, memory_order_relaxed);
        return false;
    }
    chunk->thread_start_ns = thread->start_ns;
    memcpy(chunk->name, thread->slot->name, sizeof chunk->name);
    chunk->named = thread->named;
    thread->chunk = chunk;
    thread->fill = 0;
    return true;
}

int64_t hw__thread_now(const struct hw__thread *thread) {
    int64_t now = hw_now_ns();
    return now > thread->last_ns ? now : thread->last_ns;
}

void hw__thread_emit(struct hw__thread *thread, uint32_t kind, uint32_t gil, uint32_t value,
                     uint32_t flags, int64_t now_ns) {
    thread->last_ns = now_ns;
    thread->open = NULL;
    struct hw__chunk *chunk = thread->chunk;
    if (chunk == NULL || thread->fill + sizeof(struct hw__event) > CAPACITY) {
        if (!next_chunk(thread)) {
            return;
        }
        chunk = thread->chunk;
    }
    struct hw__event *event =
        (struct hw__event *)((char *)chunk + HW__CHUNK_HEADER_BYTES + thread->fill);
    event->time_ns = now_ns;
    event->value = value;
    event->kind = (uint8_t)kind;
    event->gil = (uint8_t)gil;
    event->flags = (uint16_t)flags;
    thread->open = kind == HW__ACQUIRE && flags == 0 ? event : NULL;
    thread->fill += (uint32_t)sizeof *event;
    atomic_store_explicit(&chunk->used, thread->fill, memory_order_release);
}

void hw__thread_emit_release(struct hw__thread *thread, uint32_t gil, uint32_t value,
                             uint32_t flags, uint64_t hold_ns, int64_t now_ns) {
    struct hw__event *event = thread->open;
    if (event == NULL || event->gil != gil || flags != 0 || hold_ns > UINT16_MAX) {
        hw__thread_emit(thread, HW__RELEASE, gil, value, flags, now_ns);
        return;
    }
    thread->last_ns = now_ns;
    thread->open = NULL;
    struct hw__event hold = {
        .value = value, .kind = HW__HOLD, .gil = (uint8_t)gil, .flags = (uint16_t)hold_ns};
    typedef uint64_t __attribute__((may_alias)) word;
    word half;
    memcpy(&half, &hold.value, sizeof half);
    __atomic_store_n((word *)(void *)&event->value, half, __ATOMIC_RELAXED);
}

bool hw__thread_name(int32_t tid, const char *name) {
    uint32_t n = atomic_load(&high_water);
    for (uint32_t i = 0; i < n; i++) {
        struct hw__thread *thread = &threads[i];
        if (atomic_load(&thread->used) != 2 || thread->tid != tid) {
            continue;
        }
        char text[HW__NAME_BYTES] = "";
        memcpy(text, name, strnlen(name, sizeof text - 1));
        memcpy(thread->slot->name, text, sizeof text);
        thread->named = true;
        if (thread != hw__thread_known()) {
            return false;
        }
        if (thread->chunk != NULL) {
            memcpy(thread->chunk->name, text, sizeof text);
            thread->chunk->named = 1;
        }
        return true;
    }
    return false;
}
