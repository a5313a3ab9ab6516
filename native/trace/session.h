// SPDX-License-Identifier: MIT
/* A session: from the start of tracing to its end, with one file (format.h), mapped as a whole.
 *
 * Chunks are taken without a lock. A page of the file is never touched before the kernel has
 * promised room for it, so that a full disk costs events and not the program's life (SIGBUS).
 *
 * Crash: what was written is in the page cache, which outlives the process.
 *
 * Fork: the mapping is shared with the child, which must not write into its parent's file. A
 * pthread_atfork() handler marks the session as inherited; the child's first event makes a file of
 * its own beside its parent's and drops the parent's mapping. A child that only calls exec() leaves
 * no file.
 *
 * exec(): ends the session without a word, as a kill does; `end_ns` stays 0. */
#ifndef HEADWAY_TRACE_SESSION_H
#define HEADWAY_TRACE_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/format.h"

#define HW__MAX_THREADS 4096 /* alive at a time; further ones are counted as dropped events */
#define HW__PATH_MAX 4096

/* What is told to the file about the process. */
struct hw__session_facts {
    uint64_t family;
    uint32_t python_version;
    uint32_t flags;
    uint32_t interval_us;
    const char *command; /* HW__COMMAND_BYTES at most, a NUL after each argument */
    uint32_t command_bytes;
    const char *executable;
    const char *program;
};

struct hw__session {
    /* What each event looks at stands together. */
    _Atomic uint64_t id; /* changes with each session and in each child; 0: there never was one */
    struct hw__header *header; /* the mapping's start */
    _Atomic bool active;       /* changed with the registry's lock held and no hook busy */
    _Atomic bool in_memory;    /* `path` is "" */
    /* Not 0: the process was forked and has no file of its own yet. Set by the atfork handler; the
     * child's first event makes it HW__ADOPTING and, when it has a file, 0. In a free-threaded
     * build other threads of the child may have events meanwhile: they are dropped. */
    _Atomic int inherited;
    char path[HW__PATH_MAX]; /* "" for memory only */
    int fd;                  /* of a session in memory, for other processes to find; else -1 */
    dev_t device;            /* of the file */
    ino_t inode;
    size_t bytes;
    struct hw__slot *slots;
    char *chunks;
    /* How many chunks may be in use: chunk_count, or less when the disk is full. Only shrinks. */
    _Atomic uint32_t limit;
};

/* session.inherited */
#define HW__INHERITED 1
#define HW__ADOPTING 2

extern struct hw__session hw__session;

/* Makes the file, which must not exist, with room for events of `max_bytes`; path "" makes a
 * session in memory (memfd) with counters only.
 *
 * Returns 0, or a negative errno with nothing left behind. */
int hw__session_open(const char *path, int64_t max_bytes, const struct hw__session_facts *facts);

/* Ends the session: stamps the end, cuts the file to what was used, unmaps it. No hook may be in
 * the middle of writing: see hw_trace_stop(). */
void hw__session_close(void);

/* Forgets an inherited session, in a child that ends it before its first event. */
void hw__session_abandon(void);

/* Makes the file of a forked child. Called by its first event.
 *
 * Returns false when it cannot be had; the session is then over. */
bool hw__session_adopt(void);

/* Marks the session as inherited, in the child. Async-signal-safe. */
void hw__session_after_fork(void);

/* Takes a chunk. Lock-free; makes system calls (madvise) where the chunk is new.
 *
 * Returns it open and empty, or NULL when there is none. */
struct hw__chunk *hw__session_chunk(uint32_t kind, uint32_t owner, int32_t tid);

/* Asks the kernel for room in the pages of [start, start + bytes) of the mapping.
 *
 * Returns whether they can be written. */
bool hw__session_room(void *start, size_t bytes);

#endif
