// SPDX-License-Identifier: MIT
#include "trace/stacks.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/rare.h"
#include "base/room.h"

#define INDICES (HW__NO_GIL + 1) /* the indices of GILs' records, and HW__NO_GIL */
/* Slots of the first level's tables, powers of two: 336 KiB in all. */
#define CODES 2048  /* of code objects */
#define NODES 16384 /* of stacks */
#define LEVELS 4    /* up to a million stacks in all */
#define MAX_LOAD(slots) ((slots) / 4 * 3)
/* Code objects that are described: as many as all levels have room for. */
#define MOST_CODES MAX_LOAD(CODES * ((1u << 2 * LEVELS) - 1) / 3)
#define META_CAPACITY (HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES)
#define MAX_STRING_BYTES 2048u /* of a file name or a qualified name; longer names are cut */
#define TAGS ((uintptr_t)7)    /* low bits of a frame's pointer to its code object */

/* A code object that is described in the file. */
struct code {
    uintptr_t address; /* 0: empty */
    uintptr_t filename, qualname, linetable;
    int32_t first_line;
    uint32_t id;
};

/* A stack that is in the file: `code` at `offset`, called by the stack `parent`. */
struct node {
    uint32_t parent;
    uint32_t code; /* 0: empty */
    int32_t offset;
    uint32_t id;
};

/* Hash tables with open addressing. When one of them is full, another level is added for new
 * entries, four times as large as the one before. Entries are not moved to larger tables, as the
 * GIL's mutex is held meanwhile. */
struct level {
    uint32_t code_count, node_count; /* slots that are used */
    uint32_t code_slots, node_slots;
    struct code *codes;
    struct node *nodes;
};

struct hw__stacks {
    uint32_t count;     /* number of levels; new entries go into the last one */
    uint32_t described; /* number of code objects, those included that others have replaced */
    struct level levels[LEVELS];
};

/* If code_type is 0, there are no stacks. */
static _Alignas(64) struct hw_stack_layout layout;

/* The next ids. They go on when a record is used for another GIL, since the file knows a GIL by its
 * index. Guarded by that GIL's mutex. */
static uint32_t next_code[INDICES], next_node[INDICES];

static uintptr_t pointer_at(uintptr_t base, int32_t offset) {
    return *(const uintptr_t *)(base + (uintptr_t)offset);
}

void hw__stacks_init(const struct hw_stack_layout *new_layout) {
    bool on = new_layout != NULL && hw__session.chunk_count > 0;
    layout = on ? *new_layout : (struct hw_stack_layout){.code_type = 0};
    hw__stacks_forget();
}

void hw__stacks_forget(void) {
    for (uint32_t i = 0; i < INDICES; i++) {
        next_code[i] = next_node[i] = 1;
    }
}

void *hw__meta_begin(struct hw__gil *gil, uint32_t type, size_t bytes) {
    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > META_CAPACITY || hw__session.chunk_count == 0) {
        return NULL;
    }
    uint32_t used = gil->meta == NULL ? 0 : atomic_load(&gil->meta->used);
    if (gil->meta == NULL || used + bytes > META_CAPACITY) {
        if (gil->meta != NULL) {
            hw__session_close_chunk(gil->meta, HW__CHUNK_META);
        }
        gil->meta = hw__session_chunk(HW__CHUNK_META, gil->index, 0);
        if (gil->meta == NULL) {
            return NULL;
        }
        used = 0;
    }
    struct hw__meta *meta = (struct hw__meta *)((char *)gil->meta + HW__CHUNK_HEADER_BYTES + used);
    memset(meta, 0, bytes);
    meta->type = (uint16_t)type;
    meta->bytes = (uint32_t)bytes;
    return meta;
}

void hw__meta_commit(struct hw__gil *gil, void *record) {
    const struct hw__meta *meta = record;
    uint32_t used = atomic_load_explicit(&gil->meta->used, memory_order_relaxed);
    atomic_store_explicit(&gil->meta->used, used + meta->bytes, memory_order_release);
}

/* Returns the address of a str's text, and sets `bytes` to its length (at most MAX_STRING_BYTES)
 * and `kind` to the bytes of a character.
 *
 * Instances of a subclass, and strings that the old C interface has made, have their text
 * elsewhere: such a PyUnicodeObject keeps a pointer to it, where compact text would begin. A string
 * that is not ready yet (up to 3.11: kind 0) has none. */
static const char *text(uintptr_t string, uint32_t *bytes, uint8_t *kind) {
    size_t length = pointer_at(string, layout.object_bytes);
    uint32_t state;
    memcpy(&state, (const void *)(string + (uintptr_t)layout.string_state), sizeof state);
    state >>= layout.string_kind_shift;
    *kind = (uint8_t)(state & 7);
    bool compact = (state >> 3 & 1) != 0, ascii = (state >> 4 & 1) != 0; /* kind:3, then these */
    uintptr_t data = string + (uintptr_t)(ascii ? layout.string_ascii : layout.string_other);
    if (!compact) {
        data = pointer_at(string, layout.string_other);
    }
    if (data == 0 || (*kind != 1 && *kind != 2 && *kind != 4)) {
        *kind = 1;
        *bytes = 0;
        return "";
    }
    if (length > MAX_STRING_BYTES / *kind) {
        length = MAX_STRING_BYTES / *kind;
    }
    *bytes = (uint32_t)(length * *kind);
    return (const char *)data;
}

/* Returns whether code objects and stacks still have room in the file. */
static bool has_room(void) {
    return atomic_load_explicit(&hw__session.control->stacks_full, memory_order_relaxed) == 0;
}

/* Describes a code object in the file. Returns whether there was room. */
static bool describe(struct hw__gil *gil, const struct code *code) {
    uint32_t filename_bytes, qualname_bytes;
    uint8_t filename_kind, qualname_kind;
    const char *filename = text(code->filename, &filename_bytes, &filename_kind);
    const char *qualname = text(code->qualname, &qualname_bytes, &qualname_kind);
    /* PyBytesObject: head, size, hash, data. */
    size_t linetable_bytes = pointer_at(code->linetable, layout.object_bytes);
    const char *linetable =
        (const char *)(code->linetable + (uintptr_t)layout.object_bytes + 2 * sizeof(uintptr_t));

    size_t bytes = sizeof(struct hw__meta_code) + filename_bytes + qualname_bytes;
    if (bytes + linetable_bytes > META_CAPACITY) {
        linetable_bytes = 0;
    }
    struct hw__meta_code *record = hw__meta_begin(gil, HW__META_CODE, bytes + linetable_bytes);
    if (record == NULL) {
        return false;
    }
    record->id = code->id;
    record->first_line = code->first_line;
    record->filename_bytes = filename_bytes;
    record->qualname_bytes = qualname_bytes;
    record->linetable_bytes = (uint32_t)linetable_bytes;
    record->filename_kind = filename_kind;
    record->qualname_kind = qualname_kind;
    char *to = (char *)(record + 1);
    memcpy(to, filename, filename_bytes);
    memcpy(to + filename_bytes, qualname, qualname_bytes);
    memcpy(to + filename_bytes + qualname_bytes, linetable, linetable_bytes);
    hw__meta_commit(gil, record);
    return true;
}

/* Returns a hash. A product's bit depends only on the factor's bits up to it, so the upper half is
 * folded in before: a stack's parent is there. */
static size_t mix(uint64_t value) {
    return (size_t)(((value ^ value >> 32) * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

/* Reads the fields that tell a code object from another one that was at its address before; `id` is
 * left 0. */
static struct code look_at(uintptr_t address) {
    struct code code = {
        .address = address,
        .filename = pointer_at(address, layout.code_filename),
        .qualname = pointer_at(address, layout.code_qualname),
        .linetable = pointer_at(address, layout.code_linetable),
    };
    memcpy(&code.first_line, (const void *)(address + (uintptr_t)layout.code_first_line),
           sizeof code.first_line);
    return code;
}

/* Returns the same fields in 32 bits, for a quick look at a code object that was known a moment
 * ago. */
static uint32_t print_of(const struct code *code) {
    uintptr_t all = code->filename + 3 * code->qualname + 5 * code->linetable;
    return (uint32_t)(all >> 4) ^ (uint32_t)code->first_line << 16;
}

static size_t bytes_of(uint32_t level) {
    return (CODES * sizeof(struct code) + NODES * sizeof(struct node)) << (2 * level);
}

/* Adds a level; the first one is mapped together with its owner, struct hw__stacks. Only the pages
 * that are used are touched. Returns false if there can be no more levels. */
HW__RARE static bool add_level(struct hw__gil *gil) {
    uint32_t n = gil->stacks == NULL ? 0 : gil->stacks->count;
    size_t head = n == 0 ? sizeof(struct hw__stacks) : 0, bytes = head + bytes_of(n);
    if (n == LEVELS || !hw__room_for(bytes)) {
        return false;
    }
    int saved = errno;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved;
    if (memory == MAP_FAILED) {
        return false;
    }
    if (n == 0) {
        gil->stacks = (struct hw__stacks *)memory;
    }
    gil->stacks->levels[n] = (struct level){
        .code_slots = (uint32_t)CODES << (2 * n),
        .node_slots = (uint32_t)NODES << (2 * n),
        .codes = (struct code *)(memory + head),
        .nodes = (struct node *)(memory + head + ((size_t)CODES << (2 * n)) * sizeof(struct code))};
    gil->stacks->count = n + 1;
    return true;
}

/* Returns the last level if it has a free slot for a code object or a stack; else a new level, or
 * NULL. */
static struct level *level_with_room(struct hw__gil *gil, bool for_code) {
    struct level *last = &gil->stacks->levels[gil->stacks->count - 1];
    bool has_room = for_code ? last->code_count < MAX_LOAD(last->code_slots)
                             : last->node_count < MAX_LOAD(last->node_slots);
    return has_room ? last : add_level(gil) ? last + 1 : NULL;
}

/* Returns the slot of the code object at an address, or the free slot for it. */
static struct code *code_slot(const struct level *level, uintptr_t address) {
    size_t i = mix(address >> 4) & (level->code_slots - 1);
    while (level->codes[i].address != 0 && level->codes[i].address != address) {
        i = (i + 1) & (level->code_slots - 1);
    }
    return &level->codes[i];
}

/* Returns the number of a code object, or 0 if there is no room. Describes a new one in the
 * file. */
static HW__APART uint32_t code_id(struct hw__gil *gil, const struct code *looked) {
    struct code found = *looked, *slot = NULL;
    for (uint32_t n = gil->stacks->count; n-- > 0;) {
        slot = code_slot(&gil->stacks->levels[n], found.address);
        if (slot->address != 0) {
            break;
        }
    }
    if (slot->address == found.address && slot->filename == found.filename &&
        slot->qualname == found.qualname && slot->linetable == found.linetable &&
        slot->first_line == found.first_line) {
        return slot->id;
    }
    /* A program that makes code all the time may use few addresses again and again. */
    if (gil->stacks->described == MOST_CODES || !has_room()) {
        return 0;
    }
    struct level *level = NULL;
    if (slot->address == 0) {
        level = level_with_room(gil, true);
        if (level == NULL) {
            return 0;
        }
        slot = code_slot(level, found.address);
    }
    found.id = next_code[gil->index];
    if (!describe(gil, &found)) {
        return 0;
    }
    if (level != NULL) {
        level->code_count++;
    }
    next_code[gil->index]++;
    gil->stacks->described++;
    *slot = found;
    return found.id;
}

/* Returns the slot of a stack, or the free slot for it. */
static struct node *node_slot(const struct level *level, uint32_t parent, uint32_t code,
                              int32_t offset) {
    size_t mask = level->node_slots - 1;
    size_t i = mix((uint64_t)parent << 40 ^ (uint64_t)code << 20 ^ (uint32_t)offset) & mask;
    for (;; i = (i + 1) & mask) {
        struct node *node = &level->nodes[i];
        if (node->code == 0 ||
            (node->parent == parent && node->code == code && node->offset == offset)) {
            return node;
        }
    }
}

/* Returns the number of the stack `code` at `offset`, called by the stack `parent`; 0 if there is
 * no room. Writes a new one to the file. */
static HW__APART uint32_t node_id(struct hw__gil *gil, uint32_t parent, uint32_t code,
                                  int32_t offset) {
    for (uint32_t n = gil->stacks->count; n-- > 0;) {
        struct node *node = node_slot(&gil->stacks->levels[n], parent, code, offset);
        if (node->code != 0) {
            return node->id;
        }
    }
    struct level *level = has_room() ? level_with_room(gil, false) : NULL;
    if (level == NULL) {
        return 0;
    }
    struct hw__meta_node *record = hw__meta_begin(gil, HW__META_NODE, sizeof *record);
    if (record == NULL) {
        return 0;
    }
    record->id = next_node[gil->index]++;
    record->parent = parent;
    record->code = code;
    record->offset = offset;
    hw__meta_commit(gil, record);
    *node_slot(level, parent, code, offset) = (struct node){parent, code, offset, record->id};
    level->node_count++;
    return record->id;
}

/* Returns the innermost frame of a thread state, or 0. */
static uintptr_t innermost(const struct hw_stack_layout *where, const void *thread_state) {
    uintptr_t frame = pointer_at((uintptr_t)thread_state, where->thread_frame);
    if (where->cframe_frame >= 0 && frame != 0) {
        frame = pointer_at(frame, where->cframe_frame);
    }
    return frame;
}

/* Returns the code object that a frame executes. For the interpreter's own frames that is no code
 * object, or 0. */
static uintptr_t code_at(const struct hw_stack_layout *where, uintptr_t frame) {
    return pointer_at(frame, where->frame_code) & ~TAGS;
}

/* Goes to the next frame of Python code, from *frame on, and sets *frame to it. The interpreter's
 * own frames are passed over: shims, and frames of C stacks, which execute no code object.
 *
 * Returns the frame's code object, or 0 at the end of the stack. */
static uintptr_t python_frame(const struct hw_stack_layout *where, uintptr_t *frame) {
    for (; *frame != 0; *frame = pointer_at(*frame, where->frame_previous)) {
        uintptr_t code = code_at(where, *frame);
        if (code != 0 && code != where->shim_code && code != where->cleanup_code &&
            pointer_at(code, where->object_type) == where->code_type) {
            return code;
        }
    }
    return 0;
}

/* Returns the frame; or if it is a shim, with which C calls the interpreter, the next one. Shims
 * are most of what python_frame() passes over, and this function has less to look at. */
static uintptr_t past_shim(uintptr_t frame) {
    return frame != 0 && code_at(&layout, frame) == layout.shim_code
               ? pointer_at(frame, layout.frame_previous)
               : frame;
}

static int32_t offset_in(const struct hw_stack_layout *where, uintptr_t frame, uintptr_t code) {
    return (int32_t)(intptr_t)(pointer_at(frame, where->frame_instruction) -
                               (code + (uintptr_t)where->code_instructions));
}

int hw_trace_walk(const struct hw_stack_layout *where, const void *thread_state,
                  struct hw_trace_frame *frames, int max) {
    uintptr_t frame = innermost(where, thread_state);
    int count = 0;
    for (; count < max; count++) {
        uintptr_t code = python_frame(where, &frame);
        if (code == 0) {
            break;
        }
        frames[count] = (struct hw_trace_frame){code, offset_in(where, frame, code)};
        frame = pointer_at(frame, where->frame_previous);
    }
    return count;
}

static bool have_tables(struct hw__gil *gil) { return gil->stacks != NULL || add_level(gil); }

/* Gives nodes to the thread's frames, from the frame `from` on to the innermost (the outermost is
 * 0). Returns the node of the innermost one, or 0 if there was no room: then only the frames that
 * have nodes are kept. */
static uint32_t number(struct hw__gil *gil, struct hw__thread *thread, uint32_t from) {
    uint32_t node = from == 0 ? 0 : hw__frame_at(thread, from - 1)->node;
    /* The GIL may have got other tables since this thread's last stack, or have none. */
    bool room = have_tables(gil);
    for (uint32_t i = from; i < thread->depth; i++) {
        struct hw__frame *frame = hw__frame_at(thread, i);
        struct code code = look_at(frame->code);
        uint32_t print = print_of(&code);
        if (frame->code_id == 0 || frame->code_print != print) {
            frame->code_id = room ? code_id(gil, &code) : 0;
            frame->code_print = print;
        }
        struct hw__recent *recent =
            &thread->recent[((uint32_t)frame->offset >> 1 ^ frame->code_id) % HW__RECENT];
        if (frame->code_id == 0 || !room) {
            node = 0;
        } else if (recent->code_id == frame->code_id && recent->parent == node &&
                   recent->offset == frame->offset) {
            node = recent->node;
        } else {
            uint32_t parent = node;
            node = node_id(gil, parent, frame->code_id, frame->offset);
            if (node != 0) {
                *recent = (struct hw__recent){parent, frame->code_id, frame->offset, node};
            }
        }
        if (node == 0) {
            thread->depth = (uint16_t)i;
            atomic_fetch_add_explicit(&hw__session.header->lost_stacks, 1, memory_order_relaxed);
            return 0;
        }
        frame->node = node;
    }
    return node;
}

/* Returns whether the thread is in the same calls as last time. True: all of its frames have their
 * present offsets, and *from is the first frame with a new offset, or the depth if there is none.
 * False: the frames from *from on are partly overwritten and must not be used; those below may be
 * as last time.
 *
 * A frame at the same address as last time, with the same code object at the same offset, counts as
 * the same frame without a look at the code object's names. And an object that was a code object a
 * moment ago still is one: its type need not be read again. */
static bool same_calls(struct hw__thread *thread, uintptr_t frame, uint32_t *from) {
    *from = thread->depth;
    for (uint32_t i = thread->depth; i-- > 0;) {
        struct hw__frame *then = hw__frame_at(thread, i);
        uintptr_t at = then->frame;
        if (frame != at && past_shim(frame) != at &&
            (python_frame(&layout, &frame) == 0 || frame != at)) {
            return false;
        }
        /* From here on the loop uses the address of last time. So the processor need not wait for
         * the load of `previous`, and reads all frames at the same time. */
        __asm__("" : "+r"(at));
        if (code_at(&layout, at) != then->code) {
            return false;
        }
        int32_t offset = offset_in(&layout, at, then->code);
        if (offset != then->offset) {
            then->offset = offset;
            *from = i;
        }
        frame = pointer_at(at, layout.frame_previous);
    }
    frame = past_shim(frame);
    return frame == 0 || thread->depth == HW__MAX_DEPTH || python_frame(&layout, &frame) == 0;
}

/* Returns how many frames of Python code there are from this one on, HW__MAX_DEPTH at most. */
static uint32_t depth_from(uintptr_t frame) {
    uint32_t depth = 0;
    while (depth < HW__MAX_DEPTH && python_frame(&layout, &frame) != 0) {
        frame = pointer_at(frame, layout.frame_previous);
        depth++;
    }
    return depth;
}

/* Reads the thread's frames again, of which the outermost `known` may be unchanged. Returns how
 * many are. Works in two rounds and in place: a copy on the thread's own stack would touch pages
 * there that nothing else touches, for each of hundreds of threads. */
static HW__APART uint32_t walk(struct hw__thread *thread, uintptr_t frame, uint32_t known) {
    uint32_t depth = depth_from(frame);
    if (!hw__frames_have(thread, depth)) {
        thread->depth = 0;
        atomic_fetch_add_explicit(&hw__session.header->lost_stacks, 1, memory_order_relaxed);
        return 0;
    }
    uint32_t same = depth < known ? depth : known;
    for (uint32_t i = depth; i-- > 0;) {
        uintptr_t code = python_frame(&layout, &frame);
        struct hw__frame *then = hw__frame_at(thread, i);
        struct hw__frame now = {
            .frame = frame, .code = code, .offset = offset_in(&layout, frame, code)};
        if (i >= known || now.frame != then->frame || now.code != then->code ||
            now.offset != then->offset) {
            *then = now;
            same = i < same ? i : same;
        }
        frame = pointer_at(frame, layout.frame_previous);
    }
    thread->depth = (uint16_t)depth;
    return same;
}

bool hw__stacks_look(struct hw__gil *gil, struct hw__thread *thread, const void *thread_state,
                     struct hw__look *look) {
    *look = (struct hw__look){0};
    if (layout.code_type == 0 || thread_state == NULL) {
        return true;
    }
    if (thread->node_gil != gil->index) {
        thread->node_gil = (uint16_t)gil->index;
        thread->depth = 0;
        memset(thread->recent, 0, sizeof thread->recent);
    }
    uintptr_t frame = innermost(&layout, thread_state);
    if (!same_calls(thread, frame, &look->from)) {
        look->from = walk(thread, frame, look->from);
    } else if (look->from == thread->depth) {
        look->node = look->from == 0 ? 0 : hw__frame_at(thread, look->from - 1)->node;
        return true;
    }
    return false;
}

uint32_t hw__stacks_number(struct hw__gil *gil, struct hw__thread *thread,
                           const struct hw__look *look) {
    return number(gil, thread, look->from);
}

void hw__stacks_unnumbered(struct hw__thread *thread) { thread->depth = 0; }

uint32_t hw__stacks_take(struct hw__gil *gil, struct hw__thread *thread, const void *thread_state) {
    struct hw__look look;
    return hw__stacks_look(gil, thread, thread_state, &look) ? look.node
                                                             : number(gil, thread, look.from);
}

void hw__stacks_drop(struct hw__gil *gil) {
    struct hw__stacks *stacks = gil->stacks;
    gil->stacks = NULL;
    for (uint32_t n = stacks == NULL ? 0 : stacks->count; n-- > 1;) {
        munmap(stacks->levels[n].codes, bytes_of(n));
    }
    if (stacks != NULL) {
        munmap(stacks, sizeof *stacks + bytes_of(0));
    }
}
