// SPDX-License-Identifier: MIT
/* DESIGN: a chunk of the memory gets a place in the file when it has its first record. Each pass
 * copies what is new in a chunk to the chunk's place. When the process has closed the chunk and all
 * of it is copied, the chunk is given back. Chunks get places in the order in which they are
 * copied; when there are as many places as allowed, the place of the oldest closed event chunk is
 * reused. An event chunk that is closed is packed (pack.h), which makes most of them short. Short
 * chunks share places, so that neither a program that releases the GIL often nor one that begins
 * many short threads fills the file. A chunk that had a place of its own while it was open gives
 * that place up. For a moment the file then has the chunk twice: a reader takes the packed one.
 *
 * Nothing that the memory says is used unchecked. A value that is checked is read once, and its
 * copy is used. */
#include "headway/collect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headway/clock.h"
#include "headway/trace.h"
#include "trace/control.h"
#include "trace/format.h"
#include "trace/laps.h"
#include "trace/pack.h"
#include "trace/sums.h"

#define CAPACITY (HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES)
/* For threads alive at a time. The counters of further threads are not in the file. */
#define FILE_SLOTS 4096
#define FILE_SLOTS_OFFSET 65536
#define FILE_CHUNKS_OFFSET                                                                         \
    (FILE_SLOTS_OFFSET + (FILE_SLOTS * sizeof(struct hw__slot) + 65535) / 65536 * 65536)
#define SLOTS_PERIOD_NS 500000000
/* How often chunks that are still written to are copied: with thousands of threads that is
 * thousands of writes. If a process dies in between, the rest is still in its memory. */
#define OPEN_PERIOD_NS 250000000
/* If many such chunks had something new, the period is longer: OPEN_EACH_NS for each of them,
 * OPEN_MOST_NS at most. Each copy takes some 10 us, and a program with thousands of threads needs
 * the core more than a reader needs the last second. */
#define OPEN_EACH_NS 500000
#define OPEN_MOST_NS 2000000000
/* A file system that had no room is asked again after so long. */
#define FULL_NS 1000000000
/* The most chunks and bytes of a memory that is collected. A hostile process chooses these numbers,
 * and they determine how much is allocated here. The slots (14 MiB) come on top of the chunks. */
#define MOST_COLLECTED_CHUNKS (HW_COLLECT_MOST_BYTES / HW__CHUNK_BYTES)
#define MOST_COLLECTED_BYTES (2 * HW_COLLECT_MOST_BYTES)
#define NO_PLACE (-1)
/* A closed chunk with so many bytes of events at most, packed, is appended to a shared place. Two
 * such chunks fit at least. */
#define SHORT_BYTES (HW__CHUNK_BYTES / 2 - HW__CHUNK_HEADER_BYTES)

/* A burst of threads fills many chunks, each with little. From this chunk on, pages that are given
 * back are also freed. */
#define KEPT_CHUNKS 256
/* A memory fills when this part of it was taken since the last pass; and this part is enough to
 * look at it more often than at each tick. */
#define FILLED 4
#define HURRIED 64
#define HURRIED_TICKS 8

/* An event is written within this time after its time was read (assumed). So when a pass begins,
 * all older events are in the memory. */
#define MARGIN_NS 1000000

/* How far a chunk of the memory is copied. */
struct source {
    int64_t place;     /* its place in the file, if `placed` */
    uint64_t sequence; /* of the chunk that was copied; tells when the chunk is reused */
    uint32_t copied;   /* bytes that are in the file */
    uint32_t told;     /* bytes that `laps` has seen */
    /* The chunk has a place. False in zeroed memory, so that the entries of unused chunks need not
     * be touched. */
    bool placed;
    /* The last event as it was copied: an ACQUIRE may have become a HOLD since. */
    struct hw__event last;
};

/* A chunk that is copied in this pass. The oldest chunks come first, so that they are the first to
 * make room. */
struct turn {
    uint64_t sequence;
    uint32_t chunk;
};

/* The place to which short chunks are appended. */
struct short_ones {
    int64_t place;      /* NO_PLACE: none */
    uint32_t last, end; /* offsets in the place: of the last chunk's header, and where it ends */
};

/* A queue of places. It has room for all places if necessary. */
struct queue {
    int64_t *items;
    int64_t first, count, room;
};

struct hw_collection {
    int file;
    size_t bytes;
    char *memory;
    struct hw__header *header;
    struct hw__control *control;
    /* Offsets of the parts of the memory, as check() found them. */
    uint64_t slots_offset, claims_offset, chunks_offset;
    uint32_t slot_count, chunk_count;
    /* The process records while this collection copies, and chunks are given back. False: nobody
     * collects the memory as it fills, and the process reuses its chunks in turn; such a memory is
     * copied by the process itself (headway.trace()). */
    bool shared;
    struct source *sources;
    struct turn *turns; /* room for all turns of a pass */

    /* Of the events at each place in the file, which is the room for one chunk; 0 for an open
     * chunk. */
    struct hw__sums *places;
    /* The number of places that were ever used, and of those allocated. */
    int64_t place_count, place_room;
    int64_t in_use, limit;
    /* The same for meta chunks; limit 0: they count in `in_use`. */
    int64_t meta_in_use, meta_limit;
    int64_t meta_placed; /* meta chunks that ever got a place */
    int64_t lost_meta;   /* meta chunks without a place */
    struct queue closed; /* places of closed event chunks, the oldest first */
    struct queue free;   /* places that were given up */
    struct short_ones short_ones;
    /* As hw_collect_share() has set it; 0: it has not. Relaxed. */
    _Atomic uint32_t share;
    uint64_t taken; /* chunks that the process had taken when the last pass began */
    uint64_t dropped;
    uint64_t left_out; /* events of open chunks that the present pass could not write */
    struct hw__sums overwritten;
    int64_t slots_ns;       /* when the slots were last copied */
    int64_t open_written;   /* open chunks that had something new in the present pass */
    int64_t open_ns;        /* when open chunks are copied again */
    int64_t known_until_ns; /* everything recorded before this time is in the file */
    int error;
    /* The file system had no room: the file does not grow before this time. 0: it had room. */
    int64_t full_until_ns;
    struct hw__laps *laps; /* NULL: no laps are asked for */
};

static _Atomic uint32_t *claim_of(const struct hw_collection *to, uint32_t i) {
    return (_Atomic uint32_t *)(to->memory + to->claims_offset) + i;
}

static struct hw__chunk *chunk_of(const struct hw_collection *to, uint32_t i) {
    return (struct hw__chunk *)(to->memory + to->chunks_offset + (size_t)i * HW__CHUNK_BYTES);
}

static bool within(uint64_t offset, uint64_t count, uint64_t size, uint64_t bytes) {
    return offset % 64 == 0 && offset <= bytes && count <= (bytes - offset) / size;
}

/* Checks whether the memory is a recorder's, and takes over where its parts are. Returns whether it
 * is. */
static bool check(struct hw_collection *to) {
    const struct hw__header *header = to->header;
    if (memcmp(header->magic, HW__MAGIC, sizeof header->magic) != 0 ||
        header->version != HW__FORMAT_VERSION || header->slot_bytes != sizeof(struct hw__slot) ||
        header->chunk_bytes != HW__CHUNK_BYTES) {
        return false;
    }
    to->slots_offset = header->slots_offset;
    to->claims_offset = to->control->claims_offset;
    to->chunks_offset = header->chunks_offset;
    to->slot_count = header->slot_count;
    to->chunk_count = header->chunk_count;
    return to->chunk_count <= (to->shared ? MOST_COLLECTED_CHUNKS : HW__MOST_CHUNKS) &&
           within(to->slots_offset, to->slot_count, sizeof(struct hw__slot), to->bytes) &&
           within(to->claims_offset, to->chunk_count, sizeof(uint32_t), to->bytes) &&
           within(to->chunks_offset, to->chunk_count, HW__CHUNK_BYTES, to->bytes);
}

static bool put(struct queue *queue, int64_t item) {
    if (queue->count == queue->room) {
        int64_t room = queue->room == 0 ? 64 : 2 * queue->room;
        int64_t *items = malloc((size_t)room * sizeof *items);
        if (items == NULL) {
            return false;
        }
        for (int64_t i = 0; i < queue->count; i++) {
            items[i] = queue->items[(queue->first + i) % queue->room];
        }
        free(queue->items);
        *queue = (struct queue){.items = items, .count = queue->count, .room = room};
    }
    queue->items[(queue->first + queue->count++) % queue->room] = item;
    return true;
}

static int64_t take(struct queue *queue) {
    if (queue->count == 0) {
        return NO_PLACE;
    }
    int64_t item = queue->items[queue->first];
    queue->first = (queue->first + 1) % queue->room;
    queue->count--;
    return item;
}

/* Makes a collection of the memory that is mapped at `memory`, or unmaps it. Returns NULL with
 * errno set on failure. */
static struct hw_collection *open_mapped(void *memory, size_t bytes, int file, const char *path) {
    struct hw_collection *to = calloc(1, sizeof *to);
    if (to == NULL) {
        munmap(memory, bytes);
        return NULL;
    }
    to->file = file;
    to->shared = path != NULL;
    to->bytes = bytes;
    to->limit = INT64_MAX;
    to->short_ones.place = NO_PLACE;
    to->memory = memory;
    to->header = memory;
    to->control = hw__control_of(to->header);
    bool fits = check(to);
    if (fits) {
        to->sources = calloc(to->chunk_count + 1, sizeof *to->sources);
        to->turns = calloc(to->chunk_count + 1, sizeof *to->turns);
    }
    if (to->sources == NULL || to->turns == NULL) {
        hw_collect_close(to);
        errno = fits ? ENOMEM : EPROTO;
        return NULL;
    }
    /* The file must have all parts that its header names, even if there is no chunk yet. */
    struct stat there;
    if (fstat(file, &there) == 0 && there.st_size < (off_t)FILE_CHUNKS_OFFSET) {
        (void)!ftruncate(file, FILE_CHUNKS_OFFSET);
    }
    if (path != NULL) {
        size_t length = strnlen(path, HW__FILE_BYTES - 1);
        memcpy(to->control->file, path, length);
    }
    return to;
}

struct hw_collection *hw_collect_open(int memory, int file, const char *path) {
    struct stat status;
    int seals = fcntl(memory, F_GET_SEALS);
    if (fstat(memory, &status) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
        status.st_size < HW__HEADER_BYTES ||
        status.st_size > (path != NULL ? (off_t)MOST_COLLECTED_BYTES : (off_t)1 << 40)) {
        errno = EPROTO;
        return NULL;
    }
    size_t bytes = (size_t)status.st_size;
    void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    return mapping == MAP_FAILED ? NULL : open_mapped(mapping, bytes, file, path);
}

struct hw_collection *hw_collect_open_kept(const struct hw_trace_kept *kept, int file) {
    /* With an old length of 0, a second mapping is made, of the whole memory. */
    void *mapping = mremap(kept->page, 0, kept->bytes, MREMAP_MAYMOVE);
    return mapping == MAP_FAILED ? NULL : open_mapped(mapping, kept->bytes, file, NULL);
}

uint64_t hw_collect_family(const struct hw_collection *collection) {
    return collection->header->family;
}

void hw_collect_began(struct hw_collection *collection, int64_t realtime_ns) {
    collection->header->process_start_ns = realtime_ns;
}

void hw_collect_lived(struct hw_collection *collection, int64_t until_ns) {
    collection->header->lived_until_ns = until_ns;
}

void hw_collect_limit(struct hw_collection *collection, int64_t chunks) {
    collection->limit = chunks < 2 ? 2 : chunks;
}

void hw_collect_limit_meta(struct hw_collection *collection, int64_t chunks) {
    collection->meta_limit = chunks;
}

void hw_collect_share(struct hw_collection *collection, uint32_t chunks) {
    atomic_store_explicit(&collection->share, chunks, memory_order_relaxed);
    atomic_store_explicit(&collection->control->limit, chunks, memory_order_relaxed);
}

void hw_collect_beat(struct hw_collection *collection) {
    _Atomic uint32_t *beats = &collection->control->beats;
    uint32_t next = atomic_load_explicit(beats, memory_order_relaxed) + 1;
    atomic_store_explicit(beats, next == 0 ? 1 : next, memory_order_relaxed);
}

static off_t place_offset(int64_t place) {
    return (off_t)FILE_CHUNKS_OFFSET + (off_t)place * HW__CHUNK_BYTES;
}

static bool write_all(struct hw_collection *to, const void *from, size_t bytes, off_t offset) {
    const char *at = from;
    while (bytes > 0) {
        ssize_t written = pwrite(to->file, at, bytes, offset);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            to->error = written == 0 ? EIO : errno;
            return false;
        }
        at += written;
        offset += written;
        bytes -= (size_t)written;
    }
    return true;
}

static void add_sums(struct hw__sums *to, struct hw__sums more) {
    to->events += more.events;
    if (more.last_ns > to->last_ns) {
        to->last_ns = more.last_ns;
    }
    if (more.interval_ns > to->interval_ns) {
        to->interval_ns = more.interval_ns;
        to->interval_us = more.interval_us;
    }
}

/* Keeps the later of the changes of the switch interval that were overwritten. */
static void lose_interval(struct hw_collection *to, int64_t time_ns, uint32_t us) {
    if (time_ns > to->overwritten.interval_ns) {
        to->overwritten.interval_ns = time_ns;
        to->overwritten.interval_us = us;
    }
}

/* Counts the events of a place as overwritten. */
static void lose(struct hw_collection *to, int64_t place) {
    struct hw__sums *lost = &to->places[place];
    to->overwritten.events += lost->events;
    if (lost->last_ns > to->overwritten.last_ns) {
        to->overwritten.last_ns = lost->last_ns;
    }
    lose_interval(to, lost->interval_ns, lost->interval_us);
    *lost = (struct hw__sums){0};
}

/* Appends nothing more to the place of short chunks. */
static void close_short_ones(struct hw_collection *to) {
    if (to->short_ones.place != NO_PLACE) {
        put(&to->closed, to->short_ones.place);
        to->short_ones.place = NO_PLACE;
    }
}

/* Takes the place of the oldest closed event chunks, whose events are lost, or NO_PLACE. */
static int64_t take_closed(struct hw_collection *to) {
    if (to->closed.count == 0) {
        close_short_ones(to);
    }
    int64_t place = take(&to->closed);
    if (place != NO_PLACE) {
        lose(to, place);
    }
    return place;
}

/* Has the file system reserve the room for a place. Returns false if there is no room. */
static bool allocate(struct hw_collection *to, int64_t place) {
    if (fallocate(to->file, 0, place_offset(place), HW__CHUNK_BYTES) == 0) {
        return true;
    }
    if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG) {
        return true; /* the file system cannot reserve room; a write that fails is counted */
    }
    to->error = errno;
    return false;
}

/* Makes what is at a place unreadable, before anything else is written there. */
static void erase(struct hw_collection *to, int64_t place) {
    static const char nothing[HW__CHUNK_HEADER_BYTES];
    write_all(to, nothing, sizeof nothing, place_offset(place));
}

/* Returns a place for one more chunk, or NO_PLACE. */
static int64_t new_place(struct hw_collection *to, uint32_t kind) {
    bool apart = kind == HW__CHUNK_META && to->meta_limit != 0;
    int64_t *in_use = apart ? &to->meta_in_use : &to->in_use;
    if (*in_use < (apart ? to->meta_limit : to->limit) &&
        (to->full_until_ns == 0 || hw_now_ns() >= to->full_until_ns)) {
        int64_t place = take(&to->free);
        bool appended = place == NO_PLACE;
        if (appended) {
            if (to->place_count == to->place_room) {
                int64_t room = to->place_room == 0 ? 64 : 2 * to->place_room;
                struct hw__sums *places = realloc(to->places, (size_t)room * sizeof *places);
                if (places == NULL) {
                    return NO_PLACE;
                }
                to->places = places;
                to->place_room = room;
            }
            place = to->place_count++;
        }
        to->places[place] = (struct hw__sums){0};
        ++*in_use;
        if (allocate(to, place)) {
            return place;
        }
        /* For now the places that the file has must do. */
        to->full_until_ns = hw_now_ns() + FULL_NS;
        --*in_use;
        if (appended) {
            to->place_count--;
        } else {
            put(&to->free, place);
        }
    }
    int64_t place = apart ? NO_PLACE : take_closed(to);
    if (place != NO_PLACE) {
        erase(to, place);
    }
    return place;
}

/* Removes what is at a place from the file. The place can be used again. */
static void give_up(struct hw_collection *to, int64_t place) {
    erase(to, place);
    (void)!fallocate(to->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place_offset(place),
                     HW__CHUNK_BYTES);
    to->places[place] = (struct hw__sums){0};
    to->in_use--;
    to->full_until_ns = 0; /* there is room now */
    put(&to->free, place); /* if that fails, only the place is lost */
}

/* Gives up the oldest events, if the file has more chunks than it may have. */
static void shrink(struct hw_collection *to) {
    while (to->in_use > to->limit) {
        int64_t place = take_closed(to);
        if (place == NO_PLACE) {
            return;
        }
        give_up(to, place);
    }
}

/* Writes what is new in a chunk, at its place. Returns whether that succeeded. */
static bool write_chunk(struct hw_collection *to, struct source *source, struct hw__chunk *head,
                        const char *content, uint32_t used) {
    off_t offset = place_offset(source->place);
    /* The last event is written again: it may have become a HOLD. */
    uint32_t from = source->copied < sizeof(struct hw__event)
                        ? 0
                        : source->copied - (uint32_t)sizeof(struct hw__event);
    if (head->kind == HW__CHUNK_META) {
        from = source->copied;
        head->state = HW__CHUNK_OPEN; /* in a file, no meta chunk is reused */
    }
    head->used = used;
    head->next = head->events = 0;
    /* The records first, then the header that counts them. */
    if (!write_all(to, content + from, used - from, offset + HW__CHUNK_HEADER_BYTES + from) ||
        !write_all(to, head, sizeof *head, offset)) {
        return false;
    }
    source->copied = used;
    if (used >= sizeof source->last) {
        memcpy(&source->last, content + used - sizeof source->last, sizeof source->last);
    }
    return true;
}

/* Appends a closed chunk, packed, to those that share a place. Returns whether that succeeded; it
 * does not if the chunk is not short. */
static bool append_short(struct hw_collection *to, const struct hw__chunk *chunk,
                         const char *content, uint32_t content_bytes) {
    struct short_ones *ones = &to->short_ones;
    char packed[SHORT_BYTES];
    uint32_t used = hw__pack(content, content_bytes, packed, sizeof packed);
    if (used == 0) {
        return false;
    }
    uint32_t bytes = HW__CHUNK_HEADER_BYTES + (used + 63) / 64 * 64;
    if (ones->place != NO_PLACE && ones->end + bytes > HW__CHUNK_BYTES) {
        close_short_ones(to);
    }
    if (ones->place == NO_PLACE) {
        *ones = (struct short_ones){.place = new_place(to, HW__CHUNK_EVENTS)};
        if (ones->place == NO_PLACE) {
            return false;
        }
    }
    off_t offset = place_offset(ones->place), at = offset + ones->end;
    struct hw__chunk head = *chunk;
    head.kind = HW__CHUNK_PACKED;
    head.used = used;
    head.events = content_bytes / (uint32_t)sizeof(struct hw__event);
    head.next = 0;
    if (!write_all(to, packed, used, at + HW__CHUNK_HEADER_BYTES) ||
        !write_all(to, &head, sizeof head, at)) {
        return false;
    }
    if (ones->end > 0) {
        /* A reader finds the chunk from now on. */
        uint32_t next = ones->end - ones->last - HW__CHUNK_HEADER_BYTES;
        if (!write_all(to, &next, sizeof next,
                       offset + ones->last + (off_t)offsetof(struct hw__chunk, next))) {
            return false;
        }
    }
    add_sums(&to->places[ones->place], hw__sum_up(content, content_bytes));
    ones->last = ones->end;
    ones->end += bytes;
    return true;
}

/* Returns whether a chunk is open and all of it is in the file. */
static bool is_copied(const struct source *source, const struct hw__chunk *chunk,
                      const struct hw__chunk *head, uint32_t used, uint32_t state) {
    if (state != HW__CHUNK_OPEN || source->sequence != head->sequence || used != source->copied ||
        used < sizeof source->last) {
        return false;
    }
    const char *last = (const char *)chunk + HW__CHUNK_HEADER_BYTES + used - sizeof source->last;
    return memcmp(last, &source->last, sizeof source->last) == 0;
}

/* Prepares the copying of what is new in a chunk: all of it, if it has been reused since. */
static void begin_copy(struct source *source, uint64_t sequence, uint32_t used) {
    if (source->sequence != sequence) {
        source->sequence = sequence;
        source->placed = false;
        source->copied = source->told = 0;
    } else if (used < source->copied || used < source->told) {
        source->copied = source->told = 0; /* an honest process only adds to a chunk */
    }
}

/* Writes what is new in a chunk to its place, or to a shared place; a chunk without a place gets
 * one. Returns whether that succeeded. */
static bool place_chunk(struct hw_collection *to, struct source *source, struct hw__chunk *head,
                        const char *content, uint32_t used) {
    bool closed = head->state == HW__CHUNK_CLOSED;
    if (to->shared && closed && head->kind == HW__CHUNK_EVENTS &&
        append_short(to, head, content, used)) {
        if (source->placed) {
            give_up(to, source->place);
            source->placed = false;
        }
        return true;
    }
    if (!source->placed) {
        source->place = new_place(to, head->kind);
        source->placed = source->place != NO_PLACE;
        to->meta_placed += source->placed && head->kind == HW__CHUNK_META;
        source->copied = 0;
    }
    return source->placed && write_chunk(to, source, head, content, used);
}

/* Counts what could not be written of a chunk, and keeps the place of a closed one for reuse. */
static void count_copied(struct hw_collection *to, const struct source *source,
                         const struct hw__chunk *head, const char *content, uint32_t used,
                         bool closed, bool written) {
    if (head->kind != HW__CHUNK_EVENTS) {
        to->lost_meta += closed && !written && head->kind == HW__CHUNK_META;
        return;
    }
    if (!written) {
        /* A closed chunk that cannot be written must not keep the process from using its memory. An
         * open one may be written later, unless this is the last pass. */
        *(closed ? &to->dropped : &to->left_out) +=
            hw__sum_up(content + source->copied, used - source->copied).events;
    }
    if (closed && source->placed) {
        to->places[source->place] = hw__sum_up(content, source->copied);
        put(&to->closed, source->place);
    }
}

/* Copies one chunk. Returns whether it was closed, and may be given back. */
static bool copy_chunk(struct hw_collection *to, uint32_t i) {
    struct hw__chunk *chunk = chunk_of(to, i);
    struct source *source = &to->sources[i];
    /* The state is read first: in a closed chunk `used` is final. */
    uint32_t state = atomic_load_explicit(&chunk->state, memory_order_acquire);
    if (state != HW__CHUNK_OPEN && state != HW__CHUNK_CLOSED) {
        return false;
    }
    uint32_t used = atomic_load_explicit(&chunk->used, memory_order_acquire);
    struct hw__chunk head;
    char content[CAPACITY];
    if (used > CAPACITY) {
        used = CAPACITY;
    }
    memcpy((void *)&head, (void *)chunk, sizeof head);
    if (is_copied(source, chunk, &head, used, state)) {
        return false;
    }
    memcpy(content, (char *)chunk + HW__CHUNK_HEADER_BYTES, used);
    if (!to->shared) {
        /* The process may have reused the chunk while it was copied. Then this pass leaves it out,
         * and the next one copies it; headway.trace() makes only one pass a file. */
        atomic_thread_fence(memory_order_acquire);
        if (chunk->sequence != head.sequence ||
            atomic_load_explicit(&chunk->used, memory_order_relaxed) < used) {
            return false;
        }
    }
    head.state = state;
    begin_copy(source, head.sequence, used);
    lose_interval(to, head.lost_interval_ns, head.lost_interval_us);
    bool closed = state == HW__CHUNK_CLOSED;
    if (used == 0) {
        return closed;
    }
    bool written = place_chunk(to, source, &head, content, used);
    to->open_written += !closed;
    if (to->laps != NULL && head.kind == HW__CHUNK_EVENTS) {
        hw__laps_see(to->laps, head.owner, content, used, &source->told);
    }
    count_copied(to, source, &head, content, used, closed, written);
    return closed;
}

static int by_sequence(const void *left, const void *right) {
    const struct turn *a = left, *b = right;
    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

/* Finds the chunks that this pass copies; open ones only if `with_open`. Returns their number. */
static uint32_t find_turns(struct hw_collection *to, bool with_open) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < to->chunk_count; i++) {
        struct hw__chunk *chunk = chunk_of(to, i);
        if (to->shared &&
            atomic_load_explicit(claim_of(to, i), memory_order_acquire) == HW__CLAIM_FREE) {
            continue;
        }
        uint32_t state = atomic_load_explicit(&chunk->state, memory_order_acquire);
        if (state == HW__CHUNK_CLOSED || (state == HW__CHUNK_OPEN && with_open)) {
            to->turns[count++] = (struct turn){chunk->sequence, i};
        }
    }
    qsort(to->turns, count, sizeof *to->turns, by_sequence);
    return count;
}

static void copy_slots(struct hw_collection *to) {
    uint32_t threads = atomic_load(&to->header->thread_count);
    uint32_t count = to->slot_count < FILE_SLOTS ? to->slot_count : FILE_SLOTS;
    count = threads < count ? threads : count;
    write_all(to, to->memory + to->slots_offset, count * sizeof(struct hw__slot),
              FILE_SLOTS_OFFSET);
}

static void copy_header(struct hw_collection *to, bool last) {
    _Alignas(8) char page[HW__HEADER_BYTES] = {0};
    struct hw__header *header = (struct hw__header *)page;
    memcpy(page, to->memory, sizeof *header);
    header->slot_count = FILE_SLOTS;
    header->slots_offset = FILE_SLOTS_OFFSET;
    header->chunks_offset = FILE_CHUNKS_OFFSET;
    header->chunk_count = (uint32_t)to->place_count;
    header->dropped_events += to->dropped + (last ? to->left_out : 0);
    header->overwritten_events += to->overwritten.events;
    if (to->overwritten.last_ns > header->overwritten_until_ns) {
        header->overwritten_until_ns = to->overwritten.last_ns;
    }
    header->lost_interval_ns = to->overwritten.interval_ns;
    header->lost_interval_us = to->overwritten.interval_us;
    if (!last) {
        header->end_ns = 0;
    }
    header->known_until_ns = last ? 0 : to->known_until_ns;
    if (!last) {
        header->left_ns = 0;
    }
    write_all(to, page, sizeof page, 0);
}

/* Returns whether the process has taken more than a part of its share since the last pass. */
static bool has_taken(const struct hw_collection *of, uint32_t part) {
    uint64_t taken = atomic_load_explicit(&of->header->chunks_taken, memory_order_relaxed);
    uint32_t share = atomic_load_explicit(&of->share, memory_order_relaxed);
    return share > 0 && taken - of->taken > share / part;
}

int hw_collect_fills(const struct hw_collection *collection) {
    return has_taken(collection, FILLED);
}

/* Gives a chunk back that is copied. */
static void give_back(struct hw_collection *to, uint32_t i) {
    struct hw__chunk *chunk = chunk_of(to, i);
    to->sources[i] = (struct source){.sequence = UINT64_MAX};
    atomic_store_explicit(&chunk->used, 0, memory_order_relaxed);
    atomic_store_explicit(&chunk->state, 0, memory_order_relaxed);
    if (i >= KEPT_CHUNKS && to->control->filled == 0) {
        (void)madvise(chunk, HW__CHUNK_BYTES, MADV_REMOVE); /* it is empty all the same */
    }
    atomic_store_explicit(claim_of(to, i), HW__CLAIM_FREE, memory_order_release);
}

void hw_collect_pass(struct hw_collection *to, int last, struct hw_collect_state *state) {
    int64_t now = hw_now_ns(), began_ns = now - MARGIN_NS;
    /* Read before the chunks, which are then final. */
    bool over = atomic_load(&to->header->end_ns) != 0;
    bool complete = last || over;
    shrink(to);
    to->taken = atomic_load_explicit(&to->header->chunks_taken, memory_order_relaxed);
    bool with_open = complete || now >= to->open_ns;
    to->open_written = 0;
    to->left_out = 0;
    uint32_t turns = find_turns(to, with_open);
    int32_t closed = 0;
    for (uint32_t turn = 0; turn < turns; turn++) {
        uint32_t i = to->turns[turn].chunk;
        if (copy_chunk(to, i) && to->shared) {
            closed++;
            give_back(to, i);
        }
    }
    if (complete || now - to->slots_ns > SLOTS_PERIOD_NS) {
        copy_slots(to);
        to->slots_ns = now;
    }
    if (with_open) {
        int64_t pause_ns = to->open_written * OPEN_EACH_NS;
        pause_ns = pause_ns > OPEN_MOST_NS ? OPEN_MOST_NS : pause_ns;
        to->open_ns = now + (pause_ns < OPEN_PERIOD_NS ? OPEN_PERIOD_NS : pause_ns);
        to->known_until_ns = began_ns;
    }
    if (to->shared && to->meta_limit == 0) {
        /* The rest of the file is for events: the process describes no further stacks. */
        atomic_store_explicit(&to->control->stacks_full, to->meta_placed >= to->limit / 2,
                              memory_order_relaxed);
    }
    copy_header(to, complete);
    atomic_store_explicit(&to->control->collected_ns, over ? INT64_MAX : to->known_until_ns,
                          memory_order_release);
    *state = (struct hw_collect_state){
        .pid = to->header->pid,
        .ended = over,
        .chunks = to->in_use,
        .dropped_events = (int64_t)(to->dropped + (complete ? to->left_out : 0) +
                                    atomic_load(&to->header->dropped_events)),
        .lost_children = atomic_load_explicit(&to->control->lost_children, memory_order_relaxed),
        .error = to->error,
        .closed = closed,
        .overwritten_until_ns = to->overwritten.last_ns,
        .lost_meta = to->lost_meta,
    };
}

int hw_collect_watch(struct hw_collection *to, const int64_t least_ns[HW_HOMES]) {
    hw__laps_free(to->laps);
    to->laps = hw__laps_new(least_ns);
    atomic_store_explicit(&to->control->no_cpu_times, 1, memory_order_relaxed);
    return to->laps == NULL ? -ENOMEM : 0;
}

int hw_collect_fresh(struct hw_collection *to, uint32_t *stacks, int max) {
    return to->laps == NULL ? 0 : hw__laps_fresh(to->laps, stacks, max);
}

void hw_collect_settle(struct hw_collection *to, uint32_t stack, int home) {
    if (to->laps != NULL) {
        hw__laps_settle(to->laps, stack, home);
    }
}

void hw_collect_laps(struct hw_collection *to, int64_t now_ns, struct hw_laps *told) {
    memset(told, 0, sizeof *told);
    if (to->laps != NULL) {
        hw__laps_tell(to->laps, now_ns, told);
    }
}

/* Returns whether any thread of the process is worth a look from outside. */
static bool is_worth(const struct hw_collection *of, const struct hw_look *least, int64_t tick_ns,
                     int64_t now_ns) {
    const struct hw__slot *slots = (const struct hw__slot *)(of->memory + of->slots_offset);
    uint32_t threads = atomic_load_explicit(&of->header->thread_count, memory_order_relaxed);
    uint32_t count = threads < of->slot_count ? threads : of->slot_count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t state = atomic_load_explicit(&slots[i].state, memory_order_relaxed);
        int64_t since_ns = atomic_load_explicit(&slots[i].since_ns, memory_order_relaxed);
        int64_t length_ns = (int64_t)((uint64_t)now_ns - (uint64_t)since_ns);
        if (state == HW__SLOT_FREE || length_ns < 0) {
            continue;
        }
        if ((state == HW__SLOT_HOLDING && length_ns >= least->hold_ns) ||
            (state == HW__SLOT_WAITING && length_ns >= least->wait_ns)) {
            return true;
        }
        if (length_ns < least->away_ns && length_ns < least->still_ns) {
            continue;
        }
        uint32_t serial = atomic_load_explicit(&slots[i].serial, memory_order_relaxed);
        bool at_home = false;
        if (of->laps != NULL && hw__laps_loops(of->laps, serial, &at_home)) {
            /* The thread has been in its poll since before the last pass: it has nothing to do. */
            bool idles = state == HW__SLOT_IDLE && at_home && since_ns < of->known_until_ns;
            if (length_ns >= least->still_ns && !idles) {
                return true;
            }
        } else if (state == HW__SLOT_IDLE && length_ns >= least->away_ns &&
                   length_ns < least->away_ns + 2 * tick_ns) {
            return true;
        }
    }
    return false;
}

int hw_collect_wait(struct hw_collection *const *collections, int count,
                    const struct hw_look *least, int64_t tick_ns, int64_t until_ns,
                    int descriptor) {
    struct pollfd ready = {.fd = descriptor, .events = POLLIN};
    for (;;) {
        int64_t now_ns = hw_now_ns();
        int64_t pause_ns = tick_ns;
        for (int i = 0; i < count; i++) {
            if (has_taken(collections[i], HURRIED)) {
                pause_ns = tick_ns / HURRIED_TICKS;
            }
        }
        pause_ns = until_ns - now_ns < pause_ns ? until_ns - now_ns : pause_ns;
        pause_ns = pause_ns < 0 ? 0 : pause_ns;
        struct timespec pause = {.tv_sec = pause_ns / 1000000000, .tv_nsec = pause_ns % 1000000000};
        if (ppoll(&ready, 1, &pause, NULL) != 0) {
            return HW_WAIT_READY;
        }
        now_ns = hw_now_ns();
        for (int i = 0; i < count; i++) {
            if (is_worth(collections[i], least, tick_ns, now_ns)) {
                return HW_WAIT_THREAD;
            }
            if (hw_collect_fills(collections[i])) {
                return HW_WAIT_OVER;
            }
        }
        if (now_ns >= until_ns) {
            return HW_WAIT_OVER;
        }
    }
}

void hw_collect_hurry(struct hw_collection *to) { to->open_ns = 0; }

void hw_collect_close(struct hw_collection *to) {
    hw__laps_free(to->laps);
    munmap(to->memory, to->bytes);
    free(to->sources);
    free(to->turns);
    free(to->places);
    free(to->closed.items);
    free(to->free.items);
    free(to);
}
