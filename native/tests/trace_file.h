// SPDX-License-Identifier: MIT
/* Reads a trace file as trace/format.h describes it, with code that is independent of the writer's.
 * Checks everything that holds for every file, including the file of a process that was killed. */
#ifndef HEADWAY_TESTS_TRACE_FILE_H
#define HEADWAY_TESTS_TRACE_FILE_H

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "t.h"
#include "trace/format.h"
#include "trace_collect.h"

#define TRACE_KINDS 9 /* kinds of events, numbered from 1 */
#define TRACE_GILS 255

struct trace_event {
    struct hw__event event;
    uint32_t serial; /* of the event's thread */
};

struct trace_meta {
    uint32_t gil;
    const struct hw__meta *record;
};

/* The most events of a chunk. */
#define TRACE_CHUNK_EVENTS ((HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES) / sizeof(struct hw__event))

/* The bytes before the chunks of a memory, but for the header. */
#define TRACE_SLOTS_BYTES (HW__MAX_THREADS * sizeof(struct hw__slot))

/* The counts of one thread, or of all threads, by the events. */
struct trace_sums {
    uint64_t holds, hold_ns, waits, wait_ns, forced, worst_hold_ns, worst_wait_ns;
    uint64_t hold_buckets[HW__BUCKETS];
};

struct trace {
    char *bytes;
    size_t size;
    const struct hw__header *header;
    const struct hw__slot *slots;
    struct trace_event *events; /* by thread, and in order of time within a thread */
    size_t event_count;
    struct trace_meta *metas; /* in the order of the chunks */
    size_t meta_count;
    /* events of each kind; a HOLD counts as one ACQUIRE and one RELEASE */
    uint64_t kinds[TRACE_KINDS];
    uint64_t short_holds;   /* how many HOLDs */
    uint64_t gaps;          /* events dropped before chunks, as the chunks' numbers tell */
    bool complete;          /* no event is lost */
    struct trace_sums sums; /* of all threads; only holds and waits that ended */
};

static inline const struct hw__chunk *trace_chunk(const struct trace *trace, uint32_t i) {
    size_t at = trace->header->chunks_offset + (size_t)i * HW__CHUNK_BYTES;
    return at + HW__CHUNK_BYTES <= trace->size ? (const struct hw__chunk *)(trace->bytes + at)
                                               : NULL;
}

/* Returns the chunk that follows at the same place. */
static inline const struct hw__chunk *trace_next(const struct hw__chunk *chunk) {
    T_TRUE(chunk->next >= chunk->used && chunk->next % 64 == 0);
    T_EQ(HW__CHUNK_PACKED, chunk->kind);
    return (const struct hw__chunk *)((const char *)(chunk + 1) + chunk->next);
}

/* Returns the number of events in a chunk of events. */
static inline size_t trace_count(const struct hw__chunk *chunk) {
    return chunk->kind == HW__CHUNK_PACKED ? chunk->events : chunk->used / sizeof(struct hw__event);
}

/* Takes the next number of so many bytes. */
static inline uint64_t trace_number(const uint8_t **from, unsigned bytes) {
    uint64_t number = 0;
    for (unsigned i = 0; i < bytes; i++) {
        number |= (uint64_t)*(*from)++ << 8 * i;
    }
    return number;
}

/* Unpacks the events of a packed chunk with `used` bytes, and checks that these are all of it. */
static inline void trace_unpack(const void *content, uint32_t used, uint32_t count,
                                struct hw__event *events) {
    static const unsigned time_bytes[] = {1, 2, 3, 8}, value_bytes[] = {0, 1, 2, 4};
    enum { KINDS, TIMES, VALUES, FLAGS, PARTS };
    const uint8_t *controls = content;
    T_TRUE(count <= used);
    size_t lengths[PARTS] = {0};
    for (uint32_t i = 0; i < count; i++) {
        T_TRUE((controls[i] & 0x80) == 0 && (controls[i] >> 2 & 3) < 3);
        lengths[KINDS] += (controls[i] & 0x40) != 0 ? 2 : 0;
        lengths[TIMES] += time_bytes[controls[i] & 3];
        lengths[VALUES] += value_bytes[controls[i] >> 4 & 3];
        lengths[FLAGS] += controls[i] >> 2 & 3;
    }
    const uint8_t *parts[PARTS], *at = controls + count;
    for (int part = 0; part < PARTS; part++) {
        parts[part] = at;
        at += lengths[part];
    }
    T_EQ(used, at - controls);
    struct hw__event event = {0};
    uint64_t end_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        if ((controls[i] & 0x40) != 0) {
            event.kind = (uint8_t)trace_number(&parts[KINDS], 1);
            event.gil = (uint8_t)trace_number(&parts[KINDS], 1);
        } else {
            T_TRUE(i > 0);
        }
        event.time_ns =
            (int64_t)(end_ns + trace_number(&parts[TIMES], time_bytes[controls[i] & 3]));
        if ((controls[i] >> 4 & 3) != 0) {
            event.value = (uint32_t)trace_number(&parts[VALUES], value_bytes[controls[i] >> 4 & 3]);
        } else {
            T_TRUE(i > 0);
        }
        event.flags = (uint16_t)trace_number(&parts[FLAGS], controls[i] >> 2 & 3);
        end_ns = (uint64_t)event.time_ns + (event.kind == HW__HOLD ? event.flags : 0);
        events[i] = event;
    }
}

static inline int trace_by_owner(const void *left, const void *right) {
    const struct hw__chunk *a = *(const struct hw__chunk *const *)left;
    const struct hw__chunk *b = *(const struct hw__chunk *const *)right;
    if (a->owner != b->owner) {
        return a->owner < b->owner ? -1 : 1;
    }
    if (a->sequence != b->sequence) {
        return a->sequence < b->sequence ? -1 : 1;
    }
    return 0;
}

/* As trace_by_owner, and of the same chunk the packed one comes last. */
static inline int trace_in_order(const void *left, const void *right) {
    const struct hw__chunk *a = *(const struct hw__chunk *const *)left;
    const struct hw__chunk *b = *(const struct hw__chunk *const *)right;
    int order = trace_by_owner(left, right);
    return order != 0 ? order : (a->kind > b->kind) - (a->kind < b->kind);
}

static inline int trace_by_time(const void *left, const void *right) {
    const struct trace_event *a = left, *b = right;
    if (a->event.gil != b->event.gil) {
        return a->event.gil < b->event.gil ? -1 : 1;
    }
    return a->event.time_ns < b->event.time_ns ? -1 : a->event.time_ns > b->event.time_ns;
}

static inline void trace_header(const struct trace *trace) {
    const struct hw__header *header = trace->header;
    T_EQ(0, memcmp(header->magic, HW__MAGIC, sizeof header->magic));
    T_EQ(HW__FORMAT_VERSION, header->version);
    T_EQ(HW__HEADER_BYTES, header->header_bytes);
    T_EQ(sizeof(struct hw__slot), header->slot_bytes);
    T_EQ(HW__CHUNK_BYTES, header->chunk_bytes);
    T_TRUE(header->slots_offset >= HW__HEADER_BYTES);
    T_TRUE(header->chunks_offset >=
           header->slots_offset + header->slot_count * sizeof(struct hw__slot));
    T_TRUE(header->chunks_offset <= trace->size);
    T_TRUE(header->start_ns > 0);
    T_TRUE(header->end_ns == 0 || header->end_ns >= header->start_ns);
}

/* Checks a meta chunk: it consists of whole records, codes and nodes come before the records that
 * refer to them, and their numbers rise. */
static inline void trace_meta_chunk(struct trace *trace, const struct hw__chunk *chunk,
                                    uint32_t *codes, uint32_t *nodes) {
    const char *at = (const char *)(chunk + 1), *end = at + chunk->used;
    uint32_t gil = chunk->owner;
    T_EQ(HW__CHUNK_OPEN, chunk->state);
    while (at < end) {
        const struct hw__meta *record = (const struct hw__meta *)at;
        T_TRUE(record->bytes % 8 == 0 && record->bytes >= sizeof *record);
        T_TRUE(record->bytes <= end - at);
        if (record->type == HW__META_CODE) {
            const struct hw__meta_code *code = (const struct hw__meta_code *)at;
            T_TRUE(code->id > codes[gil]);
            codes[gil] = code->id;
            T_TRUE(sizeof *code + code->filename_bytes + code->qualname_bytes +
                       code->linetable_bytes <=
                   record->bytes);
        } else if (record->type == HW__META_NODE) {
            const struct hw__meta_node *node = (const struct hw__meta_node *)at;
            T_TRUE(node->id > nodes[gil]);
            nodes[gil] = node->id;
            T_TRUE(node->parent < node->id);
            T_TRUE(node->code >= 1 && node->code <= codes[gil]);
        } else {
            T_TRUE(record->type >= HW__META_GIL && record->type <= HW__META_NOTE);
        }
        if ((trace->meta_count & (trace->meta_count - 1)) == 0) { /* full: double it */
            trace->metas =
                realloc(trace->metas, (2 * trace->meta_count + 1) * sizeof *trace->metas);
            T_TRUE(trace->metas != NULL);
        }
        trace->metas[trace->meta_count++] = (struct trace_meta){gil, record};
        at += record->bytes;
    }
}

static inline void trace_add(struct trace_sums *to, const struct trace_sums *more) {
    to->holds += more->holds;
    to->hold_ns += more->hold_ns;
    to->waits += more->waits;
    to->wait_ns += more->wait_ns;
    to->forced += more->forced;
    to->worst_hold_ns =
        more->worst_hold_ns > to->worst_hold_ns ? more->worst_hold_ns : to->worst_hold_ns;
    to->worst_wait_ns =
        more->worst_wait_ns > to->worst_wait_ns ? more->worst_wait_ns : to->worst_wait_ns;
}

/* Counts a wait from `begin_ns`, unless that is 0, to `end_ns`. */
static inline void trace_waited(struct trace_sums *sums, int64_t begin_ns, int64_t end_ns) {
    if (begin_ns != 0) {
        uint64_t wait = (uint64_t)(end_ns - begin_ns);
        sums->waits++;
        sums->wait_ns += wait;
        sums->worst_wait_ns = wait > sums->worst_wait_ns ? wait : sums->worst_wait_ns;
    }
}

/* Checks one thread's events, [first, last): times never decrease, acquires and releases alternate,
 * a wait comes before its acquire, and nothing follows EXIT. Returns the sums. */
static inline struct trace_sums trace_thread(const struct trace *trace, size_t first, size_t last) {
    struct trace_sums sums = {0};
    int64_t before = 0, held = 0, waiting = 0;
    /* the thread's state is known; at the beginning, it does not hold */
    bool sure = trace->complete;
    bool gaps = trace->header->dropped_events > 0; /* events may be missing in the middle, too */
    int64_t parked = 0;
    for (size_t i = first; i < last; i++) {
        const struct hw__event *event = &trace->events[i].event;
        T_TRUE(event->time_ns >= before);
        before = event->time_ns;
        switch (event->kind) {
        case HW__WAIT:
            T_TRUE(gaps || (held == 0 && waiting == 0));
            waiting = event->time_ns;
            break;
        case HW__REQUEST:
            T_TRUE(!sure || waiting != 0);
            break;
        case HW__ACQUIRE:
            T_TRUE(gaps || held == 0);
            held = event->time_ns;
            sums.holds++;
            trace_waited(&sums, waiting, event->time_ns);
            waiting = 0;
            break;
        case HW__RELEASE:
            T_TRUE(!sure || held != 0);
            T_TRUE(gaps || waiting == 0);
            if (held != 0) {
                uint64_t hold = (uint64_t)(event->time_ns - held);
                sums.hold_ns += hold;
                sums.hold_buckets[hold == 0 ? 0 : 64 - __builtin_clzll(hold)]++;
                sums.worst_hold_ns = hold > sums.worst_hold_ns ? hold : sums.worst_hold_ns;
            }
            sums.forced += (event->flags & HW__FORCED) != 0;
            held = 0;
            break;
        case HW__EXIT:
            T_EQ(last - 1, i);
            break;
        case HW__INTERVAL:
            break;
        case HW__PARK:
            T_TRUE(gaps || parked == 0);
            parked = event->time_ns;
            break;
        default:
            T_EQ(HW__UNPARK, event->kind);
            T_TRUE(!sure || parked != 0);
            trace_waited(&sums, event->flags == HW__PARK_LOCK ? 0 : parked, event->time_ns);
            parked = 0;
        }
        /* Without the oldest events of a thread, a hold may already be under way. */
        sure = !gaps && (sure || event->kind == HW__ACQUIRE || event->kind == HW__RELEASE);
    }
    return sums;
}

/* Checks that every hold that fits one event is stored as one, and no other hold is. */
static inline void trace_short_holds(const struct trace *trace) {
    uint64_t expected = 0;
    for (size_t i = 1; i < trace->event_count; i++) {
        const struct trace_event *acquire = &trace->events[i - 1], *release = &trace->events[i];
        expected += acquire->event.kind == HW__ACQUIRE && acquire->event.flags == 0 &&
                    release->event.kind == HW__RELEASE && release->event.flags == 0 &&
                    release->serial == acquire->serial &&
                    release->event.time_ns - acquire->event.time_ns <= UINT16_MAX;
    }
    T_EQ(expected, trace->short_holds);
}

/* Checks that the slot of a thread that lives, or exited not long ago, agrees with its events. */
static inline void trace_slot(const struct trace *trace, uint32_t serial,
                              const struct trace_sums *sums) {
    for (uint32_t i = 0; i < trace->header->slot_count; i++) {
        const struct hw__slot *slot = &trace->slots[i];
        if (slot->serial == serial) {
            T_EQ(sums->holds, slot->holds);
            T_EQ(sums->hold_ns, slot->hold_ns);
            T_EQ(sums->waits, slot->waits);
            T_EQ(sums->wait_ns, slot->wait_ns);
            T_EQ(sums->forced, slot->forced);
            T_EQ(sums->worst_hold_ns, slot->worst_hold_ns);
            T_EQ(sums->worst_wait_ns, slot->worst_wait_ns);
            uint64_t waits = 0;
            for (int bucket = 0; bucket < HW__BUCKETS; bucket++) {
                waits += slot->wait_buckets[bucket];
                T_EQ(sums->hold_buckets[bucket], slot->hold_buckets[bucket]);
            }
            T_EQ(sums->waits, waits);
        }
    }
}

/* Checks that each GIL has one holder at a time, over all threads. Only complete files can be
 * checked: where the oldest events are lost, nothing is missing in the middle of a thread, but one
 * thread's events may reach further back than another's. */
static inline void trace_holders(const struct trace *trace) {
    struct trace_event *all = malloc((trace->event_count + 1) * sizeof *all);
    T_TRUE(all != NULL);
    size_t count = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        uint8_t kind = trace->events[i].event.kind;
        if (kind == HW__ACQUIRE || kind == HW__RELEASE) {
            all[count++] = trace->events[i];
        }
    }
    qsort(all, count, sizeof *all, trace_by_time);
    uint32_t holder = 0;
    for (size_t i = 0; i < count; i++) {
        bool new_gil = i == 0 || all[i].event.gil != all[i - 1].event.gil;
        holder = new_gil ? 0 : holder;
        bool fits = all[i].event.kind == HW__ACQUIRE ? holder == 0 : holder == all[i].serial;
        if (!fits && i + 1 < count && trace_by_time(&all[i], &all[i + 1]) == 0) {
            struct trace_event later = all[i]; /* both have the same time: swap them */
            all[i] = all[i + 1];
            all[i + 1] = later;
        }
        T_EQ(all[i].event.kind == HW__ACQUIRE ? 0 : all[i].serial, holder);
        holder = all[i].event.kind == HW__ACQUIRE ? all[i].serial : 0;
    }
    free(all);
}

/* Reads a file, checks it, and returns its contents. */
static inline struct trace trace_open(const char *path) {
    struct trace trace = {0};
    collect();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fprintf(stderr, "no file %s\n", path);
    }
    T_TRUE(fd >= 0);
    struct stat file;
    T_EQ(0, fstat(fd, &file));
    trace.size = (size_t)file.st_size;
    /* The file is read, not mapped: a hole cannot be read through a mapping if the memory disk is
     * full. */
    trace.bytes = malloc(trace.size);
    T_TRUE(trace.bytes != NULL);
    for (size_t at = 0; at < trace.size;) {
        ssize_t got = pread(fd, trace.bytes + at, trace.size - at, (off_t)at);
        T_TRUE(got > 0);
        at += (size_t)got;
    }
    close(fd);
    trace.header = (const struct hw__header *)trace.bytes;
    trace.slots = (const struct hw__slot *)(trace.bytes + trace.header->slots_offset);
    trace_header(&trace);
    trace.complete = trace.header->overwritten_events == 0 && trace.header->dropped_events == 0;

    uint32_t chunk_count = 0, used = 0;
    while (chunk_count < trace.header->chunk_count && trace_chunk(&trace, chunk_count) != NULL) {
        chunk_count++;
    }
    const struct hw__chunk **chunks = malloc((chunk_count + 1) * sizeof *chunks);
    uint32_t *codes = calloc(TRACE_GILS, sizeof *codes), *nodes = calloc(TRACE_GILS, sizeof *nodes);
    T_TRUE(chunks != NULL && codes != NULL && nodes != NULL);
    size_t room = 0;
    size_t most = chunk_count + 1;
    uint32_t place = 0;
    for (const struct hw__chunk *chunk = trace_chunk(&trace, 0); place < chunk_count;
         chunk = chunk->next != 0 ? trace_next(chunk) : trace_chunk(&trace, ++place)) {
        T_TRUE(chunk->used <= HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES);
        if (used == most) {
            most *= 2;
            chunks = realloc(chunks, most * sizeof *chunks);
            T_TRUE(chunks != NULL);
        }
        if (chunk->state != 0 && chunk->used > 0) {
            T_TRUE(chunk->state == HW__CHUNK_OPEN || chunk->state == HW__CHUNK_CLOSED);
            T_TRUE(chunk->kind >= HW__CHUNK_EVENTS && chunk->kind <= HW__CHUNK_PACKED);
            T_TRUE(chunk->sequence < trace.header->chunks_taken);
            chunks[used++] = chunk;
            room += 2 * trace_count(chunk); /* a HOLD is two */
        } else {
            T_EQ(0, chunk->used);
        }
    }
    qsort(chunks, used, sizeof *chunks, trace_in_order);
    trace.events = malloc((room + 1) * sizeof *trace.events);
    T_TRUE(trace.events != NULL);
    for (uint32_t i = 0; i < used; i++) {
        /* The stacks and types of waits without a GIL are left to the reader in Python. */
        if (chunks[i]->kind == HW__CHUNK_META && chunks[i]->owner != HW__NO_GIL) {
            T_TRUE(chunks[i]->owner < TRACE_GILS);
            trace_meta_chunk(&trace, chunks[i], codes, nodes);
        }
    }
    const struct hw__chunk *earlier = NULL; /* of events; chunks of GILs may lie in between */
    for (uint32_t i = 0; i < used; i++) {
        if (chunks[i]->kind == HW__CHUNK_META) {
            continue;
        }
        if (i + 1 < used && trace_by_owner(&chunks[i], &chunks[i + 1]) == 0) {
            continue; /* the same chunk follows, packed */
        }
        bool is_first = earlier == NULL || earlier->owner != chunks[i]->owner;
        uint32_t before = is_first ? 0 : earlier->number;
        earlier = chunks[i];
        T_TRUE(chunks[i]->number > before);
        T_TRUE(!trace.complete || chunks[i]->number == before + 1);
        trace.gaps += chunks[i]->number - before - 1;
        T_TRUE(chunks[i]->owner >= 1 && chunks[i]->owner <= trace.header->thread_count);
        struct hw__event unpacked[TRACE_CHUNK_EVENTS];
        const struct hw__event *events = (const struct hw__event *)(chunks[i] + 1);
        size_t events_here = trace_count(chunks[i]);
        T_TRUE(events_here <= TRACE_CHUNK_EVENTS);
        if (chunks[i]->kind == HW__CHUNK_PACKED) {
            trace_unpack(chunks[i] + 1, chunks[i]->used, chunks[i]->events, unpacked);
            events = unpacked;
        } else {
            T_EQ(0, chunks[i]->used % sizeof(struct hw__event));
            T_EQ(0, chunks[i]->events);
        }
        for (size_t j = 0; j < events_here; j++) {
            struct hw__event both[2] = {events[j], events[j]};
            int count = 1;
            if (events[j].kind == HW__HOLD) {
                count = 2;
                both[0].kind = HW__ACQUIRE;
                both[0].value = both[0].flags = 0;
                both[1].kind = HW__RELEASE;
                both[1].time_ns += both[1].flags;
                both[1].flags = 0;
                trace.short_holds++;
            }
            for (int k = 0; k < count; k++) {
                const struct hw__event *event = &both[k];
                T_TRUE(event->kind >= HW__WAIT && event->kind < TRACE_KINDS);
                T_TRUE(event->gil < trace.header->gil_count || event->kind == HW__EXIT ||
                       event->gil == HW__NO_GIL);
                T_TRUE(event->time_ns >= trace.header->start_ns);
                T_TRUE(trace.header->end_ns == 0 || event->time_ns <= trace.header->end_ns);
                if (event->kind == HW__WAIT || event->kind == HW__RELEASE) {
                    T_TRUE(event->value <= nodes[event->gil]);
                }
                trace.kinds[event->kind]++;
                trace.events[trace.event_count++] = (struct trace_event){*event, chunks[i]->owner};
            }
        }
    }
    free(chunks);
    free(codes);
    free(nodes);

    for (size_t first = 0, last; first < trace.event_count; first = last) {
        uint32_t serial = trace.events[first].serial;
        for (last = first; last < trace.event_count && trace.events[last].serial == serial;) {
            last++;
        }
        struct trace_sums sums = trace_thread(&trace, first, last);
        if (trace.complete && trace.header->end_ns != 0) {
            trace_slot(&trace, serial, &sums);
        }
        trace_add(&trace.sums, &sums);
    }
    if (trace.complete) {
        trace_holders(&trace);
        trace_short_holds(&trace);
    }
    return trace;
}

/* Returns the sums of the slots, of threads that live and of those that have exited. */
static inline struct trace_sums trace_slots(const struct trace *trace) {
    struct trace_sums sums = {0};
    for (uint32_t i = 0; i < trace->header->slot_count; i++) {
        const struct hw__slot *slot = &trace->slots[i];
        struct trace_sums more = {.holds = slot->holds,
                                  .hold_ns = slot->hold_ns,
                                  .waits = slot->waits,
                                  .wait_ns = slot->wait_ns,
                                  .forced = slot->forced,
                                  .worst_hold_ns = slot->worst_hold_ns,
                                  .worst_wait_ns = slot->worst_wait_ns};
        trace_add(&sums, &more);
    }
    return sums;
}

/* Checks that the slots add up to the sums of the events. No slot may have had two owners. */
static inline void trace_check_slots(const struct trace *trace) {
    struct trace_sums slots = trace_slots(trace);
    T_EQ(trace->sums.holds, slots.holds);
    T_EQ(trace->sums.hold_ns, slots.hold_ns);
    T_EQ(trace->sums.waits, slots.waits);
    T_EQ(trace->sums.wait_ns, slots.wait_ns);
    T_EQ(trace->sums.forced, slots.forced);
    T_EQ(trace->sums.worst_hold_ns, slots.worst_hold_ns);
    T_EQ(trace->sums.worst_wait_ns, slots.worst_wait_ns);
}

/* Returns how many records of a type there are, for one GIL or (-1) for all. *last becomes the last
 * of them. */
static inline size_t trace_count_meta(const struct trace *trace, int gil, uint32_t type,
                                      const void **last) {
    size_t count = 0;
    for (size_t i = 0; i < trace->meta_count; i++) {
        if ((gil < 0 || trace->metas[i].gil == (uint32_t)gil) &&
            trace->metas[i].record->type == type) {
            count++;
            if (last != NULL) {
                *last = trace->metas[i].record;
            }
        }
    }
    return count;
}

/* Return a code object, or a stack, by its number. */
static inline const struct hw__meta_code *trace_code(const struct trace *trace, uint32_t gil,
                                                     uint32_t id) {
    for (size_t i = 0; i < trace->meta_count; i++) {
        const struct hw__meta_code *code = (const void *)trace->metas[i].record;
        if (trace->metas[i].gil == gil && code->meta.type == HW__META_CODE && code->id == id) {
            return code;
        }
    }
    T_TRUE(!"a code object of that number");
    return NULL;
}

static inline const struct hw__meta_node *trace_node(const struct trace *trace, uint32_t gil,
                                                     uint32_t id) {
    for (size_t i = 0; i < trace->meta_count; i++) {
        const struct hw__meta_node *node = (const void *)trace->metas[i].record;
        if (trace->metas[i].gil == gil && node->meta.type == HW__META_NODE && node->id == id) {
            return node;
        }
    }
    T_TRUE(!"a stack of that number");
    return NULL;
}

static inline void trace_close(struct trace *trace) {
    free(trace->bytes);
    free(trace->events);
    free(trace->metas);
}

#endif
