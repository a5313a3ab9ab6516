// SPDX-License-Identifier: MIT
/* A memory that has no collector: when it is full, the oldest events make room. And the part of a
 * memory that is mapped. */
#include "gil_world.h"
#include "trace_file.h"

#define CHUNK_EVENTS ((HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES) / sizeof(struct hw__event))

/* Returns the number of all events that there ever were: those in the file, and those counted as
 * lost. */
static uint64_t all_events(const struct trace *trace) {
    return trace->event_count + trace->header->overwritten_events + trace->header->dropped_events;
}

/* One thread fills eight chunks many times over: the newest events remain, up to the end without a
 * gap. Of the switch intervals that the others set, the last is kept. */
static void test_wraps_around(void) {
    T_EQ(0, world_try_start("wrap.hwt", 8 * HW__CHUNK_BYTES, false));
    long rounds = 20 * (long)CHUNK_EVENTS;
    for (long i = 0; i < rounds; i++) {
        if (i % (long)CHUNK_EVENTS == 0 && i < 3 * (long)CHUNK_EVENTS) {
            fake_set_interval(fake_main_gil(), 6000 + (unsigned long)i);
        }
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    fake_set_interval(fake_main_gil(), FAKE_INTERVAL_US);
    struct trace trace = trace_open(world_path("wrap.hwt"));
    T_EQ(8, trace.header->chunk_count);
    T_EQ(0, trace.header->dropped_events);
    T_EQ(1 + 2 * rounds + 3, all_events(&trace));
    T_EQ(6000 + 2 * CHUNK_EVENTS, trace.header->lost_interval_us);
    T_TRUE(trace.header->lost_interval_ns < trace.header->overwritten_until_ns);
    /* Seven chunks of events and one of the GIL; the newest has at least one event. */
    T_TRUE(trace.event_count > 6 * CHUNK_EVENTS);
    T_TRUE(trace.event_count <= 2 * 7 * CHUNK_EVENTS); /* a HOLD is two */
    T_EQ(HW__ACQUIRE, trace.events[trace.event_count - 1].event.kind);
    T_TRUE(trace.events[0].event.time_ns >= trace.header->overwritten_until_ns);
    T_TRUE(trace.header->overwritten_until_ns > trace.header->start_ns);
    T_EQ(1, trace_count_meta(&trace, 0, HW__META_GIL, NULL)); /* not overwritten */
    T_EQ(2 * rounds, 2 * trace.slots[0].holds - 2);
    for (size_t i = 1; i < trace.event_count; i++) {
        T_TRUE(trace.events[i].event.kind != trace.events[i - 1].event.kind);
    }
    trace_close(&trace);
}

/* Makes threads contend for the GIL without requests. Then all events can be counted independently
 * of the events: acquires and releases by the threads, waits by the slots. */
static struct trace fight(const char *name, int workers, int64_t max_bytes) {
    struct world_worker worker[16];
    memset(worker, 0, sizeof worker);
    fake_set_interval(fake_main_gil(), 3600000000UL);
    T_EQ(0, world_try_start(name, max_bytes, false));
    uint64_t expected = 1;
    for (int i = 0; i < workers; i++) {
        worker[i].gil = fake_main_gil();
        worker[i].rounds = 12000 / workers;
        world_go(&worker[i]);
    }
    for (int i = 0; i < workers; i++) {
        world_join(worker[i].thread);
        expected += 2 + (uint64_t)(atomic_load(&worker[i].taken) + atomic_load(&worker[i].dropped));
    }
    T_EQ(0, hw_trace_stop());
    fake_set_interval(fake_main_gil(), FAKE_INTERVAL_US);
    struct trace trace = trace_open(world_path(name));
    T_EQ(expected + trace_slots(&trace).waits + (uint64_t)workers, all_events(&trace));
    return trace;
}

/* A few threads share few chunks: each of them has a chunk, and each event is either there or
 * counted as overwritten. */
static void test_threads_wrap_around(void) {
    struct trace trace = fight("threads.hwt", 4, 10 * HW__CHUNK_BYTES);
    T_TRUE(trace.header->overwritten_events > 0);
    T_EQ(0, trace.header->dropped_events);
    trace_close(&trace);
}

/* There are more threads than chunks. Of two chunks, one is the GIL's and one is the main
 * thread's, which does not fill it. The events of the other threads find no room, and are
 * counted as dropped. */
static void test_more_threads_than_chunks(void) {
    struct trace trace = fight("few.hwt", 8, 2 * HW__CHUNK_BYTES);
    T_TRUE(trace.header->dropped_events > 0);
    trace_close(&trace);
}

/* No room at all is no error: then there are counters only. */
static void test_no_chunk(void) {
    T_EQ(0, world_try_start("none.hwt", HW__CHUNK_BYTES - 1, true));
    for (int i = 0; i < 10; i++) {
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("none.hwt"));
    T_EQ(0, trace.header->chunk_count);
    T_EQ(0, trace.event_count);
    T_EQ(11, trace_slots(&trace).holds);
    trace_close(&trace);
}

static void yield(long times) {
    for (long i = 0; i < times; i++) {
        world_yield();
    }
}

/* At first little of a large memory is mapped, and in the end all of it, as it is needed. Nothing
 * more is mapped when the chunks are used a second time. No event is lost by mapping, and nothing
 * stays mapped. */
static void test_mapped_as_needed(void) {
    enum { CHUNKS = 600 }; /* mapped in parts of 256, 256 and 88 */
    T_EQ(0, world_try_start("large.hwt", CHUNKS * HW__CHUNK_BYTES, false));
    T_EQ(1, world_mapped_memories());
    T_TRUE(hw__session.mapped.bytes < TRACE_SLOTS_BYTES + (5 << 20));
    yield(250 * (long)CHUNK_EVENTS);
    T_EQ(1, world_mapped_memories());
    yield(50 * (long)CHUNK_EVENTS);
    T_EQ(2, world_mapped_memories());
    yield(500 * (long)CHUNK_EVENTS);
    T_EQ(3, world_mapped_memories());
    T_EQ(0, hw_trace_stop());
    T_EQ(0, world_mapped_memories());
    struct trace trace = trace_open(world_path("large.hwt"));
    T_EQ(CHUNKS, trace.header->chunk_count);
    T_EQ(0, trace.header->dropped_events);
    T_EQ(1 + 2 * 800 * CHUNK_EVENTS, all_events(&trace));
    T_TRUE(trace.event_count > (CHUNKS - 2) * CHUNK_EVENTS); /* a HOLD is two */
    for (size_t i = 1; i < trace.event_count; i++) {
        T_TRUE(trace.events[i].event.kind != trace.events[i - 1].event.kind);
    }
    trace_close(&trace);
}

/* Threads that all need the next part at the same time map it once. */
static void test_mapped_by_many(void) {
    struct world_worker worker[8] = {{.rounds = 0}};
    T_EQ(0, world_try_start("many.hwt", 520 * HW__CHUNK_BYTES, false));
    for (int i = 0; i < 8; i++) {
        worker[i].gil = fake_main_gil();
        worker[i].rounds = 50 * (long)CHUNK_EVENTS;
        world_go(&worker[i]);
    }
    for (int i = 0; i < 8; i++) {
        world_join(worker[i].thread);
    }
    T_TRUE(world_mapped_memories() >= 2 && world_mapped_memories() <= 3);
    T_EQ(0, hw__session.header->dropped_events);
    T_EQ(0, hw_trace_stop());
    T_EQ(0, world_mapped_memories());
    collect_forget();
}

/* A program limits its address space after tracing has begun: the part that is mapped must do. */
static void test_limited_later(void) {
    T_EQ(0, world_try_start("limited.hwt", 1000 * HW__CHUNK_BYTES, false));
    world_limit_address_space(32 << 20);
    yield(300 * (long)CHUNK_EVENTS);
    world_limit_address_space(RLIM_INFINITY);
    T_EQ(1, world_mapped_memories());
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("limited.hwt"));
    T_EQ(0, trace.header->dropped_events);
    T_EQ(1 + 2 * 300 * CHUNK_EVENTS, all_events(&trace));
    T_TRUE(trace.event_count > 250 * CHUNK_EVENTS);
    T_TRUE(trace.event_count <= 2 * 256 * CHUNK_EVENTS);
    trace_close(&trace);
}

/* The same with a collector: then events are dropped, and counted. A child has a memory of its own,
 * of which as little is mapped, and nothing of its parent's. */
enum { COLLECTORS = 1 }; /* the collector's mapping, which is in the parent's process, too */

static void in_child(void) {
    world_yield();
    T_EQ(1, world_mapped_memories());
    _exit(0);
}

static void test_collected(void) {
    collect_forget();
    T_EQ(0, world_try_collect("collected.hwt", 1000 * HW__CHUNK_BYTES));
    collect_answer();
    hw_collect_share(collected[0].collection, 1000);
    yield(300 * (long)CHUNK_EVENTS);
    T_EQ(COLLECTORS + 2, world_mapped_memories());
    T_EQ(0, hw__session.header->dropped_events);
    world_wait(world_fork(in_child));
    if (WORLD_CAN_LIMIT) {
        world_limit_address_space(32 << 20);
        yield(250 * (long)CHUNK_EVENTS);
        world_limit_address_space(RLIM_INFINITY);
        T_EQ(COLLECTORS + 2, world_mapped_memories());
        T_TRUE(hw__session.header->dropped_events > 0);
    }
    yield(250 * (long)CHUNK_EVENTS);
    T_EQ(COLLECTORS + 3, world_mapped_memories());
    T_EQ(0, hw_trace_stop());
    collect_forget();
    T_EQ(0, world_mapped_memories());
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_wraps_around);
    T_RUN(test_threads_wrap_around);
    T_RUN(test_more_threads_than_chunks);
    T_RUN(test_no_chunk);
    T_RUN(test_mapped_as_needed);
    T_RUN(test_mapped_by_many);
    if (WORLD_CAN_LIMIT) {
        T_RUN(test_limited_later);
    }
    T_RUN(test_collected);
    world_leave();
    return 0;
}
