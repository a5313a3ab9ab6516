// SPDX-License-Identifier: MIT
/* The trace, version 3: the memory that a traced process records into, and the file (.hwt) that its
 * collector copies from there (headway/collect.h). This header is the one description of both.
 * src/headway/traces/format.py has the same structs for the reader, and a test compares the two.
 *
 *     header        HW__HEADER_BYTES
 *     slots         slot_count times struct hw__slot: counters of the live threads, for live views
 *     chunks        chunk_count times HW__CHUNK_BYTES, taken one after the other
 *
 * All numbers are little-endian. Times are CLOCK_MONOTONIC nanoseconds. Each process has a file of
 * its own; files of one launch have the same `family`. A file may end before its last chunk: the
 * chunks that are missing were never taken. Bytes that are zero were never written. control.h
 * describes the rest of the memory.
 *
 * A chunk belongs to one thread (event chunk, packed or not) or to one GIL (meta chunk: records
 * that describe, not events), and is filled from its front. `used` is stored after the bytes that
 * it counts. So the first `used` bytes are whole records, at whatever moment the process dies. Of
 * these bytes only the last event of a chunk can change, from ACQUIRE to HOLD, in one store. Of the
 * header, `state`, `used`, `name` and `named` can change.
 *
 * Chunks are reused as follows:
 *
 * - In a file, and in a memory that nobody collects: when all chunks are taken, a closed event
 *   chunk is reused: in a file the oldest one, in a memory the next one of the ring. Its events are
 *   gone, and counted in `overwritten_events`. Meta chunks are never reused.
 * - In a memory that is collected: a chunk is reused when it has been copied. If no chunk is free,
 *   events are dropped and counted.
 *
 * While a file grows, or if its collector was killed, it may have a chunk of events twice, packed
 * and not, with the same owner and sequence. The packed one counts. */
#ifndef HEADWAY_TRACE_FORMAT_H
#define HEADWAY_TRACE_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#define HW__MAGIC "\x89HWT\r\n\x1a\n" /* 8 bytes; a transfer in text mode damages them */
/* Version 2 had no packed chunks; readers read both. */
#define HW__FORMAT_VERSION 3
#define HW__HEADER_BYTES 4096
#define HW__CHUNK_BYTES 16384
#define HW__CHUNK_HEADER_BYTES 128
#define HW__NAME_BYTES 64
#define HW__BUCKETS 36
#define HW__WORLD_BUCKETS 16
#define HW__COMMAND_BYTES 1024
#define HW__PATH_BYTES 512
#define HW__OPTIONS_BYTES 512

/* header.flags */
#define HW__FREE_THREADED 1u /* a free-threaded build, with the GIL on or off */
#define HW__GIL_ENABLED 2u   /* the GIL was on when tracing began */
#define HW__STACKS 4u        /* stacks are recorded */
#define HW__COUNTERS_ONLY 8u /* counters without events were asked for: chunk_count is 0 */
/* CPython 3.9 to 3.12: a thread in a sub-interpreter had the main interpreter's GIL. Files of
 * versions before this flag do not tell. */
#define HW__SUBINTERPRETERS 16u

struct hw__header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;   /* HW__HEADER_BYTES */
    uint64_t family;         /* random; the same in all files of one launch */
    int32_t pid;             /* of this process */
    int32_t parent_pid;      /* of its parent when tracing began */
    uint32_t python_version; /* sys.hexversion */
    _Atomic uint32_t flags;
    int64_t start_ns;          /* when tracing began, in CLOCK_MONOTONIC */
    int64_t start_realtime_ns; /* when tracing began, in CLOCK_REALTIME */
    _Atomic int64_t end_ns;    /* when tracing ended; 0: it goes on, or the process died */
    uint32_t slot_count;
    uint32_t slot_bytes; /* sizeof(struct hw__slot) */
    uint64_t slots_offset;
    uint32_t chunk_bytes; /* HW__CHUNK_BYTES */
    uint32_t chunk_count;
    uint64_t chunks_offset;
    /* How often a chunk was taken; above chunk_count if chunks were reused. In a memory that nobody
     * collects, open chunks that were passed over count, too. */
    _Atomic uint64_t chunks_taken;
    _Atomic uint64_t dropped_events;     /* for want of a chunk; a HOLD always counts as two */
    _Atomic uint64_t overwritten_events; /* in chunks that were reused */
    _Atomic uint64_t lost_stacks;        /* stacks recorded as unknown for want of room */
    _Atomic uint32_t gil_count;          /* GILs ever seen, also those that are gone */
    _Atomic uint32_t thread_count;       /* serials given to threads; the first is 1 */
    uint32_t interval_us;                /* the switch interval when tracing began */
    /* The number of cores on which the thread that ended tracing may run; as long as tracing goes
     * on, that of the thread that began it. 0: not known. */
    _Atomic uint32_t core_count;
    /* The time of the last event that was overwritten; 0: none was. */
    _Atomic int64_t overwritten_until_ns;
    char command[HW__COMMAND_BYTES]; /* UTF-8, a NUL after each argument; cut if it is too long */
    char executable[HW__PATH_BYTES]; /* UTF-8, NUL-terminated */
    char program[HW__PATH_BYTES]; /* the user's name for it: a script, a module; NUL-terminated */
    /* In a file that still grows, events after this time may be missing. 0: none is missing. */
    int64_t known_until_ns;
    /* When a thread last called _exit(); 0: none did. If end_ns is 0 and no event follows, the
     * session ended then. In a file that still grows: 0. */
    _Atomic int64_t left_ns;
    /* The policy that scheduled the GIL when tracing began, or the first that came later; "": none.
     * NUL-terminated. Files of versions before this field have "" here. */
    char policy[HW__NAME_BYTES];
    /* The last change of the main GIL's switch interval among the events that were overwritten; 0:
     * there was none. In a memory that nobody collects, these fields are 0: see the chunks'. */
    int64_t lost_interval_ns;
    uint32_t lost_interval_us;
    /* Whether the process has executed another program, as its collector saw. 1: it has, and that
     * program has a trace, too; 2: it has, and there is none. Files of versions before this field
     * have 0 here. */
    uint32_t executed;
    /* When the process began, in CLOCK_REALTIME, as its collector found; 0: that is not known.
     * Files of versions before this field have 0 here. */
    int64_t process_start_ns;
    /* A time (CLOCK_MONOTONIC) at which the process still ran this program, as its collector saw;
     * 0: not known. A process that is killed leaves no end_ns: it lived until this time at least,
     * also if its last event is earlier. Files of versions before this field have 0 here. */
    int64_t lived_until_ns;
    /* In the file of a launch's first process, as the collector counted: ended children whose files
     * were removed to make room, and processes without a file. Files of versions before these
     * fields have 0 here. */
    uint32_t removed_files;
    uint32_t unrecorded_processes;
    /* When `policy` ended, since it was stopped or its watchdog removed it; 0: it did not. Files of
     * versions before this field have 0 here. If the same policy begins again with other options,
     * that is another policy. */
    _Atomic int64_t policy_end_ns;
    /* The options of `policy`, each as "name=value" with a space between two: first those that
     * differ from their presets, then a semicolon, then the others; so it is not empty where the
     * options are known. NUL-terminated. Files of versions before this field have "" here, and so
     * have those of a policy whose options are longer than this. */
    char policy_options[HW__OPTIONS_BYTES];
};

/* slot.state */
#define HW__SLOT_FREE 0u    /* the slot has no thread */
#define HW__SLOT_IDLE 1u    /* it neither holds nor wants a GIL */
#define HW__SLOT_WAITING 2u /* it waits for a GIL; free-threaded: for a lock */
#define HW__SLOT_HOLDING 3u /* it holds a GIL */

/* The counters of one live thread. With HW__SLOT_FREE and a serial, they are those of a thread that
 * has exited: they stay until another thread takes the slot. The slot is taken after 1 to 512
 * further threads have begun, as long as no more than 512 threads live at a time. The owner adds to
 * the counters, with the GIL's mutex held unless it waits for a lock. A reader in another process
 * may see one counter newer than another. */
struct hw__slot {
    _Atomic uint32_t state;
    _Atomic uint32_t serial;  /* the thread's serial; changes when the slot gets another owner */
    int32_t tid;              /* native thread id */
    _Atomic uint32_t gil;     /* index of the last GIL that the thread acquired */
    _Atomic int64_t since_ns; /* when `state` began */
    _Atomic uint64_t holds;   /* acquires */
    _Atomic uint64_t hold_ns; /* total of the holds that have ended */
    _Atomic uint64_t waits;   /* acquires that had to wait */
    _Atomic uint64_t wait_ns; /* total of the waits that have ended */
    _Atomic uint64_t forced;  /* releases that another thread had requested */
    _Atomic uint64_t worst_wait_ns;
    _Atomic uint64_t worst_hold_ns;
    _Atomic uint64_t world_ns; /* total of the waits for stop-the-world that have ended */
    uint64_t reserved;
    char name[HW__NAME_BYTES]; /* from Python, else from the operating system; NUL-terminated */
    /* [i] counts the waits whose length in ns has i bits: 2^(i-1) <= length < 2^i. The last bucket
     * also counts all longer waits. */
    _Atomic uint32_t wait_buckets[HW__BUCKETS];
    /* [i] counts the holds whose length in ns has i bits, as wait_buckets does for waits. */
    _Atomic uint32_t hold_buckets[HW__BUCKETS];
    /* Counts the waits for stop-the-world, with fewer bounds: the length of those in [i] is below
     * 4^(i+5) ns and in no earlier bucket. The last bucket also counts all longer waits. */
    _Atomic uint32_t world_buckets[HW__WORLD_BUCKETS];
};

/* chunk.kind */
#define HW__CHUNK_EVENTS 1u
#define HW__CHUNK_META 2u
/* In a file: events in fewer bytes. The number of events is in chunk.events. First comes one byte
 * for each event (HW__PACKED_*), then four parts, each with the bytes of all events that have any:
 * kind and gil; the time; the value; the flags. The time is the difference to the end of the event
 * before, in this chunk: its time_ns, and for a HOLD its flags in addition; 0 before the first
 * event. It is a difference modulo 2^64. */
#define HW__CHUNK_PACKED 3u

/* The byte of a packed event has these fields, of two bits and the last of one, from these bits on.
 *
 * - TIME: the bytes of the time: 1, 2, 3 or 8.
 * - FLAGS: the bytes of the flags: 0 (they are 0), 1 or 2.
 * - VALUE: the bytes of the value: 0 (it is that of the event before), 1, 2 or 4.
 * - KIND: kind and gil have a byte each; otherwise they are those of the event before.
 *
 * The other bit is 0. The first event of a chunk has a value, a kind and a gil. */
#define HW__PACKED_TIME 0
#define HW__PACKED_FLAGS 2
#define HW__PACKED_VALUE 4
#define HW__PACKED_KIND 0x40u

/* chunk.state */
#define HW__CHUNK_OPEN 1u   /* the owner may still write; meta chunks of a file are always open */
#define HW__CHUNK_CLOSED 2u /* complete: it may be reused */

struct hw__chunk {
    _Atomic uint32_t state;
    uint32_t kind;
    _Atomic uint32_t used;   /* bytes of whole records after this header */
    uint32_t owner;          /* event chunk: the thread's serial; meta chunk: the GIL's index */
    uint64_t sequence;       /* chunks_taken when this chunk was taken; larger in later chunks */
    int32_t tid;             /* event chunk: the thread's native id */
    uint32_t named;          /* event chunk: 1 if `name` comes from Python */
    int64_t thread_start_ns; /* event chunk: when the thread was first seen */
    /* Event chunk: the thread's name, from Python, else from the operating system;
     * NUL-terminated. */
    char name[HW__NAME_BYTES];
    /* In a memory that nobody collects: the header's fields of these names, but of the events that
     * this chunk had before it was reused. */
    int64_t lost_interval_ns;
    uint32_t lost_interval_us;
    /* Event chunk: 1 more than that of the thread's chunk before, and 1 more for each event that
     * was dropped in between; so a reader knows where the thread has a gap. 0: not known, in files
     * of versions before this field. */
    uint32_t number;
    /* In a file: the length from the end of this header to the header of the next chunk at the same
     * place; 0: no chunk follows there. Packed chunks share places, and, in files of earlier
     * versions, short ones. In a memory,
     * and in files of versions before this field: 0. */
    uint32_t next;
    uint32_t events; /* packed chunk: the number of its events; otherwise 0 */
};

/* event.kind */
#define HW__WAIT 1u     /* begins to wait for the GIL. value: where, as a stack node */
#define HW__ACQUIRE 2u  /* has acquired the GIL */
#define HW__RELEASE 3u  /* releases the GIL. value: where, as a stack node */
#define HW__REQUEST 4u  /* makes a request to the holder, as the first waiter in this hold */
#define HW__EXIT 5u     /* the thread has ended */
#define HW__PARK 6u     /* free-threaded: blocks on a lock of the interpreter. value: as of WAIT */
#define HW__UNPARK 7u   /* goes on. value: TYPE id of the contended object's type, or 0 */
#define HW__INTERVAL 8u /* the switch interval: new, or a sub-interpreter's first. value: us */
/* An ACQUIRE together with the RELEASE that follows: an ACQUIRE becomes a HOLD in place where that
 * fits, as it mostly does. The release came `flags` ns after the acquire, has this `value`, and was
 * not requested by another thread. */
#define HW__HOLD 9u
/* A garbage collection by this thread. value: 0 at its beginning; at its end, its length in
 * microseconds. flags: the generation. Short collections are not recorded. The beginning of a young
 * generation's collection is not recorded either. */
#define HW__COLLECTED 10u

/* event.flags */
#define HW__FORCED 1u  /* RELEASE: another thread had requested it */
#define HW__ASSUMED 2u /* ACQUIRE: not seen; the thread held the GIL when tracing began */

/* The share of a time in which the thread ran on a core, in bits 8 to 15 of event.flags: 1 for none
 * of it, 255 for all of it, 0 for not known.
 *
 * - RELEASE: the share of its hold. In the rest of the hold the operating system ran other threads
 *   on the core, or the thread slept with the GIL held. Short holds are not measured. Of a hold
 *   that is measured from its first request on, the time before counts as run. Of a hold
 *   of 10 ms and more without a request, the share is measured from a reading shortly before it.
 * - REQUEST: the share of the holder's hold until then. It is known if the hold is measured from
 *   its beginning on, and has lasted for 1 ms.
 * - WAIT, and an ACQUIRE that no WAIT precedes: the share of the time since the thread released the
 *   GIL, in which it computed or was blocked. Only some of these times are measured: see
 *   AWAY_EVERY_NS in events.c. */
#define HW__RAN_SHIFT 8
#define HW__RAN_ALL 254u

/* The lock that a PARK or UNPARK is about, in event.flags. */
#define HW__PARK_MUTEX 0x100u  /* a PyMutex that is no object's lock */
#define HW__PARK_OBJECT 0x200u /* an object's lock: a critical section */
#define HW__PARK_WORLD 0x300u  /* suspended to stop the world, or waiting for others to stop */
#define HW__PARK_LOCK 0x400u   /* a threading.Lock or another semaphore of the program's own */
#define HW__PARK_EVENT 0x500u  /* waits for an event: the end of a thread (join) */

/* PARK, of a call that has waited before. The thread was woken, but another thread had taken the
 * lock meanwhile. So the thread's last UNPARK for a lock of this kind is no end of a wait, and this
 * is no beginning. In between may be waits with flags of 0: for a lock of the parking lot. */
#define HW__PARK_AGAIN 4u

/* event.gil of PARK and UNPARK, and the owner of the meta chunk that has their stacks and types. */
#define HW__NO_GIL 255u

/* One event of the chunk's thread. Times do not go back within a chunk, nor from chunk to chunk of
 * one thread in the order of `sequence`. */
struct hw__event {
    int64_t time_ns;
    uint32_t value;
    uint8_t kind;
    uint8_t gil; /* the GIL's index */
    uint16_t flags;
};

/* meta.type */
#define HW__META_GIL 1u     /* struct hw__meta_gil */
#define HW__META_GIL_END 2u /* struct hw__meta_gil; the GIL was destroyed */
#define HW__META_CODE 3u    /* struct hw__meta_code */
#define HW__META_NODE 4u    /* struct hw__meta_node */
#define HW__META_NAME 5u    /* struct hw__meta_name */
#define HW__META_TYPE 6u    /* struct hw__meta_type */
#define HW__META_NOTE 7u    /* struct hw__meta_note */

/* The head of each record of a meta chunk. */
struct hw__meta {
    uint16_t type;
    uint16_t reserved;
    uint32_t bytes; /* of the whole record with this head, a multiple of 8 */
};

struct hw__meta_gil {
    struct hw__meta meta;
    uint32_t index;
    uint32_t main; /* 1: the main interpreter's GIL */
    uint64_t address;
    int64_t time_ns;
};

/* A code object. Ids are counted per GIL. After the struct: the file name and the qualified name,
 * as many bytes as the struct says, in code units of `*_kind` bytes (Latin-1, UCS-2 or UCS-4); then
 * co_linetable of CPython 3.11+, or nothing if it was too long. */
struct hw__meta_code {
    struct hw__meta meta;
    uint32_t id; /* from 1 */
    int32_t first_line;
    uint32_t filename_bytes;
    uint32_t qualname_bytes;
    uint32_t linetable_bytes;
    uint8_t filename_kind; /* bytes of a code unit: 1, 2 or 4 */
    uint8_t qualname_kind;
    uint16_t reserved;
};

/* The most frames of a stack, counted from the innermost. The frames that call these are left
 * out. */
#define HW__MAX_DEPTH 128

/* A stack: `code` at `offset`, called by the stack `parent`. Ids are counted per GIL. */
struct hw__meta_node {
    struct hw__meta meta;
    uint32_t id;     /* from 1; 0 is the unknown or empty stack */
    uint32_t parent; /* a node with a smaller id, or 0 */
    uint32_t code;
    int32_t offset; /* bytes from the first instruction; below 0: before it */
};

/* A thread's name from Python that holds from `time_ns` on, if another thread set it or the thread
 * has no event yet. The record is always in a meta chunk of the main interpreter's GIL, or of
 * HW__NO_GIL if there is none. A name that a thread sets itself is in the thread's chunks. After
 * the struct: the name in UTF-8. */
struct hw__meta_name {
    struct hw__meta meta;
    int32_t tid;
    uint32_t name_bytes;
    int64_t time_ns;
};

/* The name of a type, for UNPARK. After the struct: the name in UTF-8. */
struct hw__meta_type {
    struct hw__meta meta;
    uint32_t id; /* from 1 */
    uint32_t name_bytes;
};

/* An observation that is no event: from outside the process (`headway watch`; only in files), or of
 * the places of all threads when `headway attach` began. After the struct: JSON, as
 * src/headway/traces/notes.py has it. */
struct hw__meta_note {
    struct hw__meta meta;
    uint32_t note_bytes;
    uint32_t reserved;
};

_Static_assert(sizeof(struct hw__header) <= HW__HEADER_BYTES, "the header fits its page");
_Static_assert(sizeof(struct hw__slot) == 512, "a slot is whole cache lines");
_Static_assert(sizeof(struct hw__chunk) == HW__CHUNK_HEADER_BYTES,
               "a chunk's header is whole lines");
_Static_assert(sizeof(struct hw__event) == 16, "events are packed");
_Static_assert(sizeof(struct hw__meta_gil) == 32 && sizeof(struct hw__meta_code) == 32 &&
                   sizeof(struct hw__meta_node) == 24 && sizeof(struct hw__meta_name) == 24 &&
                   sizeof(struct hw__meta_type) == 16 && sizeof(struct hw__meta_note) == 16,
               "meta records are multiples of 8");

#endif
