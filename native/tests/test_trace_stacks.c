// SPDX-License-Identifier: MIT
/* Stacks: the interpreter's frames arrive in the file, each stack once. */
#include <semaphore.h>
#include <sys/mman.h>

#include "gil/parking.h"
#include "gil_world.h"
#include "trace/parks.h"
#include "trace/thread.h"
#include "trace_file.h"

#define FILENAME "app/caf\xe9.py" /* Latin-1 */

static struct fake_string filename, qualnames[4];
static struct fake_bytes linetable;
static struct fake_code codes[400];
static struct fake_frame frames[400];
static struct fake_cframe cframe;

/* Fills a string with characters of `kind` bytes, 0 for ASCII. */
static void fill_string(struct fake_string *string, int kind, const void *text, size_t length) {
    memset(string, 0, sizeof *string);
    string->length = length;
    string->state =
        2u | (uint32_t)(kind == 0 ? 1 : kind) << 2 | 1u << 5 | (kind == 0 ? 1u << 6 : 0);
    memcpy(kind == 0 ? string->ascii : string->other, text,
           length * (kind == 0 ? 1 : (size_t)kind));
}

static void fill_bytes(struct fake_bytes *bytes, size_t length) {
    memset(bytes, 0, sizeof *bytes);
    bytes->length = length;
    for (size_t i = 0; i < length; i++) {
        bytes->text[i] = (char)(i * 7);
    }
}

static void fill_code(struct fake_code *code, int qualname, int first_line) {
    memset(code, 0, sizeof *code);
    code->object.type = fake_code_type();
    code->first_line = first_line;
    code->filename = &filename;
    code->qualname = &qualnames[qualname];
    code->linetable = &linetable;
}

/* Makes a stack of `depth` frames, from the outermost: frames[i] runs codes[i] at instruction i.
 * Some frames have tags, and frames that are not Python's lie between. */
static void stand(int depth) {
    static struct fake_frame strange;
    static const char no_code[sizeof(struct fake_code)] = {0};
    struct fake_frame *previous = NULL;
    for (int i = 0; i < depth; i++) {
        frames[i].code = (uintptr_t)&codes[i] | (uintptr_t)(i % 4);
        frames[i].previous = previous;
        frames[i].instruction = &codes[i].instructions[i % 64];
        previous = &frames[i];
        if (i == 1) {
            strange.code = (uintptr_t)no_code;
            strange.previous = previous;
            previous = &strange;
        }
    }
    fake_current()->frame = previous;
    cframe.frame = previous;
    fake_current()->cframe = &cframe;
}

static const uint16_t greek[] = {0x3b1, 0x3b2, 0x3b3};
static const uint32_t faces[] = {0x1F600, 0x1F601};

static void prepare(void) {
    fill_string(&filename, 1, FILENAME, strlen(FILENAME));
    fill_string(&qualnames[0], 0, "main", 4);
    fill_string(&qualnames[1], 1, "caf\xe9", 4);
    fill_string(&qualnames[2], 2, greek, 3);
    fill_string(&qualnames[3], 4, faces, 2);
    fill_bytes(&linetable, 30);
    for (int i = 0; i < 400; i++) {
        fill_code(&codes[i], i % 4, 100 + i);
    }
}

static void start(const char *name, int64_t max_bytes) {
    T_EQ(0, world_try_start(name, max_bytes, true));
}

/* Fills in the stacks of the main thread's releases, in order, and returns how many there are. */
static size_t releases(const struct trace *trace, uint32_t *nodes, size_t max) {
    size_t count = 0;
    for (size_t i = 0; i < trace->event_count && count < max; i++) {
        if (trace->events[i].event.kind == HW__RELEASE && trace->events[i].serial == 1) {
            nodes[count++] = trace->events[i].event.value;
        }
    }
    return count;
}

/* Checks a stack in the file, from the innermost: codes[first], codes[first - 1] ... of `depth`
 * frames. */
static void check_stack(const struct trace *trace, uint32_t node, int first, int depth) {
    for (int i = first; i > first - depth; i--) {
        const struct hw__meta_node *found = trace_node(trace, 0, node);
        const struct hw__meta_code *code = trace_code(trace, 0, found->code);
        T_EQ(i % 64 * 2, found->offset);
        T_EQ(100 + i, code->first_line);
        node = found->parent;
    }
    T_EQ(0, node);
}

/* A str that is not compact, as instances of subclasses are, has its text elsewhere, or none. The
 * bytes after the object are never taken for it. */
static void test_text_elsewhere(void) {
    static const char text[] = "elsewhere.py";
    static const struct {
        int kind; /* as in the bits of `state` */
        const char *data;
        size_t bytes; /* expected */
    } cases[] = {{1, text, sizeof text - 1}, {1, NULL, 0}, {0, text, 0}, {3, text, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        prepare();
        memset(&filename, 0, sizeof filename);
        memset(filename.other, '!', sizeof filename.other);
        memset(filename.ascii, '!', sizeof filename.ascii);
        filename.length = sizeof text - 1;
        filename.state = 2u | (uint32_t)cases[i].kind << 2 | (i == 0 ? 1u << 6 : 0);
        memcpy(filename.other, &cases[i].data, sizeof cases[i].data);
        start("elsewhere.hwt", WORLD_MAX_BYTES);
        stand(1);
        world_yield();
        stand(0);
        T_EQ(0, hw_trace_stop());
        struct trace trace = trace_open(world_path("elsewhere.hwt"));
        const struct hw__meta_code *code = trace_code(&trace, 0, 1);
        T_EQ(cases[i].bytes, code->filename_bytes);
        T_EQ(0, memcmp(code + 1, text, cases[i].bytes));
        trace_close(&trace);
        T_EQ(0, unlink(world_path("elsewhere.hwt")));
    }
    prepare();
}

/* Every frame is in the file, with its code's names in each kind of string, and its line table. */
static void test_a_stack(void) {
    start("stack.hwt", WORLD_MAX_BYTES);
    stand(4);
    world_yield();
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("stack.hwt"));
    T_EQ(HW__GIL_ENABLED | HW__STACKS, trace.header->flags);
    uint32_t node;
    T_EQ(1, releases(&trace, &node, 1));
    check_stack(&trace, node, 3, 4);
    const void *texts[] = {"main", "caf\xe9", greek, faces};
    size_t bytes[] = {4, 4, 6, 8};
    int kinds[] = {1, 1, 2, 4};
    for (int i = 3; i >= 0; i--) {
        const struct hw__meta_node *found = trace_node(&trace, 0, node);
        const struct hw__meta_code *code = trace_code(&trace, 0, found->code);
        const char *text = (const char *)(code + 1);
        T_EQ(strlen(FILENAME), code->filename_bytes);
        T_EQ(1, code->filename_kind);
        T_EQ(0, memcmp(FILENAME, text, code->filename_bytes));
        T_EQ(bytes[i], code->qualname_bytes);
        T_EQ(kinds[i], code->qualname_kind);
        T_EQ(0, memcmp(texts[i], text + code->filename_bytes, bytes[i]));
        T_EQ(linetable.length, code->linetable_bytes);
        T_EQ(0, memcmp(linetable.text, text + code->filename_bytes + bytes[i], linetable.length));
        node = found->parent;
    }
    T_EQ(4, trace_count_meta(&trace, 0, HW__META_CODE, NULL));
    T_EQ(4, trace_count_meta(&trace, 0, HW__META_NODE, NULL));
    trace_close(&trace);
}

/* Equal stacks have the same number and are in the file once, and their common part is shared. A
 * stack without frames is stack 0. */
static void test_same_stack_same_number(void) {
    start("same.hwt", WORLD_MAX_BYTES);
    int depths[] = {3, 3, 5, 2, 5, 0, 3};
    for (int i = 0; i < 7; i++) {
        stand(depths[i]);
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("same.hwt"));
    uint32_t nodes[7];
    T_EQ(7, releases(&trace, nodes, 7));
    T_EQ(nodes[0], nodes[1]);
    T_EQ(nodes[2], nodes[4]);
    T_EQ(nodes[0], nodes[6]);
    T_EQ(0, nodes[5]);
    for (int i = 0; i < 7; i++) {
        check_stack(&trace, nodes[i], depths[i] - 1, depths[i]);
    }
    T_EQ(5, trace_count_meta(&trace, 0, HW__META_NODE, NULL));
    T_EQ(5, trace_count_meta(&trace, 0, HW__META_CODE, NULL));
    T_EQ(0, trace.header->lost_stacks);
    trace_close(&trace);
}

/* The same where a struct lies between thread state and frame (3.11, 3.12). Also, hw_trace_walk()
 * sees what the recorder sees. */
static void test_with_a_cframe(void) {
    struct hw_trace_options options = world_options("");
    options.has_layout = 1;
    options.layout = fake_layout(true);
    T_EQ(0, world_start_with("cframe.hwt", &options));
    stand(3);
    fake_current()->frame = NULL;
    world_yield();
    T_EQ(0, hw_trace_stop());
    struct hw_trace_frame walked[8];
    T_EQ(3, hw_trace_walk(&options.layout, fake_current(), walked, 8));
    for (int i = 0; i < 3; i++) {
        T_EQ((uintptr_t)&codes[2 - i], walked[i].code);
        T_EQ(2 * (2 - i), walked[i].offset);
    }
    T_EQ(2, hw_trace_walk(&options.layout, fake_current(), walked, 2));
    fake_current()->cframe = NULL;
    T_EQ(0, hw_trace_walk(&options.layout, fake_current(), walked, 8));
    struct trace trace = trace_open(world_path("cframe.hwt"));
    uint32_t node;
    T_EQ(1, releases(&trace, &node, 1));
    check_stack(&trace, node, 2, 3);
    trace_close(&trace);
}

/* The code of the interpreter's own frames, which has the type of code but is none, is skipped,
 * also when the same calls are met again. */
static void skips(const char *name, struct hw_stack_layout layout) {
    struct hw_trace_options options = world_options("");
    options.has_layout = 1;
    options.layout = layout;
    T_EQ(0, world_start_with(name, &options));
    stand(3);
    world_yield();
    frames[2].instruction = codes[2].instructions;
    world_yield();
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path(name));
    T_EQ(3, trace_count_meta(&trace, 0, HW__META_NODE, NULL));
    T_EQ(2, trace_count_meta(&trace, 0, HW__META_CODE, NULL));
    trace_close(&trace);
}

static void test_interpreters_own_frames(void) {
    struct hw_stack_layout layout = fake_layout(false);
    layout.shim_code = (uint64_t)(uintptr_t)&codes[1];
    skips("shim.hwt", layout);
    layout.shim_code = 0;
    layout.cleanup_code = (uint64_t)(uintptr_t)&codes[1];
    skips("cleanup.hwt", layout);
}

/* An instruction before the first one gives a negative offset. */
static void test_before_the_first_instruction(void) {
    start("before.hwt", WORLD_MAX_BYTES);
    stand(1);
    frames[0].instruction = (const char *)codes[0].instructions - 2;
    world_yield();
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("before.hwt"));
    uint32_t node;
    T_EQ(1, releases(&trace, &node, 1));
    T_EQ(-2, trace_node(&trace, 0, node)->offset);
    trace_close(&trace);
}

/* Calls, lines, or the called code may change between two releases: each recorded stack is the one
 * that the frames made, and equal stacks have one number. */
static void test_any_change(void) {
    enum { STEPS = 3000, DEPTH = 7 };
    static int depths[STEPS], which[STEPS][DEPTH], where[STEPS][DEPTH];
    static uint32_t nodes[STEPS];
    uint64_t state = 4;
    int depth = 3, code[DEPTH] = {0}, line[DEPTH] = {0};
    start("changes.hwt", WORLD_MAX_BYTES);
    for (int i = 0; i < STEPS; i++) {
        int at = (int)(t_random(&state) % DEPTH);
        switch (t_random(&state) % 6) {
        case 0:
            depth = at;
            break;
        case 1:
            code[at] = 10 * at + (int)(t_random(&state) % 3);
            break;
        case 2:
            break;
        default:
            line[at] = (int)(t_random(&state) % 4);
        }
        stand(depth);
        depths[i] = depth;
        for (int j = 0; j < depth; j++) {
            which[i][j] = code[j];
            where[i][j] = line[j];
            frames[j].code = (uintptr_t)&codes[code[j]];
            frames[j].instruction = &codes[code[j]].instructions[line[j]];
        }
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("changes.hwt"));
    T_EQ(STEPS, releases(&trace, nodes, STEPS));
    for (int i = 0; i < STEPS; i++) {
        uint32_t node = nodes[i];
        for (int j = depths[i] - 1; j >= 0; j--) {
            const struct hw__meta_node *found = trace_node(&trace, 0, node);
            T_EQ(where[i][j] * 2, found->offset);
            T_EQ(100 + which[i][j], trace_code(&trace, 0, found->code)->first_line);
            node = found->parent;
        }
        T_EQ(0, node);
        for (int k = 0; k < i; k++) {
            bool equal = depths[k] == depths[i];
            for (int j = 0; equal && j < depths[i]; j++) {
                equal = which[k][j] == which[i][j] && where[k][j] == where[i][j];
            }
            T_TRUE(equal == (nodes[k] == nodes[i]));
        }
    }
    T_EQ(0, trace.header->lost_stacks);
    trace_close(&trace);
}

/* A code object has died, and another one is in its place. They are told apart by any of their
 * parts, even if a frame of the first was the last one seen there. */
static void test_code_replaced(void) {
    static struct fake_string other_name, other_file;
    static struct fake_bytes other_table;
    fill_string(&other_name, 0, "other", 5);
    fill_string(&other_file, 0, "other.py", 8);
    fill_bytes(&other_table, 8);
    start("replaced.hwt", WORLD_MAX_BYTES);
    for (int i = 0; i < 8; i++) { /* in turn, the first and another one */
        stand(1);
        codes[0].qualname = i == 1 ? &other_name : &qualnames[0];
        codes[0].filename = i == 3 ? &other_file : &filename;
        codes[0].linetable = i == 5 ? &other_table : &linetable;
        codes[0].first_line = i == 7 ? 7 : 100;
        /* a new instruction each time, so that no stack is there twice */
        frames[0].instruction = &codes[0].instructions[i];
        world_yield();
    }
    codes[0].first_line = 100;
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("replaced.hwt"));
    uint32_t nodes[8];
    T_EQ(8, releases(&trace, nodes, 8));
    T_EQ(8, trace_count_meta(&trace, 0, HW__META_CODE, NULL));
    for (uint32_t i = 0; i < 8; i++) {
        T_EQ(i + 1, trace_node(&trace, 0, nodes[i])->code);
    }
    const struct hw__meta_code *code = trace_code(&trace, 0, 2);
    T_EQ(5, code->qualname_bytes);
    T_EQ(0, memcmp("other", (const char *)(code + 1) + code->filename_bytes, 5));
    T_EQ(8, trace_code(&trace, 0, 4)->filename_bytes);
    T_EQ(8, trace_code(&trace, 0, 6)->linetable_bytes);
    T_EQ(7, trace_code(&trace, 0, 8)->first_line);
    trace_close(&trace);
}

/* Names that are too long are cut, in whole characters; a line table that is too long is left
 * out. */
static void test_long(void) {
    static struct fake_string long_name;
    static struct fake_bytes long_table;
    static uint32_t text[1000];
    for (uint32_t i = 0; i < 1000; i++) {
        text[i] = 0x10000 + i;
    }
    fill_string(&long_name, 4, text, 1000);
    fill_bytes(&long_table, 19000);
    fill_code(&codes[0], 0, 100);
    codes[0].qualname = &long_name;
    codes[0].linetable = &long_table;
    start("long.hwt", WORLD_MAX_BYTES);
    stand(1);
    world_yield();
    long_table.length = 12000; /* fits, but a chunk has room for few of them */
    for (int i = 1; i < 10; i++) {
        stand(i + 1);
        codes[i].linetable = &long_table;
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("long.hwt"));
    const struct hw__meta_code *code = trace_code(&trace, 0, 1);
    T_EQ(4, code->qualname_kind);
    T_EQ(0, code->qualname_bytes % 4);
    T_TRUE(code->qualname_bytes >= 1000 && code->qualname_bytes < 4000);
    T_EQ(0, memcmp(text, (const char *)(code + 1) + code->filename_bytes, code->qualname_bytes));
    T_EQ(0, code->linetable_bytes);
    for (uint32_t i = 2; i <= 10; i++) {
        code = trace_code(&trace, 0, i);
        T_EQ(12000, code->linetable_bytes);
        T_EQ(0,
             memcmp(long_table.text,
                    (const char *)(code + 1) + code->filename_bytes + code->qualname_bytes, 12000));
    }
    T_EQ(0, trace.header->lost_stacks);
    trace_close(&trace);
    prepare();
}

/* Of a deep stack the innermost frames are kept, even as stacks of different depths alternate. */
static void test_deep(void) {
    int depths[] = {HW__MAX_DEPTH, HW__MAX_DEPTH + 1, 399, 3, 400};
    start("deep.hwt", WORLD_MAX_BYTES);
    for (int i = 0; i < 5; i++) {
        stand(depths[i]);
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("deep.hwt"));
    uint32_t nodes[5];
    T_EQ(5, releases(&trace, nodes, 5));
    for (int i = 0; i < 5; i++) {
        check_stack(&trace, nodes[i], depths[i] - 1,
                    depths[i] < HW__MAX_DEPTH ? depths[i] : HW__MAX_DEPTH);
    }
    T_EQ(0, trace.header->lost_stacks);
    trace_close(&trace);
}

/* A thread that waits is at the place of its last release. */
static void *wait_somewhere(void *argument) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    static struct fake_frame frame;
    PyEval_RestoreThread(me);
    frame.code = (uintptr_t)&codes[7];
    frame.instruction = &codes[7].instructions[3];
    me->frame = &frame;
    PyEval_SaveThread();
    sem_t *semaphore = argument;
    sem_post(semaphore);
    sem_wait(semaphore + 1);
    PyEval_RestoreThread(me);
    PyEval_SaveThread();
    fake_state_free(me);
    return NULL;
}

static void test_where_a_thread_waits(void) {
    sem_t semaphores[2];
    T_EQ(0, sem_init(&semaphores[0], 0, 0));
    T_EQ(0, sem_init(&semaphores[1], 0, 0));
    fake_set_interval(fake_main_gil(), 3600000000UL);
    start("waits.hwt", WORLD_MAX_BYTES);
    stand(2);
    pthread_t thread;
    void *me = PyEval_SaveThread();
    T_EQ(0, pthread_create(&thread, NULL, wait_somewhere, semaphores));
    T_EQ(0, sem_wait(&semaphores[0]));
    PyEval_RestoreThread(me);
    T_EQ(0, sem_post(&semaphores[1]));
    while (hw__session.slots[1].state != HW__SLOT_WAITING) {
        sched_yield();
    }
    world_join(thread);
    T_EQ(0, hw_trace_stop());
    fake_set_interval(fake_main_gil(), FAKE_INTERVAL_US);
    struct trace trace = trace_open(world_path("waits.hwt"));
    uint32_t released = 0;
    bool waited = false;
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        if (trace.events[i].serial == 2 && event->kind == HW__RELEASE && released == 0) {
            released = event->value;
        }
        if (trace.events[i].serial == 2 && event->kind == HW__WAIT && released != 0) {
            T_EQ(released, event->value);
            waited = true;
        }
    }
    T_TRUE(waited);
    T_EQ(107, trace_code(&trace, 0, trace_node(&trace, 0, released)->code)->first_line);
    T_EQ(6, trace_node(&trace, 0, released)->offset);
    trace_close(&trace);
}

/* A GIL ends and another one takes its place, acquired by the same thread in the same frame. The
 * new GIL's stacks are numbered from new tables, and none is lost. */
static void test_another_gil_in_its_place(void) {
    static struct fake_gil gil;
    start("place.hwt", WORLD_MAX_BYTES);
    stand(1);
    void *me = PyEval_SaveThread();
    for (int life = 0; life < 3; life++) {
        fake_gil_init(&gil);
        struct fake_state *state = fake_state_new(&gil);
        for (int i = 0; i < 2; i++) {
            PyEval_RestoreThread(state);
            frames[0].instruction = &codes[0].instructions[5 + 2 * life + i];
            state->frame = &frames[0];
            PyEval_SaveThread();
        }
        fake_state_free(state);
        fake_gil_destroy(&gil);
    }
    PyEval_RestoreThread(me);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("place.hwt"));
    int found = 0;
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        if (event->gil == 1 && event->kind == HW__RELEASE) {
            T_EQ((5 + found++) * 2, trace_node(&trace, 1, event->value)->offset);
        }
    }
    T_EQ(6, found);
    T_EQ(0, trace.header->lost_stacks);
    trace_close(&trace);
}

/* A daemon thread that acquires the GIL while the interpreter ends has a thread state that is
 * freed, which must not be read. The thread that ends the interpreter has its stacks to the
 * last. */
struct daemon {
    sem_t let_go, ended;
    struct fake_state *state; /* alone on its page */
};

static void *run_daemon(void *argument) {
    struct daemon *daemon = argument;
    static struct fake_frame frame;
    PyEval_RestoreThread(daemon->state);
    frame.code = (uintptr_t)&codes[7];
    frame.instruction = &codes[7].instructions[3];
    daemon->state->frame = &frame;
    PyEval_SaveThread();
    sem_post(&daemon->let_go);
    sem_wait(&daemon->ended);
    fake_restore_doomed(fake_main_gil(), daemon->state);
    fake_restore_doomed(fake_main_gil(), daemon->state);
    return NULL;
}

static void test_the_interpreters_end(void) {
    struct daemon daemon;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    T_EQ(0, sem_init(&daemon.let_go, 0, 0));
    T_EQ(0, sem_init(&daemon.ended, 0, 0));
    daemon.state = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    T_TRUE(daemon.state != MAP_FAILED);
    daemon.state->gil = fake_main_gil();
    start("end.hwt", WORLD_MAX_BYTES);
    stand(3);
    pthread_t thread;
    T_EQ(0, pthread_create(&thread, NULL, run_daemon, &daemon));
    void *me = PyEval_SaveThread();
    sem_wait(&daemon.let_go);
    PyEval_RestoreThread(me);
    fake_finalize(true);
    T_EQ(0, munmap(daemon.state, page));
    sem_post(&daemon.ended);
    world_join(thread);
    world_yield();
    fake_finalize(false);
    world_yield();
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("end.hwt"));
    uint32_t nodes[8];
    size_t count = releases(&trace, nodes, 8);
    T_EQ(4, count);
    for (size_t i = 0; i < count; i++) {
        check_stack(&trace, nodes[i], 2, 3);
    }
    int number = 0;
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        if (trace.events[i].serial == 2 && event->kind == HW__RELEASE) {
            T_TRUE((event->value != 0) == (number++ == 0));
        }
    }
    T_EQ(3, number);
    trace_close(&trace);
}

/* When the table of code objects is full, stacks with further ones are unknown and counted, and
 * stacks that are known already go on. This also holds when the same unknown stack comes again, and
 * its outer frames are known. */
static void test_too_many_codes(void) {
    enum { MANY = 150000 };
    struct fake_code *many = calloc(MANY, sizeof *many);
    T_TRUE(many != NULL);
    start("codes.hwt", WORLD_MAX_BYTES);
    stand(1);
    for (int i = 0; i < MANY; i++) {
        fill_code(&many[i], 0, i);
        frames[0].code = (uintptr_t)&many[i];
        frames[0].instruction = many[i].instructions;
        world_yield();
    }
    frames[0].code = (uintptr_t)&many[5];
    frames[0].instruction = many[5].instructions;
    world_yield();
    uint64_t lost = atomic_load(&hw__session.header->lost_stacks);
    stand(2);
    for (int i = 0; i < 3; i++) {
        frames[0].code = (uintptr_t)&many[5];
        frames[1].code = (uintptr_t)&many[i == 0 ? 6 : MANY - 1];
        frames[0].instruction = frames[1].instruction = many[5].instructions;
        frames[1].previous = &frames[0];
        fake_current()->frame = &frames[1];
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("codes.hwt"));
    size_t known = trace_count_meta(&trace, 0, HW__META_CODE, NULL);
    T_TRUE(known > MANY / 2 && known < MANY);
    T_EQ(MANY - known, lost);
    T_EQ(lost + 2, trace.header->lost_stacks);
    T_EQ(known + 1, trace_count_meta(&trace, 0, HW__META_NODE, NULL));
    T_TRUE(trace.complete);
    uint32_t *nodes = calloc(MANY + 4, sizeof *nodes);
    T_TRUE(nodes != NULL);
    T_EQ(MANY + 4, releases(&trace, nodes, MANY + 4));
    T_EQ(known + 1, nodes[MANY + 1]);
    T_EQ(0, nodes[MANY + 2]);
    T_EQ(0, nodes[MANY + 3]);
    T_TRUE(nodes[known - 1] != 0);
    T_EQ(0, nodes[known]);
    T_EQ(nodes[5], nodes[MANY]);
    free(nodes);
    trace_close(&trace);
    free(many);
}

/* The same for the table of stacks. */
static void test_too_many_stacks(void) {
    start("stacks.hwt", WORLD_MAX_BYTES);
    int rounds = 0;
    for (; atomic_load(&hw__session.header->lost_stacks) < 10; rounds++) {
        T_TRUE(rounds < 20000);
        stand(HW__MAX_DEPTH);
        frames[0].instruction = (const char *)codes[0].instructions + rounds;
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("stacks.hwt"));
    T_EQ(10, trace.header->lost_stacks);
    size_t known = trace_count_meta(&trace, 0, HW__META_NODE, NULL);
    T_TRUE(known > (size_t)(rounds - 11) * HW__MAX_DEPTH);
    T_EQ(1 + rounds, trace.kinds[HW__ACQUIRE]);
    T_TRUE(trace.complete);
    trace_close(&trace);
}

/* If no chunk is left for the records of stacks, the stacks are unknown, and counted. */
static void test_no_room_for_stacks(void) {
    start("room.hwt", 4 * HW__CHUNK_BYTES);
    for (int i = 0; i < 3000; i++) {
        stand(1);
        frames[0].instruction = (const char *)codes[0].instructions + i;
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("room.hwt"));
    T_TRUE(trace.header->lost_stacks > 0);
    T_EQ(1 + 2 * 3000,
         trace.event_count + trace.header->overwritten_events + trace.header->dropped_events);
    trace_close(&trace);
}

/* Threads all change their frames with the GIL held, and nothing else protects them. The thread
 * sanitizer sees each access of theirs and of the recorder. */
static void *change_frames(void *argument) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    struct fake_frame mine[8] = {0};
    for (int i = 0; i < 200; i++) {
        PyEval_RestoreThread(me);
        int depth = i % 8;
        for (int j = 0; j < depth; j++) {
            mine[j].code = (uintptr_t)&codes[(i + j) % 20];
            mine[j].instruction = codes[(i + j) % 20].instructions;
            mine[j].previous = j == 0 ? NULL : &mine[j - 1];
        }
        codes[i % 20].first_line++; /* as if it were another code object */
        me->frame = depth == 0 ? NULL : &mine[depth - 1];
        fake_check();
        PyEval_SaveThread();
    }
    fake_state_free(me);
    return argument;
}

static void test_threads_change_frames(void) {
    start("threads.hwt", WORLD_MAX_BYTES);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        T_EQ(0, pthread_create(&threads[i], NULL, change_frames, NULL));
    }
    for (int i = 0; i < 4; i++) {
        world_join(threads[i]);
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("threads.hwt"));
    T_TRUE(trace.complete);
    T_EQ(0, trace.header->lost_stacks);
    trace_check_slots(&trace);
    trace_close(&trace);
    prepare();
}

/* An idle thread of a pool gets a lock for which it spun, and waits for work at another line: for
 * neither wait is the lock or the call known. */
static void test_a_spin_and_a_park_at_another_line(void) {
    static const struct hw_stack_layout layout;
    for (uint64_t moves = 0; moves < 2; moves++) {
        start("spun.hwt", WORLD_MAX_BYTES);
        T_EQ(0, hw__parking_install(fake_runtime(), &layout));
        stand(2);
        struct hw__park park = {.kind = HW__LOCK_MUTEX, .thread_state = fake_current()};
        int64_t now = hw_now_ns();
        hw__on_spin(&park, now);
        frames[1].instruction = &codes[1].instructions[1 + moves];
        park.lock = 0x1000;
        T_TRUE(hw__on_park(&park, now));
        hw__on_unpark(&park);
        T_EQ(0, hw__parking_remove());
        T_EQ(0, hw_trace_stop());
        struct trace trace = trace_open(world_path("spun.hwt"));
        uint32_t nodes[2] = {0};
        uint64_t waits = 0;
        for (size_t i = 0; i < trace.event_count; i++) {
            if (trace.events[i].event.kind == HW__PARK && waits < 2) {
                nodes[waits++] = trace.events[i].event.value;
            }
        }
        T_EQ(1 + moves, waits);
        T_TRUE(nodes[0] != 0 && nodes[0] != nodes[1]);
        trace_close(&trace);
    }
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    prepare();
    T_RUN(test_text_elsewhere);
    T_RUN(test_a_stack);
    T_RUN(test_same_stack_same_number);
    T_RUN(test_any_change);
    T_RUN(test_with_a_cframe);
    T_RUN(test_interpreters_own_frames);
    T_RUN(test_before_the_first_instruction);
    T_RUN(test_code_replaced);
    T_RUN(test_long);
    T_RUN(test_deep);
    T_RUN(test_where_a_thread_waits);
    T_RUN(test_a_spin_and_a_park_at_another_line);
    T_RUN(test_another_gil_in_its_place);
    T_RUN(test_the_interpreters_end);
    T_RUN(test_threads_change_frames);
    T_RUN(test_too_many_codes);
    if (!WORLD_TSAN) { /* many steps of one thread */
        T_RUN(test_too_many_stacks);
    }
    T_RUN(test_no_room_for_stacks);
    world_leave();
    return 0;
}
