// SPDX-License-Identifier: MIT
/* Where events go when there is no room: chunks taken anew, a full disk, a process that dies. */
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/wait.h>

#include "gil_world.h"
#include "trace_file.h"

#define CHUNK_EVENTS ((HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES) / sizeof(struct hw__event))

/* All events that ever were: those in the file and those that are counted as gone. */
static uint64_t all_events(const struct trace *trace) {
    return trace->event_count + trace->header->overwritten_events + trace->header->dropped_events;
}

/* One thread that goes round many times in eight chunks: the newest events are left, without a gap
 * up to the end. */
static void test_wraps_around(void) {
    T_EQ(0, world_try_start("wrap.hwt", 8 * HW__CHUNK_BYTES, false));
    long rounds = 20 * (long)CHUNK_EVENTS;
    for (long i = 0; i < rounds; i++) {
        world_yield();
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("wrap.hwt"));
    T_EQ(8, trace.header->chunk_count);
    T_EQ(0, trace.header->dropped_events);
    T_EQ(1 + 2 * rounds, all_events(&trace));
    /* Seven chunks of events and one of the GIL; of the newest, at least one event. */
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

/* Lets threads fight for the GIL without drop requests, so that all events can be counted by other
 * means than the events: acquires and releases by the threads, waits by the slots. */
static struct trace fight(const char *name, int workers, int64_t max_bytes, void (*begun)(void)) {
    struct world_worker worker[16];
    memset(worker, 0, sizeof worker);
    fake_set_interval(fake_main_gil(), 3600000000UL);
    T_EQ(0, world_try_start(name, max_bytes, false));
    if (begun != NULL) {
        begun();
    }
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

/* Some threads in few chunks: none of them is without, and each event is either there or counted as
 * overwritten. */
static void test_threads_wrap_around(void) {
    struct trace trace = fight("threads.hwt", 4, 10 * HW__CHUNK_BYTES, NULL);
    T_TRUE(trace.header->overwritten_events > 0);
    T_EQ(0, trace.header->dropped_events);
    trace_close(&trace);
}

/* More threads than chunks: of two, one is for the GIL and one is the main thread's, which does not
 * fill it. The events of the others find no room, and are counted as dropped. */
static void test_more_threads_than_chunks(void) {
    struct trace trace = fight("few.hwt", 8, 2 * HW__CHUNK_BYTES, NULL);
    T_TRUE(trace.header->dropped_events > 0);
    trace_close(&trace);
}

/* No room at all is no error: only counters then. */
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

/* The disk fills up after the beginning, seen from the recorder: the rest goes round in what there
 * is. */
static void shrink(void) { atomic_store(&hw__session.limit, 6); }

static void test_limit_shrinks(void) {
    struct trace trace = fight("limit.hwt", 3, WORLD_MAX_BYTES, shrink);
    T_TRUE(trace.header->overwritten_events > 0);
    for (uint32_t i = 6; trace_chunk(&trace, i) != NULL; i++) {
        T_EQ(0, trace_chunk(&trace, i)->used);
    }
    trace_close(&trace);
}

/* A disk that is really full, where a file system of our own may be mounted. */
static void fill_disk(void) {
    char path[128];
    snprintf(path, sizeof path, "%s/filler", world_folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    T_TRUE(fd >= 0);
    struct statfs room;
    T_EQ(0, statfs(world_folder, &room));
    /* All but what a few chunks and slots need. */
    off_t bytes = (off_t)(room.f_bavail * (uint64_t)room.f_bsize) - 8 * HW__CHUNK_BYTES;
    T_TRUE(bytes > 0);
    T_EQ(0, posix_fallocate(fd, 0, bytes));
    close(fd);
}

/* In a child with mounts of its own, which go with it. */
static void on_a_full_disk(void) {
    T_EQ(0, mkdir(world_path("disk"), 0700));
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("headway", world_path("disk"), "tmpfs", 0, "size=4m") != 0) {
        fprintf(stderr, "  (no file system can be mounted here)\n");
        return;
    }
    strcat(world_folder, "/disk");
    struct trace trace = fight("full.hwt", 3, WORLD_MAX_BYTES, fill_disk);
    T_TRUE(trace.header->overwritten_events > 0);
    T_TRUE(trace.event_count > CHUNK_EVENTS);
    trace_close(&trace);

    /* Without a page to be had there is no session, and nothing is left of it. */
    int fd = open(world_path("rest"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    T_TRUE(fd >= 0);
    char page[4096] = {0};
    while (write(fd, page, sizeof page) > 0) {
    }
    close(fd);
    T_EQ(-ENOSPC, world_try_start("no.hwt", WORLD_MAX_BYTES, false));
    T_EQ(-1, access(world_path("no.hwt"), F_OK));
    T_EQ(0, hw_trace_active());
    T_TRUE(!world_hooked());
}

static void test_full_disk(void) { world_wait(world_fork(on_a_full_disk)); }

/* A process that is killed in the middle of writing, again and again: its file can be read, and
 * what it says is right (trace_open()). The child goes on until it is killed. */
static void hammer(void) {
    T_EQ(0, world_try_start("killed.hwt", 40 * HW__CHUNK_BYTES, false));
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
    bool wrapped = false;
    for (int i = 0; i < 12; i++) {
        pid_t pid = world_fork(hammer);
        struct stat file;
        while (stat(world_path("killed.hwt"), &file) != 0 || file.st_size < HW__HEADER_BYTES) {
            sched_yield();
        }
        int fd = open(world_path("killed.hwt"), O_RDONLY | O_CLOEXEC);
        const struct hw__header *header =
            mmap(NULL, HW__HEADER_BYTES, PROT_READ, MAP_SHARED, fd, 0);
        T_TRUE(header != MAP_FAILED);
        uint64_t until = (i % 3 == 0 ? 50 : 4) + t_random(&random) % 10;
        while (atomic_load(&header->chunks_taken) < until) {
            sched_yield();
        }
        T_EQ(0, kill(pid, SIGKILL));
        int status;
        T_EQ(pid, waitpid(pid, &status, 0));
        T_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        struct trace trace = trace_open(world_path("killed.hwt"));
        T_EQ(0, trace.header->end_ns);
        T_TRUE(trace.event_count > 0);
        wrapped = wrapped || !trace.complete;
        trace_close(&trace);
        munmap((void *)(uintptr_t)header, HW__HEADER_BYTES);
        close(fd);
        T_EQ(0, unlink(world_path("killed.hwt")));
    }
    T_TRUE(wrapped);
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_killed);
    T_RUN(test_full_disk);
    T_RUN(test_wraps_around);
    T_RUN(test_threads_wrap_around);
    T_RUN(test_more_threads_than_chunks);
    T_RUN(test_no_chunk);
    T_RUN(test_limit_shrinks);
    world_leave();
    return 0;
}
