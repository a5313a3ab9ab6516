// SPDX-License-Identifier: MIT
/* Recorder and scheduler as one extension module, `headway_recorder`, for headway_agent.
 *
 * The module is not loaded with ctypes, for three reasons. The import of ctypes would be most of
 * the cost of starting. Some builds have no ctypes. And some versions of the libffi below it keep a
 * file of their own open, which a program would find among its descriptors.
 *
 * One file serves CPython 3.8 to 3.15, with and without a GIL, so it does not use Python.h. The
 * functions that it calls have had the same signatures in all these versions, and are looked up by
 * name. Three structs are declared here: PyModuleDef (Include/moduleobject.h), PyModuleDef_Slot,
 * and PyMethodDef (Include/methodobject.h). Between the versions they differ only in the object
 * head. `void *` stands for a PyObject. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/lease.h"
#include "base/say.h"
#include "gil/gil.h"
#include "gil/peek.h"
#include "headway/schedule.h"
#include "headway/trace.h"
#include "headway/version.h"

/* X(function, result, parameters): the functions of Python's C API that the module calls. */
#define FUNCTIONS(X)                                                                               \
    X(PyModuleDef_Init, void *, (void *def))                                                       \
    X(PyArg_ParseTuple, int, (void *arguments, const char *format, ...))                           \
    X(Py_BuildValue, void *, (const char *format, ...))                                            \
    X(PyBytes_FromStringAndSize, void *, (const char *text, intptr_t bytes))                       \
    X(PyBytes_AsString, char *, (void *bytes))                                                     \
    X(PyBytes_Size, intptr_t, (void *bytes))                                                       \
    X(PyDict_GetItemString, void *, (void *dict, const char *key))                                 \
    X(PyLong_AsLong, long, (void *number))                                                         \
    X(PyErr_Clear, void, (void))                                                                   \
    X(PySys_GetObject, void *, (const char *name))                                                 \
    X(PyObject_CallObject, void *, (void *function, void *arguments))                              \
    X(PyInterpreterState_Head, void *, (void))                                                     \
    X(PyInterpreterState_Main, void *, (void))                                                     \
    X(PyThreadState_Get, void *, (void))

/* Pointers to those functions, set before any method can be called, and never changed. */
#define DECLARE(function, result, parameters) static result(*function) parameters;
FUNCTIONS(DECLARE)
#undef DECLARE

#define METH_VARARGS 1

struct method {
    const char *name;
    void *(*function)(void *module, void *arguments);
    int flags;
    const char *doc;
};

struct slot {
    int slot;
    void *value;
};

/* The fields of PyModuleDef after the object head. */
struct definition {
    void *(*init)(void);
    intptr_t index;
    void *copy;
    const char *name, *doc;
    intptr_t size;
    struct method *methods;
    struct slot *slots;
    void *traverse, *clear, *free;
};

/* The largest object head: 16 bytes, and 32 in a free-threaded build. */
#define LARGEST_HEAD 32

static void *number(int64_t value) { return Py_BuildValue("L", (long long)value); }

static void *version(void *module, void *arguments) {
    (void)module, (void)arguments;
    return number(HW_ABI_VERSION);
}

/* Arguments: (door, bytes, family, python_version, free_threaded, gil_enabled, command, executable,
 * program, layout). The texts and the layout (struct hw_stack_layout, or empty) are bytes. */
static void *start(void *module, void *arguments) {
    (void)module;
    const char *door, *executable, *program;
    long long bytes;
    unsigned long long family;
    unsigned python_version;
    int free_threaded, gil_enabled;
    void *command, *layout;
    if (!PyArg_ParseTuple(arguments, "yLKIiiSyyS", &door, &bytes, &family, &python_version,
                          &free_threaded, &gil_enabled, &command, &executable, &program, &layout)) {
        return NULL;
    }
    struct hw_trace_options options = {
        .door = door,
        .bytes = bytes,
        .family = family,
        .python_version = python_version,
        .free_threaded = (uint32_t)free_threaded,
        .gil_enabled = (uint32_t)gil_enabled,
        .command = PyBytes_AsString(command),
        .command_bytes = (uint32_t)PyBytes_Size(command),
        .executable = executable,
        .program = program,
        .has_layout = PyBytes_Size(layout) == (intptr_t)sizeof options.layout,
    };
    if (options.has_layout) {
        memcpy(&options.layout, PyBytes_AsString(layout), sizeof options.layout);
    }
    return number(hw_trace_start(&options));
}

static void *stop(void *module, void *arguments) {
    (void)module, (void)arguments;
    return number(hw_trace_stop());
}

static void *active(void *module, void *arguments) {
    (void)module, (void)arguments;
    return number(hw_trace_active());
}

static void *path(void *module, void *arguments) {
    (void)module, (void)arguments;
    const char *text = hw_trace_path();
    return PyBytes_FromStringAndSize(text, (intptr_t)strlen(text));
}

static void *collected(void *module, void *arguments) {
    (void)module, (void)arguments;
    return number(hw_trace_collected_ns());
}

static void *in_memory(void *module, void *arguments) {
    (void)module, (void)arguments;
    return number((int64_t)hw_trace_in_memory());
}

static void *others(void *module, void *arguments) {
    (void)module, (void)arguments;
    uint64_t threads, holds;
    hw_trace_others(&threads, &holds);
    return Py_BuildValue("(LL)", (long long)threads, (long long)holds);
}

/* Arguments: (native id, name as bytes). */
static void *name(void *module, void *arguments) {
    (void)module;
    int tid;
    const char *text;
    if (!PyArg_ParseTuple(arguments, "iy", &tid, &text)) {
        return NULL;
    }
    hw_trace_name(tid, text);
    return number(0);
}

/* Arguments: (text as bytes). */
static void *note(void *module, void *arguments) {
    (void)module;
    const char *text;
    if (!PyArg_ParseTuple(arguments, "y", &text)) {
        return NULL;
    }
    hw_trace_note(text);
    return number(0);
}

/* Arguments: (phase, info), those of a function in gc.callbacks. The function itself is in that
 * list, and no Python function that calls it: up to CPython 3.11, collections begin in the middle
 * of C calls. A Python function would answer requests for the GIL there, so that a call that stalls
 * other threads would no longer do so in a watched program. */
static void *collection(void *module, void *arguments) {
    (void)module;
    const char *phase;
    void *info;
    if (!PyArg_ParseTuple(arguments, "sO", &phase, &info)) {
        return NULL;
    }
    void *generation = PyDict_GetItemString(info, "generation");
    long number_of = generation == NULL ? 0 : PyLong_AsLong(generation);
    PyErr_Clear();
    hw_trace_collection((uint32_t)number_of, strcmp(phase, "start") != 0);
    return number(0);
}

/* Arguments: (process). Lets another process read this one's memory where only a parent may (Yama).
 */
static void *let_trace(void *module, void *arguments) {
    (void)module;
    int pid;
    if (!PyArg_ParseTuple(arguments, "i", &pid)) {
        return NULL;
    }
    return number(prctl(PR_SET_PTRACER, (unsigned long)pid, 0, 0, 0));
}

/* Arguments: (interpreters may have GILs of their own). Returns sys._current_frames(), or {} where
 * there are such interpreters: that function makes objects of the frames of all interpreters, while
 * threads of another one run, and CPython 3.12 and 3.13 then crash. The newest interpreter is the
 * head of their list. Without others, only a thread with the main GIL can make one. No thread gets
 * that GIL between the look and the function's work, but for one case: the function first raises an
 * audit event, and an audit hook in Python may release the GIL. To raise the event before the look
 * would change nothing, since the function raises it again. */
static void *current_frames(void *module, void *arguments) {
    (void)module;
    int own_gils;
    if (!PyArg_ParseTuple(arguments, "i", &own_gils)) {
        return NULL;
    }
    void *function = PySys_GetObject("_current_frames");
    if (function == NULL || (own_gils && PyInterpreterState_Head() != PyInterpreterState_Main())) {
        return Py_BuildValue("{}");
    }
    return PyObject_CallObject(function, NULL);
}

static void *times(void *module, void *arguments) {
    (void)module, (void)arguments;
    int64_t hold_ns, wait_ns;
    hw_gil_times(&hold_ns, &wait_ns);
    return Py_BuildValue("(LL)", (long long)hold_ns, (long long)wait_ns);
}

static void *longest(void *module, void *arguments) {
    (void)module, (void)arguments;
    int64_t hold_ns, wait_ns;
    hw_gil_longest(&hold_ns, &wait_ns);
    return Py_BuildValue("(LL)", (long long)hold_ns, (long long)wait_ns);
}

/* Arguments: (layout as bytes, most frames). Returns the frames as bytes: struct hw_trace_frame,
 * innermost first. */
static void *walk(void *module, void *arguments) {
    (void)module;
    enum { MOST = 256 };
    struct hw_trace_frame frames[MOST];
    struct hw_stack_layout layout;
    void *bytes;
    int most;
    if (!PyArg_ParseTuple(arguments, "Si", &bytes, &most)) {
        return NULL;
    }
    int count = 0;
    if (PyBytes_Size(bytes) == (intptr_t)sizeof layout) {
        memcpy(&layout, PyBytes_AsString(bytes), sizeof layout);
        count = hw_trace_walk(&layout, PyThreadState_Get(), frames, most < MOST ? most : MOST);
    }
    return PyBytes_FromStringAndSize((const char *)frames, count * (intptr_t)sizeof *frames);
}

/* Copies memory as memcpy() does, without the address sanitizer's checks: not all memory of the
 * interpreter's objects is known to the sanitizer as allocated. */
__attribute__((no_sanitize("address"))) static void copy_unchecked(char *to, const char *from,
                                                                   intptr_t bytes) {
    for (intptr_t i = 0; i < bytes; i++) {
        to[i] = *(const volatile char *)(from + i);
    }
}

/* Arguments: (address, size). Returns bytes. The memory must be an object's or a thread's that
 * lives, which no other thread can unmap: this is a plain load. */
static void *memory(void *module, void *arguments) {
    (void)module;
    unsigned long long address;
    long long size;
    if (!PyArg_ParseTuple(arguments, "KL", &address, &size)) {
        return NULL;
    }
    void *bytes = PyBytes_FromStringAndSize(NULL, (intptr_t)size);
    if (bytes != NULL) {
        copy_unchecked(PyBytes_AsString(bytes), (const char *)(uintptr_t)address, (intptr_t)size);
    }
    return bytes;
}

/* Arguments: (address, word). Tells whether the 8 bytes at an address are that word. At any
 * address: nothing need be mapped there, and another thread may unmap it meanwhile. */
static void *holds(void *module, void *arguments) {
    (void)module;
    unsigned long long address, word;
    if (!PyArg_ParseTuple(arguments, "KK", &address, &word)) {
        return NULL;
    }
    return number(hw__peek_is((uintptr_t)address, (uintptr_t)word));
}

static void *thread_state(void *module, void *arguments) {
    (void)module, (void)arguments;
    return Py_BuildValue("K", (unsigned long long)(uintptr_t)PyThreadState_Get());
}

/* Arguments: (policy, options). Returns (errno, problem as bytes, number of the policy that is on);
 * without a problem, b"". */
static void *with_policy(void *arguments,
                         int (*function)(const struct hw_policy *, const char *, char *, int)) {
    const char *name, *options;
    char problem[400] = "";
    if (!PyArg_ParseTuple(arguments, "yy", &name, &options)) {
        return NULL;
    }
    const struct hw_policy *policy = hw_policy_find(name, problem, (int)sizeof problem);
    int error = -EINVAL;
    if (policy != NULL) {
        error = function(policy, options, problem, (int)sizeof problem);
    }
    return Py_BuildValue("iyI", error, problem, hw_schedule_number());
}

static void *schedule(void *module, void *arguments) {
    (void)module;
    return with_policy(arguments, hw_schedule_start);
}

static void *check_policy(void *module, void *arguments) {
    (void)module;
    return with_policy(arguments, hw_schedule_check);
}

/* Arguments: (number). Stops the policy that is on, unless it has another number; 0: whichever. */
static void *unschedule(void *module, void *arguments) {
    (void)module;
    unsigned which;
    if (!PyArg_ParseTuple(arguments, "I", &which)) {
        return NULL;
    }
    uint32_t on = hw_schedule_number();
    bool is_other = which != 0 && on != 0 && on != which;
    return number(is_other ? -ESRCH : hw_schedule_stop());
}

/* Returns (name as bytes, number) of the policy that is on; (b"", 0) without one. */
static void *scheduled(void *module, void *arguments) {
    (void)module, (void)arguments;
    return Py_BuildValue("yI", hw_schedule_active(), hw_schedule_number());
}

/* Arguments: (priority, urgent). */
static void *hint(void *module, void *arguments) {
    (void)module;
    int priority, urgent;
    if (!PyArg_ParseTuple(arguments, "ii", &priority, &urgent)) {
        return NULL;
    }
    return number(hw_schedule_hint(priority, urgent));
}

/* Arguments: (number). Returns struct hw_schedule_counts of the policy with this number (0: of the
 * last one) as bytes, or b"" where there is none. */
static void *counts(void *module, void *arguments) {
    (void)module;
    unsigned which;
    if (!PyArg_ParseTuple(arguments, "I", &which)) {
        return NULL;
    }
    struct hw_schedule_counts found;
    bool there = hw_schedule_counts(&found) == 0 && (which == 0 || which == hw_schedule_counted());
    return PyBytes_FromStringAndSize((const char *)&found, there ? (intptr_t)sizeof found : 0);
}

/* Returns (thread, count): the thread for which requests most often came sooner than CPython would
 * have made them, or 0, and how often. */
static void *gainer(void *module, void *arguments) {
    (void)module, (void)arguments;
    int64_t early;
    int thread = hw_schedule_gainer(&early);
    return Py_BuildValue("iL", thread, (long long)early);
}

/* Arguments: (nanoseconds). Returns a descriptor, or a negative errno. */
static void *lease_page(void *module, void *arguments) {
    (void)module;
    long long span_ns;
    return PyArg_ParseTuple(arguments, "L", &span_ns) ? number(hw__lease_page(span_ns)) : NULL;
}

/* Arguments: (lease, descriptor). Returns 0 or a negative errno. */
static void *lease(void *module, void *arguments) {
    (void)module;
    int what;
    int fd;
    if (!PyArg_ParseTuple(arguments, "ii", &what, &fd)) {
        return NULL;
    }
    bool known = what >= 0 && what < HW__LEASES;
    hw__registry_lock(); /* a hook ends a policy's lease with this lock held */
    int error = known ? hw__lease_begin(&hw__leases[what], fd) : -EINVAL;
    hw__registry_unlock();
    return number(error);
}

/* Arguments: (lease, nanoseconds). */
static void *lease_renew(void *module, void *arguments) {
    (void)module;
    int what;
    long long span_ns;
    if (!PyArg_ParseTuple(arguments, "iL", &what, &span_ns)) {
        return NULL;
    }
    if (what >= 0 && what < HW__LEASES) {
        hw__lease_renew(&hw__leases[what], span_ns);
    }
    return number(0);
}

/* Arguments: (lease). */
static void *lease_end(void *module, void *arguments) {
    (void)module;
    int what;
    if (!PyArg_ParseTuple(arguments, "i", &what)) {
        return NULL;
    }
    if (what >= 0 && what < HW__LEASES) {
        hw__lease_end(&hw__leases[what]);
    }
    return number(0);
}

static void *mute(void *module, void *arguments) {
    (void)module;
    (void)arguments;
    hw__say_mute();
    return number(0);
}

static struct method methods[] = {
    {"version", version, METH_VARARGS, "HW_ABI_VERSION."},
    {"start", start, METH_VARARGS, "hw_trace_start()."},
    {"stop", stop, METH_VARARGS, "hw_trace_stop()."},
    {"active", active, METH_VARARGS, "hw_trace_active()."},
    {"path", path, METH_VARARGS, "hw_trace_path()."},
    {"collected", collected, METH_VARARGS, "hw_trace_collected_ns()."},
    {"in_memory", in_memory, METH_VARARGS, "hw_trace_in_memory()."},
    {"others", others, METH_VARARGS, "hw_trace_others()."},
    {"name", name, METH_VARARGS, "hw_trace_name()."},
    {"note", note, METH_VARARGS, "hw_trace_note()."},
    {"collection", collection, METH_VARARGS, "A function for gc.callbacks."},
    {"let_trace", let_trace, METH_VARARGS, "prctl(PR_SET_PTRACER)."},
    {"current_frames", current_frames, METH_VARARGS, "sys._current_frames(), where it is safe."},
    {"times", times, METH_VARARGS, "hw_gil_times()."},
    {"longest", longest, METH_VARARGS, "hw_gil_longest()."},
    {"walk", walk, METH_VARARGS, "hw_trace_walk(), of the calling thread."},
    {"memory", memory, METH_VARARGS, "The bytes at an address."},
    {"holds", holds, METH_VARARGS, "Whether a word is at an address."},
    {"thread_state", thread_state, METH_VARARGS, "The address of the calling thread's state."},
    {"schedule", schedule, METH_VARARGS, "hw_schedule_start()."},
    {"check_policy", check_policy, METH_VARARGS, "hw_schedule_check()."},
    {"unschedule", unschedule, METH_VARARGS, "hw_schedule_stop()."},
    {"scheduled", scheduled, METH_VARARGS, "hw_schedule_active()."},
    {"hint", hint, METH_VARARGS, "hw_schedule_hint()."},
    {"counts", counts, METH_VARARGS, "hw_schedule_counts()."},
    {"gainer", gainer, METH_VARARGS, "hw_schedule_gainer()."},
    {"lease_page", lease_page, METH_VARARGS, "hw__lease_page()."},
    {"lease", lease, METH_VARARGS, "hw__lease_begin()."},
    {"lease_renew", lease_renew, METH_VARARGS, "hw__lease_renew()."},
    {"lease_end", lease_end, METH_VARARGS, "hw__lease_end()."},
    {"mute", mute, METH_VARARGS, "hw__say_mute()."},
    {NULL, NULL, 0, NULL},
};

/* Returns sizeof(PyObject), which is 16 or 32: the tp_basicsize of PyBaseObject_Type, which stands
 * after the type's head, ob_size and tp_name. Returns 0 where it is neither. */
static size_t head_bytes(void) {
    const char *type = dlsym(RTLD_DEFAULT, "PyBaseObject_Type");
    for (size_t head = 16; type != NULL && head <= LARGEST_HEAD; head += 16) {
        if (*(const intptr_t *)(type + head + 2 * sizeof(void *)) == (intptr_t)head) {
            return head;
        }
    }
    return 0;
}

static bool find_functions(void) {
#define FIND(function, result, parameters)                                                         \
    function = (result(*) parameters)(uintptr_t)dlsym(RTLD_DEFAULT, #function);                    \
    if (function == NULL)                                                                          \
        return false;
    FUNCTIONS(FIND)
#undef FIND
    return true;
}

/* Creates the module. CPython's import calls this function, in the main interpreter first.
 *
 * Returns the module's definition, or NULL where the interpreter lacks what the module needs. */
HW_API void *PyInit_headway_recorder(void);
void *PyInit_headway_recorder(void) {
    static _Alignas(16) char memory_of_def[LARGEST_HEAD + sizeof(struct definition)];
    static struct slot slots[3]; /* an interpreter must know each slot; the last one is 0 */
    static bool done;
    size_t head = head_bytes();
    if (head == 0 || !find_functions()) {
        return NULL;
    }
    if (!done) {
        const unsigned long *python = dlsym(RTLD_DEFAULT, "Py_Version"); /* 3.11 and later */
        int count = 0;
        if (python != NULL && *python >= 0x030C0000) {
            slots[count++] = (struct slot){3, (void *)2}; /* per-interpreter GIL supported */
        }
        if (python != NULL && *python >= 0x030D0000) {
            slots[count++] = (struct slot){4, (void *)1}; /* gil: not used */
        }
        struct definition definition = {
            .name = "headway_recorder", .methods = methods, .slots = slots};
        if (head == 16) {
            *(int64_t *)(void *)memory_of_def = 1; /* ob_refcnt */
        } else {
            /* ob_flags, which 3.15 checks: statically allocated, built for this ABI. The other
             * field is ob_ref_local: immortal. */
            *(uint16_t *)(void *)(memory_of_def + 8) = 4;
            *(uint32_t *)(void *)(memory_of_def + 12) = UINT32_MAX;
        }
        memcpy(memory_of_def + head, &definition, sizeof definition);
        done = true;
    }
    return PyModuleDef_Init(memory_of_def);
}
