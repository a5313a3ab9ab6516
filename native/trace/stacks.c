// SPDX-License-Identifier: MIT
#include "trace/stacks.h"

#include <string.h>
#include <sys/mman.h>

#define INDICES (HW__NO_GIL + 1) /* of records; that of no GIL is one of them */
#define CODES 65536              /* slots of the table of code objects; powers of two */
#define NODES (1u << 20)         /* slots of the table of stacks */
#define MAX_LOAD(slots) ((slots) / 4 * 3)
#define META_CAPACITY (HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES)
#define MAX_STRING_BYTES 2048u /* of a file name or a qualified name; longer ones are cut */
#define TAGS ((uintptr_t)7)

struct code {
    uintptr_t address; /* 0: empty */
    uintptr_t filename, qualname, linetable;
    int32_t first_line;
    uint32_t id;
};

struct node {
    uint32_t parent;
    uint32_t code; /* 0: empty */
    int32_t offset;
    uint32_t id;
};

struct hw__stacks {
    uint32_t code_count, node_count;
    struct code codes[CODES];
    struct node nodes[NODES];
};

static struct hw_stack_layout layout;
static bool on;

/* Ids go on where a record is used for another GIL, since the file knows a GIL by its index.
 * Guarded by that GIL's mutex. */
static uint32_t next_code[INDICES], next_node[INDICES];

static uintptr_t pointer_at(uintptr_t base, int32_t offset) {
    return *(const uintptr_t *)(base + (uintptr_t)offset);
}

void hw__stacks_init(const struct hw_stack_layout *new_layout) {
    on = new_layout != NULL;
    if (on) {
        layout = *new_layout;
    }
    hw__stacks_forget();
}

void hw__stacks_forget(void) {
    for (uint32_t i = 0; i < INDICES; i++) {
        next_code[i] = next_node[i] = 1;
    }
}

void *hw__meta_begin(struct hw__gil *gil, uint32_t type, size_t bytes) {
    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > META_CAPACITY || hw__session.header->chunk_count == 0) {
        return NULL;
    }
    uint32_t used = gil->meta == NULL ? 0 : atomic_load(&gil->meta->used);
    if (gil->meta == NULL || used + bytes > META_CAPACITY) {
        /* The full one stays open, and so is never taken anew. */
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

/* A str's text. Returns its address, with its bytes and the bytes of a character; at most
 * MAX_STRING_BYTES of it. */
static const char *text(uintptr_t string, uint32_t *bytes, uint8_t *kind) {
    size_t length = pointer_at(string, layout.object_bytes);
    uint32_t state;
    memcpy(&state, (const void *)(string + (uintptr_t)layout.string_state), sizeof state);
    state >>= layout.string_kind_shift;
    *kind = (uint8_t)(state & 7);
    bool ascii = (state >> 4 & 1) != 0; /* kind:3, compact:1, ascii:1 */
    if (length > MAX_STRING_BYTES / *kind) {
        length = MAX_STRING_BYTES / *kind;
    }
    *bytes = (uint32_t)(length * *kind);
    return (const char *)(string + (uintptr_t)(ascii ? layout.string_ascii : layout.string_other));
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

static size_t mix(uint64_t value) { return (size_t)((value * UINT64_C(0x9E3779B97F4A7C15)) >> 32); }

/* The number of a code object, 0 where there is no room. */
static uint32_t code_id(struct hw__gil *gil, uintptr_t address) {
    struct hw__stacks *stacks = gil->stacks;
    uintptr_t filename = pointer_at(address, layout.code_filename);
    uintptr_t qualname = pointer_at(address, layout.code_qualname);
    uintptr_t linetable = pointer_at(address, layout.code_linetable);
    int32_t first_line;
    memcpy(&first_line, (const void *)(address + (uintptr_t)layout.code_first_line),
           sizeof first_line);
    size_t i = mix(address >> 4) & (CODES - 1);
    while (stacks->codes[i].address != 0 && stacks->codes[i].address != address) {
        i = (i + 1) & (CODES - 1);
    }
    struct code *code = &stacks->codes[i];
    if (code->address == address && code->filename == filename && code->qualname == qualname &&
        code->linetable == linetable && code->first_line == first_line) {
        return code->id;
    }
    if (code->address == 0 && stacks->code_count >= MAX_LOAD(CODES)) {
        return 0;
    }
    struct code found = {address, filename, qualname, linetable, first_line, next_code[gil->index]};
    if (!describe(gil, &found)) {
        return 0;
    }
    stacks->code_count += code->address == 0;
    next_code[gil->index]++;
    *code = found;
    return found.id;
}

/* The number of the stack that calls `code` at `offset` from `parent`, 0 where there is no room. */
static uint32_t node_id(struct hw__gil *gil, uint32_t parent, uint32_t code, int32_t offset) {
    struct hw__stacks *stacks = gil->stacks;
    size_t i = mix((uint64_t)parent << 40 ^ (uint64_t)code << 20 ^ (uint32_t)offset) & (NODES - 1);
    for (;; i = (i + 1) & (NODES - 1)) {
        struct node *node = &stacks->nodes[i];
        if (node->code == 0) {
            break;
        }
        if (node->parent == parent && node->code == code && node->offset == offset) {
            return node->id;
        }
    }
    if (stacks->node_count >= MAX_LOAD(NODES)) {
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
    stacks->nodes[i] = (struct node){parent, code, offset, record->id};
    stacks->node_count++;
    return record->id;
}

/* The frame of a thread state, or 0. */
static uintptr_t innermost(const struct hw_stack_layout *where, const void *thread_state) {
    uintptr_t frame = pointer_at((uintptr_t)thread_state, where->thread_frame);
    if (where->cframe_frame >= 0 && frame != 0) {
        frame = pointer_at(frame, where->cframe_frame);
    }
    return frame;
}

/* Goes to the next frame of Python code from *frame on, which the interpreter's own frames (shims,
 * frames of C stacks: what they "execute" is no code object) are not.
 *
 * Returns its code object with *frame there, or 0 at the end. */
static uintptr_t python_frame(const struct hw_stack_layout *where, uintptr_t *frame) {
    for (; *frame != 0; *frame = pointer_at(*frame, where->frame_previous)) {
        uintptr_t code = pointer_at(*frame, where->frame_code) & ~TAGS;
        if (code != 0 && pointer_at(code, where->object_type) == where->code_type &&
            code != where->shim_code) {
            return code;
        }
    }
    return 0;
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

static bool have_tables(struct hw__gil *gil) {
    if (gil->stacks == NULL) {
        /* Touched where it is used only: a few pages for most programs. */
        void *tables = mmap(NULL, sizeof(struct hw__stacks), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (tables == MAP_FAILED) {
            return false;
        }
        gil->stacks = tables;
    }
    return true;
}

uint32_t hw__stacks_take(struct hw__gil *gil, struct hw__thread *thread, const void *thread_state) {
    if (!on || thread_state == NULL || hw__session.header->chunk_count == 0 || !have_tables(gil)) {
        return 0;
    }
    struct hw__frame found[HW__MAX_DEPTH]; /* from the innermost */
    uint32_t depth = 0, known = thread->node_gil == gil->index ? thread->depth : 0;
    uintptr_t frame = innermost(&layout, thread_state);
    for (; depth < HW__MAX_DEPTH; depth++) {
        /* What a code object was a moment ago it still is: its type need not be read again. */
        const struct hw__frame *then =
            depth < known ? &thread->frames[thread->depth - 1 - depth] : NULL;
        uintptr_t code;
        if (then != NULL && then->frame == frame &&
            (pointer_at(frame, layout.frame_code) & ~TAGS) == then->code) {
            code = then->code;
        } else {
            code = python_frame(&layout, &frame);
        }
        if (code == 0) {
            break;
        }
        found[depth].frame = frame;
        found[depth].code = code;
        found[depth].offset = offset_in(&layout, frame, code);
        frame = pointer_at(frame, layout.frame_previous);
    }
    /* Most of a stack is what it was last time: only what is new from the outermost on is looked
     * up. A frame that stands where it stood, with the same code at the same offset, is taken for
     * the same without looking at the code object's names. */
    uint32_t same = 0, parent = 0;
    if (thread->node_gil == gil->index) {
        for (; same < depth && same < thread->depth; same++) {
            const struct hw__frame *now = &found[depth - 1 - same], *then = &thread->frames[same];
            if (now->frame != then->frame || now->code != then->code ||
                now->offset != then->offset) {
                break;
            }
            parent = then->node;
        }
    }
    thread->node_gil = gil->index;
    thread->depth = depth;
    for (uint32_t i = same; i < depth; i++) {
        struct hw__frame *now = &thread->frames[i];
        *now = found[depth - 1 - i];
        uint32_t code = code_id(gil, now->code);
        uint32_t node = code == 0 ? 0 : node_id(gil, parent, code, now->offset);
        if (node == 0) {
            thread->depth = i;
            atomic_fetch_add_explicit(&hw__session.header->lost_stacks, 1, memory_order_relaxed);
            return 0;
        }
        now->node = parent = node;
    }
    return parent;
}

void hw__stacks_drop(struct hw__gil *gil) {
    if (gil->stacks != NULL) {
        munmap(gil->stacks, sizeof *gil->stacks);
    }
    gil->stacks = NULL;
}
