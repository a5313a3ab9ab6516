// SPDX-License-Identifier: MIT
/* DESIGN: the GIL's mutex, which every hook is called with, orders the events of that GIL and
 * guards its record; what belongs to a thread only that thread touches. So nothing here locks, and
 * nothing waits for another thread.
 *
 * Times are read inside the mutex: the acquire that follows a release has a later time. */
#include "trace/events.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/allowed.h"
#include "base/lease.h"
#include "base/rare.h"
#include "headway/clock.h"
#include "schedule/engine.h"
#include "trace/stacks.h"
#include "trace/thread.h"

#define ADD(counter, amount)                                                                       \
    atomic_store_explicit(&(counter),                                                              \
                          atomic_load_explicit(&(counter), memory_order_relaxed) + (amount),       \
                          memory_order_relaxed)
#define SET(counter, value) atomic_store_explicit(&(counter), (value), memory_order_relaxed)

/* From which length on a hold is looked at more closely. */
#define LONG_HOLD_NS 1000000

static void forget_parks(void);
static void close_door(void);

/* The forked child's first event: its own file, and nothing of the parent's threads and stacks. */
HW__RARE static bool adopt(void) {
    int expected = HW__INHERITED;
    if (!atomic_compare_exchange_strong(&hw__session.inherited, &expected, HW__ADOPTING)) {
        return expected == 0; /* another thread has done it, or is doing it */
    }
    bool done = hw__session_adopt();
    if (!done) {
        hw__session.active = false;
    }
    hw__threads_forget();
    hw__stacks_forget();
    forget_parks();
    for (int i = 0; i < hw__gil_count(); i++) {
        struct hw__gil *gil = &hw__gils[i];
        hw__stacks_drop(gil);
        if (done && atomic_load(&gil->memory) != NULL) {
            hw__gil_record(gil);
        } else {
            atomic_store(&gil->recorded, false);
        }
    }
    if (!done) {
        close_door();
    }
    /* In a free-threaded build other threads of the child may be about to tell something. */
    atomic_store(&hw__session.inherited, done ? 0 : HW__LOST);
    return done;
}

HW__RARE static void announce(struct hw__gil *gil, int64_t now_ns) {
    struct hw__header *header = hw__session.header;
    uint32_t count = atomic_load(&header->gil_count);
    while (count <= gil->index &&
           !atomic_compare_exchange_weak(&header->gil_count, &count, gil->index + 1)) {
    }
    struct hw__meta_gil *record = hw__meta_begin(gil, HW__META_GIL, sizeof *record);
    if (record != NULL) {
        record->index = gil->index;
        record->main = gil->main;
        record->address = (uint64_t)(uintptr_t)atomic_load(&gil->memory);
        record->time_ns = now_ns;
        hw__meta_commit(gil, record);
    }
    gil->announced = record != NULL || header->chunk_count == 0;
}

/* Whoever had this process recorded is gone. Each GIL goes back to what it was at its next event;
 * what else there is to undo waits for hw_trace_stop(). */
HW__RARE static void abandon(struct hw__gil *gil, int64_t now_ns) {
    hw__lease_expire(&hw__leases[HW__LEASE_TRACE], HW__LEASE_EXPIRED);
    atomic_store(&hw__session.header->end_ns, now_ns);
    close_door();
    if (gil != NULL) {
        atomic_store(&gil->recorded, false);
    }
}

/* What every event begins with. Returns the calling thread's record with the time, or NULL: no
 * event.
 *
 * No event is before the last one of its GIL and of its thread: the counter may be read a little
 * before the mutex is had, and each GIL has its own tie to the clock. */
static struct hw__thread *enter(struct hw__gil *gil, int64_t *now_ns) {
    if (atomic_load_explicit(&hw__session.inherited, memory_order_acquire) != 0 && !adopt()) {
        return NULL;
    }
    struct hw__thread *thread = hw__thread_self();
    if (thread == NULL) {
        atomic_fetch_add_explicit(&hw__session.header->dropped_events, 1, memory_order_relaxed);
        return NULL;
    }
    int64_t now = hw__ticks_now(&gil->ticks);
    if (hw__lease_over(&hw__leases[HW__LEASE_TRACE], now)) {
        abandon(gil, now);
        return NULL;
    }
    now = now < gil->last_ns ? gil->last_ns : now;
    now = now < thread->last_ns ? thread->last_ns : now;
    *now_ns = gil->last_ns = now;
    if (!gil->announced) {
        announce(gil, now);
    }
    return thread;
}

/* Py_IsFinalizing(): reads a variable, from any thread. Written while nothing is recorded. */
static int (*is_finalizing)(void);

void hw__events_init(void *function) { is_finalizing = (int (*)(void))(uintptr_t)function; }

/* Whether the PyThreadState of a thread that has just acquired may be freed memory.
 *
 * A daemon thread that waits for the GIL while the interpreter ends, takes it, sees that it must
 * not go on, and lets it go again; take_gil() says of its state: "could be a dangling pointer". It
 * was freed by who ends the interpreter, with the GIL held and after having said so; hence who took
 * the GIL before that was said has a state. Who ends it is therefore the one that let go last when
 * the first one acquires after that. */
static bool stateless(struct hw__gil *gil, const struct hw__thread *thread) {
    if (is_finalizing == NULL) {
        return true;
    }
    if (!is_finalizing()) {
        gil->ending = false;
        return false;
    }
    if (!gil->ending) {
        gil->ending = true;
        gil->ender = gil->main ? gil->last : NULL;
    }
    return thread != gil->ender;
}

static void change(struct hw__thread *thread, uint32_t state, int64_t now_ns) {
    SET(thread->slot->since_ns, now_ns);
    SET(thread->slot->state, state);
}

/* The GIL that the calling thread is known to wait for, and in which session. */
static __thread const struct hw__gil *waits_for __attribute__((tls_model("initial-exec")));
static __thread uint64_t waits_in __attribute__((tls_model("initial-exec")));

bool hw__waits_already(const struct hw__gil *gil) {
    return waits_for == gil &&
           waits_in == atomic_load_explicit(&hw__session.id, memory_order_relaxed);
}

void hw__on_wait(struct hw__gil *gil) {
    int64_t now;
    struct hw__thread *thread = enter(gil, &now);
    if (thread == NULL || thread->waiting_since_ns != 0) {
        return;
    }
    thread->waiting_since_ns = now;
    waits_for = gil;
    waits_in = hw__session.id;
    /* It has run no Python since it let the GIL go: it is where it was then. */
    uint32_t node = thread->node_gil == gil->index ? thread->node : 0;
    hw__thread_emit(thread, HW__WAIT, gil->index, node, 0, now);
    change(thread, HW__SLOT_WAITING, now);
}

void hw__on_request(struct hw__gil *gil) {
    int64_t now;
    struct hw__thread *thread = enter(gil, &now);
    SET(gil->requested, true);
    if (thread != NULL && thread->waiting_since_ns != 0) {
        hw__thread_emit(thread, HW__REQUEST, gil->index, 0, 0, now);
        SET(gil->request_told, true);
    }
}

static void count_wait(struct hw__slot *slot, uint64_t wait_ns) {
    ADD(slot->waits, 1);
    ADD(slot->wait_ns, wait_ns);
    if (wait_ns > atomic_load_explicit(&slot->worst_wait_ns, memory_order_relaxed)) {
        SET(slot->worst_wait_ns, wait_ns);
    }
    unsigned bits = wait_ns == 0 ? 0 : 64 - (unsigned)__builtin_clzll(wait_ns);
    ADD(slot->wait_buckets[bits < HW__WAIT_BUCKETS ? bits : HW__WAIT_BUCKETS - 1], 1);
}

static void hold(struct hw__gil *gil, struct hw__thread *thread, int64_t now_ns, uint32_t flags) {
    thread->held_since_ns = now_ns;
    gil->holder = thread;
    hw__gil_forget_request(gil);
    hw__thread_emit(thread, HW__ACQUIRE, gil->index, 0, flags, now_ns);
    ADD(thread->slot->holds, 1);
    SET(thread->slot->gil, gil->index);
    change(thread, HW__SLOT_HOLDING, now_ns);
}

/* The CPU time of the calling thread. A system call: for hand-overs that cost much more anyway. */
static int64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* How much of its hold the thread was running, for the event's flags. */
static uint32_t ran(const struct hw__thread *thread, uint64_t hold_ns) {
    if (thread->cpu_at_acquire_ns == 0 || hold_ns < LONG_HOLD_NS) {
        return 0;
    }
    uint64_t cpu = (uint64_t)(cpu_ns() - thread->cpu_at_acquire_ns);
    uint64_t share = cpu >= hold_ns ? HW__RAN_ALL : cpu * HW__RAN_ALL / hold_ns;
    return (uint32_t)(1 + share) << HW__RAN_SHIFT;
}

void hw__on_acquire(struct hw__gil *gil) {
    waits_for = NULL;
    int64_t now;
    struct hw__thread *thread = enter(gil, &now);
    if (thread == NULL) {
        gil->holder = gil->last = NULL;
        hw__gil_forget_request(gil);
        return;
    }
    struct hw__gil_memory *memory = atomic_load_explicit(&gil->memory, memory_order_relaxed);
    uint32_t interval_us = (uint32_t)HW__READ(memory->interval_us);
    if (interval_us != gil->interval_us) {
        if (gil->interval_us != 0) {
            hw__thread_emit(thread, HW__INTERVAL, gil->index, interval_us, 0, now);
        }
        gil->interval_us = interval_us;
    }
    /* Of those that waited, and those that compute: they do one of both at each turn. */
    bool measured =
        (thread->waiting_since_ns != 0 || thread->was_forced) && hw__allowed(HW__CALL_CLOCK);
    thread->cpu_at_acquire_ns = measured ? cpu_ns() : 0;
    if (thread->waiting_since_ns != 0) {
        uint64_t wait_ns = (uint64_t)(now - thread->waiting_since_ns);
        thread->waiting_since_ns = 0;
        thread->wait_ns += wait_ns;
        count_wait(thread->slot, wait_ns);
    }
    hold(gil, thread, now, 0);
    thread->stateless = stateless(gil, thread);
}

void hw__on_release(struct hw__gil *gil) {
    struct hw__gil_memory *memory = atomic_load_explicit(&gil->memory, memory_order_relaxed);
    if (HW__READ(memory->locked) != 0) {
        return; /* free-threaded builds signal without having held it, too */
    }
    gil->last = NULL; /* unless it is known who lets it go */
    if (gil->holder == NULL) {
        return;
    }
    int64_t now;
    struct hw__thread *thread = enter(gil, &now);
    if (thread == NULL || thread != gil->holder || thread->held_since_ns == 0) {
        return;
    }
    uint64_t hold_ns = (uint64_t)(now - thread->held_since_ns);
    thread->node =
        thread->stateless ? 0 : hw__stacks_take(gil, thread, HW__READ(memory->last_holder));
    bool requested = atomic_load_explicit(&gil->requested, memory_order_relaxed);
    hw__thread_emit_release(thread, gil->index, thread->node,
                            (requested ? HW__FORCED : 0) | ran(thread, hold_ns), hold_ns, now);
    thread->held_since_ns = 0;
    thread->was_forced = requested;
    thread->hold_ns += hold_ns;
    struct hw__slot *slot = thread->slot;
    ADD(slot->hold_ns, hold_ns);
    if (hold_ns > thread->worst_hold_ns) {
        thread->worst_hold_ns = hold_ns;
        SET(slot->worst_hold_ns, hold_ns);
    }
    if (requested) {
        ADD(slot->forced, 1);
    }
    change(thread, HW__SLOT_IDLE, now);
    gil->holder = NULL;
    gil->last = thread;
}

HW__RARE struct hw__gil *hw__on_new_gil(struct hw__gil_memory *memory) {
    /* Tried, not locked: this GIL's mutex is held. Where a session is just beginning or ending, the
     * GIL's next acquire finds it. */
    if (!hw__registry_trylock()) {
        return NULL;
    }
    struct hw__gil *gil =
        hw__gil_add(memory, hw__gil_was_main(memory) || hw__gil_in_runtime(memory));
    if (gil != NULL && hw__session.active) {
        hw__gil_record(gil);
    }
    hw__registry_unlock();
    return gil;
}

void hw__on_gil_end(struct hw__gil *gil, struct hw__gil_memory *memory) {
    hw__registry_lock();
    if (atomic_load(&gil->memory) == memory) {
        bool recorded = atomic_load(&gil->recorded);
        hw__gil_unrecord(gil);
        if (recorded && gil->announced && !atomic_load(&hw__session.inherited)) {
            struct hw__meta_gil *record = hw__meta_begin(gil, HW__META_GIL_END, sizeof *record);
            if (record != NULL) {
                record->index = gil->index;
                record->main = gil->main;
                record->address = (uint64_t)(uintptr_t)memory;
                int64_t now = hw_now_ns();
                record->time_ns = now < gil->last_ns ? gil->last_ns : now;
                hw__meta_commit(gil, record);
            }
        }
        hw__stacks_drop(gil);
        hw__sched_forget(gil);
        hw__gil_remove(gil);
    }
    hw__registry_unlock();
}

void hw__on_found_holding(struct hw__gil *gil) {
    int64_t now;
    struct hw__gil_memory *memory = atomic_load(&gil->memory);
    struct hw__thread *thread = enter(gil, &now);
    gil->interval_us = (uint32_t)HW__READ(memory->interval_us);
    if (thread != NULL) {
        hold(gil, thread, now, HW__ASSUMED);
    }
}

/* Without a GIL's mutex, what keeps the session from ending under a park is this count of those
 * that are in the middle of telling one: hw__parks_stop() first closes the door, then waits for it
 * to be 0. Nobody blocks while he counts. Sequentially consistent, as both sides write one and read
 * the other. */
static _Atomic int telling;
static _Atomic bool door_open;

/* What threads do without a GIL: its meta chunk, with stacks and types. No record of a GIL will do,
 * for one may come to life at any time, and be guarded by its own mutex. */
static struct hw__gil no_gil = {.index = HW__NO_GIL};

/* Protects no_gil and the types. Tried, not waited for, in a hook; comes last in the order of
 * locks. */
static pthread_mutex_t free_meta = PTHREAD_MUTEX_INITIALIZER;

#define TYPES 1024            /* contended types that get a name; of further ones it is not told */
static uint64_t types[TYPES]; /* by id - 1; guarded by free_meta */
static uint32_t type_count;

static bool begin_telling(void) {
    /* Before the count: else those that keep coming would keep it from 0 for ever. */
    if (!atomic_load_explicit(&door_open, memory_order_relaxed)) {
        return false;
    }
    atomic_fetch_add(&telling, 1);
    if (atomic_load(&door_open)) {
        return true;
    }
    atomic_fetch_sub(&telling, 1);
    return false;
}

static void forget_parks(void) {
    hw__stacks_drop(&no_gil);
    no_gil.meta = NULL;
    type_count = 0;
}

void hw__parks_begin(void) { atomic_store(&door_open, true); }

static void close_door(void) { atomic_store(&door_open, false); }

void hw__parks_stop(void) {
    close_door();
    while (atomic_load(&telling) != 0) {
        sched_yield();
    }
    forget_parks();
}

void hw__parks_reset_in_child(void) {
    atomic_store(&telling, 0);
    free_meta = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* The file's id of a type; writes its name when it is new. free_meta must be held. */
static uint32_t type_id(const struct hw__park *park) {
    if (park->type == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < type_count; i++) {
        if (types[i] == park->type) {
            return i + 1;
        }
    }
    size_t bytes = strlen(park->type_name);
    if (type_count == TYPES) {
        return 0;
    }
    struct hw__meta_type *record = hw__meta_begin(&no_gil, HW__META_TYPE, sizeof *record + bytes);
    if (record == NULL) {
        return 0;
    }
    types[type_count++] = park->type;
    record->id = type_count;
    record->name_bytes = (uint32_t)bytes;
    memcpy(record + 1, park->type_name, bytes);
    hw__meta_commit(&no_gil, record);
    return record->id;
}

/* A wait for a lock of the program's own may be all that an idle thread does; it is no contention.
 */
static bool contention(const struct hw__park *park) { return park->kind != HW__PARK_LOCK; }

bool hw__parks_wanted(void) {
    if (!begin_telling()) {
        return false;
    }
    /* In a child that could have no memory of its own, nothing of the session's may be touched. */
    bool wanted = atomic_load(&hw__session.inherited) == 0 || adopt();
    int64_t now = hw_now_ns();
    if (wanted && hw__lease_over(&hw__leases[HW__LEASE_TRACE], now)) {
        abandon(NULL, now);
        wanted = false;
    }
    atomic_fetch_sub(&telling, 1);
    return wanted;
}

bool hw__on_park(const struct hw__park *park) {
    if (!begin_telling()) {
        return false;
    }
    struct hw__thread *thread = hw__thread_self();
    if (thread != NULL) {
        uint32_t node = 0;
        /* Its own frames stand still, since it is here. That its state lives on is not certain: up
         * to 3.13t the interpreter's end may begin, and free it, just now. */
        if (is_finalizing != NULL && !is_finalizing() && pthread_mutex_trylock(&free_meta) == 0) {
            node = hw__stacks_take(&no_gil, thread, park->thread_state);
            pthread_mutex_unlock(&free_meta);
        }
        int64_t now = hw__thread_now(thread);
        thread->waiting_since_ns = now;
        hw__thread_emit(thread, HW__PARK, HW__NO_GIL, node, park->kind, now);
        if (contention(park)) {
            change(thread, HW__SLOT_WAITING, now);
        }
    }
    atomic_fetch_sub(&telling, 1);
    return thread != NULL;
}

void hw__on_unpark(const struct hw__park *park) {
    if (!begin_telling()) {
        return;
    }
    struct hw__thread *thread =
        atomic_load(&hw__session.inherited) == 0 ? hw__thread_known() : NULL;
    if (thread != NULL && thread->waiting_since_ns != 0) {
        uint32_t type = 0;
        if (pthread_mutex_trylock(&free_meta) == 0) {
            type = type_id(park);
            pthread_mutex_unlock(&free_meta);
        }
        int64_t now = hw__thread_now(thread);
        uint64_t wait_ns = (uint64_t)(now - thread->waiting_since_ns);
        thread->waiting_since_ns = 0;
        hw__thread_emit(thread, HW__UNPARK, HW__NO_GIL, type, park->kind, now);
        if (contention(park)) {
            thread->wait_ns += wait_ns;
            count_wait(thread->slot, wait_ns);
            change(thread, HW__SLOT_IDLE, now);
        }
    }
    atomic_fetch_sub(&telling, 1);
}

void hw__write_name(int32_t tid, const char *name) {
    struct hw__gil *gil = &hw__gils[0];
    struct hw__gil_memory *memory = atomic_load(&gil->memory);
    if (memory == NULL) {
        gil = &no_gil;
    }
    pthread_mutex_t *mutex = memory != NULL ? &memory->mutex : &free_meta;
    size_t bytes = strlen(name);
    pthread_mutex_lock(mutex);
    struct hw__meta_name *record = hw__meta_begin(gil, HW__META_NAME, sizeof *record + bytes);
    if (record != NULL) {
        record->tid = tid;
        record->name_bytes = (uint32_t)bytes;
        record->time_ns = hw_now_ns();
        memcpy(record + 1, name, bytes);
        hw__meta_commit(gil, record);
    }
    pthread_mutex_unlock(mutex);
}
