// SPDX-License-Identifier: MIT
#include "fake_interpreter.h"

#include <sched.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct fake_runtime {
    char cookie[8];
    struct fake_gil main;
    uint64_t more[16];
};

extern struct fake_runtime _PyRuntime;
EXPORT struct fake_runtime _PyRuntime = {.cookie = "xdebugpy", .main.memory.locked = -1};

static const char code_type[8];

/* The calling thread's state while the thread is attached, and the state that PyGILState_Ensure()
 * finds. */
static _Thread_local struct fake_state *current, *known;

static void (*_Atomic before_restore)(void);

#define SET(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)

const void *fake_runtime(void) { return &_PyRuntime; }

struct fake_gil *fake_main_gil(void) { return &_PyRuntime.main; }

static void init_cond(pthread_cond_t *cond) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

void fake_gil_init(struct fake_gil *gil) {
    memset(gil, 0, sizeof *gil);
    gil->memory.interval_us = FAKE_INTERVAL_US;
    gil->mutex = &gil->memory.mutex;
    init_cond(&gil->memory.cond);
    init_cond(&gil->memory.switch_cond);
    pthread_mutex_init(&gil->memory.mutex, NULL);
    pthread_mutex_init(&gil->elsewhere, NULL);
    pthread_mutex_init(&gil->memory.switch_mutex, NULL);
}

void fake_gil_destroy(struct fake_gil *gil) {
    pthread_cond_destroy(&gil->memory.cond);
    pthread_mutex_destroy(&gil->memory.mutex);
    pthread_mutex_destroy(&gil->elsewhere);
    pthread_cond_destroy(&gil->memory.switch_cond);
    pthread_mutex_destroy(&gil->memory.switch_mutex);
    SET(gil->memory.locked, -1);
}

void fake_set_interval(struct fake_gil *gil, unsigned long interval_us) {
    SET(gil->memory.interval_us, interval_us);
}

/* Calls signal() from two places, as take_gil() of CPython 3.14 and 3.15 does: a thread that had
 * the GIL last never comes to the first one. The assembly comments keep the compiler from making
 * one call of the two. */
static inline __attribute__((always_inline)) void signal_acquire(struct hw__gil_memory *memory,
                                                                 bool switched) {
    if (switched) {
        pthread_cond_signal(&memory->switch_cond);
        __asm__ volatile("# after another thread's hold");
    } else {
        pthread_cond_signal(&memory->switch_cond);
        __asm__ volatile("# after a hold of its own");
    }
}

/* When the thread last looked for the hand-off, or came back from the wait for it; 0: it has wanted
 * the GIL since. */
static _Thread_local int64_t looked_ns;
static _Thread_local int64_t late_ns;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void want_gil(void) {
    if (looked_ns != 0) {
        late_ns = now_ns() - looked_ns;
        looked_ns = 0;
    }
}

int64_t fake_late_ns(void) { return late_ns; }

/* take_gil() and drop_gil() of Python/ceval_gil.c. Each is compiled once, because the recorder
 * learns the addresses from which an acquire is signalled. */
__attribute__((noinline)) static void take_gil(struct fake_gil *gil, struct fake_state *me) {
    struct hw__gil_memory *memory = &gil->memory;
    pthread_mutex_lock(gil->mutex);
    while (HW__READ(memory->locked)) {
        unsigned long switches = memory->switch_number;
        struct timespec deadline;
        clock_gettime(CLOCK_MONOTONIC, &deadline);
        deadline.tv_nsec += (long)HW__READ(memory->interval_us) * 1000;
        deadline.tv_sec += deadline.tv_nsec / 1000000000;
        deadline.tv_nsec %= 1000000000;
        want_gil();
        int result = pthread_cond_timedwait(&memory->cond, gil->mutex, &deadline);
        if (result == ETIMEDOUT && HW__READ(memory->locked) && memory->switch_number == switches) {
            atomic_store(&gil->drop_request, 1);
            atomic_fetch_add(&gil->asked, 1);
        }
    }
    pthread_mutex_lock(&memory->switch_mutex);
    SET(memory->locked, 1);
    bool switched = HW__READ(memory->last_holder) != me;
    if (switched) {
        SET(memory->last_holder, me);
        memory->switch_number++;
    }
    if (!gil->no_switching) {
        signal_acquire(memory, switched);
    }
    want_gil(); /* after the hook: it must not count as short if the hook takes long */
    pthread_mutex_unlock(&memory->switch_mutex);
    atomic_store(&gil->drop_request, 0);
    pthread_mutex_unlock(gil->mutex);
}

__attribute__((noinline)) static void drop_gil(struct fake_gil *gil, struct fake_state *me) {
    struct hw__gil_memory *memory = &gil->memory;
    SET(memory->last_holder, me);
    pthread_mutex_lock(gil->mutex);
    SET(memory->locked, 0);
    pthread_cond_signal(&memory->cond);
    /* From 3.13 on, the next holder does not clear this thread's request. */
    bool asked = atomic_load(&gil->drop_request) != 0;
    pthread_mutex_unlock(gil->mutex);
    if (asked && !gil->no_switching) {
        looked_ns = now_ns();
        pthread_mutex_lock(&memory->switch_mutex);
        if (HW__READ(memory->last_holder) == me) {
            atomic_store(&gil->drop_request, 0);
            pthread_cond_wait(&memory->switch_cond, &memory->switch_mutex);
            looked_ns = now_ns();
        }
        pthread_mutex_unlock(&memory->switch_mutex);
    }
}

void fake_add_pending_call(struct fake_gil *gil) {
    pthread_mutex_lock(gil->mutex);
    pthread_mutex_unlock(gil->mutex);
}

struct fake_state *fake_state_new(struct fake_gil *gil) {
    struct fake_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        abort();
    }
    state->gil = gil;
    return state;
}

void fake_state_free(struct fake_state *state) { free(state); }

struct fake_state *fake_current(void) { return current; }

static _Atomic bool finalizing;

EXPORT void *PyThreadState_GetUnchecked(void) { return current; }
EXPORT void *PyThreadState_Get(void) { return current; }

/* An interpreter is known by its address. */
static const char interpreters[2];

EXPORT const void *PyInterpreterState_Main(void) { return &interpreters[0]; }

EXPORT const void *PyThreadState_GetInterpreter(const struct fake_state *state) {
    return &interpreters[state->of_another];
}

void fake_spin(int times) {
    /* Not in a register, so that nothing but the time tells one spin from two. */
    for (volatile int i = 0; i < times; i++) {
        sched_yield();
    }
}

EXPORT int Py_IsFinalizing(void) { return atomic_load(&finalizing); }

void fake_finalize(bool on) { atomic_store(&finalizing, on); }

void fake_restore_doomed(struct fake_gil *gil, void *state) {
    take_gil(gil, state);
    drop_gil(gil, state);
}

EXPORT int PyGILState_Ensure(void) {
    if (current != NULL) {
        return 0;
    }
    if (known == NULL) {
        known = fake_state_new(&_PyRuntime.main);
        known->by_ensure = true;
    }
    take_gil(known->gil, known);
    current = known;
    return 1;
}

EXPORT void PyGILState_Release(int state) {
    if (state == 1) {
        struct fake_state *me = current;
        current = NULL;
        drop_gil(me->gil, me);
        if (me->by_ensure) {
            known = NULL;
            free(me);
        }
    }
}

/* Returns NULL for a detached thread, where CPython would abort. */
EXPORT void *PyEval_SaveThread(void) {
    struct fake_state *me = current;
    if (me != NULL) {
        current = NULL;
        drop_gil(me->gil, me);
    }
    return me;
}

EXPORT void PyEval_RestoreThread(void *state) {
    struct fake_state *me = state;
    void (*function)(void) = atomic_load(&before_restore);
    if (function != NULL) {
        function();
    }
    if (me != NULL) {
        take_gil(me->gil, me);
        current = me;
    }
}

bool fake_check(void) {
    struct fake_state *me = current;
    if (!atomic_load(&me->gil->drop_request)) {
        return false;
    }
    current = NULL;
    drop_gil(me->gil, me);
    take_gil(me->gil, me);
    current = me;
    return true;
}

void fake_after_fork_child(void) {
    struct fake_gil *gil = &_PyRuntime.main;
    struct fake_state *me = current;
    init_cond(&gil->memory.cond);
    init_cond(&gil->memory.switch_cond);
    pthread_mutex_init(&gil->memory.mutex, NULL);
    pthread_mutex_init(&gil->memory.switch_mutex, NULL);
    SET(gil->memory.locked, 0);
    SET(gil->memory.last_holder, NULL);
    atomic_store(&gil->drop_request, 0);
    take_gil(gil, me);
}

void fake_before_restore(void (*function)(void)) { atomic_store(&before_restore, function); }

int fake_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *deadline) {
    return pthread_cond_timedwait(cond, mutex, deadline);
}

int fake_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    return pthread_cond_wait(cond, mutex);
}

int fake_signal(pthread_cond_t *cond) { return pthread_cond_signal(cond); }

int fake_destroy(pthread_cond_t *cond) { return pthread_cond_destroy(cond); }

void fake_exit(int status) { _exit(status); }

int fake_sem_post(sem_t *semaphore) { return sem_post(semaphore); }

int fake_sem_wait(sem_t *semaphore) { return sem_wait(semaphore); }

int fake_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *deadline) {
    return sem_clockwait(semaphore, clock, deadline);
}

EXPORT const char PyType_Type[8];
EXPORT void *PyGILState_GetThisThreadState(void) { return current; }

const void *fake_code_type(void) { return code_type; }

struct hw_stack_layout fake_layout(bool cframe) {
    return (struct hw_stack_layout){
        .thread_frame =
            cframe ? offsetof(struct fake_state, cframe) : offsetof(struct fake_state, frame),
        .cframe_frame = cframe ? (int32_t)offsetof(struct fake_cframe, frame) : -1,
        .frame_code = offsetof(struct fake_frame, code),
        .frame_previous = offsetof(struct fake_frame, previous),
        .frame_instruction = offsetof(struct fake_frame, instruction),
        .code_first_line = offsetof(struct fake_code, first_line),
        .code_filename = offsetof(struct fake_code, filename),
        .code_qualname = offsetof(struct fake_code, qualname),
        .code_linetable = offsetof(struct fake_code, linetable),
        .code_instructions = offsetof(struct fake_code, instructions),
        .object_type = offsetof(struct fake_object, type),
        .object_bytes = sizeof(struct fake_object),
        .string_state = offsetof(struct fake_string, state),
        .string_kind_shift = 2,
        .string_ascii = offsetof(struct fake_string, ascii),
        .string_other = offsetof(struct fake_string, other),
        .code_type = (uint64_t)(uintptr_t)code_type,
        .shim_code = 0,
        .cleanup_code = 0,
    };
}
