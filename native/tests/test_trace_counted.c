// SPDX-License-Identifier: MIT
/* A session where the kernel counts the memory that it promises (vm.overcommit_memory is 2), as
 * forged files of /proc say: all of its memory is there from the start, and stays. */
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/room.h"
#include "gil_world.h"
#include "trace_file.h"

#define CHUNK_EVENTS ((HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES) / sizeof(struct hw__event))
#define MB (1 << 20)

static char overcommit[4096], meminfo[4096];

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    T_TRUE(file != NULL && fputs(text, file) >= 0);
    T_EQ(0, fclose(file));
}

/* Has the kernel count memory, of which it still promises so many MB. */
static void promise(long mb) {
    char text[200];
    write_text(overcommit, "2\n");
    snprintf(text, sizeof text, "MemTotal: 9 kB\nCommitLimit: %ld kB\nCommitted_AS: 5000 kB\n",
             mb * 1024 + 5000);
    write_text(meminfo, text);
}

/* Returns the bytes of the session's memory that are there, and with `all` how many it has. */
static int64_t there(int64_t *all) {
    struct stat found;
    T_EQ(0, fstat(hw__session.fd, &found));
    *all = found.st_size;
    return (int64_t)found.st_blocks * 512;
}

static void test_all_is_there_at_once(void) {
    int64_t all;
    write_text(overcommit, "0\n");
    world_start("bare.hwt");
    int64_t bytes = there(&all); /* first: it sets `all` */
    T_TRUE(bytes < all / 4);
    T_EQ(0, hw_trace_stop());

    promise(1000);
    world_start("whole.hwt");
    bytes = there(&all);
    T_TRUE(bytes >= all && all > WORLD_MAX_BYTES);
    world_yield();
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("whole.hwt"));
    T_EQ(3, trace.event_count);
    trace_close(&trace);
}

/* The session takes a quarter of what is promised at most. */
static void test_there_is_little(void) {
    int64_t all;
    promise(4 * 24);
    world_start("little.hwt");
    int64_t bytes = there(&all);
    T_TRUE(bytes >= all && all <= 24 * MB);
    T_TRUE(hw__session.chunk_count >= 64);
    T_EQ(0, hw_trace_stop());
    promise(4);
    T_EQ(-ENOMEM, world_try_start("none.hwt", WORLD_MAX_BYTES, false));
    write_text(meminfo, "MemTotal: 9 kB\n");
    T_EQ(-ENOMEM, world_try_start("none.hwt", WORLD_MAX_BYTES, false));
}

/* The collector gives no page back that the process might not get again. */
static void test_all_stays(void) {
    enum { CHUNKS = 300 }; /* the collector always keeps 256 */
    promise(1000);
    world_collect("stays.hwt");
    collect_answer();
    T_EQ(1, collected_count);
    struct hw_collection *one = collected[0].collection;
    struct hw_collect_state state;
    hw_collect_share(one, 1024);
    hw_collect_pass(one, 0, &state);
    for (long i = 0; i < CHUNKS * (long)CHUNK_EVENTS; i++) { /* a hold is one event in memory */
        world_yield();
    }
    hw_collect_pass(one, 0, &state);
    T_EQ(0, state.error);
    T_TRUE(state.closed >= CHUNKS - 2);
    struct stat found;
    T_EQ(0, fstat(collected[0].memory, &found));
    T_TRUE((int64_t)found.st_blocks * 512 >= found.st_size);
    T_EQ(0, hw_trace_stop());
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    strcpy(overcommit, world_path("overcommit"));
    strcpy(meminfo, world_path("meminfo"));
    hw__room_overcommit = overcommit;
    hw__room_meminfo = meminfo;
    T_RUN(test_all_stays); /* first: it has the only collection */
    T_RUN(test_all_is_there_at_once);
    T_RUN(test_there_is_little);
    world_leave();
    return 0;
}
