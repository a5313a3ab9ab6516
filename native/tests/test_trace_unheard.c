// SPDX-License-Identifier: MIT
/* A collector that stands still, or is gone: the process records nothing that stays in its memory,
 * and gives that memory back. */
#include <inttypes.h>

#include "base/lease.h"
#include "gil_world.h"
#include "trace_file.h"

#define CHUNK_EVENTS ((HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES) / sizeof(struct hw__event))
/* As many rounds make at least an event each, and fill a chunk. After a chunk was refused, as many
 * events are lost before a thread asks again. */
#define CHUNK_ROUNDS ((long)CHUNK_EVENTS + 24)
#define SHARE 400 /* chunks; more than are mapped at first */

static void yield(long times) {
    for (long i = 0; i < times; i++) {
        world_yield();
    }
}

/* Returns the collection of the session that was begun last. */
static struct hw_collection *collector(void) {
    collect_answer();
    return collected[collected_count - 1].collection;
}

/* Begins a session whose collector has just given a sign of life, and fills `chunks` chunks. */
static void begin(const char *name, long chunks) {
    world_collect(name);
    hw_collect_share(collector(), SHARE);
    yield(CHUNK_ROUNDS);
    T_EQ(0, hw__session_silence_ns(INT64_MAX)); /* no collector has to give any */
    for (long i = 0; i < chunks; i++) {
        hw_collect_beat(collector()); /* all of them may take long under a sanitizer */
        yield(CHUNK_ROUNDS);
    }
}

/* As if threads had looked in vain for so long. */
static void be_silent(int64_t for_ns) {
    T_TRUE(atomic_load(&hw__session.heard) > 0);
    atomic_store(&hw__session.silence_ns, for_ns);
}

static uint64_t taken(void) { return atomic_load(&hw__session.header->chunks_taken); }

static uint64_t dropped(void) { return atomic_load(&hw__session.header->dropped_events); }

/* While the collector stands still no chunk is taken, and all events are counted. They are recorded
 * again as soon as it goes on. */
static void test_a_collector_stands_still(void) {
    begin("still.hwt", 3);
    be_silent(HW__SILENT_NS - 1000000000);
    uint64_t before = taken();
    yield(2 * CHUNK_ROUNDS);
    T_TRUE(taken() > before);
    T_EQ(0, dropped());

    be_silent(HW__SILENT_NS);
    before = taken();
    yield(20 * CHUNK_ROUNDS);
    T_TRUE(taken() <= before + 1); /* the one that was begun before */
    T_TRUE(dropped() > 15 * CHUNK_EVENTS);
    T_EQ(1, hw_trace_active());

    hw_collect_beat(collector());
    before = taken();
    yield(5 * CHUNK_ROUNDS);
    T_TRUE(taken() > before + 1);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("still.hwt"));
    T_TRUE(trace.header->dropped_events > 15 * CHUNK_EVENTS);
    T_EQ(1 + 31 * 2 * CHUNK_ROUNDS, trace.event_count + (uint64_t)trace.header->dropped_events);
    trace_close(&trace);
}

/* A collector that was not there for a minute is gone: the recording is over, and its memory goes
 * back to the system. The program goes on, and the next recording begins as usual. */
static void test_a_collector_is_gone(void) {
    begin("gone.hwt", 300);
    T_TRUE(hw__session.mapped.chunks > 256); /* in two mappings */
    collect_forget();
    T_TRUE(world_mapped_memories() > 1);
    be_silent(HW__GONE_NS);
    yield(3 * CHUNK_ROUNDS);
    T_EQ(0, world_mapped_memories());
    T_EQ(0, hw_trace_active());
    T_TRUE(!atomic_load(&world_record(fake_main_gil())->recorded));
    T_TRUE(hw__session.header->start_ns > 0);
    T_EQ(1, hw__session.header->gil_count);
    /* The end of a thread takes no chunk. */
    struct world_worker worker = {.gil = fake_main_gil(), .rounds = 5};
    world_go(&worker);
    world_join(worker.thread);
    T_EQ(HW__CLAIM_FREE, atomic_load(&hw__session.claims[0]));

    world_collect("next.hwt");
    T_EQ(1, hw_trace_active());
    hw_collect_beat(collector());
    yield(10);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("next.hwt"));
    T_EQ(1 + 10 + 10, trace.event_count);
    trace_close(&trace);
    T_EQ(0, world_mapped_memories() - collected_count);
}

/* Returns whether a memory file of ours is mapped at an address. */
static bool is_of_file(const void *address) {
    FILE *maps = fopen("/proc/self/maps", "r");
    T_TRUE(maps != NULL);
    char line[8192];
    bool found = false;
    while (fgets(line, sizeof line, maps) != NULL) {
        uintptr_t begin, end;
        T_EQ(2, sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end));
        if (begin <= (uintptr_t)address && (uintptr_t)address < end) {
            found = strstr(line, "/memfd:headway") != NULL;
        }
    }
    fclose(maps);
    return found;
}

/* The end of a lease gives the memory back, too. A collector that is only late has all events that
 * were recorded until then. */
static void test_a_lease_ends(void) {
    int fd = hw__lease_page(INT64_C(3600) * 1000000000);
    T_TRUE(fd >= 0);
    T_EQ(0, hw__lease_begin(&hw__leases[HW__LEASE_TRACE], fd));
    T_EQ(0, close(fd));
    begin("leased.hwt", 300);
    struct hw_collection *late = collector();
    const void *first = hw__session.header;
    const void *second = atomic_load(&hw__session.mapped.parts[1]);
    T_TRUE(is_of_file(first) && is_of_file(second));
    atomic_store(&hw__leases[HW__LEASE_TRACE].mapped->until_ns, 1);
    world_yield();
    T_TRUE(!is_of_file(first) && !is_of_file(second));
    yield(CHUNK_ROUNDS);
    struct hw_collect_state state;
    hw_collect_pass(late, 0, &state);
    T_TRUE(state.ended);
    T_EQ(0, state.dropped_events);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("leased.hwt"));
    T_EQ(1 + 301 * 2 * CHUNK_ROUNDS, trace.event_count);
    trace_close(&trace);
}

/* A container is stopped for long, with the program and its collector, and the program goes on
 * first. */
static void test_both_are_stopped(void) {
    begin("both.hwt", 3);
    atomic_store(&hw__session.looked_ns, hw_now_ns() - 2 * HW__GONE_NS);
    T_TRUE(hw__session_silence_ns(hw_now_ns()) < HW__SILENT_NS);
    yield(3 * CHUNK_ROUNDS);
    T_EQ(1, hw_trace_active());
    T_EQ(0, dropped());
    T_EQ(0, hw_trace_stop());
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_a_collector_stands_still);
    T_RUN(test_both_are_stopped);
    T_RUN(test_a_collector_is_gone);
    T_RUN(test_a_lease_ends);
    world_leave();
    return 0;
}
