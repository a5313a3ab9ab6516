// SPDX-License-Identifier: MIT
/* A stand-in for the interpreter: a shared object that exports what hw_trace_start() looks for, and
 * takes and drops GILs by CPython's protocol (gil/protocol.h), call for call. A test drives it as
 * an evaluation loop would, and knows exactly what it did.
 *
 * It is others' code: built without sanitizers, but for the thread sanitizer's build. There the
 * accesses to its frames and GILs are to be seen, for the recorder reads them. */
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

/* A GIL, in the midst of other things as in _PyRuntime and PyInterpreterState. */
struct fake_gil {
    uint64_t before[5];
    struct hw__gil_memory memory;
    _Atomic int drop_request; /* what is an eval_breaker's bit in CPython */
    atomic_long asked;        /* how often a waiter has set it */
    pthread_mutex_t *mutex;   /* `memory.mutex`, but for an interpreter that we do not know */
    pthread_mutex_t elsewhere;
    bool no_switching; /* built without FORCE_SWITCHING: `switch_cond` is not signalled */
};

/* Objects; all offsets differ from CPython's, so that nothing can be right by chance. */
struct fake_object {
    int64_t references, debug;
    const void *type;
};

struct fake_string {
    struct fake_object object;
    size_t length; /* in characters */
    int64_t hash;
    uint32_t unrelated, state; /* interned:2, kind:3, compact:1, ascii:1 */
    char ascii[24];            /* text if it is ASCII ... */
    char other[4096];          /* ... and if not */
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
    uintptr_t code; /* low bits may be tags */
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
};

/* What the recorder looks up by name. `_PyRuntime` is not declared: an executable that refers to
 * data of a library has it copied into itself. */
int PyGILState_Ensure(void);
void PyGILState_Release(int state);
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *state);

int Py_IsFinalizing(void);

/* The interpreter is in its finalization, or no more. With the GIL held. */
void fake_finalize(bool on);

/* As PyEval_RestoreThread() in a daemon thread while the interpreter ends: takes the GIL with a
 * state that may be freed, sees that the thread must not go on, and drops it. */
void fake_restore_doomed(struct fake_gil *gil, void *state);

/* Where _PyRuntime is. */
const void *fake_runtime(void);

/* The main interpreter's GIL, which lies in _PyRuntime. */
struct fake_gil *fake_main_gil(void);

/* Makes (again) a GIL in place, as Py_NewInterpreterFromConfig() does; and ends one, with the calls
 * of pthread_cond_destroy(). */
void fake_gil_init(struct fake_gil *gil);
void fake_gil_destroy(struct fake_gil *gil);

/* sys.setswitchinterval(), with the GIL held. */
void fake_set_interval(struct fake_gil *gil, unsigned long interval_us);

/* A thread state for a GIL, not attached: see PyEval_RestoreThread(). Free it when it is detached.
 */
struct fake_state *fake_state_new(struct fake_gil *gil);
void fake_state_free(struct fake_state *state);

/* The calling thread's, NULL when it is detached. */
struct fake_state *fake_current(void);

/* What the evaluation loop does now and then: lets the GIL go and takes it again when it was asked
 * to. Returns whether it was. */
bool fake_check(void);

/* PyOS_AfterFork_Child(): the GIL is made anew in place, and taken. */
void fake_after_fork_child(void);

/* Has PyEval_RestoreThread() call this first in every thread, or NULL: as others' code that is
 * linked into the same image might come before the GIL. */
void fake_before_restore(void (*function)(void));

/* The functions of the C library as called from this image, from other places than a GIL's. */
int fake_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *deadline);
int fake_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int fake_signal(pthread_cond_t *cond);
int fake_destroy(pthread_cond_t *cond);

/* Those of semaphores, on which threads without a GIL wait. */
int fake_sem_wait(sem_t *semaphore);
int fake_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *deadline);
void *PyGILState_GetThisThreadState(void);

/* Yields so often, as who spins for a lock does, attached or not. */
void fake_spin(int times);
void *PyThreadState_GetUnchecked(void);

/* The address of PyCode_Type, as it were, and how all this lies in memory; `cframe`: there is one
 * between the thread state and the frame, as in 3.11 and 3.12. */
const void *fake_code_type(void);
struct hw_stack_layout fake_layout(bool cframe);

#endif
