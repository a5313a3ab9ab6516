// SPDX-License-Identifier: MIT
#include "trace/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/allowed.h"
#include "base/lease.h"
#include "base/parts.h"
#include "base/rare.h"
#include "base/say.h"
#include "base/tls.h"
#include "gil/gil.h"
#include "headway/clock.h"
#include "trace/names.h"
#include "trace/parks.h"

/* If there was no chunk or no record, a thread drops STARVE_EVENTS events before it asks again. */
#define STARVE_EVENTS 1000

/* Records that are used in turn, so that a thread's counters can be read for a while after its end.
 * More of them would only touch more memory. Further records are used when all of these are in use.
 */
#define RECENT 512

/* If the ends of threads are not reported, a sweep examines SWEEP_RECORDS records. If all of them
 * were in use, the next sweep comes SWEEP_NS later. */
#define SWEEP_RECORDS 256
#define SWEEP_NS 100000000

/* After UNNAMED_EVENTS events, a thread that Python has not named asks the operating system for its
 * name. Python names its own threads earlier, so that none of their hooks makes that system call: a
 * seccomp filter of the program may kill the process for a call that CPython itself does not make.
 */
#define UNNAMED_EVENTS 16

#define CAPACITY (HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES)

/* RECENT records are mapped at first, and more when so many threads are alive. */
static struct hw__parts records = {.item_bytes = sizeof(struct hw__thread), .first = RECENT};

/* The frames of deep stacks, by record. */
static struct hw__parts deep = {.item_bytes = (HW__MAX_DEPTH - HW__NEAR) * sizeof(struct hw__frame),
                                .first = RECENT};

/* No record at or above this index was used in this session. */
static _Atomic uint32_t high_water;
/* Where the search among the RECENT records begins; any value will do. It begins at 0 in each
 * session. So the index of a used slot is below the number of threads that have begun, and the
 * collector copies only these slots. Relaxed. */
static _Atomic uint32_t turn;
/* The first record above RECENT that was never used in this session. Relaxed. */
static _Atomic uint32_t fresh;
/* Free records above RECENT: a stack, linked by `next_free`. The lower half is the index plus 1 of
 * the topmost record, or 0. Each push changes the upper half, so that a pop fails if the stack has
 * changed meanwhile (ABA). Release and acquire. */
static _Atomic uint64_t free_records;

/* The name of the thread that began the first session: further threads inherit it. */
static char os_name[16];

static pthread_key_t key;
static bool key_made, key_usable;

static HW__TLS struct hw__thread *self;

/* The session in which `self` was made: a record of another session may belong to another thread by
 * now. */
static HW__TLS uint64_t self_session;

/* The session in which the thread got no record, and how many events to wait before it asks for one
 * again. */
static HW__TLS uint64_t refused_session;
static HW__TLS uint32_t refused_events;

static struct hw__thread *record(uint32_t i) { return hw__parts_at(&records, i); }

static void push_free(struct hw__thread *thread) {
    uint64_t index = (uint64_t)thread->index + 1;
    uint64_t head = atomic_load_explicit(&free_records, memory_order_relaxed), next;
    do {
        thread->next_free = (uint32_t)head;
        next = ((head >> 32) + 1) << 32 | index;
    } while (!atomic_compare_exchange_weak_explicit(&free_records, &head, next,
                                                    memory_order_release, memory_order_relaxed));
}

static struct hw__thread *pop_free(void) {
    uint64_t head = atomic_load_explicit(&free_records, memory_order_acquire), next;
    do {
        if ((uint32_t)head == 0) {
            return NULL;
        }
        /* Records are never unmapped, so a record that another thread has popped meanwhile can be
         * read. */
        next = (head >> 32) << 32 |
               atomic_load_explicit(&record((uint32_t)head - 1)->next_free, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&free_records, &head, next,
                                                    memory_order_acquire, memory_order_acquire));
    return record((uint32_t)head - 1);
}

static void release(struct hw__thread *thread) {
    atomic_store_explicit(&thread->used, 0, memory_order_release);
    if (thread->index >= RECENT) {
        push_free(thread);
    }
}

static void close_chunk(struct hw__thread *thread) {
    if (thread->chunk != NULL) {
        hw__session_close_chunk(thread->chunk, HW__CHUNK_EVENTS);
    }
    thread->chunk = NULL;
    thread->room = 0;
}

static void ask_os_name(struct hw__thread *thread) {
    thread->asked = true;
    if (atomic_load_explicit(&thread->named, memory_order_relaxed) || thread != self ||
        !hw__allowed(HW__CALL_NAME)) {
        return;
    }
    int saved = errno;
    char name[sizeof os_name] = "";
    prctl(PR_GET_NAME, name);
    errno = saved;
    memcpy(thread->slot->name, name, sizeof name);
    if (thread->chunk != NULL) {
        memcpy(thread->chunk->name, name, sizeof name);
    }
}

/* The records of threads that have ended while another thread forked: a stack, linked by
 * `next_left`. Release and acquire. */
static _Atomic(struct hw__thread *) left;

/* Ends the record of a thread that has ended, which no thread may be using. The registry's lock
 * must be held. */
static void end(struct hw__thread *thread) {
    hw__parks_flush(thread);
    hw__thread_emit(thread, HW__EXIT, 0, 0, 0, hw__thread_now(thread));
    close_chunk(thread);
    atomic_store_explicit(&thread->slot->state, HW__SLOT_FREE, memory_order_relaxed);
    release(thread); /* the key is usable here, so sweep() never runs */
}

static bool has_session(void) { return hw__session.active && !atomic_load(&hw__session.inherited); }

void hw__threads_end_left(void) {
    struct hw__thread *thread = atomic_exchange_explicit(&left, NULL, memory_order_acquire);
    while (thread != NULL) {
        struct hw__thread *next = thread->next_left;
        atomic_store_explicit(&thread->is_left, false, memory_order_release);
        /* The records of another session are free already. */
        if (has_session() && atomic_load(&thread->left_session) == hw__session.id) {
            end(thread);
        }
        thread = next;
    }
}

/* Leaves it to the thread that has the registry's lock next to end the record. */
static void leave(struct hw__thread *thread) {
    atomic_store(&thread->left_session, self_session);
    /* The record may be on the stack since another session, and have been used again in this
     * one. */
    if (atomic_exchange_explicit(&thread->is_left, true, memory_order_acquire)) {
        return;
    }
    thread->next_left = atomic_load_explicit(&left, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&left, &thread->next_left, thread,
                                                  memory_order_release, memory_order_relaxed)) {
    }
}

/* The destructor of thread-specific data: a thread with a record ends. */
static void on_exit_of_thread(void *value) {
    struct hw__thread *thread = value;
    if (!hw__registry_lock_beside_forks()) {
        if (thread == self) {
            self = NULL;
            leave(thread);
        }
        return;
    }
    hw__threads_end_left();
    if (has_session() && thread == hw__thread_known()) {
        if (!thread->asked) {
            ask_os_name(thread);
        }
        end(thread);
    }
    self = NULL;
    hw__registry_unlock();
}

int hw__threads_init(void) {
    if (!hw__parts_have(&records, 0)) {
        return -ENOMEM;
    }
    if (!key_made) {
        int error = pthread_key_create(&key, on_exit_of_thread);
        if (error != 0) {
            return -error;
        }
        key_made = true;
        key_usable = key < HW__KEYS_WITHOUT_ALLOCATION;
    }
    if (hw__allowed(HW__CALL_NAME)) {
        prctl(PR_GET_NAME, os_name);
    }
    return 0;
}

void hw__threads_forget(void) {
    uint32_t n = atomic_load(&high_water);
    for (uint32_t i = 0; i < n; i++) {
        atomic_store_explicit(&record(i)->used, 0, memory_order_relaxed);
    }
    atomic_store(&high_water, 0);
    atomic_store(&turn, 0);
    atomic_store(&fresh, RECENT);
    atomic_store(&free_records, 0);
}

/* Frees records of threads whose end was not reported, as none is if the key is not usable. Writes
 * no EXIT for them. Examines a few records at a time: a GIL's mutex may be held. */
static void sweep(void) {
    static _Atomic int64_t next_ns; /* when to sweep again; relaxed */
    static _Atomic uint32_t place;  /* where to go on; relaxed */
    int64_t now = hw_now_ns(), due = atomic_load_explicit(&next_ns, memory_order_relaxed);
    if (now < due || !hw__allowed(HW__CALL_TGKILL)) {
        return;
    }
    bool freed = false;
    uint32_t count = atomic_load(&high_water);
    int saved = errno;
    for (uint32_t n = 0; n < SWEEP_RECORDS && n < count; n++) {
        struct hw__thread *thread =
            record(atomic_fetch_add_explicit(&place, 1, memory_order_relaxed) % count);
        /* Set to 1 meanwhile, so that only one of two sweeping threads frees the record. */
        uint32_t in_use = 2;
        if (!atomic_compare_exchange_strong(&thread->used, &in_use, 1)) {
            continue;
        }
        if (syscall(SYS_tgkill, getpid(), thread->tid, 0) == 0 || errno != ESRCH) {
            atomic_store(&thread->used, 2);
            continue;
        }
        atomic_store_explicit(&thread->slot->state, HW__SLOT_FREE, memory_order_relaxed);
        close_chunk(thread);
        release(thread);
        freed = true;
    }
    if (!freed) {
        atomic_store_explicit(&next_ns, now + SWEEP_NS, memory_order_relaxed);
    }
    errno = saved;
}

static void raise_high_water(uint32_t to) {
    uint32_t seen = atomic_load(&high_water);
    while (seen < to && !atomic_compare_exchange_weak(&high_water, &seen, to)) {
    }
}

static bool is_claimed(struct hw__thread *thread) {
    uint32_t no = 0;
    return atomic_load_explicit(&thread->used, memory_order_relaxed) == 0 &&
           atomic_compare_exchange_strong(&thread->used, &no, 1);
}

/* Returns a record that no thread uses, marked as used; or NULL, and `*full` tells whether there
 * are too many threads, or no memory for more records. Takes no longer with many threads than with
 * few: a GIL's mutex may be held. */
static struct hw__thread *claim(bool *full) {
    for (uint32_t tries = 0; tries < RECENT; tries++) {
        uint32_t i = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) % RECENT;
        struct hw__thread *thread = record(i);
        if (is_claimed(thread)) {
            thread->index = i;
            raise_high_water(i + 1);
            return thread;
        }
    }
    struct hw__thread *thread = pop_free();
    if (thread == NULL) {
        uint32_t i = atomic_load_explicit(&fresh, memory_order_relaxed);
        do {
            *full = i >= HW__MAX_THREADS;
            if (*full || !hw__parts_have(&records, i)) {
                return NULL;
            }
        } while (!atomic_compare_exchange_weak_explicit(&fresh, &i, i + 1, memory_order_relaxed,
                                                        memory_order_relaxed));
        thread = record(i);
        thread->index = i;
        raise_high_water(i + 1);
    }
    atomic_store_explicit(&thread->used, 1, memory_order_relaxed);
    return thread;
}

/* Makes the record, which another thread may have had, and its slot the calling thread's. */
static void reset(struct hw__thread *thread) {
    struct hw__slot *slot = &hw__session.slots[thread->index];
    thread->slot = slot;
    thread->chunk = NULL;
    thread->open = NULL;
    thread->fill = thread->room = thread->starved = thread->number = 0;
    thread->serial = 1 + atomic_fetch_add(&hw__session.header->thread_count, 1);
    thread->tid = (int32_t)syscall(SYS_gettid);
    thread->start_ns = hw_now_ns();
    atomic_store_explicit(&thread->named, false, memory_order_relaxed);
    thread->asked = false;
    thread->held_since_ns = thread->waiting_since_ns = 0;
    thread->hold_ns = thread->wait_ns = 0;
    thread->was_forced = thread->answered = thread->stateless = false;
    thread->cpu_at_release_ns = thread->away_measured_ns = thread->cpu_last_at_ns = 0;
    thread->last_ns = thread->start_ns;
    thread->worst_hold_ns = thread->longest_hold_ns = thread->longest_wait_ns = 0;
    thread->longest_since_ns = 0;
    thread->node = 0;
    thread->node_gil = thread->depth = 0;
    memset(&thread->spin, 0, sizeof thread->spin);
    memset(thread->recent, 0, sizeof thread->recent);
    memset(slot, 0, sizeof *slot);
    slot->tid = thread->tid;
    memcpy(slot->name, os_name, sizeof os_name);
    atomic_store(&slot->since_ns, thread->start_ns);
    atomic_store(&slot->serial, thread->serial);
    atomic_store(&slot->state, HW__SLOT_IDLE);
}

/* Makes the calling thread's record. Returns NULL if there can be none. */
HW__RARE static struct hw__thread *begin(void) {
    if (refused_session == hw__session.id && refused_events > 0) {
        refused_events--;
        return NULL;
    }
    bool full = false;
    struct hw__thread *thread = claim(&full);
    if (thread == NULL && !key_usable) {
        sweep();
        thread = claim(&full);
    }
    if (thread == NULL) {
        static atomic_bool said;
        hw__say_once(
            &said, full ? "it has too many threads at a time: further ones are not recorded"
                        : "there is no memory for so many threads: further ones are not recorded");
        refused_session = hw__session.id;
        refused_events = STARVE_EVENTS;
        return NULL;
    }
    int saved = errno;
    reset(thread);
    self = thread;
    self_session = hw__session.id;
    if (key_usable) {
        pthread_setspecific(key, thread);
    }
    /* sweep() and hw__thread_name() may look at it from now on. */
    atomic_store(&thread->used, 2);
    if (hw__names_take(thread->tid, thread->slot->name)) {
        atomic_store_explicit(&thread->named, true, memory_order_relaxed);
    }
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

bool hw__frames_have(struct hw__thread *thread, uint32_t depth) {
    if (depth > HW__NEAR && thread->far == NULL && hw__parts_have(&deep, thread->index)) {
        thread->far = hw__parts_at(&deep, thread->index);
    }
    return depth <= HW__NEAR || thread->far != NULL;
}

void hw__threads_each(void (*function)(struct hw__thread *)) {
    uint32_t n = atomic_load(&high_water);
    for (uint32_t i = 0; i < n; i++) {
        if (atomic_load(&record(i)->used) == 2) {
            function(record(i));
        }
    }
}

/* Returns whether the collector gives signs of life; else the events of the calling thread are lost
 * until it does, or for good. */
static bool look_for_collector(int64_t now_ns) {
    int64_t silence_ns = hw__session_silence_ns(now_ns);
    if (silence_ns < HW__SILENT_NS) {
        return true;
    }
    static atomic_bool said, said_gone;
    /* Of a process that was attached to, nobody waits for that word. */
    bool is_told = hw__lease_until_ns(&hw__leases[HW__LEASE_TRACE]) == 0;
    if (is_told) {
        hw__say_once(&said, "nobody takes its events any more: they are not recorded");
    }
    if (silence_ns >= HW__GONE_NS) {
        if (is_told) {
            hw__say_once(&said_gone,
                         "nobody has taken its events for a minute: its recording is over");
        }
        /* The next event at each GIL finds that, and ends the recording. */
        hw__lease_expire(&hw__leases[HW__LEASE_TRACE], HW__LEASE_EXPIRED);
    }
    return false;
}

/* Takes a chunk for events, unless that was tried shortly before. Returns NULL if there is none. */
static struct hw__chunk *next_chunk(struct hw__thread *thread) {
    if (thread->starved > 0) {
        thread->starved--;
        return NULL;
    }
    struct hw__chunk *chunk = NULL;
    if (look_for_collector(thread->last_ns)) {
        chunk = hw__session_chunk(HW__CHUNK_EVENTS, thread->serial, thread->tid);
        if (chunk == NULL) {
            static atomic_bool said;
            bool is_refused =
                atomic_load_explicit(&hw__session.control->limit, memory_order_relaxed) == 0;
            hw__say_once(&said, is_refused
                                    ? "there can be no file for its trace: it is not recorded"
                                    : "the memory for its events is full: some are not recorded");
        }
    }
    thread->starved = chunk == NULL ? STARVE_EVENTS : 0;
    return chunk;
}

/* Makes room for an event, mostly by taking the next chunk. Returns false if there is none; unless
 * the session only counts, the event is then counted as dropped. */
HW__RARE static bool make_room(struct hw__thread *thread) {
    if (hw__session.chunk_count == 0) {
        /* The session only counts. No chunk is filled, so `fill` can count the events. */
        if (!thread->asked && ++thread->fill == UNNAMED_EVENTS) {
            ask_os_name(thread);
        }
        return false;
    }
    if (thread->chunk != NULL && thread->room < CAPACITY) {
        ask_os_name(thread);
        thread->room = CAPACITY;
        return true;
    }
    close_chunk(thread);
    if (hw__lease_over(&hw__leases[HW__LEASE_TRACE], thread->last_ns)) {
        return false; /* as at the end of a thread: a chunk would be taken for good */
    }
    thread->number++;
    struct hw__chunk *chunk = next_chunk(thread);
    if (chunk == NULL) {
        atomic_fetch_add_explicit(&hw__session.header->dropped_events, 1, memory_order_relaxed);
        return false;
    }
    chunk->number = thread->number;
    chunk->thread_start_ns = thread->start_ns;
    memcpy(chunk->name, thread->slot->name, sizeof chunk->name);
    chunk->named = atomic_load_explicit(&thread->named, memory_order_relaxed);
    thread->chunk = chunk;
    thread->fill = 0;
    thread->room = thread->asked ? CAPACITY : UNNAMED_EVENTS * sizeof(struct hw__event);
    return true;
}

int64_t hw__thread_was_there(struct hw__thread *thread, int64_t since_ns) {
    int64_t start_ns = hw__session.header->start_ns;
    since_ns = since_ns < start_ns ? start_ns : since_ns;
    if (thread->last_ns == thread->start_ns && since_ns < thread->start_ns) {
        thread->start_ns = thread->last_ns = since_ns;
    }
    return since_ns < thread->last_ns ? thread->last_ns : since_ns;
}

int64_t hw__thread_now(const struct hw__thread *thread) {
    int64_t now = hw_now_ns();
    return now > thread->last_ns ? now : thread->last_ns;
}

void hw__thread_emit(struct hw__thread *thread, uint32_t kind, uint32_t gil, uint32_t value,
                     uint32_t flags, int64_t now_ns) {
    thread->last_ns = now_ns;
    thread->open = NULL;
    if (thread->fill + sizeof(struct hw__event) > thread->room && !make_room(thread)) {
        return;
    }
    struct hw__chunk *chunk = thread->chunk;
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

/* Returns the record of a live thread, or NULL. */
static struct hw__thread *of_tid(int32_t tid) {
    uint32_t n = atomic_load(&high_water);
    for (uint32_t i = 0; i < n; i++) {
        struct hw__thread *thread = record(i);
        if (atomic_load(&thread->used) == 2 && thread->tid == tid) {
            return thread;
        }
    }
    return NULL;
}

void hw__thread_name_later(int32_t tid, const char *name) {
    char text[HW__NAME_BYTES] = "";
    memcpy(text, name, strnlen(name, sizeof text - 1));
    hw__names_keep(tid, text);
}

bool hw__thread_name(int32_t tid, const char *name) {
    struct hw__thread *mine = hw__thread_known();
    bool is_own = tid == (mine != NULL ? mine->tid : (int32_t)syscall(SYS_gettid));
    /* A thread nearly always gives its own name, so that even among thousands of threads none
     * searches the records of all. */
    struct hw__thread *thread = is_own ? mine : of_tid(tid);
    if (thread == NULL) {
        hw__thread_name_later(tid, name);
        if (is_own) {
            return true; /* its first event takes the name from there */
        }
        thread = of_tid(tid); /* it may have got its record meanwhile */
    }
    char text[HW__NAME_BYTES] = "";
    memcpy(text, name, strnlen(name, sizeof text - 1));
    if (thread == NULL) {
        return false;
    }
    memcpy(thread->slot->name, text, sizeof text);
    atomic_store_explicit(&thread->named, true, memory_order_relaxed);
    if (!is_own) {
        return false;
    }
    if (thread->chunk != NULL) {
        memcpy(thread->chunk->name, text, sizeof text);
        thread->chunk->named = 1;
    }
    return true;
}
