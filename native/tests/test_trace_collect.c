// SPDX-License-Identifier: MIT
/* A memory that has a collector: what happens when the collector is slow, gone or without a disk,
 * and when the process is killed or hostile. The process goes on in all of these cases. */
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "gil_world.h"
#include "trace_file.h"

#define CHUNK_EVENTS ((HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES) / sizeof(struct hw__event))

static struct hw_collect_state state;

/* Returns the number of all events that there ever were: those in the file, and those counted as
 * lost. */
static uint64_t all_events(const struct trace *trace) {
    return trace->event_count + trace->header->overwritten_events + trace->header->dropped_events;
}

static void yield(long rounds) {
    for (long i = 0; i < rounds; i++) {
        world_yield();
    }
}

/* Returns the collection of the only process. */
static struct hw_collection *the_one(void) {
    collect_answer();
    T_EQ(1, collected_count);
    return collected[0].collection;
}

static struct trace ended(const char *name) {
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path(name));
    return trace;
}

/* With a collector that comes now and then, nothing is lost, and a few chunks of memory are enough
 * for any number of events. */
static void test_chunks_are_used_again(void) {
    T_EQ(0, world_try_collect("again.hwt", 8 * HW__CHUNK_BYTES));
    long rounds = 0;
    for (int pass = 0; pass < 40; pass++) {
        yield(3 * (long)CHUNK_EVENTS);
        rounds += 3 * (long)CHUNK_EVENTS;
        hw_collect_pass(the_one(), 0, &state);
        T_EQ(0, state.ended);
    }
    struct trace trace = ended("again.hwt");
    T_TRUE(trace.complete);
    T_EQ(1 + 2 * rounds, trace.event_count);
    T_EQ(0, trace.header->known_until_ns);
    /* A chunk that was copied while it was open has given its place up: at least two share one. */
    T_TRUE(state.chunks <= 40 * 3 / 2 + 3);
    trace_check_slots(&trace);
    trace_close(&trace);
}

/* While a collector does not come, events without room are dropped at once and counted. When it
 * comes again, recording goes on. */
static void test_a_slow_collector(void) {
    T_EQ(0, world_try_collect("slow.hwt", 4 * HW__CHUNK_BYTES));
    long rounds = 20 * (long)CHUNK_EVENTS;
    yield(rounds);
    hw_collect_pass(the_one(), 0, &state);
    T_TRUE(state.dropped_events > 0);
    yield(2 * (long)CHUNK_EVENTS);
    struct trace trace = ended("slow.hwt");
    T_EQ(0, trace.header->overwritten_events);
    T_EQ(1 + 2 * (rounds + 2 * (long)CHUNK_EVENTS), all_events(&trace));
    T_TRUE(trace.event_count > 4 * CHUNK_EVENTS); /* recording went on */
    T_EQ(trace.header->dropped_events, trace.gaps);
    trace_close(&trace);
}

/* Threads contend while another one collects. Each pass sees whole chunks (trace_open() checks
 * that), and each event is there or counted. */
static atomic_bool collecting;

static void *collect_all_the_time(void *collection) {
    struct hw_collect_state mine;
    while (atomic_load(&collecting)) {
        hw_collect_pass(collection, 0, &mine);
        sched_yield();
    }
    return NULL;
}

static void test_collected_while_threads_record(void) {
    enum { WORKERS = 4 };
    struct world_worker workers[WORKERS];
    memset(workers, 0, sizeof workers);
    /* no forced releases, so that all events can be counted */
    fake_set_interval(fake_main_gil(), 3600000000UL);
    T_EQ(0, world_try_collect("fight.hwt", 12 * HW__CHUNK_BYTES));
    atomic_store(&collecting, true);
    pthread_t collector;
    T_EQ(0, pthread_create(&collector, NULL, collect_all_the_time, the_one()));
    uint64_t expected = 1;
    for (int i = 0; i < WORKERS; i++) {
        workers[i].gil = fake_main_gil();
        workers[i].rounds = 8000;
        world_go(&workers[i]);
    }
    for (int i = 0; i < WORKERS; i++) {
        world_join(workers[i].thread);
        expected += 2 + (uint64_t)(workers[i].taken + workers[i].dropped);
    }
    atomic_store(&collecting, false);
    world_join(collector);
    expected += 2;
    T_EQ(0, hw_trace_stop());
    fake_set_interval(fake_main_gil(), FAKE_INTERVAL_US);
    struct trace trace = trace_open(world_path("fight.hwt"));
    T_EQ(expected + trace_slots(&trace).waits + WORKERS, all_events(&trace));
    trace_close(&trace);
}

/* The file has a limit of chunks: the oldest events make room, also when the limit is lowered
 * later. The last of the switch intervals that they set is kept. */
static void test_the_file_is_limited(void) {
    T_EQ(0, world_try_collect("limit.hwt", 32 * HW__CHUNK_BYTES));
    for (int interval_us = 6000; interval_us <= 7000; interval_us += 1000) {
        fake_set_interval(fake_main_gil(), (unsigned long)interval_us);
        yield(1);
    }
    hw_collect_limit(the_one(), 8);
    long rounds = 0;
    for (int pass = 0; pass < 10; pass++) {
        yield(5 * (long)CHUNK_EVENTS);
        rounds += 5 * (long)CHUNK_EVENTS;
        hw_collect_pass(the_one(), 0, &state);
        T_TRUE(state.chunks <= 8);
        T_EQ(0, state.dropped_events);
    }
    hw_collect_limit(the_one(), 5);
    hw_collect_pass(the_one(), 0, &state);
    T_EQ(5, state.chunks);
    struct trace trace = ended("limit.hwt");
    fake_set_interval(fake_main_gil(), FAKE_INTERVAL_US);
    T_EQ(1 + 2 * (rounds + 2) + 2, all_events(&trace));
    T_EQ(FAKE_INTERVAL_US, trace.header->interval_us);
    T_EQ(7000, trace.header->lost_interval_us);
    T_TRUE(trace.header->lost_interval_ns > trace.header->start_ns);
    T_TRUE(trace.header->lost_interval_ns < trace.header->overwritten_until_ns);
    T_TRUE(trace.event_count > 3 * CHUNK_EVENTS);
    T_TRUE(trace.header->overwritten_until_ns > trace.header->start_ns);
    T_TRUE(trace.events[0].event.time_ns >= trace.header->overwritten_until_ns);
    T_EQ(1, trace_count_meta(&trace, 0, HW__META_GIL, NULL)); /* not overwritten */
    trace_close(&trace);
}

static void *yield_once(void *unused) {
    (void)unused;
    struct world_worker worker = {.gil = fake_main_gil(), .rounds = 1};
    world_work(&worker);
    return NULL;
}

/* Runs short threads, one after the other. Each has three events, and this thread has two. */
static void short_threads(int count) {
    void *me = PyEval_SaveThread();
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        T_EQ(0, pthread_create(&thread, NULL, yield_once, NULL));
        T_EQ(0, pthread_join(thread, NULL));
    }
    PyEval_RestoreThread(me);
}

/* Threads with a few events share places of the file, so that a small file has thousands of them.
 */
static void test_short_threads_share_places(void) {
    enum { PASSES = 10, EACH = 40 };
    T_EQ(0, world_try_collect("short.hwt", 64 * HW__CHUNK_BYTES));
    hw_collect_limit(the_one(), 12);
    for (int pass = 0; pass < PASSES; pass++) {
        short_threads(EACH);
        hw_collect_pass(the_one(), 0, &state);
    }
    T_TRUE(state.chunks <= 8);
    struct trace trace = ended("short.hwt");
    T_TRUE(trace.complete);
    T_EQ(PASSES * EACH, trace.kinds[HW__EXIT]);
    trace_close(&trace);
}

/* Places that are shared are overwritten, too, and the events of each are counted. */
static void test_shared_places_are_overwritten(void) {
    enum { PASSES = 30, EACH = 40 };
    T_EQ(0, world_try_collect("lost.hwt", 64 * HW__CHUNK_BYTES));
    hw_collect_limit(the_one(), 5);
    for (int pass = 0; pass < PASSES; pass++) {
        short_threads(EACH);
        hw_collect_pass(the_one(), 0, &state);
        T_TRUE(state.chunks <= 5);
    }
    hw_collect_limit(the_one(), 2); /* the place that is still open gives way, too */
    hw_collect_pass(the_one(), 0, &state);
    T_TRUE(state.chunks <= 3);
    struct trace trace = ended("lost.hwt");
    T_TRUE(trace.header->overwritten_events > 0);
    T_EQ(0, trace.header->dropped_events);
    T_TRUE(trace.header->overwritten_until_ns > trace.header->start_ns);
    T_EQ(1 + PASSES * (2 + 3 * EACH), all_events(&trace));
    trace_close(&trace);
}

/* A burst of threads fills the memory: the collector is told, and gives back what they touched. */
static void test_a_burst_fills_the_memory(void) {
    enum { MANY = 600 };
    T_EQ(0, world_try_collect("burst.hwt", 1024 * HW__CHUNK_BYTES));
    struct hw_collection *one = the_one();
    T_EQ(0, hw_collect_fills(one)); /* it has no share yet */
    hw_collect_share(one, 1024);
    hw_collect_pass(one, 0, &state);
    short_threads(10);
    T_EQ(0, hw_collect_fills(one));
    short_threads(MANY);
    T_EQ(1, hw_collect_fills(one));
    const struct hw_look nothing = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    T_EQ(HW_WAIT_OVER, hw_collect_wait(&one, 1, &nothing, 1000000, INT64_MAX / 2, -1));
    struct stat before, after;
    T_EQ(0, fstat(collected[0].memory, &before));
    hw_collect_pass(one, 0, &state);
    T_TRUE(state.closed >= MANY);
    T_EQ(0, hw_collect_fills(one));
    T_EQ(0, fstat(collected[0].memory, &after));
    T_TRUE((before.st_blocks - after.st_blocks) * 512 >= (MANY - 300) * 4096);
    struct trace trace = ended("burst.hwt");
    T_TRUE(trace.complete);
    T_EQ(10 + MANY, trace.kinds[HW__EXIT]);
    trace_close(&trace);
}

/* A process uses only as much memory as the collector gives it. */
static void test_memory_is_shared_out(void) {
    T_EQ(0, world_try_collect("share.hwt", 64 * HW__CHUNK_BYTES));
    hw_collect_share(the_one(), 3);
    yield(10 * (long)CHUNK_EVENTS);
    hw_collect_pass(the_one(), 0, &state);
    T_TRUE(state.closed <= 3);
    T_TRUE(state.dropped_events > 0);
    T_EQ(0, hw_trace_stop());
}

/* The collector knows from outside when the process began, and the file has it. */
static void test_the_begin_of_the_process_is_kept(void) {
    T_EQ(0, world_try_collect("begin.hwt", 8 * HW__CHUNK_BYTES));
    hw_collect_began(the_one(), 1234);
    struct trace trace = ended("begin.hwt");
    T_EQ(1234, trace.header->process_start_ns);
    trace_close(&trace);
}

/* The collector sees how long a process lives that records no end, and the file has it. */
static void test_the_life_of_a_killed_process_is_kept(void) {
    T_EQ(0, world_try_collect("lived.hwt", 8 * HW__CHUNK_BYTES));
    world_yield();
    hw_collect_lived(the_one(), 1234);
    hw_collect_pass(the_one(), 0, &state);
    struct trace trace = trace_open(world_path("lived.hwt"));
    T_EQ(0, trace.header->end_ns);
    T_EQ(1234, trace.header->lived_until_ns);
    trace_close(&trace);
    trace = ended("lived.hwt");
    trace_close(&trace);
}

/* Nothing of the file is mapped, so the process does not notice what others do to the file. */
static void test_the_file_is_truncated_and_removed(void) {
    T_EQ(0, world_try_collect("gone.hwt", 16 * HW__CHUNK_BYTES));
    yield(4 * (long)CHUNK_EVENTS);
    hw_collect_pass(the_one(), 0, &state);
    T_EQ(0, truncate(world_path("gone.hwt"), 0));
    yield(4 * (long)CHUNK_EVENTS);
    hw_collect_pass(the_one(), 0, &state);
    T_EQ(0, unlink(world_path("gone.hwt")));
    yield(4 * (long)CHUNK_EVENTS);
    hw_collect_pass(the_one(), 0, &state);
    T_EQ(0, state.dropped_events);
    T_EQ(0, hw_trace_stop());
}

/* A full disk, in a child with mounts of its own, which vanish with it. */
static void on_a_full_disk(void) {
    T_EQ(0, mkdir(world_path("disk"), 0700));
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("headway", world_path("disk"), "tmpfs", 0, "size=2m") != 0) {
        fprintf(stderr, "  (no file system can be mounted here)\n");
        return;
    }
    strcat(world_folder, "/disk");
    T_EQ(0, world_try_collect("full.hwt", WORLD_MAX_BYTES));
    long rounds = 0;
    int64_t at_first = 0;
    for (int full = 0; full < 20;) {
        yield(3 * (long)CHUNK_EVENTS);
        rounds += 3 * (long)CHUNK_EVENTS;
        hw_collect_hurry(the_one()); /* open chunks get places, too, and give them up */
        hw_collect_pass(the_one(), 0, &state);
        full += state.error == ENOSPC;
        at_first = full == 1 ? state.chunks : at_first;
    }
    T_TRUE(state.chunks >= at_first - 1); /* the file gives none of its room away */
    /* When there is room again, the file grows again. */
    int64_t chunks = state.chunks;
    T_EQ(0, mount(NULL, world_folder, NULL, MS_REMOUNT, "size=32m"));
    while (state.chunks <= chunks + 3) {
        yield((long)CHUNK_EVENTS);
        rounds += (long)CHUNK_EVENTS;
        hw_collect_pass(the_one(), 0, &state);
    }
    struct trace trace = ended("full.hwt");
    T_TRUE(trace.header->overwritten_events > 0);
    T_EQ(1 + 2 * rounds, all_events(&trace));
    T_TRUE(trace.event_count > 20 * CHUNK_EVENTS);
    trace_close(&trace);
}

static void test_full_disk(void) { world_wait(world_fork(on_a_full_disk)); }

/* A file that cannot be written at all: the events are counted, those of the last chunk included,
 * and the memory stays free. */
static void test_no_disk(void) {
    T_EQ(0, world_try_collect("none.hwt", 8 * HW__CHUNK_BYTES));
    struct hw_collection *collection = the_one();
    int pipe_ends[2];
    T_EQ(0, pipe(pipe_ends)); /* cannot be written at an offset */
    T_EQ(collected[0].file, dup2(pipe_ends[0], collected[0].file));
    for (int pass = 0; pass < 10; pass++) {
        yield(3 * (long)CHUNK_EVENTS);
        hw_collect_pass(collection, 0, &state);
    }
    T_TRUE(state.error != 0);
    T_TRUE(state.dropped_events > (int64_t)(20 * CHUNK_EVENTS));
    T_EQ(0, hw_trace_stop());
    for (int i = 0; i < 2; i++) { /* a second last pass counts nothing twice */
        hw_collect_pass(collection, 1, &state);
        T_EQ(1 + 2 * 10 * 3 * (int64_t)CHUNK_EVENTS, state.dropped_events);
    }
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    collect_forget();
}

/* A process is killed in the middle of recording, again and again: the events that it recorded are
 * there, and are correct (trace_open() checks that). The child runs until it is killed. */
static void hammer(void) {
    struct hw_trace_options options = world_options(collect_door);
    options.bytes = 40 * HW__CHUNK_BYTES;
    T_EQ(0, hw_trace_start(&options));
    struct world_worker workers[3];
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < 3; i++) {
        workers[i].gil = fake_main_gil();
        workers[i].spins = i;
        world_go(&workers[i]);
    }
    for (;;) {
        world_yield();
    }
}

static void test_killed(void) {
    uint64_t random = 88172645463325252ULL;
    for (int i = 0; i < 12; i++) {
        collect_forget();
        unlink(world_path("killed.hwt"));
        collect_listen(world_path("killed.hwt"));
        pid_t pid = world_fork(hammer);
        do {
            collect_answer();
            sched_yield();
        } while (collected_count == 0);
        uint64_t until = 4 + t_random(&random) % 40;
        struct hw__header header;
        do {
            hw_collect_pass(the_one(), 0, &state);
            T_EQ(sizeof header, pread(collected[0].memory, &header, sizeof header, 0));
        } while (header.chunks_taken < until);
        T_EQ(0, kill(pid, SIGKILL));
        int status;
        T_EQ(pid, waitpid(pid, &status, 0));
        T_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        struct trace trace = trace_open(world_path("killed.hwt"));
        T_EQ(0, trace.header->end_ns);
        T_TRUE(trace.event_count > 0);
        trace_close(&trace);
    }
    collect_forget();
}

/* The reasons for which a wait for threads ends: the time is over, a descriptor is ready, a thread
 * holds the GIL, waits, or is away. */
static void test_waiting_for_threads(void) {
    const int64_t never_ns = INT64_MAX / 2, tick_ns = 2000000, least_ns[HW_HOMES] = {0};
    int ready[2];
    T_EQ(0, pipe(ready));
    world_collect("wait.hwt");
    struct hw_collection *one = the_one();
    T_EQ(0, hw_collect_watch(one, least_ns));
    world_yield(); /* this thread holds the GIL, and the collector knows it */
    const struct hw_look nothing = {never_ns, never_ns, never_ns, never_ns};
    struct hw_look holds = nothing, away = nothing;
    holds.hold_ns = away.away_ns = 1000000;
    int64_t begin_ns = hw_now_ns();
    T_EQ(HW_WAIT_OVER,
         hw_collect_wait(&one, 1, &nothing, tick_ns, begin_ns + 5 * tick_ns, ready[0]));
    T_TRUE(hw_now_ns() >= begin_ns + 5 * tick_ns);
    T_EQ(HW_WAIT_OVER, hw_collect_wait(&one, 1, &away, tick_ns, hw_now_ns() + tick_ns, ready[0]));
    T_EQ(HW_WAIT_THREAD, hw_collect_wait(&one, 1, &holds, tick_ns, never_ns, ready[0]));
    void *saved = PyEval_SaveThread();
    T_EQ(HW_WAIT_OVER, hw_collect_wait(&one, 1, &holds, tick_ns, hw_now_ns() + tick_ns, ready[0]));
    T_EQ(HW_WAIT_THREAD,
         hw_collect_wait(&one, 1, &away, tick_ns * 500, hw_now_ns() + tick_ns, ready[0]));
    T_EQ(1, write(ready[1], "", 1));
    T_EQ(HW_WAIT_READY, hw_collect_wait(&one, 1, &nothing, tick_ns, never_ns, ready[0]));
    PyEval_RestoreThread(saved);
    T_EQ(0, hw_trace_stop());
    collect_forget();
    close(ready[0]);
    close(ready[1]);
}

/* A memory that could shrink, or that is not ours, is not mapped. */
static void test_memory_that_is_none(void) {
    char page[HW__HEADER_BYTES] = {0};
    int file = open(world_path("none"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    T_EQ(sizeof page, pwrite(file, page, sizeof page, 0));
    errno = 0;
    T_TRUE(hw_collect_open(file, file, "x") == NULL);
    T_EQ(EPROTO, errno);
    int memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    T_EQ(0, ftruncate(memory, 1 << 20));
    T_TRUE(hw_collect_open(memory, file, "x") == NULL); /* it could shrink */
    T_EQ(0, fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK));
    T_TRUE(hw_collect_open(memory, file, "x") == NULL); /* no magic */
    T_EQ(EPROTO, errno);
    close(memory);
    close(file);
}

/* The sizes that a memory claims decide how much we allocate, so no more is accepted than our
 * processes make. */
static void test_memory_that_claims_too_much(void) {
    T_EQ(0, world_try_collect("much.hwt", HW_COLLECT_MOST_BYTES)); /* this much is accepted */
    T_EQ(0, hw_trace_stop());
    the_one();
    int memory = collected[0].memory, file = collected[0].file;
    uint32_t chunks = HW_COLLECT_MOST_BYTES / HW__CHUNK_BYTES + 1;
    T_EQ(sizeof chunks,
         pwrite(memory, &chunks, sizeof chunks, offsetof(struct hw__header, chunk_count)));
    errno = 0;
    T_TRUE(hw_collect_open(memory, file, "x") == NULL);
    T_EQ(EPROTO, errno);
    collect_forget();
}

/* Names, code and stacks are never overwritten. With a limit of their own they leave events their
 * room, however many there are. */
static void test_events_have_room_beside_names(void) {
    T_EQ(0, world_try_collect("names.hwt", 32 * HW__CHUNK_BYTES));
    hw_collect_limit(the_one(), 4);
    hw_collect_limit_meta(the_one(), 6);
    for (int pass = 0; pass < 20; pass++) {
        for (size_t i = 0; i < HW__CHUNK_BYTES / sizeof(struct hw__meta_name); i++) {
            hw_trace_name(1, "of another thread, which has no record");
        }
        hw_collect_pass(the_one(), 0, &state);
    }
    T_TRUE(state.lost_meta > 0);
    yield(3 * (long)CHUNK_EVENTS);
    hw_collect_pass(the_one(), 0, &state);
    T_TRUE(state.chunks <= 4);
    T_EQ(0, state.dropped_events);
    struct trace trace = ended("names.hwt");
    T_TRUE(trace.event_count > 2 * CHUNK_EVENTS);
    T_EQ(trace.events[trace.event_count - 1].event.kind, HW__ACQUIRE);
    trace_close(&trace);
    collect_forget();
}

/* A hostile process says that a chunk has less than the collector has already copied. */
static void test_a_chunk_that_shrinks(void) {
    T_EQ(0, world_try_collect("shrinks.hwt", 16 * HW__CHUNK_BYTES));
    yield((long)CHUNK_EVENTS / 4);
    struct hw_collection *collection = the_one();
    hw_collect_hurry(collection);
    hw_collect_pass(collection, 0, &state);
    struct stat before, after;
    T_EQ(0, fstat(collected[0].file, &before));
    size_t bytes = hw__session.bytes;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, collected[0].memory, 0);
    T_TRUE(memory != MAP_FAILED);
    T_EQ(0, hw_trace_stop());
    for (uint32_t kind = HW__CHUNK_OPEN; kind <= HW__CHUNK_CLOSED; kind++) {
        for (uint32_t i = 0; i < 16; i++) {
            struct hw__chunk *chunk =
                (struct hw__chunk *)(memory + ((struct hw__header *)memory)->chunks_offset +
                                     (size_t)i * HW__CHUNK_BYTES);
            if (atomic_load(&chunk->used) > sizeof(struct hw__event)) {
                atomic_store(&chunk->used, sizeof(struct hw__event));
                atomic_store(&chunk->state, kind);
            }
        }
        hw_collect_hurry(collection);
        hw_collect_pass(collection, 0, &state);
    }
    T_EQ(0, fstat(collected[0].file, &after));
    T_EQ(before.st_size, after.st_size);
    munmap(memory, bytes);
    collect_forget();
}

/* A hostile process may write anything into its memory at any time. Nothing outside of the memory
 * and the file is touched (the address sanitizer checks that), and the collector finishes. */
static void test_hostile_memory(void) {
    uint64_t random = 1234567890123456789ULL;
    int rounds = t_rounds(300);
    for (int i = 0; i < rounds; i++) {
        collect_forget();
        unlink(world_path("hostile.hwt"));
        T_EQ(0, world_try_collect("hostile.hwt", 16 * HW__CHUNK_BYTES));
        yield((long)CHUNK_EVENTS);
        size_t bytes = hw__session.bytes;
        collect_answer();
        char *memory =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, collected[0].memory, 0);
        T_TRUE(memory != MAP_FAILED);
        T_EQ(0, hw_trace_stop());
        struct hw_collection *collection = collected[0].collection;
        struct hw__header *header = (struct hw__header *)memory;
        for (int change = 0; change < 40; change++) {
            uint64_t where = t_random(&random) % 4;
            size_t at =
                where == 0 ? t_random(&random) % HW__HEADER_BYTES
                : where == 1
                    ? header->chunks_offset % bytes + t_random(&random) % (4 * HW__CHUNK_BYTES)
                    : header->chunks_offset % bytes + t_random(&random) % 4 * HW__CHUNK_BYTES +
                          t_random(&random) % HW__CHUNK_HEADER_BYTES;
            if (at + 8 <= bytes) {
                uint64_t value = t_random(&random) >> (t_random(&random) % 64);
                memcpy(memory + at / 8 * 8, &value, sizeof value);
            }
        }
        hw_collect_pass(collection, 0, &state);
        hw_collect_pass(collection, 1, &state);
        struct hw_collection *again = hw_collect_open(collected[0].memory, collected[0].file, "x");
        if (again != NULL) {
            hw_collect_pass(again, 1, &state);
            hw_collect_close(again);
        }
        munmap(memory, bytes);
    }
    collect_forget();
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_killed);
    T_RUN(test_full_disk);
    T_RUN(test_chunks_are_used_again);
    collect_forget();
    T_RUN(test_a_slow_collector);
    collect_forget();
    T_RUN(test_collected_while_threads_record);
    collect_forget();
    T_RUN(test_the_file_is_limited);
    collect_forget();
    T_RUN(test_short_threads_share_places);
    collect_forget();
    T_RUN(test_shared_places_are_overwritten);
    collect_forget();
    T_RUN(test_a_burst_fills_the_memory);
    collect_forget();
    T_RUN(test_memory_is_shared_out);
    collect_forget();
    T_RUN(test_the_begin_of_the_process_is_kept);
    collect_forget();
    T_RUN(test_the_life_of_a_killed_process_is_kept);
    collect_forget();
    T_RUN(test_the_file_is_truncated_and_removed);
    collect_forget();
    T_RUN(test_no_disk);
    T_RUN(test_waiting_for_threads);
    T_RUN(test_memory_that_is_none);
    T_RUN(test_memory_that_claims_too_much);
    T_RUN(test_events_have_room_beside_names);
    T_RUN(test_a_chunk_that_shrinks);
    T_RUN(test_hostile_memory);
    world_leave();
    return 0;
}
