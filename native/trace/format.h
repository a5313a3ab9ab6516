// SPDX-License-Identifier: MIT
/* The trace, version 2: the memory that a traced process records into, and the file (.hwt) that its
 * collector copies from there (drain.h). The one description of both; src/headway/traces/format.py
 * reads it, and a test holds the two against each other.
 *
 *     header        HW__HEADER_BYTES
 *     slots         slot_count times struct hw__slot: counters of the threads alive, for live views
 *     chunks        chunk_count times HW__CHUNK_BYTES, taken one after the other
 *
 * All numbers are little-endian. Times are CLOCK_MONOTONIC nanoseconds. Each process has a file of
 * its own; files of one launch have the same `family`. A file may end before its last chunk: what
 * is missing was never taken. What is zero was never written. What the memory has besides is in
 * control.h.
 *
 * A chunk belongs to one thread (events) or one GIL (meta) and is filled from its front; `used` is
 * stored after the bytes it counts, so that whatever moment the process dies in, the first `used`
 * bytes are whole records. Of what is written, only the last event of a chunk can change, from
 * ACQUIRE to HOLD, in one store. When all chunks of a file, or of a memory that nobody collects,
 * are taken, the oldest closed event chunk is taken anew: its events are gone, and counted in
 * `overwritten_events`. Meta chunks are never taken anew. In a memory that is collected, a chunk is
 * taken anew when it has been copied; where none is free, events are dropped and counted.
 */
#ifndef HEADWAY_TRACE_FORMAT_H
#define HEADWAY_TRACE_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#define HW__MAGIC "\x89HWT\r\n\x1a\n" /* 8 bytes; found broken by a transfer in text mode */
#define HW__FORMAT_VERSION 2
#define HW__HEADER_BYTES 4096
#define HW__CHUNK_BYTES 16384
#define HW__CHUNK_HEADER_BYTES 128
#define HW__NAME_BYTES 64
#define HW__BUCKETS 36
#define HW__COMMAND_BYTES 1024
#define HW__PATH_BYTES 512

/* header.flags */
#define HW__FREE_THREADED 1u /* a build without a GIL, be it on or off */
#define HW__GIL_ENABLED 2u   /* the GIL was on when tracing began */
#define HW__STACKS 4u        /* stacks are recorded */
#define HW__COUNTERS_ONLY 8u /* no events by request: chunk_count is 0 */

struct hw__header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;   /* HW__HEADER_BYTES */
    uint64_t family;         /* random; the same in all files of one launch */
    int32_t pid;             /* of this process */
    int32_t parent_pid;      /* of its parent when tracing began */
    uint32_t python_version; /* sys.hexversion */
    _Atomic uint32_t flags;
    int64_t start_ns;          /* when tracing began ... */
    int64_t start_realtime_ns; /* ... and the same moment as CLOCK_REALTIME */
    _Atomic int64_t end_ns;    /* when tracing ended; 0: it runs, or the process died */
    uint32_t slot_count;
    uint32_t slot_bytes; /* sizeof(struct hw__slot) */
    uint64_t slots_offset;
    uint32_t chunk_bytes; /* HW__CHUNK_BYTES */
    uint32_t chunk_count;
    uint64_t chunks_offset;
    _Atomic uint64_t chunks_taken;       /* ever; above chunk_count when some were taken anew */
    _Atomic uint64_t dropped_events;     /* no chunk could be had for them; a HOLD is two, always */
    _Atomic uint64_t overwritten_events; /* in chunks taken anew */
    _Atomic uint64_t lost_stacks;        /* recorded as unknown, for want of room */
    _Atomic uint32_t gil_count;          /* ever seen, dead ones included */
    _Atomic uint32_t thread_count;       /* serials given; the first is 1 */
    uint32_t interval_us;                /* the switch interval when tracing began */
    _Atomic uint32_t core_count; /* that the thread which ended tracing, else the one which began
                                  * it, may run on; 0: not known */
    _Atomic int64_t overwritten_until_ns; /* the last event that was overwritten; 0: none was */
    char
        command[HW__COMMAND_BYTES]; /* UTF-8, a NUL after each argument, cut where it is too long */
    char executable[HW__PATH_BYTES]; /* UTF-8, NUL-terminated */
    char program[HW__PATH_BYTES]; /* what the user would call it: script, module; NUL-terminated */
    /* In a file that grows: of what was recorded later some may be missing. 0: nothing is. */
    int64_t known_until_ns;
};

/* slot.state */
#define HW__SLOT_FREE 0u
#define HW__SLOT_IDLE 1u    /* a thread that neither holds nor wants a GIL */
#define HW__SLOT_WAITING 2u /* it waits for one */
#define HW__SLOT_HOLDING 3u

/* Counters of one thread that is alive; or, with HW__SLOT_FREE and a serial, of one that has
 * exited: they stay until another thread takes the slot, which is after some hundred others have
 * begun. The owner adds to them with the GIL's mutex held; a reader in another process may see one
 * of them newer than another. */
struct hw__slot {
    _Atomic uint32_t state;
    _Atomic uint32_t serial;  /* the thread's; changes when the slot gets another owner */
    int32_t tid;              /* native thread id */
    _Atomic uint32_t gil;     /* index of the last GIL it took */
    _Atomic int64_t since_ns; /* when `state` began */
    _Atomic uint64_t holds;   /* acquires */
    _Atomic uint64_t hold_ns; /* in holds that ended */
    _Atomic uint64_t waits;   /* acquires that had to wait */
    _Atomic uint64_t wait_ns; /* in waits that ended */
    _Atomic uint64_t forced;  /* releases that another thread had asked for */
    _Atomic uint64_t worst_wait_ns;
    _Atomic uint64_t worst_hold_ns;
    uint64_t reserved[2];
    char name[HW__NAME_BYTES]; /* as Python names the thread, else as the OS does; NUL-terminated */
    /* [i] counts those with bit length i in ns: 2^(i-1) <= length < 2^i; longer ones last. */
    _Atomic uint32_t wait_buckets[HW__BUCKETS];
    _Atomic uint32_t hold_buckets[HW__BUCKETS];
};

/* chunk.kind */
#define HW__CHUNK_EVENTS 1u
#define HW__CHUNK_META 2u

/* chunk.state */
#define HW__CHUNK_OPEN 1u   /* its owner may still write into it; of meta chunks always */
#define HW__CHUNK_CLOSED 2u /* it may be taken anew */

struct hw__chunk {
    _Atomic uint32_t state;
    uint32_t kind;
    _Atomic uint32_t used;     /* bytes of whole records after this header */
    uint32_t owner;            /* the thread's serial (events), the GIL's index (meta) */
    uint64_t sequence;         /* chunks_taken when it was taken: later ones have more */
    int32_t tid;               /* the thread's native id (events) */
    uint32_t named;            /* 1: `name` is Python's (events) */
    int64_t thread_start_ns;   /* when the thread was first seen (events) */
    char name[HW__NAME_BYTES]; /* the thread's (events), else as the OS has it; NUL-terminated */
    uint64_t reserved[3];
};

/* event.kind */
#define HW__WAIT 1u    /* begins to wait for the GIL. value: where, a stack node */
#define HW__ACQUIRE 2u /* has the GIL */
#define HW__RELEASE 3u /* lets it go. value: where, a stack node */
#define HW__REQUEST                                                                                \
    4u                  /* waited a switch interval, and is the first to ask the holder to let go  \
                         */
#define HW__EXIT 5u     /* the thread is over */
#define HW__PARK 6u     /* free-threaded: blocks on a lock of the interpreter. value: where */
#define HW__UNPARK 7u   /* goes on. value: the contended object's type, a TYPE id, or 0 */
#define HW__INTERVAL 8u /* the switch interval changed. value: microseconds */
/* What an ACQUIRE becomes where it fits, as most do: also a RELEASE `flags` ns later, of this
 * value, which nobody had asked for. */
#define HW__HOLD 9u
/* A garbage collection of this thread. value: 0 where it begins, else the microseconds that it
 * took, at its end; flags: the generation. Short ones are not told, nor the beginnings of those of
 * young generations. */
#define HW__COLLECTED 10u

/* event.flags */
#define HW__FORCED 1u  /* RELEASE: another thread had asked for it */
#define HW__ASSUMED 2u /* not seen: ACQUIRE by who held the GIL when tracing began */

/* Which share of a time the thread was running on a core, in bits 8 to 15: 1 for none of it, 255
 * for all, 0 for not known. RELEASE: of its hold; the rest of the time the operating system ran
 * others there, or the thread slept with the GIL held. Of short holds it is not measured. WAIT, and
 * an ACQUIRE that follows none: of the time since it let the GIL go, in which it computed or was
 * blocked. It is measured of some: see AWAY_EVERY_NS in events.c. */
#define HW__RAN_SHIFT 8
#define HW__RAN_ALL 254u

/* What a PARK or UNPARK is about, in event.flags. */
#define HW__PARK_MUTEX 0x100u  /* a PyMutex that is no object's */
#define HW__PARK_OBJECT 0x200u /* an object's lock: a critical section */
#define HW__PARK_WORLD 0x300u  /* suspended, or waiting for others, to stop the world */
#define HW__PARK_LOCK 0x400u   /* a threading.Lock or another semaphore of the program's own */
#define HW__PARK_EVENT 0x500u  /* until something has happened: the end of a thread (join) */

/* event.gil of PARK and UNPARK, and the owner of the meta chunk with their stacks and types. */
#define HW__NO_GIL 255u

/* One event of the chunk's thread. Times in one chunk, and in one thread's chunks by `sequence`, do
 * not go back. */
struct hw__event {
    int64_t time_ns;
    uint32_t value;
    uint8_t kind;
    uint8_t gil; /* index */
    uint16_t flags;
};

/* meta.type */
#define HW__META_GIL 1u     /* struct hw__meta_gil */
#define HW__META_GIL_END 2u /* the same; the GIL was destroyed */
#define HW__META_CODE 3u    /* struct hw__meta_code */
#define HW__META_NODE 4u    /* struct hw__meta_node */
#define HW__META_NAME 5u    /* struct hw__meta_name */
#define HW__META_TYPE 6u    /* struct hw__meta_type */
#define HW__META_NOTE 7u    /* struct hw__meta_note */

/* Before each record of a meta chunk. */
struct hw__meta {
    uint16_t type;
    uint16_t reserved;
    uint32_t bytes; /* of the whole record with this, a multiple of 8 */
};

struct hw__meta_gil {
    struct hw__meta meta;
    uint32_t index;
    uint32_t main; /* 1: the main interpreter's */
    uint64_t address;
    int64_t time_ns;
};

/* A code object, in the ids of its GIL. After it: file name, qualified name (as many bytes as said,
 * in code units of `*_kind` bytes: Latin-1, UCS-2 or UCS-4), and co_linetable of CPython 3.11+, or
 * none where it was too long. */
struct hw__meta_code {
    struct hw__meta meta;
    uint32_t id; /* from 1 */
    int32_t first_line;
    uint32_t filename_bytes;
    uint32_t qualname_bytes;
    uint32_t linetable_bytes;
    uint8_t filename_kind; /* 1, 2, 4 */
    uint8_t qualname_kind;
    uint16_t reserved;
};

/* Frames of a stack, from the innermost; what calls them is left out. */
#define HW__MAX_DEPTH 128

/* A stack: `code` at `offset`, called by the stack `parent`. In the ids of its GIL. */
struct hw__meta_node {
    struct hw__meta meta;
    uint32_t id;     /* from 1; 0 is the unknown or empty stack */
    uint32_t parent; /* a node with a smaller id, or 0 */
    uint32_t code;
    int32_t offset; /* bytes from the first instruction; below 0: before it */
};

/* The name that Python gives a thread, from that time on, where somebody else told it: a thread
 * that tells its own has it in its chunks. After it: UTF-8. */
struct hw__meta_name {
    struct hw__meta meta;
    int32_t tid;
    uint32_t name_bytes;
    int64_t time_ns;
};

/* The name of a type, for UNPARK. After it: UTF-8. */
struct hw__meta_type {
    struct hw__meta meta;
    uint32_t id; /* from 1 */
    uint32_t name_bytes;
};

/* What was seen from outside of the process (`headway watch`), in files only. After it: JSON, as
 * src/headway/traces/notes.py has it. */
struct hw__meta_note {
    struct hw__meta meta;
    uint32_t note_bytes;
    uint32_t reserved;
};

_Static_assert(sizeof(struct hw__header) <= HW__HEADER_BYTES, "the header fits its page");
_Static_assert(sizeof(struct hw__slot) == 448, "a slot is whole cache lines");
_Static_assert(sizeof(struct hw__chunk) == HW__CHUNK_HEADER_BYTES,
               "a chunk's header is whole lines");
_Static_assert(sizeof(struct hw__event) == 16, "events are packed");
_Static_assert(sizeof(struct hw__meta_gil) == 32 && sizeof(struct hw__meta_code) == 32 &&
                   sizeof(struct hw__meta_node) == 24 && sizeof(struct hw__meta_name) == 24 &&
                   sizeof(struct hw__meta_type) == 16 && sizeof(struct hw__meta_note) == 16,
               "meta records are multiples of 8");

#endif
