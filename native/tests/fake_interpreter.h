// SPDX-License-Identifier: MIT
/* A stand-in for the interpreter: a shared object that exports what hw_trace_start() looks for, and
 * acquires and releases GILs by CPython's protocol (gil/protocol.h), call for call. A test drives
 * the stand-in as an evaluation loop would, and knows exactly what it did.
 *
 * The stand-in plays the part of foreign code, so it is built without sanitizers. The thread
 * sanitizer's build is the exception: the recorder reads the stand-in's frames and GILs, so that
 * sanitizer must see the accesses to them. */
#ifndef HEADWAY_TESTS_FAKE_INTERPRETER_H
#define HEADWAY_TESTS_FAKE_INTERPRETER_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gil/protocol.h"
#include "headway/trace.h"

#define FAKE_INTERVAL_US 200

/* A GIL with other data before it, as in _PyRuntime and PyInterpreterState. */
struct fake_gil {
    uint64_t before[5];
    struct hw__gil_memory memory;
    _Atomic int drop_request; /* a bit of the eval_breaker in CPython */
    atomic_long asked;        /* how often a waiter has made a request */
    /* `memory.mutex`, except for an interpreter whose layout is unknown */
    pthread_mutex_t *mutex;
    pthread_mutex_t elsewhere;
    bool no_switching; /* built without FORCE_SWITCHING: `switch_cond` is not signalled */
};

/* Python objects. All offsets differ from CPython's, so that no code is right by chance. */
struct fake_object {
    int64_t references, debug;
    const void *type;
};

struct fake_string {
    struct fake_object object;
    size_t length; /* in characters */
    int64_t hash;
    uint32_t unrelated, state; /* interned:2, kind:3, compact:1, ascii:1 */
    char ascii[24];            /* the text if it is ASCII */
    char other[4096];          /* the text if it is not ASCII */
};

struct fake_bytes {
    struct fake_object object;
    size_t length;
    int64_t hash;
    char text[20000];
};

struct fake_code {
    struct fake_object object;
    int32_t flags, first_line;
    struct fake_string *filename, *qualname;
    struct fake_bytes *linetable;
    uint16_t instructions[64];
};

struct fake_frame {
    uintptr_t code; /* the low bits may be tags */
    struct fake_frame *previous;
    uint64_t locals;
    const void *instruction;
};

struct fake_cframe {
    int64_t use_tracing;
    struct fake_frame *frame;
};

/* A PyThreadState. */
struct fake_state {
    struct fake_gil *gil;
    struct fake_cframe *cframe;
    struct fake_frame *frame;
    bool by_ensure;
    bool of_another; /* of a sub-interpreter that shares the GIL */
};

/* The functions that the recorder looks up by name. `_PyRuntime` is not declared: an executable
 * that refers to a library's data has the data copied into itself. */
int PyGILState_Ensure(void);
void PyGILState_Release(int state);
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *state);

int Py_IsFinalizing(void);

/* Sets whether the interpreter is finalizing. The caller must hold the GIL. */
void fake_finalize(bool on);

/* Does what PyEval_RestoreThread() does in a daemon thread while the interpreter ends: acquires
 * the GIL with a state that may be freed, finds that the thread must not go on, and releases the
 * GIL. */
void fake_restore_doomed(struct fake_gil *gil, void *state);

/* Returns the address of _PyRuntime. */
const void *fake_runtime(void);

/* Returns the main interpreter's GIL, which lies in _PyRuntime. */
struct fake_gil *fake_main_gil(void);

/* Initialise a GIL in place, again if need be, as Py_NewInterpreterFromConfig() does; and end one,
 * with the calls of pthread_cond_destroy(). */
void fake_gil_init(struct fake_gil *gil);
void fake_gil_destroy(struct fake_gil *gil);

/* Does what sys.setswitchinterval() does. The caller must hold the GIL. */
void fake_set_interval(struct fake_gil *gil, unsigned long interval_us);

/* Does what Py_AddPendingCall() does to a GIL from CPython 3.13 on (signal_active_thread()): locks
 * the mutex for a moment. The caller need not hold the GIL. */
void fake_add_pending_call(struct fake_gil *gil);

/* Returns a thread state for `gil` that is not attached; PyEval_RestoreThread() attaches it. The
 * caller frees the state when it is detached. */
struct fake_state *fake_state_new(struct fake_gil *gil);
void fake_state_free(struct fake_state *state);

/* Returns the calling thread's state, or NULL if the thread is detached. */
struct fake_state *fake_current(void);

/* Does what the evaluation loop does now and then: if there is a request, releases the GIL and
 * acquires it again. Returns whether there was a request. */
bool fake_check(void);

/* Returns how long this thread needed from its last look for a hand-off of the GIL, after a release
 * on request, until it wanted the GIL again. It is short unless the thread lost its core. */
int64_t fake_late_ns(void);

/* Does what PyOS_AfterFork_Child() does: initialises the GIL again in place, and acquires it. */
void fake_after_fork_child(void);

/* Makes PyEval_RestoreThread() call `function` first in every thread; NULL ends that. Foreign code
 * that is linked into the same image could run before the GIL in this way. */
void fake_before_restore(void (*function)(void));

/* Functions of the C library, called from this image at other places than a GIL's. */
int fake_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *deadline);
int fake_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int fake_signal(pthread_cond_t *cond);
int fake_destroy(pthread_cond_t *cond);

/* Does what os._exit() does. */
void fake_exit(int status);

/* The same for semaphores: those of locks and queues, and those on which threads wait without a
 * GIL. */
int fake_sem_post(sem_t *semaphore);
int fake_sem_wait(sem_t *semaphore);
int fake_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *deadline);
void *PyGILState_GetThisThreadState(void);

/* Calls sched_yield() `times` times, as a thread that spins for a lock does. The caller may be
 * attached or not. */
void fake_spin(int times);
void *PyThreadState_GetUnchecked(void);
void *PyThreadState_Get(void);

/* The address that stands for that of PyCode_Type, and the layout of these structs in memory. With
 * `cframe`, a `struct fake_cframe` lies between the thread state and the frame, as in CPython 3.11
 * and 3.12. */
const void *fake_code_type(void);
struct hw_stack_layout fake_layout(bool cframe);

#endif
