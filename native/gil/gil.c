// SPDX-License-Identifier: MIT
#include "gil/gil.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/membarrier.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/allowed.h"
#include "base/lock.h"
#include "base/pause.h"
#include "base/rare.h"
#include "base/say.h"
#include "base/text.h"
#include "base/tls.h"

/* How long hw__gil_unrecord() waits where membarrier(2) is refused: after this time each core has
 * seen the store to `recorded`, and has shown its own earlier stores. A store takes a
 * ten-thousandth of it. */
#define REFUSED_NS 10000000

struct hw__gil hw__gils[HW__MAX_GILS];

/* One more than the highest index ever used; it only grows. A reader that misses the newest record
 * takes that GIL's calls for calls of another condition variable, and passes them on. */
static _Atomic int count;

/* Return addresses of the calls that signal an acquire; 0: none. Written by the probe, and later by
 * hooks that hold the main GIL's mutex. A reader that misses the newest address passes that call
 * on. */
static _Atomic uintptr_t sites[HW__MAX_SITES];

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER; /* described in gil.h */

/* The start and end of _PyRuntime, of which a process has one: written by the first installation of
 * hooks, before any hook is in place. */
static uintptr_t runtime_start, runtime_end;

/* Memory within _PyRuntime may be a GIL that was switched on after the begin of a session. Set by
 * such a session, in a free-threaded build, and never cleared. Relaxed: where a hook sees the older
 * value, the GIL is found at its next acquire. */
static _Atomic bool expected_later;

void hw__gil_set_runtime(const void *runtime) {
    if (runtime_start == (uintptr_t)runtime) {
        return; /* hooks may be in place, and read both */
    }
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    if (dladdr1(runtime, &info, (void **)(void *)&symbol, RTLD_DL_SYMENT) != 0 && symbol != NULL &&
        info.dli_saddr == runtime) {
        runtime_start = (uintptr_t)runtime;
        runtime_end = runtime_start + symbol->st_size;
    }
}

bool hw__gil_in_runtime(const struct hw__gil_memory *memory) {
    return atomic_load_explicit(&expected_later, memory_order_relaxed) &&
           (uintptr_t)memory >= runtime_start && (uintptr_t)(memory + 1) <= runtime_end;
}

bool hw__gil_is_runtime(uintptr_t address) {
    return address >= runtime_start && address < runtime_end;
}

void hw__gil_expect_later(void) { atomic_store(&expected_later, true); }

/* How many times the calling thread has taken the registry's lock: several handlers of one fork()
 * take it. A recursive mutex would not do: it knows its owner by a thread id, and the thread has
 * another id in the child. */
static HW__TLS unsigned registry_depth;

void hw__registry_lock(void) {
    if (registry_depth++ == 0) {
        hw__mutex_lock(&registry);
    }
}

bool hw__registry_trylock(void) {
    if (registry_depth > 0 || pthread_mutex_trylock(&registry) != 0) {
        return false;
    }
    registry_depth = 1;
    return true;
}

void hw__registry_unlock(void) {
    if (--registry_depth == 0) {
        hw__mutex_unlock(&registry);
    }
}

/* The number of handlers of fork() that have the registry's lock, or are about to take it. */
static _Atomic int forks;

bool hw__registry_lock_beside_forks(void) {
    if (registry_depth > 0) {
        registry_depth++;
        return true;
    }
    unsigned rounds = 0;
    while (!hw__registry_trylock()) {
        if (atomic_load(&forks) > 0) {
            return false;
        }
        hw__pause(&rounds);
    }
    return true;
}

void hw__registry_before_fork(void) {
    atomic_fetch_add(&forks, 1);
    hw__registry_lock();
}

void hw__registry_after_fork(bool in_child) {
    hw__registry_unlock();
    if (in_child) {
        atomic_store(&forks, 0); /* forks of other threads do not go on in the child */
    } else {
        atomic_fetch_sub(&forks, 1);
    }
}

int hw__gil_count(void) { return atomic_load_explicit(&count, memory_order_acquire); }

/* How many times a record was emptied. When this changes, there may be room for a GIL that had no
 * record. */
static _Atomic unsigned removals;

/* A thread mostly uses one GIL. These three are the record that the thread found last, the GIL for
 * which there was no room, and the value of `removals` at that time. Without them, each call for
 * such a GIL would search all records. */
static HW__TLS struct hw__gil *found_last;
static HW__TLS const struct hw__gil_memory *no_room;
static HW__TLS unsigned no_room_since;

static bool is_at(const struct hw__gil *gil, const pthread_cond_t *cond, bool *acquire) {
    /* An empty record needs no test of its own: NULL minus an offset never equals a cond. */
    const struct hw__gil_memory *memory = atomic_load_explicit(&gil->memory, memory_order_acquire);
    *acquire = memory == hw__gil_of_switch_cond(cond);
    return *acquire || memory == hw__gil_of_cond(cond);
}

HW__APART static struct hw__gil *find_other(const pthread_cond_t *cond, bool *acquire) {
    if (found_last != NULL && is_at(found_last, cond, acquire)) {
        return found_last;
    }
    if (hw__gil_without_room(cond)) {
        return NULL;
    }
    for (int i = 1; i < hw__gil_count(); i++) {
        if (is_at(&hw__gils[i], cond, acquire)) {
            return found_last = &hw__gils[i];
        }
    }
    return NULL;
}

struct hw__gil *hw__gil_find(const pthread_cond_t *cond, bool *acquire) {
    /* The first record, the main interpreter's, is nearly always the one. */
    if (is_at(&hw__gils[0], cond, acquire)) {
        return &hw__gils[0];
    }
    return hw__gil_count() > 1 ? find_other(cond, acquire) : NULL;
}

static bool has_mutex(const struct hw__gil *gil, const pthread_mutex_t *mutex) {
    const struct hw__gil_memory *memory = atomic_load_explicit(&gil->memory, memory_order_acquire);
    return memory != NULL && mutex == &memory->mutex;
}

struct hw__gil *hw__gil_of_mutex(const pthread_mutex_t *mutex) {
    if (has_mutex(&hw__gils[0], mutex)) {
        return &hw__gils[0];
    }
    return found_last != NULL && has_mutex(found_last, mutex) ? found_last : NULL;
}

bool hw__gil_without_room(const pthread_cond_t *cond) {
    return no_room != NULL &&
           (no_room == hw__gil_of_switch_cond(cond) || no_room == hw__gil_of_cond(cond)) &&
           no_room_since == atomic_load_explicit(&removals, memory_order_relaxed);
}

static const struct hw__gil_memory *_Atomic main_memory; /* the memory of the main interpreter's
                                                          * GIL; NULL: not seen yet */

bool hw__gil_was_main(const struct hw__gil_memory *memory) {
    return memory == atomic_load_explicit(&main_memory, memory_order_relaxed);
}

/* Fills the record at `i` if it is free. Two threads can do so at once, each with the mutex of its
 * own GIL held; so a thread claims the record by storing &filling in `memory`. */
static struct hw__gil *fill(int i, struct hw__gil_memory *memory, bool main) {
    static struct hw__gil_memory filling;
    struct hw__gil *gil = &hw__gils[i];
    struct hw__gil_memory *none = NULL;
    if (!atomic_compare_exchange_strong(&gil->memory, &none, &filling)) {
        return NULL;
    }
    gil->index = (uint32_t)i;
    gil->main = main;
    atomic_store(&gil->recorded, false);
    atomic_store(&gil->scheduled, false);
    atomic_store(&gil->punctual, 0);
    atomic_store(&gil->late, 0);
    gil->interval_us = 0;
    gil->stacks = NULL;
    if (main) {
        atomic_store(&main_memory, memory);
    }
    atomic_store(&gil->former, memory);
    atomic_store_explicit(&gil->memory, memory, memory_order_release);
    int seen = atomic_load(&count);
    while (seen <= i && !atomic_compare_exchange_weak(&count, &seen, i + 1)) {
    }
    return gil;
}

/* Fills the first free record, from index 1 on, whose last GIL was at `former`; NULL: that was
 * never used. Returns the record, or NULL. */
static struct hw__gil *fill_former(const struct hw__gil_memory *former,
                                   struct hw__gil_memory *memory) {
    struct hw__gil *gil = NULL;
    for (int i = 1; i < HW__MAX_GILS && gil == NULL; i++) {
        gil = atomic_load(&hw__gils[i].former) == former ? fill(i, memory, false) : NULL;
    }
    return gil;
}

struct hw__gil *hw__gil_add(struct hw__gil_memory *memory, bool main) {
    /* Index 0 always belongs to the main interpreter's GIL, which is at the same address again when
     * the interpreter is initialised again. */
    if (main) {
        return fill(0, memory, true);
    }
    unsigned seen_removals = atomic_load(&removals); /* read first: a record that is emptied
                                                      * meanwhile causes a new search */
    /* A hook may have found a record, and not entered it yet, when a session's end empties it. So a
     * record becomes another GIL's only when no record is left that was never used: that hook would
     * have to stand still until all the others had been used (reborn.pml). */
    struct hw__gil *gil = fill_former(memory, memory);
    gil = gil != NULL ? gil : fill_former(NULL, memory);
    for (int i = 1; i < HW__MAX_GILS && gil == NULL; i++) {
        gil = fill(i, memory, false);
    }
    if (gil == NULL) {
        no_room = memory;
        no_room_since = seen_removals;
    }
    return gil;
}

/* As many interpreters that come one after another take longer: each of them takes milliseconds.
 * With less, interpreters that live at the same time would keep taking each other's records. */
int64_t hw__gil_idle_ns = 500000000;

bool hw__gil_unused(const struct hw__gil *gil) {
    return atomic_load_explicit(&gil->holder, memory_order_relaxed) == NULL &&
           atomic_load_explicit(&gil->punctual, memory_order_relaxed) == 0 &&
           atomic_load_explicit(&gil->late, memory_order_relaxed) == 0;
}

struct hw__gil *hw__gil_idle(int64_t now_ns) {
    struct hw__gil *found = NULL;
    int64_t oldest_ns = now_ns - hw__gil_idle_ns;
    for (int i = 1; i < hw__gil_count(); i++) {
        struct hw__gil *gil = &hw__gils[i];
        int64_t last_ns = atomic_load_explicit(&gil->last_ns, memory_order_relaxed);
        bool may = atomic_load(&gil->memory) != NULL && atomic_load(&gil->recorded) &&
                   !atomic_load(&gil->scheduled) && hw__gil_unused(gil);
        if (may && last_ns > 0 && last_ns <= oldest_ns) {
            found = gil;
            oldest_ns = last_ns;
        }
    }
    return found;
}

void hw__gil_say_no_room(void) {
    static atomic_bool said;
    hw__say_once(&said, "more than " HW__TEXT_OF(
                            HW__MAX_GILS) " GILs of interpreters are in use, or may be: those of "
                                          "further interpreters run as without headway, neither "
                                          "recorded nor scheduled");
}

/* Registers the process for membarrier(2). A forked child may have to register again. Returns
 * whether membarrier(2) can be used. */
static bool register_barrier(void) {
    return hw__allowed(HW__CALL_MEMBARRIER) &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void hw__gil_record(struct hw__gil *gil) {
    gil->announced = gil->ending = false;
    hw__gil_forget_request(gil);
    gil->last = gil->ender = NULL;
    atomic_store_explicit(&gil->holder, NULL, memory_order_relaxed);
    atomic_store_explicit(&gil->last_ns, 0, memory_order_relaxed);
    gil->away_due_ns = 0;
    gil->quiet_releases = 0;
    gil->interval_us = 0;
    gil->ticks = (struct hw__ticks){0};
    int saved = errno;
    atomic_store(&gil->light, register_barrier());
    atomic_store(&gil->recorded, true);
    errno = saved;
}

/* Tells whether the record is still that of the GIL at this memory: it may have become another
 * GIL's since the hook found it. That of the main GIL never does, and most hooks are its. */
static bool has(const struct hw__gil *gil, const struct hw__gil_memory *memory) {
    return gil == &hw__gils[0] ||
           atomic_load_explicit(&gil->memory, memory_order_relaxed) == memory;
}

bool hw__gil_enter(struct hw__gil *gil, const struct hw__gil_memory *memory) {
    /* Without this first look, hw__gil_unrecord() would also wait for hooks that come, set `busy`
     * and find nothing to do; with many such hooks it might never return. */
    if (!atomic_load_explicit(&gil->recorded, memory_order_relaxed) || !has(gil, memory)) {
        return false;
    }
    if (atomic_load_explicit(&gil->light, memory_order_relaxed)) {
        atomic_store_explicit(&gil->busy, true, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst); /* the compiler must not swap the store and the
                                                    * next load */
    } else {
        atomic_store(&gil->busy, true);
    }
    if (atomic_load(&gil->recorded) && has(gil, memory)) {
        return true;
    }
    hw__gil_leave(gil);
    return false;
}

void hw__gil_leave(struct hw__gil *gil) {
    atomic_store_explicit(&gil->busy, false, memory_order_release);
}

void hw__gil_unrecord(struct hw__gil *gil) {
    bool was_recorded = atomic_exchange(&gil->recorded, false);
    /* membarrier(2) fails in a forked child, which has no thread yet that could be in a hook, or
     * where a seccomp filter refuses it that the program has set up since. */
    if (atomic_load(&gil->light)) {
        int saved = errno;
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0 && was_recorded) {
            /* No core keeps a store to itself for this long. */
            struct timespec patience = {0, REFUSED_NS};
            nanosleep(&patience, NULL);
        }
        errno = saved;
    }
    unsigned rounds = 0;
    while (atomic_load(&gil->busy)) {
        hw__pause(&rounds);
    }
}

void hw__gil_remove(struct hw__gil *gil) {
    atomic_store_explicit(&gil->memory, NULL, memory_order_release);
    atomic_fetch_add(&removals, 1);
}

bool hw__gil_plausible(const struct hw__gil_memory *memory, const pthread_mutex_t *mutex) {
    /* Compared first, so that no memory in front of a cond that is no GIL's is read. */
    if (mutex != &memory->mutex) {
        return false;
    }
    return HW__READ(memory->locked) == 1 && HW__READ(memory->last_holder) != NULL &&
           ((uintptr_t)HW__READ(memory->last_holder) & (sizeof(void *) - 1)) == 0;
}

void hw__gil_learn_site(uintptr_t site) {
    for (int i = 0; i < HW__MAX_SITES; i++) {
        uintptr_t seen = 0;
        if (atomic_compare_exchange_strong(&sites[i], &seen, site) || seen == site) {
            return;
        }
    }
}

bool hw__gil_knows_site(uintptr_t site) {
    for (int i = 0; i < HW__MAX_SITES; i++) {
        uintptr_t known = atomic_load_explicit(&sites[i], memory_order_relaxed);
        if (known == site) {
            return true;
        }
        if (known == 0) {
            return false;
        }
    }
    return false;
}
