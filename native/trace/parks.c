// SPDX-License-Identifier: MIT
#include "trace/parks.h"

#include <pthread.h>
#include <string.h>

#include "base/lease.h"
#include "base/pause.h"
#include "base/tls.h"
#include "gil/gil.h"
#include "headway/clock.h"
#include "trace/events.h"
#include "trace/slots.h"
#include "trace/stacks.h"

/* Between two yields of one spin there is a look at a byte, and the hook's reading of the clock.
 * Before the thread can want another lock, it does much more. */
int64_t hw__parks_same_spin_ns = 150;

/* The longest time between the last yield of a spin and the sleep in the parking lot, where it is
 * not known when the call began. In between, the thread takes a bucket's lock, and is detached. */
#define SAME_WAIT_NS 20000

/* How often the lock of the tables is tried, for some 20 us in all: other threads hold it for less
 * than that, also for a stack that is new, unless they are interrupted. */
#define META_TRIES 1000

/* The number of threads that are recording a park, or note the process's end (leave.c). Without a
 * GIL's mutex, this count keeps the session from ending under them: hw__parks_stop() first clears
 * `door_open`, then waits until the count is 0. A thread that is counted never blocks, except in a
 * forked child's first event (hw__adopt()). Sequentially consistent, as each side writes one of the
 * two and reads the other. */
static _Atomic int telling;
static _Atomic bool door_open;

/* The number of parks that began while another thread of a forked child made the child's memory
 * (hw__adopt()). They are counted as dropped in that memory later. Any thread may add to it, or
 * take it. */
static _Atomic uint32_t missed;
/* The calling thread's spin is counted in `missed`: it comes here again for each further round, and
 * for the park after the spin. */
static HW__TLS bool spin_is_missed;

/* Stands in for a GIL where there is none: its meta chunk has the stacks and types of parks. The
 * record of a real GIL cannot be used for them, as that GIL may come to life at any time, and is
 * then guarded by its own mutex. */
static struct hw__gil no_gil = {.index = HW__NO_GIL};

/* Protects no_gil and the types. Hooks only try it. Comes last in the order of locks. */
static pthread_mutex_t free_meta = PTHREAD_MUTEX_INITIALIZER;

#define TYPES 1024 /* contended types that get a name; further types get none */
/* The types by id - 1; guarded by free_meta. The address alone does not tell a type: a class may
 * be gone, and another one be where it was. */
static struct {
    uint64_t address;
    char name[sizeof(((struct hw__park *)0)->type_name)];
} types[TYPES];
static uint32_t type_count;

bool hw__telling_begin(void) {
    /* Checked before the count is raised, too: otherwise threads that keep coming could keep the
     * count above 0 for ever. */
    if (!atomic_load_explicit(&door_open, memory_order_relaxed)) {
        return false;
    }
    atomic_fetch_add(&telling, 1);
    if (atomic_load(&door_open)) {
        return true;
    }
    hw__telling_end();
    return false;
}

void hw__telling_end(void) { atomic_fetch_sub(&telling, 1); }

/* The process must have a memory of its own, and keep it meanwhile. */
static void tell_missed(void) {
    if (atomic_load_explicit(&missed, memory_order_relaxed) != 0) {
        uint64_t events = 2 * (uint64_t)atomic_exchange(&missed, 0);
        atomic_fetch_add_explicit(&hw__session.header->dropped_events, events,
                                  memory_order_relaxed);
    }
}

void hw__parks_forget(void) {
    hw__stacks_drop(&no_gil);
    no_gil.meta = NULL;
    type_count = 0;
}

void hw__parks_begin(void) { atomic_store(&door_open, true); }

void hw__parks_close(void) { atomic_store(&door_open, false); }

void hw__parks_stop(void) {
    hw__parks_close();
    unsigned rounds = 0;
    while (atomic_load(&telling) != 0) {
        hw__pause(&rounds);
    }
    /* In a forked child that has not adopted the session, the memory is still its parent's. */
    if (atomic_load(&hw__session.inherited) == 0) {
        hw__threads_each(hw__parks_flush);
        tell_missed();
    }
    hw__parks_forget();
}

void hw__parks_reset_in_child(void) {
    atomic_store(&telling, 0);
    atomic_store(&missed, 0);
    spin_is_missed = false;
    free_meta = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* Returns the file's id of a type, and writes the type's name if it is new. free_meta must be
 * held. */
static uint32_t type_id(const struct hw__park *park) {
    if (park->type == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < type_count; i++) {
        if (types[i].address == park->type && strcmp(types[i].name, park->type_name) == 0) {
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
    types[type_count].address = park->type;
    memcpy(types[type_count].name, park->type_name, sizeof types->name);
    type_count++;
    record->id = type_count;
    record->name_bytes = (uint32_t)bytes;
    memcpy(record + 1, park->type_name, bytes);
    hw__meta_commit(&no_gil, record);
    return record->id;
}

/* Returns whether a wait is contention. A wait for a lock of the program's own is none: it may be
 * all that an idle thread does. */
static bool contention(const struct hw__park *park) { return park->kind != HW__LOCK_OWN; }

/* Returns what the lock is, for the event's flags. */
static uint32_t flag_of(const struct hw__park *park) {
    static const uint32_t flags[HW__LOCK_KINDS] = {[HW__LOCK_MUTEX] = HW__PARK_MUTEX,
                                                   [HW__LOCK_OBJECT] = HW__PARK_OBJECT,
                                                   [HW__LOCK_WORLD] = HW__PARK_WORLD,
                                                   [HW__LOCK_OWN] = HW__PARK_LOCK,
                                                   [HW__LOCK_EVENT] = HW__PARK_EVENT};
    return flags[park->kind];
}

static void miss(bool spins) {
    if (!spin_is_missed) {
        atomic_fetch_add_explicit(&missed, 1, memory_order_relaxed);
    }
    spin_is_missed = spins;
}

bool hw__parks_wanted(bool spins) {
    if (!hw__telling_begin()) {
        return false;
    }
    /* A child that could not have a memory of its own must not touch the session's. */
    bool wanted = atomic_load(&hw__session.inherited) == 0 || hw__adopt();
    if (!wanted && atomic_load(&hw__session.inherited) != HW__LOST) {
        miss(spins);
    }
    int64_t now = hw_now_ns();
    if (wanted && hw__lease_over(&hw__leases[HW__LEASE_TRACE], now)) {
        hw__abandon(NULL, now);
        wanted = false;
    }
    hw__telling_end();
    return wanted;
}

/* Tries to take free_meta. A hook must not wait: if another thread holds the lock for longer, a
 * stack or a type is recorded as unknown. */
static bool try_meta(void) {
    for (int i = 0; i < META_TRIES; i++) {
        if (pthread_mutex_trylock(&free_meta) == 0) {
            return true;
        }
        hw__pause_core();
    }
    return false;
}

/* Returns the calling thread's stack, or 0 if it is not known. */
static uint32_t stack_of(struct hw__thread *thread, const void *thread_state) {
    /* The thread's own frames cannot change, since the thread is here. Its state may be gone,
     * though: up to 3.13t the interpreter's end may begin, and free it, just now. */
    struct hw__look look;
    if (hw__is_finalizing()) {
        return 0;
    }
    if (hw__stacks_look(&no_gil, thread, thread_state, &look)) {
        return look.node;
    }
    if (!try_meta()) {
        hw__stacks_unnumbered(thread);
        return 0;
    }
    uint32_t node = hw__stacks_number(&no_gil, thread, &look);
    pthread_mutex_unlock(&free_meta);
    return node;
}

/* Records the beginning of a wait. */
static void begin_wait(struct hw__thread *thread, const struct hw__park *park, uint32_t node,
                       int64_t since_ns) {
    int64_t at_ns = hw__thread_was_there(thread, since_ns);
    bool again = false;
    if (park->call_ns !=
        0) { /* within a call, the thread may wait for a lock of the parking lot's */
        again = park->call_ns == thread->call_ns && park->lock == thread->call_lock;
        thread->call_ns = park->call_ns;
        thread->call_lock = park->lock;
    }
    thread->waiting_since_ns = at_ns;
    hw__thread_emit(thread, HW__PARK, HW__NO_GIL, node,
                    flag_of(park) | (again ? HW__PARK_AGAIN : 0), at_ns);
    if (contention(park)) {
        hw__slot_change(thread, HW__SLOT_WAITING, at_ns);
    }
}

/* Records the end of a wait. */
static void end_wait(struct hw__thread *thread, const struct hw__park *park, int64_t until_ns) {
    uint32_t type = 0;
    if (park->type != 0 && try_meta()) {
        type = type_id(park);
        pthread_mutex_unlock(&free_meta);
    }
    int64_t at_ns = until_ns > thread->last_ns ? until_ns : thread->last_ns;
    uint64_t wait_ns = (uint64_t)(at_ns - thread->waiting_since_ns);
    thread->waiting_since_ns = 0;
    hw__thread_emit(thread, HW__UNPARK, HW__NO_GIL, type, flag_of(park), at_ns);
    if (contention(park)) {
        thread->wait_ns += wait_ns;
        hw__slot_count_wait(thread->slot, wait_ns);
        if (park->kind == HW__LOCK_WORLD) {
            hw__slot_count_world(thread->slot, wait_ns);
        }
        hw__slot_change(thread, HW__SLOT_IDLE, at_ns);
    }
}

void hw__parks_flush(struct hw__thread *thread) {
    struct hw__spin *spin = &thread->spin;
    if (spin->until_ns != 0) {
        begin_wait(thread, &spin->park, spin->node, spin->since_ns);
        end_wait(thread, &spin->park, spin->until_ns);
        spin->until_ns = 0;
    }
}

void hw__parks_flush_own(void) {
    if (hw__telling_begin()) {
        struct hw__thread *thread = hw__thread_known();
        if (thread != NULL) {
            hw__parks_flush(thread);
        }
        if (atomic_load(&hw__session.inherited) == 0) {
            tell_missed();
        }
        hw__telling_end();
    }
}

bool hw__on_park(const struct hw__park *park, int64_t since_ns) {
    if (!hw__telling_begin()) {
        return false;
    }
    struct hw__thread *thread = hw__thread_self();
    if (thread != NULL) {
        tell_missed();
        struct hw__spin *spin = &thread->spin;
        bool of_call = park->call_ns != 0 ? spin->since_ns >= park->call_ns
                                          : since_ns - spin->until_ns < SAME_WAIT_NS;
        /* A thread spins for locks only: an event is a wait of its own. */
        bool may_be = spin->until_ns != 0 && of_call && park->kind != HW__LOCK_EVENT;
        bool spun = may_be &&
                    (spin->park.lock == park->lock || (spin->park.lock == 0 && park->call_ns != 0));
        uint32_t node = spun ? spin->node : stack_of(thread, park->thread_state);
        /* If neither the spin's lock nor the call is known, the thread may have got that lock, and
         * wait for another one now: at another line, as an idle thread of a pool does. */
        spun = spun || (may_be && spin->park.lock == 0 && node == spin->node);
        if (spun) {
            spin->until_ns = 0;
            begin_wait(thread, park, node, spin->since_ns);
        } else {
            hw__parks_flush(thread);
            begin_wait(thread, park, node, since_ns);
        }
    }
    hw__telling_end();
    return thread != NULL;
}

void hw__on_unpark(const struct hw__park *park) {
    int64_t now = hw_now_ns();
    if (!hw__telling_begin()) {
        return;
    }
    struct hw__thread *thread =
        atomic_load(&hw__session.inherited) == 0 ? hw__thread_known() : NULL;
    if (thread != NULL && thread->waiting_since_ns != 0) {
        end_wait(thread, park, now);
    }
    hw__telling_end();
}

bool hw__spin_goes_on(uintptr_t lock, int64_t from_ns, bool same_spin) {
    if (!hw__telling_begin()) {
        return true;
    }
    struct hw__thread *thread =
        atomic_load(&hw__session.inherited) == 0 ? hw__thread_known() : NULL;
    bool goes_on = thread != NULL && thread->spin.until_ns != 0 && thread->spin.park.lock == lock &&
                   (same_spin || from_ns - thread->spin.until_ns < hw__parks_same_spin_ns);
    if (goes_on) {
        thread->spin.until_ns = hw_now_ns();
    }
    hw__telling_end();
    return goes_on;
}

/* Returns the calling thread's spin for that lock, if the kind of the lock was not looked at yet;
 * else NULL. The caller must be counted in `telling`. */
static struct hw__spin *spin_for(uintptr_t lock) {
    struct hw__thread *thread =
        atomic_load(&hw__session.inherited) == 0 ? hw__thread_known() : NULL;
    bool is_it = thread != NULL && lock != 0 && thread->spin.until_ns != 0 &&
                 thread->spin.park.lock == lock && thread->spin.park.type == 0 &&
                 !thread->spin.looked;
    return is_it ? &thread->spin : NULL;
}

int64_t hw__spin_unknown_since(uintptr_t lock) {
    if (!hw__telling_begin()) {
        return 0;
    }
    const struct hw__spin *spin = spin_for(lock);
    int64_t since_ns = spin == NULL ? 0 : spin->since_ns;
    hw__telling_end();
    return since_ns;
}

void hw__spin_is(const struct hw__park *park) {
    if (hw__telling_begin()) {
        struct hw__spin *spin = spin_for(park->lock);
        if (spin != NULL) {
            spin->park = *park;
            spin->looked = true;
            spin->until_ns = hw_now_ns();
        }
        hw__telling_end();
    }
}

void hw__on_spin(const struct hw__park *park, int64_t from_ns) {
    if (!hw__telling_begin()) {
        return;
    }
    struct hw__thread *thread = hw__thread_self();
    if (thread != NULL) {
        hw__parks_flush(thread);
        thread->spin.park = *park;
        thread->spin.looked = false;
        thread->spin.node = stack_of(thread, park->thread_state);
        thread->spin.since_ns = from_ns;
        thread->spin.until_ns = hw_now_ns(); /* the thread looks at the lock only after this */
    }
    hw__telling_end();
}

/* Locks the mutex of the meta chunk for what is about no GIL, and returns that chunk's GIL: the
 * main interpreter's, or no_gil. The registry's lock must be held. */
static struct hw__gil *lock_meta(pthread_mutex_t **mutex) {
    struct hw__gil_memory *memory = atomic_load(&hw__gils[0].memory);
    *mutex = memory != NULL ? &memory->mutex : &free_meta;
    pthread_mutex_lock(*mutex);
    return memory != NULL ? &hw__gils[0] : &no_gil;
}

void hw__write_name(int32_t tid, const char *name) {
    pthread_mutex_t *mutex;
    struct hw__gil *gil = lock_meta(&mutex);
    size_t bytes = strlen(name);
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

void hw__write_note(const char *text) {
    pthread_mutex_t *mutex;
    struct hw__gil *gil = lock_meta(&mutex);
    size_t bytes = strlen(text);
    struct hw__meta_note *record = hw__meta_begin(gil, HW__META_NOTE, sizeof *record + bytes);
    if (record != NULL) {
        record->note_bytes = (uint32_t)bytes;
        memcpy(record + 1, text, bytes);
        hw__meta_commit(gil, record);
    }
    pthread_mutex_unlock(mutex);
}
