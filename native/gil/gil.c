// SPDX-License-Identifier: MIT
#include "gil/gil.h"

#include <dlfcn.h>
#include <link.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"

/* An interval of more than a day is no interval. */
#define MAX_INTERVAL_US 86400000000UL

struct hw__gil hw__gils[HW__MAX_GILS];

/* One more than the highest index ever used; only grows. A reader that misses the newest record
 * takes its calls for another's, and lets them pass. */
static _Atomic int count;

/* Return addresses, 0 for none. Written by the probe and then by hooks that hold the main GIL's
 * mutex; a reader that misses the newest lets that call pass. */
static _Atomic uintptr_t sites[HW__MAX_SITES];

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER; /* see the header */

/* The extent of _PyRuntime. Written while no hook is in place. */
static uintptr_t runtime_start, runtime_end;
static _Atomic bool expected_later;

void hw__gil_set_runtime(const void *runtime) {
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

void hw__registry_lock(void) { hw__mutex_lock(&registry); }

bool hw__registry_trylock(void) { return pthread_mutex_trylock(&registry) == 0; }

void hw__registry_unlock(void) { hw__mutex_unlock(&registry); }

int hw__gil_count(void) { return atomic_load_explicit(&count, memory_order_acquire); }

struct hw__gil *hw__gil_find(const pthread_cond_t *cond, bool *acquire) {
    /* NULL - offset never equals a cond, so empty records need no test of their own. */
    const struct hw__gil_memory *released = hw__gil_of_cond(cond);
    const struct hw__gil_memory *acquired = hw__gil_of_switch_cond(cond);
    /* Nearly always the first, which is the main interpreter's, and which no count is needed for.
     */
    int i = 0;
    do {
        const struct hw__gil_memory *memory =
            atomic_load_explicit(&hw__gils[i].memory, memory_order_acquire);
        if (memory == released || memory == acquired) {
            *acquire = memory == acquired;
            return &hw__gils[i];
        }
    } while (++i < hw__gil_count());
    return NULL;
}

static const struct hw__gil_memory *_Atomic main_memory; /* NULL: not seen yet */

bool hw__gil_was_main(const struct hw__gil_memory *memory) {
    return memory == atomic_load_explicit(&main_memory, memory_order_relaxed);
}

struct hw__gil *hw__gil_add(struct hw__gil_memory *memory, bool main) {
    /* Index 0 is the main interpreter's for ever: it comes back at the same address when the
     * interpreter is initialised again. Two GILs can ask at once, each with its own mutex held: a
     * record is claimed by its state of "being filled". */
    static struct hw__gil_memory filling;
    for (int i = main ? 0 : 1; i < HW__MAX_GILS; i++) {
        struct hw__gil *gil = &hw__gils[i];
        struct hw__gil_memory *none = NULL;
        if (!atomic_compare_exchange_strong(&gil->memory, &none, &filling)) {
            if (main) {
                return NULL;
            }
            continue;
        }
        gil->index = (uint32_t)i;
        gil->main = main;
        atomic_store(&gil->recorded, false);
        atomic_store(&gil->scheduled, false);
        gil->interval_us = 0;
        gil->stacks = NULL;
        if (main) {
            atomic_store(&main_memory, memory);
        }
        atomic_store_explicit(&gil->memory, memory, memory_order_release);
        int seen = atomic_load(&count);
        while (seen <= i && !atomic_compare_exchange_weak(&count, &seen, i + 1)) {
        }
        return gil;
    }
    return NULL;
}

/* membarrier(2), which a process registers for; a forked child may have to do so anew. */
static bool register_barrier(void) {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void hw__gil_record(struct hw__gil *gil) {
    gil->announced = gil->requested = gil->ending = false;
    gil->holder = gil->last = gil->ender = NULL;
    gil->last_ns = 0;
    gil->ticks = (struct hw__ticks){0};
    gil->meta = NULL;
    atomic_store(&gil->light, register_barrier());
    atomic_store(&gil->recorded, true);
}

bool hw__gil_enter(struct hw__gil *gil) {
    if (atomic_load_explicit(&gil->light, memory_order_relaxed)) {
        atomic_store_explicit(&gil->busy, true, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst); /* the compiler must not turn them round */
    } else {
        atomic_store(&gil->busy, true);
    }
    if (atomic_load(&gil->recorded)) {
        return true;
    }
    hw__gil_leave(gil);
    return false;
}

void hw__gil_leave(struct hw__gil *gil) {
    atomic_store_explicit(&gil->busy, false, memory_order_release);
}

void hw__gil_unrecord(struct hw__gil *gil) {
    atomic_store(&gil->recorded, false);
    /* Where it fails this is a forked child, with no thread yet that could be in a hook. */
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    while (atomic_load(&gil->busy)) {
        sched_yield();
    }
}

void hw__gil_remove(struct hw__gil *gil) {
    atomic_store_explicit(&gil->memory, NULL, memory_order_release);
}

bool hw__gil_plausible(const struct hw__gil_memory *memory, const pthread_mutex_t *mutex) {
    /* First, so that nothing is read in front of a cond that is no GIL's. */
    if (mutex != &memory->mutex) {
        return false;
    }
    unsigned long interval_us = HW__READ(memory->interval_us);
    return HW__READ(memory->locked) == 1 && interval_us >= 1 && interval_us <= MAX_INTERVAL_US &&
           HW__READ(memory->last_holder) != NULL &&
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
