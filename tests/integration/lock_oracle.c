// SPDX-License-Identifier: MIT
/* Waits for locks of a free-threaded interpreter, and times each wait from the call to its return. This file knows
 * nothing of the recorder.
 *
 * Called through ctypes.PyDLL, so with the thread attached, as the interpreter's own code is. */
#include "oracle.h"

typedef struct {
    uint8_t bits;
} PyMutex;
typedef struct {
    uintptr_t previous;
    PyMutex *mutex;
} PyCriticalSection;
extern void PyMutex_Lock(PyMutex *);
extern void PyMutex_Unlock(PyMutex *);
extern void PyCriticalSection_Begin(PyCriticalSection *, void *);
extern void PyCriticalSection_End(PyCriticalSection *);

static PyMutex mutexes[64];

/* Locks one of `locks` mutexes in turn, or the object's lock if there is an object, until `until_ns` or until `turns` is
 * full. */
void contend(int first, int locks, void *object, int64_t hold_ns, int64_t pause_ns, int64_t until_ns,
             struct turns *turns) {
    int room = 1;
    for (int i = first; room && now_ns() < until_ns; i++) {
        PyMutex *mutex = &mutexes[i % locks];
        PyCriticalSection section;
        int64_t begin_ns = now_ns();
        if (object != 0) {
            PyCriticalSection_Begin(&section, object);
        } else {
            PyMutex_Lock(mutex);
        }
        room = hold(begin_ns, busy, hold_ns, turns);
        if (object != 0) {
            PyCriticalSection_End(&section);
        } else {
            PyMutex_Unlock(mutex);
        }
        busy(pause_ns);
    }
}

/* Locks a mutex for `hold_ns` again and again, with the thread asleep meanwhile. A thread that an unlock has woken finds
 * the mutex locked again, until the mutex is handed to it. */
void barge(int64_t hold_ns, int64_t until_ns, struct turns *turns) {
    for (int room = 1; room && now_ns() < until_ns;) {
        int64_t begin_ns = now_ns();
        PyMutex_Lock(&mutexes[0]);
        room = hold(begin_ns, rest, hold_ns, turns);
        PyMutex_Unlock(&mutexes[0]);
    }
}
