// SPDX-License-Identifier: MIT
/* Teams: all members run or none does, after all are prepared. */
#include <errno.h>
#include <stdatomic.h>

#include "limits/team.h"
#include "t.h"

#define SIZE 9

/* Records what the members did. */
struct log {
    int failing;        /* the member whose prepare fails, or -1 */
    int prepared[SIZE]; /* written by members before the barrier, read after it: not atomic */
    /* Members that ran. Relaxed: read after they are joined. No thread waits. */
    atomic_int ran;
    atomic_int seen_too_few; /* Members that ran before all were prepared. Relaxed, as above. */
};

static int prepare(void *context, int index) {
    struct log *log = context;
    log->prepared[index] = 1;
    return index == log->failing ? -EAGAIN : 0;
}

static void run(void *context, int index) {
    struct log *log = context;
    (void)index;
    int prepared = 0;
    for (int i = 0; i < SIZE; i++) {
        prepared += log->prepared[i];
    }
    atomic_fetch_add_explicit(&log->ran, 1, memory_order_relaxed);
    if (prepared != SIZE) {
        atomic_fetch_add_explicit(&log->seen_too_few, 1, memory_order_relaxed);
    }
}

static void test_everyone_runs_after_everyone_is_prepared(void) {
    struct log log = {.failing = -1};
    struct hw__job job = {.prepare = prepare, .run = run, .context = &log};
    struct hw__span spans[SIZE];
    T_EQ(0, hw__team_run(&job, SIZE, NULL, spans));
    T_EQ(SIZE, log.ran);
    T_EQ(0, log.seen_too_few);
    for (int i = 0; i < SIZE; i++) {
        T_TRUE(spans[i].start_ns > 0 && spans[i].start_ns <= spans[i].end_ns);
    }
}

static void test_nobody_runs_if_one_is_not_prepared(void) {
    for (int failing = 0; failing < SIZE; failing++) {
        struct log log = {.failing = failing};
        struct hw__job job = {.prepare = prepare, .run = run, .context = &log};
        struct hw__span spans[SIZE];
        T_EQ(-EAGAIN, hw__team_run(&job, SIZE, NULL, spans));
        T_EQ(0, log.ran);
    }
}

static void test_nobody_runs_if_one_cannot_be_placed(void) {
    struct log log = {.failing = -1};
    struct hw__job job = {.prepare = prepare, .run = run, .context = &log};
    struct hw__span spans[SIZE];
    int cpus[SIZE];
    for (int i = 0; i < SIZE; i++) {
        cpus[i] = i == 4 ? 1 << 20 : -1;
    }
    T_EQ(-EINVAL, hw__team_run(&job, SIZE, cpus, spans));
    T_EQ(0, log.ran);
}

int main(void) {
    t_start();
    T_RUN(test_everyone_runs_after_everyone_is_prepared);
    T_RUN(test_nobody_runs_if_one_is_not_prepared);
    T_RUN(test_nobody_runs_if_one_cannot_be_placed);
    return 0;
}
