// SPDX-License-Identifier: MIT
/* On entry of a hook, the caller holds no lock of the library and no GIL. In sem_wait() and
 * sem_clockwait() it is detached, or about to block anyway; in sched_yield() it may be attached,
 * and spin for a lock. A hook uses no heap, and blocks only in the real function; hooks.c names two
 * rare exceptions, of a forked child's first event and of a line on stderr. */
#include "gil/parking.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "elf/got.h"
#include "elf/patch.h"
#include "gil/gil.h"
#include "gil/peek.h"
#include "gil/recorder.h"
#include "gil/spinning.h"
#include "headway/clock.h"

/* The most between a hook's frame and the wait_entry of its callers. */
#define ON_STACK_BYTES 4096

/* A lock less than this behind the start of a PyThreadState is that state's own. */
#define THREAD_STATE_BYTES 1024

/* The offset of ob_mutex in PyObject, in 3.13t and later: after ob_tid and two bytes. */
#define OBJECT_MUTEX 10

#define OBJECT_ALIGNMENT 16
#define LOOK_NS 100000 /* after this time a spin is looked at as a park is */
#define OBJECT_LINE 64 /* bytes of a cache line, all of which are in one page */

/* The offset of tp_name in PyTypeObject after the object's head: ob_size comes before it. */
#define TYPE_NAME 8

/* The type of a threading.Lock, which is a PyMutex right after the object's head (3.14t). */
#define LOCK_TYPE "_thread.lock"

/* A call that wants a PyMutex is handed it once it has waited for this long (TIME_TO_BE_FAIR_NS of
 * Python/lock.c). */
#define FAIR_NS 1000000
#define CALL_NS 100000000000 /* the longest call that is recognised */

/* The byte of a PyEvent that is not set and has a waiter. A PyMutex with a waiter differs: it has
 * the bit of a locked mutex, too (_Py_HAS_PARKED and _Py_LOCKED of Include/internal/pycore_lock.h).
 */
#define EVENT_BITS 2

static struct hw__patch patch;
static struct hw_stack_layout layout;
static bool has_layout;
static const void *type_type; /* PyType_Type */
/* PyGILState_GetThisThreadState(), which only reads a thread-specific value */
static void *(*this_thread_state)(void);
/* PyThreadState_GetUnchecked(), which only reads a variable */
static const void *(*attached_state)(void);
static int (*real_yield)(void);
static int (*real_wait)(sem_t *);
static int (*real_clockwait)(sem_t *, clockid_t, const struct timespec *);

/* The extent of a function's code. */
struct extent {
    uintptr_t start, end;
};
static struct extent park_wait, lock_acquire, lock_acquire_retries;

static struct extent extent_of(const char *name) {
    void *address = dlsym(RTLD_DEFAULT, name);
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    if (address == NULL || dladdr1(address, &info, (void **)(void *)&symbol, RTLD_DL_SYMENT) == 0 ||
        symbol == NULL) {
        return (struct extent){0, 0};
    }
    return (struct extent){(uintptr_t)address, (uintptr_t)address + symbol->st_size};
}

static bool within(struct extent extent, uintptr_t address) {
    return address > extent.start && address <= extent.end;
}

/* Finds the type of the object at an address, and its name. Returns whether there is such an
 * object. `certain` says that nothing but an object has a lock at this address; its type then stays
 * where it is, and may be of a metaclass. */
static bool type_at(uintptr_t object, bool certain, struct hw__park *park) {
    uintptr_t type_of = (uintptr_t)layout.object_type, type = 0, meta = 0, name = 0;
    if (!has_layout || object % OBJECT_ALIGNMENT != 0 || !hw__peek(object + type_of, &type) ||
        type % sizeof(void *) != 0) {
        return false;
    }
    /* The type of a type is `type`, or a metaclass whose type is `type`. */
    if (!hw__peek_is(type + type_of, (uintptr_t)type_type) &&
        !(certain && hw__peek(type + type_of, &meta) && meta % sizeof(void *) == 0 &&
          hw__peek_is(meta + type_of, (uintptr_t)type_type))) {
        return false;
    }
    if (!hw__peek(type + (uintptr_t)layout.object_bytes + TYPE_NAME, &name)) {
        return false;
    }
    char text[sizeof park->type_name] = ""; /* with zeros behind the name, as in a file */
    hw__peek_text(name, text, sizeof text);
    if (text[0] == '\0') {
        return false;
    }
    memcpy(park->type_name, text, sizeof text);
    park->type = type;
    return true;
}

/* Finds out what the lock at an address is. `park` must have the calling thread's state. `is_mutex`
 * says that the lock is known to be a PyMutex: a PyMutex that was released with other threads
 * parked looks like an event. */
static void look_at(uintptr_t lock, bool is_mutex, struct hw__park *park) {
    park->lock = lock;
    uintptr_t state = (uintptr_t)park->thread_state;
    uintptr_t word = 0;
    bool known = hw__peek(lock - lock % sizeof word, &word);
    uint8_t bits = ((const uint8_t *)&word)[lock % sizeof word];
    if (state != 0 && lock >= state && lock - state < THREAD_STATE_BYTES) {
        park->kind = HW__LOCK_WORLD;
    } else if (known && !is_mutex && bits == EVENT_BITS) {
        park->kind = hw__gil_is_runtime(lock) ? HW__LOCK_WORLD : HW__LOCK_EVENT;
    } else if (lock % OBJECT_ALIGNMENT == OBJECT_MUTEX &&
               type_at(lock - OBJECT_MUTEX, true, park)) {
        park->kind = HW__LOCK_OBJECT;
    } else if (has_layout && type_at(lock - (uintptr_t)layout.object_bytes, false, park) &&
               strcmp(park->type_name, LOCK_TYPE) == 0) {
        park->kind = HW__LOCK_OWN;
    } else {
        park->kind = HW__LOCK_MUTEX;
        park->type = 0;
    }
}

/* The two words before the semaphore in struct wait_entry. */
struct parked_for {
    uintptr_t
        argument;   /* the struct mutex_entry of a wait for a PyMutex, 0 in a wait for an event */
    uintptr_t lock; /* 0: the caller does not wait in the parking lot */
};

/* Returns whether an address is in the frames of the hook's callers. */
static bool is_on_stack(uintptr_t address) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return address >= here && address - here <= ON_STACK_BYTES;
}

/* A thread that waits for a lock of the parking lot itself has other words there. */
static struct parked_for parked_for(sem_t *semaphore, uintptr_t caller) {
    uintptr_t at = (uintptr_t)semaphore;
    struct parked_for found = {0, 0};
    if (within(park_wait, caller) && is_on_stack(at)) {
        memcpy(&found, (const void *)(at - sizeof found), sizeof found);
    }
    bool is_known = found.argument == 0 || is_on_stack(found.argument);
    return is_known ? found : (struct parked_for){0, 0};
}

/* Returns when the call that wants a PyMutex began. Its struct mutex_entry begins with the time
 * from which on the call is to be handed the lock. Returns 0 if the word there is no such time: the
 * layout is another one. */
static int64_t call_since_ns(const struct parked_for *what, int64_t now_ns) {
    int64_t fair_ns = 0;
    if (what->argument != 0) {
        memcpy(&fair_ns, (const void *)what->argument, sizeof fair_ns);
    }
    int64_t began_ns = fair_ns - FAIR_NS;
    return began_ns <= now_ns && began_ns > now_ns - CALL_NS ? began_ns : 0;
}

/* The types that look_at() has found, for use in spins. A look makes some six system calls, which
 * take longer than most spins. So a thread that spins looks only where it spins for long, which
 * mostly happens on one core. A thread claims an entry by its `state`; a complete entry never
 * changes, but it is passed over once another type was found at its address. */
#define SEEN_TYPES 64
enum { FREE, WRITTEN, COMPLETE, GONE }; /* WRITTEN: being written */
static struct seen_type {
    _Atomic int state; /* FREE to GONE. Release and acquire */
    uintptr_t type;
    char name[sizeof(((struct hw__park *)0)->type_name)];
} seen_types[SEEN_TYPES];

static const struct seen_type *seen_type(uintptr_t type) {
    for (int i = 0; i < SEEN_TYPES; i++) {
        int state = atomic_load_explicit(&seen_types[i].state, memory_order_acquire);
        if (state == FREE || state == WRITTEN) {
            return NULL;
        }
        if (state == COMPLETE && seen_types[i].type == type) {
            return &seen_types[i];
        }
    }
    return NULL;
}

static void remember_type(const struct hw__park *park) {
    for (int i = 0; park->type != 0 && i < SEEN_TYPES; i++) {
        struct seen_type *seen = &seen_types[i];
        int state = FREE;
        if (atomic_compare_exchange_strong(&seen->state, &state, WRITTEN)) {
            seen->type = park->type;
            memcpy(seen->name, park->type_name, sizeof seen->name);
            atomic_store_explicit(&seen->state, COMPLETE, memory_order_release);
            return;
        }
        if (state == WRITTEN) {
            return; /* another thread writes an entry: nothing to do now */
        }
        if (state == COMPLETE && seen->type == park->type) {
            if (strcmp(seen->name, park->type_name) == 0) {
                return;
            }
            /* That class is gone, and another one is where it was. */
            atomic_store_explicit(&seen->state, GONE, memory_order_release);
        }
    }
}

/* Begins the record of a wait. Returns whether the wait is recorded; end() needs that.
 *
 * The hook leaves errno as the real function does; a wait that succeeded leaves errno as it was.
 * CPython reads errno after it has attached its thread again, and attaching is such a wait. */
static bool begin(sem_t *semaphore, uintptr_t caller, struct hw__park *park) {
    int saved = errno;
    int64_t since_ns = hw_now_ns();
    struct parked_for what = parked_for(semaphore, caller);
    if (what.argument != 0) { /* a thread spins for a PyMutex, and never for an event */
        hw__spinning_learn(what.lock);
    }
    bool told = hw__parks_wanted(false);
    if (told) {
        memset(park, 0, sizeof *park);
        park->thread_state = this_thread_state();
        if (what.lock != 0) {
            park->call_ns = call_since_ns(&what, since_ns);
            look_at(what.lock, what.argument != 0, park);
            remember_type(park);
        } else if (within(lock_acquire, caller) || within(lock_acquire_retries, caller)) {
            park->kind = HW__LOCK_OWN;
        }
        told = hw__on_park(park, since_ns);
    }
    errno = saved;
    return told;
}

static void end(const struct hw__park *park, bool told) {
    int saved = errno;
    if (told) {
        hw__on_unpark(park);
    }
    errno = saved;
}

/* Tells whether the semaphore was free, and takes it: then there is no wait to record. */
static bool is_free(sem_t *semaphore) {
    int saved = errno;
    bool got = sem_trywait(semaphore) == 0;
    errno = saved;
    return got;
}

static int hook_wait(sem_t *semaphore) {
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    if (is_free(semaphore)) {
        return 0;
    }
    struct hw__park park;
    bool told = begin(semaphore, caller, &park);
    int result = real_wait(semaphore);
    end(&park, told);
    return result;
}

static int hook_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *deadline) {
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    if (is_free(semaphore)) {
        return 0;
    }
    struct hw__park park;
    bool told = begin(semaphore, caller, &park);
    int result = real_clockwait(semaphore, clock, deadline);
    end(&park, told);
    return result;
}

/* Tells whether the head of an object, of a type that has been seen, lies `before` bytes before a
 * lock. Reads only memory in the lock's own cache line, which the spin itself reads. */
static bool is_seen_object(uintptr_t lock, uintptr_t before, struct hw__park *park) {
    uintptr_t at = lock - before + (uintptr_t)layout.object_type;
    if (!has_layout || (lock - before) % OBJECT_ALIGNMENT != 0 ||
        at / OBJECT_LINE != lock / OBJECT_LINE) {
        return false;
    }
    const struct seen_type *seen =
        seen_type(__atomic_load_n((const uintptr_t *)at, __ATOMIC_RELAXED));
    if (seen == NULL) {
        return false;
    }
    park->type = seen->type;
    memcpy(park->type_name, seen->name, sizeof park->type_name);
    return true;
}

static int hook_yield(uintptr_t lock, bool same_spin) {
    int64_t from_ns = hw_now_ns();
    int result = real_yield();
    int saved = errno;
    /* A thread that yields elsewhere, as in os.sched_yield(), has detached its thread state before.
     */
    const void *state = attached_state();
    if (state != NULL && !hw__spin_goes_on(lock, from_ns, same_spin) && hw__parks_wanted(true)) {
        struct hw__park park = {.kind = HW__LOCK_MUTEX, .lock = lock, .thread_state = state};
        if (lock != 0 && is_seen_object(lock, OBJECT_MUTEX, &park)) {
            park.kind = HW__LOCK_OBJECT;
        } else if (lock != 0 && is_seen_object(lock, (uintptr_t)layout.object_bytes, &park) &&
                   strcmp(park.type_name, LOCK_TYPE) == 0) {
            park.kind = HW__LOCK_OWN;
        } else {
            park.type = 0;
        }
        hw__on_spin(&park, from_ns);
    }
    int64_t since_ns = state == NULL ? 0 : hw__spin_unknown_since(lock);
    if (since_ns != 0 && hw_now_ns() - since_ns >= LOOK_NS) {
        struct hw__park park = {.thread_state = state};
        look_at(lock, true, &park);
        remember_type(&park);
        hw__spin_is(&park);
    }
    errno = saved;
    return result;
}

int hw__parking_install(const void *runtime, const struct hw_stack_layout *new_layout) {
    has_layout = new_layout != NULL;
    if (has_layout) {
        layout = *new_layout;
    }
    type_type = dlsym(RTLD_DEFAULT, "PyType_Type");
    this_thread_state =
        (void *(*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    real_wait = (int (*)(sem_t *))(uintptr_t)hw__next_function("sem_wait");
    real_clockwait = (int (*)(sem_t *, clockid_t, const struct timespec *))(
        uintptr_t)hw__next_function("sem_clockwait");
    if (type_type == NULL || this_thread_state == NULL || real_wait == NULL) {
        return -ENOSYS;
    }
    park_wait = extent_of("_PySemaphore_Wait");
    lock_acquire = extent_of("PyThread_acquire_lock_timed");
    lock_acquire_retries = extent_of("PyThread_acquire_lock_timed_with_retries");
    real_yield = (int (*)(void))(uintptr_t)hw__next_function("sched_yield");
    attached_state =
        (const void *(*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "PyThreadState_GetUnchecked");
    struct hw__patch_entry entries[3] = {{"sem_wait", (uintptr_t)hook_wait, true, false}};
    int count = 1;
    if (real_clockwait != NULL) {
        entries[count++] =
            (struct hw__patch_entry){"sem_clockwait", (uintptr_t)hook_clockwait, false, false};
    }
    if (real_yield != NULL && attached_state != NULL) {
        entries[count++] = (struct hw__patch_entry){
            "sched_yield", hw__spinning_replacement(hook_yield), false, false};
    }
    int error = hw__patch_install(&patch, runtime, entries, count);
    if (error == 0) {
        hw__spinning_calibrate();
    }
    return error;
}

int hw__parking_repair(void) { return hw__patch_repair(&patch); }

int hw__parking_remove(void) { return hw__patch_remove(&patch); }
