// SPDX-License-Identifier: MIT
#ifndef HEADWAY_TRACE_H
#define HEADWAY_TRACE_H

#include <stdint.h>

#include "headway/api.h"

/* Recording who holds the GIL and who waits for it, in this process, into memory that
 * native/trace/format.h describes, and from there into a file (headway/collect.h). One session at a
 * time. Unless a function says otherwise it is called with the GIL of the main interpreter held. */

/* Where the interpreter keeps what a stack is made of: bytes from the beginning of the object or
 * struct named first. The caller finds them out in the running interpreter and checks them with
 * hw_trace_walk(). CPython 3.11 and later. What each event needs comes first, and fits one line of
 * the cache. */
struct hw_stack_layout {
    uint64_t code_type;     /* the address of PyCode_Type */
    uint64_t shim_code;     /* what frames have for code where C calls the interpreter, or 0 */
    int32_t thread_frame;   /* PyThreadState: to the innermost frame, or to a _PyCFrame */
    int32_t cframe_frame;   /* _PyCFrame: to the innermost frame; below 0: there is none between */
    int32_t frame_code;     /* _PyInterpreterFrame: to the code object (low 3 bits are tags) */
    int32_t frame_previous; /* to the caller's frame */
    int32_t frame_instruction; /* to the instruction */
    int32_t code_first_line;   /* PyCodeObject: an int */
    int32_t code_filename;
    int32_t code_qualname;
    int32_t code_linetable;
    int32_t code_instructions; /* where the instructions begin */
    int32_t object_type;       /* PyObject: to its type */
    int32_t object_bytes;      /* sizeof(PyObject) */
    int32_t string_state;      /* PyASCIIObject: a 32-bit field of bits */
    int32_t string_kind_shift; /* of its 3 bits that tell 1, 2, 4 bytes */
    int32_t string_ascii;      /* where the text is if it is ASCII ... */
    int32_t string_other;      /* ... and if not */
};

struct hw_trace_options {
    const char *door; /* the Unix socket of the collector, which writes the file; "": nobody does,
                         and the newest events stay in memory */
    int64_t bytes;    /* of events in memory; 0: counters only */
    uint64_t family;  /* the same in all processes of one launch */
    uint32_t python_version;
    uint32_t free_threaded; /* 1: a build without a GIL */
    uint32_t gil_enabled;
    const char *command; /* a NUL after each argument */
    uint32_t command_bytes;
    uint32_t has_layout; /* 1: `layout` holds; 0: no stacks */
    const char *executable;
    const char *program;
    struct hw_stack_layout layout;
};

/* One frame, as hw_trace_walk() gives it. */
struct hw_trace_frame {
    uint64_t code;  /* the code object's address */
    int64_t offset; /* bytes from its first instruction */
};

/* Starts a session: finds the GIL, puts the hooks in, makes the memory. The GIL is released for a
 * moment.
 *
 * Returns 0 or a negative errno, with everything as it was: -EALREADY when there is a session,
 * -ECONNREFUSED and the like when the collector is not there, -ENOMEM when there is no memory,
 * -ENOENT when the interpreter cannot be found in this process, -ENXIO when its calls cannot be
 * hooked (a static build), -EPROTO when its GIL is not as expected, -ETIMEDOUT when the caller does
 * not hold the main interpreter's GIL. */
HW_API int hw_trace_start(const struct hw_trace_options *options);

/* Ends the session and takes the hooks out. The memory is then complete.
 *
 * Returns 0, or -ESRCH when there is no session. */
HW_API int hw_trace_stop(void);

/* Whether there is a session. Any thread may call it. Returns 0, 1, or 2 when it only counts. */
HW_API int hw_trace_active(void);

/* Where the session's collector writes to.
 *
 * Returns the path, "" when there is no collector or it has not told it yet; valid until the next
 * call of anything here. */
HW_API const char *hw_trace_path(void);

/* Up to when what was recorded is in the collector's file: CLOCK_MONOTONIC, 0 for never. */
HW_API int64_t hw_trace_collected_ns(void);

/* The descriptor of the memory of a session without a collector, or -1. It is the session's: who
 * wants to read it after the session's end duplicates it. */
HW_API int hw_trace_memory(void);

/* Tells the name that Python gives a thread, from now on. `name` is UTF-8.
 *
 * The GIL of any interpreter may be held. This function can't fail; without a session it does
 * nothing. */
HW_API void hw_trace_name(int32_t tid, const char *name);

/* Tells that the calling thread collects garbage, with the GIL of the main interpreter held: that
 * it begins to (`length_ns` below 0), or that it has done so for so long. Without a session, and
 * for a thread that is not known to hold a GIL, it does nothing. */
HW_API void hw_trace_collection(uint32_t generation, int64_t length_ns);

/* How long the calling thread has held a GIL and waited for one in this session, the hold that goes
 * on included. Any thread may call it.
 *
 * Returns 0 with both in nanoseconds, or -ESRCH when there is no session. */
HW_API int hw_gil_times(int64_t *hold_ns, int64_t *wait_ns);

/* How long the calling thread's longest hold and longest wait were since it last asked this, or
 * since its first event; of a hold that began before, what came after. Any thread may call it.
 *
 * Returns 0 with both in nanoseconds, or -ESRCH when there is no session. */
HW_API int hw_gil_longest(int64_t *hold_ns, int64_t *wait_ns);

/* Walks the stack of the thread whose PyThreadState is given, the caller's own, from the innermost
 * frame on.
 *
 * Returns how many frames there are, at most `max`. */
HW_API int hw_trace_walk(const struct hw_stack_layout *layout, const void *thread_state,
                         struct hw_trace_frame *frames, int max);

#endif
