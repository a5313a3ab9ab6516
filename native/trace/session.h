// SPDX-License-Identifier: MIT
/* A session: from the start of recording to its end, in a memory of the process's own (format.h,
 * control.h). Nothing here touches a file system, and nothing waits: no hook does.
 *
 * There are three kinds. A session that is *collected* hands its memory to a collector, another
 * process, which writes the file and outlives this one (drain.h). One that is not keeps its newest
 * events in memory, for who asks for them (hw_trace_memory()). One without chunks counts only.
 *
 * Crash: the memory lives on with the collector.
 *
 * Fork: the mapping is shared with the child, which must not write into its parent's memory. A
 * pthread_atfork() handler marks the session as inherited. The child's first event makes a memory
 * of its own, if the session is collected or counts only, and drops the parent's mapping; else the
 * child is not recorded. A child that only calls exec() leaves nothing.
 *
 * exec(): ends the session without a word, as a kill does; `end_ns` stays 0. */
#ifndef HEADWAY_TRACE_SESSION_H
#define HEADWAY_TRACE_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/parts.h"
#include "trace/control.h"
#include "trace/format.h"

#define HW__MAX_THREADS 32768 /* alive at a time; further ones are not recorded, and counted */
#define HW__DOOR_BYTES 108    /* of a Unix socket's path: sizeof sun_path */

/* What is told to the memory about the process. */
struct hw__session_facts {
    uint64_t family;
    uint32_t python_version;
    uint32_t flags;
    uint32_t interval_us;
    const char *command; /* HW__COMMAND_BYTES at most, a NUL after each argument */
    uint32_t command_bytes;
    const char *executable;
    const char *program;
    const struct hw_stack_layout *layout; /* NULL: no stacks */
};

/* What of a session's memory is mapped. The first mapping has the header, the slots, the claims and
 * the first chunks; more chunks are mapped when so many are needed. */
struct hw__mapped {
    size_t bytes;                   /* of the first mapping */
    uint32_t first_chunks;          /* in it; a power of two where there are more */
    uint32_t all_chunks;            /* of the memory, be they mapped or not */
    _Atomic uint32_t chunks;        /* that can be used. Release, and acquire */
    char *_Atomic parts[HW__PARTS]; /* of chunks (base/parts.h). Release, and acquire */
};

struct hw__session {
    /* What each event looks at stands together. */
    _Atomic uint64_t id; /* changes with each session and in each child; 0: there never was one */
    struct hw__header *header; /* the mapping's start */
    struct hw__control *control;
    _Atomic bool active; /* changed with the registry's lock held and no hook busy */
    /* Not 0: the process was forked and has no memory of its own yet. Set by the atfork handler;
     * the child's first event makes it HW__ADOPTING and, when it has a memory, 0. In a
     * free-threaded build other threads of the child may have events meanwhile: they are dropped.
     */
    _Atomic int inherited;
    char door[HW__DOOR_BYTES]; /* the collector's socket; "": there is none */
    int fd;                    /* of a session without a collector, for others to find; else -1 */
    dev_t fd_device;           /* what the descriptor is of: the program may have closed it, ... */
    ino_t fd_inode;            /* ... and have a file of its own there by now */
    size_t bytes;              /* of the memory, be they mapped or not */
    struct hw__slot *slots;
    _Atomic uint32_t *claims;
    struct hw__mapped mapped;
    /* What the memory says of it may be changed from outside. 0: it only counts. Relaxed. */
    _Atomic uint32_t chunk_count;
};

/* session.inherited */
#define HW__INHERITED 1
#define HW__ADOPTING 2
#define HW__LOST 3 /* there can be no memory: the session is over */

extern struct hw__session hw__session;

/* Makes the memory, with room for events of `bytes` (0: counters only), and hands it to the
 * collector behind `door`, or with "" to nobody.
 *
 * Returns 0, or a negative errno with nothing left behind. */
int hw__session_open(const char *door, int64_t bytes, const struct hw__session_facts *facts);

/* Notes on how many cores the calling thread may run. */
void hw__session_note_cores(struct hw__header *header);

/* Ends the session: stamps the end, unmaps it. No hook may be in the middle of writing: see
 * hw_trace_stop(). */
void hw__session_close(void);

/* Forgets an inherited session, in a child that ends it before its first event. */
void hw__session_abandon(void);

/* Makes the memory of a forked child. Called by its first event.
 *
 * Returns false when it cannot be had; the session is then over. */
bool hw__session_adopt(void);

/* Marks the session as inherited, in the child. Async-signal-safe. */
void hw__session_after_fork(void);

/* Takes a chunk. Lock-free, and without a system call but where more of the memory is to be mapped.
 *
 * Returns it open and empty, or NULL when there is none. */
struct hw__chunk *hw__session_chunk(uint32_t kind, uint32_t owner, int32_t tid);

/* Nothing more is written to the chunk, which is of that kind. */
void hw__session_close_chunk(struct hw__chunk *chunk, uint32_t kind);

#endif
