// SPDX-License-Identifier: MIT
/* Waits for locks of a free-threaded interpreter, timed by themselves: from the call to its return. It knows nothing of the recorder.
 *
 * Called through ctypes.PyDLL, so with the thread attached, as the interpreter's own code is. */
#include <stdint.h>
#include <time.h>

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

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void busy(int64_t ns) {
    int64_t until = now_ns() + ns;
    while (now_ns() < until) {
    }
}

/* What one thread waited, and how often it took a lock. */
struct waited {
    int64_t total_ns, count;
};

/* Takes one of `locks` mutexes in turn, or the object's lock where there is one, until `until_ns`. */
void contend(int first, int locks, void *object, int64_t hold_ns, int64_t pause_ns, int64_t until_ns,
             struct waited *waited) {
    *waited = (struct waited){0, 0};
    for (int i = first; now_ns() < until_ns; i++) {
        PyMutex *mutex = &mutexes[i % locks];
        PyCriticalSection section;
        int64_t begin = now_ns();
        if (object != 0) {
            PyCriticalSection_Begin(&section, object);
        } else {
            PyMutex_Lock(mutex);
        }
        int64_t took = now_ns() - begin;
        waited->total_ns += took;
        waited->count++;
        busy(hold_ns);
        if (object != 0) {
            PyCriticalSection_End(&section);
        } else {
            PyMutex_Unlock(mutex);
        }
        busy(pause_ns);
    }
}
