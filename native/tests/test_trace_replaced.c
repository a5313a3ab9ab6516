// SPDX-License-Identifier: MIT
/* A program that makes code all the time (exec, templates): each code object takes the place of the
 * one before. The descriptions of code never take the room of events. */
#include "gil_world.h"
#include "trace_file.h"

#define CHUNK_EVENTS ((HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES) / sizeof(struct hw__event))

static struct fake_string name = {.length = 4, .state = 2u | 1u << 2 | 1u << 5 | 1u << 6};
static struct fake_bytes lines = {.length = 30};
static struct fake_code code;
static struct fake_frame frame;

/* Runs one code object after the other, all at one address. */
static void run_new_codes(int count) {
    memcpy(name.ascii, "made", 4);
    code.object.type = fake_code_type();
    code.filename = code.qualname = &name;
    code.linetable = &lines;
    frame.code = (uintptr_t)&code;
    fake_current()->frame = &frame;
    for (int i = 0; i < count; i++) {
        code.first_line++;
        frame.instruction = &code.instructions[i % 64]; /* else it would count as the same call */
        world_yield();
    }
    fake_current()->frame = NULL;
}

static void yield(long rounds) {
    for (long i = 0; i < rounds; i++) {
        world_yield();
    }
}

/* Replaced code objects count like those that are there at the same time. */
static void test_codes_are_limited(void) {
    enum { MANY = 150000 };
    T_EQ(0, world_try_start("codes.hwt", 4 * WORLD_MAX_BYTES, true));
    run_new_codes(MANY);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("codes.hwt"));
    size_t known = trace_count_meta(&trace, 0, HW__META_CODE, NULL);
    T_TRUE(known > MANY / 2 && known < MANY);
    T_EQ(MANY - known, trace.header->lost_stacks);
    T_EQ(known, trace_count_meta(&trace, 0, HW__META_NODE, NULL));
    trace_close(&trace);
}

/* Where nobody collects, they have half of the memory. */
static void test_a_memory_keeps_room_for_events(void) {
    enum { CHUNKS = 64, CODES = 20000 };
    T_EQ(0, world_try_start("ring.hwt", CHUNKS * HW__CHUNK_BYTES, true));
    run_new_codes(CODES);
    yield(CHUNKS * (long)CHUNK_EVENTS);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("ring.hwt"));
    T_TRUE(trace.header->lost_stacks > 0);
    T_EQ(0, trace.header->dropped_events);
    T_TRUE(trace.event_count > (CHUNKS / 2 - 2) * CHUNK_EVENTS);
    trace_close(&trace);
}

/* The same for a file; and when it may grow, further stacks are known. */
static void test_a_file_keeps_room_for_events(void) {
    enum { CHUNKS = 16, CODES = 500 };
    struct hw_collect_state state;
    struct hw_trace_options options = world_options(collect_listen(world_path("file.hwt")));
    options.bytes = 16 * HW__CHUNK_BYTES;
    options.has_layout = true;
    options.layout = fake_layout(false);
    T_EQ(0, hw_trace_start(&options));
    collect_answer();
    struct hw_collection *collection = collected[0].collection;
    hw_collect_limit(collection, CHUNKS);
    for (int pass = 0; pass < 10; pass++) {
        run_new_codes(CODES);
        hw_collect_pass(collection, 0, &state);
    }
    uint64_t lost = atomic_load(&hw__session.header->lost_stacks);
    T_TRUE(lost > 0);
    for (int pass = 0; pass < 10; pass++) {
        yield(2 * (long)CHUNK_EVENTS);
        hw_collect_pass(collection, 0, &state);
    }
    T_TRUE(state.chunks <= CHUNKS);
    T_EQ(0, state.dropped_events);
    T_EQ(0, state.lost_meta);
    hw_collect_limit(collection, 4 * CHUNKS);
    hw_collect_pass(collection, 0, &state);
    run_new_codes(CODES);
    T_EQ(lost, atomic_load(&hw__session.header->lost_stacks));
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("file.hwt"));
    T_TRUE(trace.event_count > 2 * CHUNK_EVENTS);
    T_EQ(10 * CODES + CODES - lost, trace_count_meta(&trace, 0, HW__META_CODE, NULL));
    trace_close(&trace);
    collect_forget();
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_codes_are_limited);
    T_RUN(test_a_memory_keeps_room_for_events);
    collect_forget();
    T_RUN(test_a_file_keeps_room_for_events);
    world_leave();
    return 0;
}
