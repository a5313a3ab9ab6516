// SPDX-License-Identifier: MIT
#ifndef HEADWAY_COLLECT_H
#define HEADWAY_COLLECT_H

#include <stdint.h>

#include "headway/api.h"

/* Copying what a traced process records from its memory into a file, in another process (or, for a
 * memory that nobody collects, in the same one). Both are described in native/trace/format.h.
 *
 * The memory may be a hostile process's: whatever it contains, nothing is read or written outside
 * it and the file. One thread at a time uses a collection. */

struct hw_collection;

/* What a process may have in chunks, if it is collected. A memory with more is none of ours. */
#define HW_COLLECT_MOST_BYTES (128u << 20)

/* What a collection did up to now. */
struct hw_collect_state {
    int32_t pid;    /* as the process says; of its own PID namespace */
    int32_t ended;  /* 1: the session is over, and a pass after this one finds nothing */
    int64_t chunks; /* of the file, in use */
    int64_t
        dropped_events;    /* as the file says: for want of memory, or since it cannot be written */
    int64_t lost_children; /* children of the process that could not reach their collector */
    int32_t error;         /* of the last write that failed: an errno, or 0 */
    int32_t closed;        /* chunks that were complete in this pass, and given back */
    int64_t overwritten_until_ns; /* of the events that made room, when the last one was; or 0 */
};

/* Maps a memory that was received, after having checked it.
 *
 * `memory` and `file` stay the caller's, and `file` must stay open. `path` is told to the process;
 * NULL: the memory is not collected as it fills. Returns NULL with errno set: EPROTO where the
 * memory is none of ours, has more than a process that is collected would make, or could shrink. */
HW_API struct hw_collection *hw_collect_open(int memory, int file, const char *path);

/* Which family the process belongs to, as it says. */
HW_API uint64_t hw_collect_family(const struct hw_collection *collection);

/* Lets the file have so many chunks of 16 KiB; then the oldest events make room. Fewer than it has:
 * the next pass removes some. */
HW_API void hw_collect_limit(struct hw_collection *collection, int64_t chunks);

/* Lets the process have so many chunks in memory. */
HW_API void hw_collect_share(struct hw_collection *collection, uint32_t chunks);

/* Copies what is new. `last`: the process is gone, or the session over.
 *
 * It waits for the file system only. This function can't fail: what cannot be written is counted.
 */
HW_API void hw_collect_pass(struct hw_collection *collection, int last,
                            struct hw_collect_state *state);

/* What a thread waits for where it has nothing to do. */
#define HW_HOME_NONE 1 /* it is somewhere else */
#define HW_HOME_LOOP 2 /* an event loop in its poll */
#define HW_HOME_POOL 3 /* a pool's thread at its queue */
#define HW_HOMES 4
#define HW_LAP_BUCKETS 40
#define HW_LAP_LOOPS 32

/* Laps of threads: from when one leaves such a place until it is back. Counts are of the whole
 * time. */
struct hw_laps {
    uint64_t late[HW_HOMES];          /* that took too long, by where they began */
    uint64_t lengths[HW_LAP_BUCKETS]; /* [i] counts event loops' laps with bit length i in ns */
    uint64_t lengths_ns;              /* of all of these */
    uint32_t open[HW_HOMES];          /* that take too long already, and go on */
    uint32_t loop_count;              /* threads with an event loop ... */
    uint32_t loops[HW_LAP_LOOPS];     /* ... their serials */
};

/* Has laps told from now on: those that take at least so long, by where they began, are too long.
 * The process reads no CPU times from now on: who watches it asks the system for them (schedstat).
 *
 * Returns 0 or -ENOMEM. */
HW_API int hw_collect_watch(struct hw_collection *collection, const int64_t least_ns[HW_HOMES]);

/* Gives the stacks at which threads have let the main GIL go by themselves and that were not given
 * before, by the file's numbers. They are in the file. Returns how many, at most `max`. */
HW_API int hw_collect_fresh(struct hw_collection *collection, uint32_t *stacks, int max);

/* Says what a stack is: HW_HOME_*. */
HW_API void hw_collect_settle(struct hw_collection *collection, uint32_t stack, int home);

/* Tells the laps up to the last pass. */
HW_API void hw_collect_laps(struct hw_collection *collection, int64_t now_ns, struct hw_laps *told);

/* From which lengths on, in ns, a thread is worth a look from outside. */
struct hw_look {
    int64_t hold_ns;  /* it holds a GIL */
    int64_t wait_ns;  /* it waits for one */
    int64_t still_ns; /* it has an event loop, and does something that is not its poll */
    int64_t away_ns; /* it has let the GIL go: worth two looks or so, as it goes over that length */
};

#define HW_WAIT_OVER 0   /* the time is over */
#define HW_WAIT_READY 1  /* the descriptor has something, or a signal has come */
#define HW_WAIT_THREAD 2 /* a thread is worth a look */

/* Waits until a time (CLOCK_MONOTONIC), and looks at the threads of processes every `tick_ns`; ends
 * sooner for the reasons above, after one tick at least. hw_collect_watch() was called for each. */
HW_API int hw_collect_wait(struct hw_collection *const *collections, int count,
                           const struct hw_look *least, int64_t tick_ns, int64_t until_ns,
                           int descriptor);

/* Has the next pass copy all that there is, also what threads are still writing to. */
HW_API void hw_collect_hurry(struct hw_collection *collection);

/* Unmaps the memory. */
HW_API void hw_collect_close(struct hw_collection *collection);

#endif
