// SPDX-License-Identifier: MIT
#ifndef HEADWAY_TRACE_H
#define HEADWAY_TRACE_H

#include <stdint.h>

#include "headway/api.h"

/* The recorder: records which thread of this process holds the GIL and which threads wait for it.
 * It writes events into memory that native/trace/format.h describes; a collector copies them to a
 * file (headway/collect.h). There is one session at a time. The caller must hold the GIL of the
 * main interpreter unless a function says otherwise. */

/* Where the interpreter keeps the parts of a stack, as offsets in bytes from the beginning of the
 * object or struct that is named first. The caller finds the offsets out in the running interpreter
 * and checks them with hw_trace_walk(). CPython 3.11 and later. The fields that each event needs
 * come first and fit one cache line. */
struct hw_stack_layout {
    uint64_t code_type;        /* the address of PyCode_Type */
    uint64_t shim_code;        /* the code of frames where C calls the interpreter, or 0 */
    uint64_t cleanup_code;     /* the code of frames below an inlined `__init__`, or 0 */
    int32_t thread_frame;      /* PyThreadState: the innermost frame, or a _PyCFrame */
    int32_t cframe_frame;      /* _PyCFrame: the innermost frame; below 0: there is no _PyCFrame */
    int32_t frame_code;        /* _PyInterpreterFrame: the code object (the low 3 bits are tags) */
    int32_t frame_previous;    /* _PyInterpreterFrame: the caller's frame */
    int32_t frame_instruction; /* _PyInterpreterFrame: the instruction */
    int32_t code_first_line;   /* PyCodeObject: the first line, an int */
    int32_t code_filename;     /* PyCodeObject: the file name */
    int32_t code_qualname;     /* PyCodeObject: the qualified name */
    int32_t code_linetable;    /* PyCodeObject: the line table */
    int32_t code_instructions; /* PyCodeObject: the first instruction */
    int32_t object_type;       /* PyObject: the type */
    int32_t object_bytes;      /* sizeof(PyObject) */
    int32_t string_state;      /* PyASCIIObject: a 32-bit field of bits */
    int32_t string_kind_shift; /* in `string_state`: the shift of the 3 bits for 1, 2 or 4 bytes */
    int32_t string_ascii;      /* the text of an ASCII string */
    int32_t string_other;      /* the text of any other string */
};

struct hw_trace_options {
    const char *door; /* the Unix socket of the collector, which writes the file; "": there is no
                         collector, and the newest events stay in memory */
    int64_t bytes;    /* the size of the events in memory; 0: counters only */
    uint64_t family;  /* the same number in all processes of one launch */
    uint32_t python_version;
    uint32_t free_threaded; /* 1: the interpreter is a free-threaded build */
    uint32_t gil_enabled;   /* 1: the GIL is on */
    const char *command;    /* the arguments, with a NUL after each */
    uint32_t command_bytes;
    uint32_t has_layout; /* 1: `layout` is valid; 0: no stacks are recorded */
    const char *executable;
    const char *program;
    struct hw_stack_layout layout;
};

/* A frame that hw_trace_walk() has found. */
struct hw_trace_frame {
    uint64_t code;  /* the code object's address */
    int64_t offset; /* bytes from the code object's first instruction */
};

/* hw_trace_start(): what an errno is increased by if memfd_create() failed with it. */
#define HW_TRACE_NO_MEMFD 4096

/* Starts a session: finds the GIL, installs the hooks and makes the memory. Releases the GIL for a
 * moment.
 *
 * Returns 0, or a negative errno with nothing changed: -EALREADY if there is a session, or another
 * thread starts one at this moment, -ECONNREFUSED and similar errors if there is no collector,
 * -ENOMEM without memory, -EFBIG if the limit on the size of files is too small for it,
 * -(HW_TRACE_NO_MEMFD + errno) if the system refuses it, -ENOENT if the process has no interpreter,
 * -ENXIO if the interpreter's calls cannot be hooked (a static build), -EPROTO if its GIL is not as
 * expected, -ETIMEDOUT if the GIL is not known yet and the caller does not hold it. */
HW_API int hw_trace_start(const struct hw_trace_options *options);

/* Ends the session and removes the hooks. The memory is complete then.
 *
 * Returns 0, or -ESRCH if there is no session. */
HW_API int hw_trace_stop(void);

/* Returns 0 without a session, 1 with a session, or 2 with a session that only counts. Any thread
 * may call this function.
 *
 * In a forked child, this function and those that ask about the session below are about the child's
 * session, never about its parent's. If the child has had no event yet, they make its memory. */
HW_API int hw_trace_active(void);

/* Returns the path of the file that the collector writes; "" if there is no collector or it has not
 * told the path yet. The string is valid until the next call of any function of this file. */
HW_API const char *hw_trace_path(void);

/* Returns the time (CLOCK_MONOTONIC, in ns) up to which the recorded events are in the collector's
 * file, or 0 if none are. */
HW_API int64_t hw_trace_collected_ns(void);

/* Returns the number of the session if it has no collector, or 0. No other session of this process
 * has the same number. Any thread may call this function. */
HW_API uint64_t hw_trace_in_memory(void);

/* The memory of a session without a collector, kept beyond the session's end. It is kept by a
 * mapping and not by a descriptor, which the program might close. */
struct hw_trace_kept {
    void *page;       /* the beginning of the memory */
    uint64_t bytes;   /* of the whole memory */
    uint64_t session; /* as of hw_trace_in_memory() */
};

/* Keeps the memory of the present session for hw_collect_open_kept(), until hw_trace_let_go(). Any
 * thread may call this function.
 *
 * Returns 0 or a negative errno: -ESRCH if there is no session without a collector, -EPERM if a
 * filter forbids mremap(), -ENOMEM. */
HW_API int hw_trace_keep(struct hw_trace_kept *kept);

/* Undoes hw_trace_keep(). A forked child does so for itself. */
HW_API void hw_trace_let_go(struct hw_trace_kept *kept);

/* Tells how many threads the session has seen, and how often threads other than the calling one
 * have acquired a GIL. If both are as before, no other thread has had a GIL meanwhile.
 *
 * Returns 0, or -ESRCH if there is no session. */
HW_API int hw_trace_others(uint64_t *threads, uint64_t *holds);

/* Sets the name that Python gives a thread, from now on. `name` is UTF-8. Does nothing without a
 * session, or while another thread forks: the name is then not recorded.
 *
 * The caller may hold the GIL of any interpreter. This function can't fail. */
HW_API void hw_trace_name(int32_t tid, const char *name);

/* Records a note, which is JSON in UTF-8 (src/headway/traces/notes.py). Does nothing without a
 * session, while another thread forks, or if the note does not fit in a chunk.
 *
 * The caller may hold the GIL of any interpreter. This function can't fail. */
HW_API void hw_trace_note(const char *text);

/* Tells that the calling thread begins to collect garbage (`ends` is 0), or has ended. Collections
 * below a millisecond are not recorded, except those of the oldest generation. Records nothing
 * without a session, while another thread forks, or for a thread that is not known to hold a GIL.
 * The caller must hold the GIL of the main interpreter. */
HW_API void hw_trace_collection(uint32_t generation, int ends);

/* Gives the total times that the calling thread has held a GIL and waited for one in this session,
 * its present hold included. Any thread may call this function.
 *
 * Returns 0 with both in nanoseconds, or -ESRCH if there is no session. */
HW_API int hw_gil_times(int64_t *hold_ns, int64_t *wait_ns);

/* Gives the calling thread's longest hold and longest wait since its last call of this function, or
 * since its first event. Of a hold that began before the last call, only the part after it counts.
 * Any thread may call this function.
 *
 * Returns 0 with both in nanoseconds, or -ESRCH if there is no session. */
HW_API int hw_gil_longest(int64_t *hold_ns, int64_t *wait_ns);

/* Walks the stack of the calling thread, from the innermost frame on. `thread_state` must be the
 * PyThreadState of the calling thread.
 *
 * Returns the number of frames, at most `max`. */
HW_API int hw_trace_walk(const struct hw_stack_layout *layout, const void *thread_state,
                         struct hw_trace_frame *frames, int max);

#endif
