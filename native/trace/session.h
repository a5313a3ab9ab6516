// SPDX-License-Identifier: MIT
/* A session: a recording from its start to its end, into a memory of the process's own (format.h,
 * control.h). No function here touches a file system, and none waits, as hooks must do neither.
 * hw__session_adopt() is an exception, once in a child: it waits for a process that tries system
 * calls (base/allowed.h), and connects to the collector's socket by its path.
 *
 * There are three kinds of sessions:
 *
 * - A collected session hands its memory to a collector, another process, which writes the file and
 *   outlives this process (headway/collect.h).
 * - A session that is not collected keeps its newest events in memory, for callers that ask for
 *   them (hw_trace_keep()).
 * - A session without chunks only counts.
 *
 * Crash: the memory lives on with the collector.
 *
 * Fork: the child shares the parent's mapping, and must not write into its parent's memory. A
 * pthread_atfork() handler marks the session as inherited. If the session is collected or only
 * counts, the child's first event makes a memory of the child's own and drops the parent's mapping;
 * otherwise the child is not recorded. A question about the session does the same, where it comes
 * before the first event (trace.c). A child that only calls exec() leaves nothing behind.
 *
 * exec(): ends the session without notice, as a kill does; `end_ns` stays 0. */
#ifndef HEADWAY_TRACE_SESSION_H
#define HEADWAY_TRACE_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/parts.h"
#include "headway/trace.h"
#include "trace/control.h"
#include "trace/format.h"

/* Threads alive at a time. Further ones are not recorded. Their events of GILs count as dropped;
 * their parks are not counted. */
#define HW__MAX_THREADS 32768
#define HW__DOOR_BYTES 108 /* of a Unix socket's path: sizeof sun_path */

/* The facts about the process that go into the memory's header. */
struct hw__session_facts {
    uint64_t family;
    uint32_t python_version;
    uint32_t flags;
    uint32_t interval_us;
    const char *command; /* at most HW__COMMAND_BYTES, a NUL after each argument */
    uint32_t command_bytes;
    const char *executable;
    const char *program;
    const struct hw_stack_layout *layout; /* NULL: no stacks */
};

/* The parts of a session's memory that are mapped. The first mapping has the header, the slots, the
 * claims and the first chunks. Further chunks are mapped when they are needed. */
struct hw__mapped {
    size_t bytes;            /* of the first mapping */
    uint32_t first_chunks;   /* chunks of the first mapping; a power of two if there are more */
    uint32_t all_chunks;     /* chunks of the memory, mapped or not */
    _Atomic uint32_t chunks; /* chunks that are mapped, and can be used. Release and acquire */
    /* Mappings of chunks, as in base/parts.h. Release and acquire. */
    char *_Atomic parts[HW__PARTS];
};

/* The session of this process. The fields that every event reads come first, close together. */
struct hw__session {
    /* Changes with each session and in each child; 0: there was no session yet. */
    _Atomic uint64_t id;
    struct hw__header *header; /* the start of the first mapping */
    struct hw__control *control;
    /* There is a session. Changed with the registry's lock held and no hook busy; and by
     * hw__adopt() in a forked child that cannot be recorded. */
    _Atomic bool active;
    /* Not 0: the process was forked and has no memory of its own yet. The atfork handler sets
     * HW__INHERITED. The child's first event changes it to HW__ADOPTING, and then to 0, or to
     * HW__LOST if the child cannot have a memory. Meanwhile other threads of the child may have
     * events, in a free-threaded build; these are dropped. */
    _Atomic int inherited;
    char door[HW__DOOR_BYTES]; /* path of the collector's socket; "": there is no collector */
    /* The memory's descriptor, in a session without a collector, for `headway top` to find; else
     * -1. No recording is read through it: see hw_trace_keep(). */
    int fd;
    /* The device of the memory that `fd` was opened for: the program may have closed `fd`, and have
     * a file of its own there by now. */
    dev_t fd_device;
    ino_t fd_inode; /* the inode of that memory, for the same reason */
    size_t bytes;   /* of the memory, mapped or not */
    struct hw__slot *slots;
    _Atomic uint32_t *claims;
    struct hw__mapped mapped;
    /* The number of chunks, which counts here since the copy in the memory may be changed from
     * outside. 0: the session only counts. Relaxed. */
    _Atomic uint32_t chunk_count;
    _Atomic uint32_t meta_count; /* meta chunks that were taken, in a session without a collector */
    _Atomic uint32_t heard;      /* the last sign of life of the collector that was seen */
    _Atomic int64_t looked_ns;   /* when a thread last looked for one */
    _Atomic int64_t silence_ns;  /* for how long threads have looked in vain */
    _Atomic bool silent;         /* for HW__SILENT_NS there was none: no chunk is taken. Relaxed */
    _Atomic bool let_go;         /* hw__session_let_go() was called */
};

/* session.inherited */
#define HW__INHERITED 1
#define HW__ADOPTING 2
#define HW__LOST 3 /* the child cannot have a memory: the session is over */

extern struct hw__session hw__session;

/* Makes the memory, with room for `bytes` of events (0: counters only), and hands it to the
 * collector at the socket `door`; with "" it is handed to nobody.
 *
 * Returns 0; or a negative errno, with nothing left behind. */
int hw__session_open(const char *door, int64_t bytes, const struct hw__session_facts *facts);

/* Writes into the header on how many cores the calling thread may run. errno is preserved. */
void hw__session_note_cores(struct hw__header *header);

/* Writes the policy that is on, if any, and its options into the header, unless one is there
 * already; if it is this one, with the same options, it is on again. With the registry's lock held,
 * or in a child's first event: no thread of the child has begun a policy before that. */
void hw__session_note_policy(void);

/* Writes into the header that the policy has ended, unless it had ended before. With the registry's
 * lock held. */
void hw__session_note_policy_end(void);

/* Maps the beginning of the memory once more, so that the memory outlives the session. With the
 * registry's lock held. Returns 0 or a negative errno. */
int hw__session_keep(struct hw_trace_kept *kept);

/* Without a sign of life of the collector for HW__SILENT_NS, no chunk is taken, until there is one:
 * the collector may stand still. After HW__GONE_NS the collector counts as gone. */
#define HW__SILENT_NS INT64_C(2000000000)
#define HW__GONE_NS INT64_C(60000000000)
#define HW__GAP_NS INT64_C(500000000) /* the most that the time between two looks counts */

/* Returns for how long the threads have looked in vain for a sign of life of the collector; 0:
 * there is a new one, there never was one, or there is no collector. Must be called with the
 * present time before a chunk is taken for events. Async-signal-safe; can't fail. */
int64_t hw__session_silence_ns(int64_t now_ns);

/* Gives the memory of a collected session, which is over, back to the system, unless the collector
 * still has it. All addresses stay mapped, to empty memory: other hooks may be about to write
 * there. Makes some calls of mmap(2), once. errno is preserved; can't fail. */
void hw__session_let_go(void);

/* Ends the session: writes its end time, and unmaps the memory. No hook may be writing: see
 * hw_trace_stop(). */
void hw__session_close(void);

/* Drops an inherited session, in a child that ends it before its first event. */
void hw__session_abandon(void);

/* Makes the memory of a forked child. Called by the child's first event, or first question.
 *
 * Returns false if the child cannot have a memory; the session is then over. */
bool hw__session_adopt(void);

/* Marks the session as inherited. Called in the forked child. Async-signal-safe. */
void hw__session_after_fork(void);

/* Takes a chunk for the given owner. Lock-free; makes a system call only if more of the memory must
 * be mapped.
 *
 * Returns the chunk, open and empty, or NULL if there is none. */
struct hw__chunk *hw__session_chunk(uint32_t kind, uint32_t owner, int32_t tid);

/* Closes a chunk, which must be of that kind: nothing more is written to it. */
void hw__session_close_chunk(struct hw__chunk *chunk, uint32_t kind);

#endif
