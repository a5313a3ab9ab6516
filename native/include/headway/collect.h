// SPDX-License-Identifier: MIT
#ifndef HEADWAY_COLLECT_H
#define HEADWAY_COLLECT_H

#include <stdint.h>

#include "headway/api.h"

/* The collector: copies the events that a traced process records from its memory into a file. The
 * collector runs in another process; memory that no collector reads can be copied in the same
 * process. native/trace/format.h describes both the memory and the file.
 *
 * The memory may belong to a hostile process: whatever it contains, the collector reads and writes
 * nothing outside of the memory and the file. Only one thread at a time may use a collection. */

struct hw_collection;

/* The most bytes of chunks that a collected process may have. Memory with more is rejected. */
#define HW_COLLECT_MOST_BYTES (128u << 20)

/* The state of a collection after a pass. */
struct hw_collect_state {
    int32_t pid;    /* the process id, as the process reports it, in its own PID namespace */
    int32_t ended;  /* 1: the session has ended, and a later pass finds nothing new */
    int64_t chunks; /* chunks of the file that are in use */
    int64_t dropped_events; /* events dropped for lack of memory or because a write failed */
    int64_t lost_children;  /* children of the process that could not reach their collector */
    int32_t error;          /* errno of the last write that failed, or 0 */
    int32_t closed; /* chunks that this pass copied completely and returned to the process */
    int64_t overwritten_until_ns; /* time of the last event that was overwritten, or 0 */
    int64_t lost_meta; /* chunks of names, code and stacks for which the file had no room */
};

/* Checks and maps the memory that a traced process has sent.
 *
 * memory: its descriptor; the caller keeps it.
 * file:   the descriptor of the file; the caller keeps it, and must keep it open.
 * path:   the file's path, which the process is told; NULL: nobody collects this memory while the
 *         process fills it.
 *
 * Returns NULL with errno set on failure: EPROTO if the memory does not have the expected format,
 * is larger than a collected process would make it, or could shrink. */
HW_API struct hw_collection *hw_collect_open(int memory, int file, const char *path);

struct hw_trace_kept;

/* Maps a memory that this process has kept (headway/trace.h), as hw_collect_open() does without a
 * path.
 *
 * Returns NULL with errno set on failure. */
HW_API struct hw_collection *hw_collect_open_kept(const struct hw_trace_kept *kept, int file);

/* Returns the family of the process, as the process reports it. */
HW_API uint64_t hw_collect_family(const struct hw_collection *collection);

/* Tells when the process began, in CLOCK_REALTIME; 0: that is not known. The file has it from the
 * next pass on. */
HW_API void hw_collect_began(struct hw_collection *collection, int64_t realtime_ns);

/* Tells a time (CLOCK_MONOTONIC) at which the process still ran the program that it records. The
 * file has it from the next pass on: a process that is killed records no end. */
HW_API void hw_collect_lived(struct hw_collection *collection, int64_t until_ns);

/* Limits the file to `chunks` chunks of 16 KiB. In a full file, new events overwrite the oldest
 * ones. If the file already has more chunks, the next pass removes some.
 *
 * Chunks that have no events, but names, code and stacks, are never overwritten, since later events
 * refer to them. When they have half of the file, the process records new stacks as unknown. */
HW_API void hw_collect_limit(struct hw_collection *collection, int64_t chunks);

/* Counts the chunks that have no events apart from the others, and limits them to `chunks`. Further
 * ones are lost: the process goes on describing stacks. */
HW_API void hw_collect_limit_meta(struct hw_collection *collection, int64_t chunks);

/* Limits the process to `chunks` chunks in memory. 0: refuses the process, which then says that it
 * is not recorded. */
HW_API void hw_collect_share(struct hw_collection *collection, uint32_t chunks);

/* Gives the process a sign of life. After the first one the process waits for others: without one
 * for two seconds it takes no more chunks until the next, and without one for a minute it ends its
 * recording. Another thread than that of the passes may call this function and hw_collect_share().
 */
HW_API void hw_collect_beat(struct hw_collection *collection);

/* Copies the new events to the file and fills `state`. `last`: the process or the session has
 * ended.
 *
 * Waits for nothing but the file system. This function can't fail: events that cannot be written
 * are counted in `state`. */
HW_API void hw_collect_pass(struct hw_collection *collection, int last,
                            struct hw_collect_state *state);

/* Homes: the places where a thread waits when it has nothing to do. */
#define HW_HOME_NONE 1 /* no home: the thread is somewhere else */
#define HW_HOME_LOOP 2 /* an event loop in its poll */
#define HW_HOME_POOL 3 /* a thread of a pool at its queue */
#define HW_HOMES 4
#define HW_HOME_OUTSIDE 4 /* for hw_collect_settle(): no home, and outside of any event loop */
#define HW_HOME_REQUEST 5 /* the same, in a request that a pool's thread answers */
#define HW_LAP_BUCKETS 40
#define HW_LAP_LOOPS 32
#define HW_LAP_LAST 32
#define HW_LAP_UNDER_WAY 128

/* A lap that took too long. `away` is the longest time in it in which the thread neither had nor
 * wanted the GIL, as far as it was seen. */
struct hw_lap {
    uint32_t serial; /* of its thread */
    uint32_t home;   /* HW_HOME_*: where it began */
    int64_t begun_ns;
    int64_t ended_ns;      /* 0: it goes on */
    int64_t away_since_ns; /* 0: the thread was never away */
    int64_t away_until_ns; /* 0: the thread still is */
    uint32_t away_stack; /* the number in the file of the stack at which it yielded the GIL then */
    uint32_t unused;
};

/* Laps of threads. A lap begins when a thread leaves a home and ends when it is at a home. `late`,
 * `lengths` and `lengths_ns` are totals since hw_collect_watch(). */
struct hw_laps {
    uint64_t late[HW_HOMES];          /* laps that took too long, by the home where they began */
    uint64_t lengths[HW_LAP_BUCKETS]; /* [i] counts event loops' laps with bit length i in ns */
    uint64_t lengths_ns;              /* the sum of all laps that `lengths` counts */
    uint32_t open[HW_HOMES];          /* laps under way that have taken too long already */
    uint32_t loop_count;              /* threads with an event loop, at most HW_LAP_LOOPS */
    uint32_t loops[HW_LAP_LOOPS];     /* the serials of these `loop_count` threads */
    uint32_t under_way_count;         /* laps that `open` counts, at most HW_LAP_UNDER_WAY */
    struct hw_lap under_way[HW_LAP_UNDER_WAY];
    /* The newest laps that late[home] counts, as far as their begins are known: lap n of a home,
     * from 0, is at [home][n % HW_LAP_LAST], which may have an older one. A serial of 0: none. */
    struct hw_lap last[HW_HOMES][HW_LAP_LAST];
};

/* Counts laps from now on. A lap of at least least_ns[home], by the home where it began, is too
 * long. From now on the process no longer reads its threads' CPU times; a process that watches it
 * must ask the operating system for them (schedstat).
 *
 * Returns 0 or -ENOMEM. */
HW_API int hw_collect_watch(struct hw_collection *collection, const int64_t least_ns[HW_HOMES]);

/* Fills `stacks` with stacks at which threads have yielded the main GIL and which no earlier call
 * has returned. A stack is given by its number in the file. The stack itself may come into the file
 * later: a pass copies each closed chunk, but open ones, such as that of the newest stacks, less
 * often.
 *
 * Returns the number of stacks, at most `max`. */
HW_API int hw_collect_fresh(struct hw_collection *collection, uint32_t *stacks, int max);

/* Tells which home (HW_HOME_*) a stack is. A thread that yields the GIL outside of any event loop
 * has left its loop, and the lap that it was in does not count. In a request, a thread that was at
 * no home before is in a lap since its first event. */
HW_API void hw_collect_settle(struct hw_collection *collection, uint32_t stack, int home);

/* Fills `told` with the laps up to the last pass. */
HW_API void hw_collect_laps(struct hw_collection *collection, int64_t now_ns, struct hw_laps *told);

/* The times, in ns, after which a thread is worth a look from outside. */
struct hw_look {
    int64_t hold_ns; /* a thread has held a GIL for at least this long */
    int64_t wait_ns; /* a thread has waited for a GIL for at least this long */
    int64_t
        still_ns; /* a thread with an event loop has done something else than poll for this long */
    /* A thread yielded the GIL this long ago. Such a thread is worth about two looks, as it passes
     * this time. */
    int64_t away_ns;
};

#define HW_WAIT_OVER 0   /* the time is over, or the memory of a process fills */
#define HW_WAIT_READY 1  /* the descriptor is readable, or a signal has arrived */
#define HW_WAIT_THREAD 2 /* a thread is worth a look */

/* Waits until the time `until_ns` (CLOCK_MONOTONIC), and looks at the threads of all processes
 * every `tick_ns`. Returns early if the descriptor is readable, if a signal arrives or, at the end
 * of a tick, if a thread is worth a look, or if a memory fills. The caller must have called
 * hw_collect_watch() for each collection.
 *
 * Returns HW_WAIT_*. */
HW_API int hw_collect_wait(struct hw_collection *const *collections, int count,
                           const struct hw_look *least, int64_t tick_ns, int64_t until_ns,
                           int descriptor);

/* Returns whether the process has taken much of its share of memory since the last pass, as many
 * short threads do, so that a pass is due. */
HW_API int hw_collect_fills(const struct hw_collection *collection);

/* Makes the next pass copy all events, those in chunks that threads still write to included. */
HW_API void hw_collect_hurry(struct hw_collection *collection);

/* Unmaps the memory and frees the collection. */
HW_API void hw_collect_close(struct hw_collection *collection);

#endif
