// SPDX-License-Identifier: MIT
/* Buffered counts: out of date until flushed, exact after. */
#include <pthread.h>

#include "limits/buffered.h"
#include "t.h"

static struct hw__commit commit;

static void test_a_count_is_exact_only_after_the_flush(void) {
    static struct hw__log log;
    struct hw__buffered object;
    hw__log_init(&log, &commit);
    hw__buffered_init(&object);
    hw__buffered_incref(&object, &log);
    hw__buffered_incref(&object, &log);
    hw__buffered_decref(&object, &log);
    T_EQ(1, hw__buffered_count(&object, &commit));
    hw__log_flush(&log);
    T_EQ(2, hw__buffered_count(&object, &commit));
    hw__log_flush(&log); /* empty by now */
    T_EQ(2, hw__buffered_count(&object, &commit));
}

static void test_a_full_log_flushes_itself(void) {
    static struct hw__log log;
    struct hw__buffered object;
    hw__log_init(&log, &commit);
    hw__buffered_init(&object);
    for (int i = 0; i < HW__LOG_ENTRIES - 1; i++) {
        hw__buffered_incref(&object, &log);
    }
    T_EQ(1, hw__buffered_count(&object, &commit));
    hw__buffered_incref(&object, &log);
    T_EQ(1 + HW__LOG_ENTRIES, hw__buffered_count(&object, &commit));
    for (int i = 0; i < HW__LOG_ENTRIES; i++) {
        hw__buffered_decref(&object, &log);
    }
    T_EQ(1, hw__buffered_count(&object, &commit));
}

static void test_increments_go_before_decrements(void) {
    static struct hw__log log;
    struct hw__buffered object;
    hw__log_init(&log, &commit);
    hw__buffered_init(&object);
    hw__buffered_decref(&object, &log);
    hw__buffered_incref(&object, &log);
    hw__log_flush(&log);
    /* the count never touched zero: that would read as 0 */
    T_EQ(1, hw__buffered_count(&object, &commit));
}

static void test_an_object_at_zero_is_dead_for_good(void) {
    static struct hw__log log;
    struct hw__buffered object;
    hw__log_init(&log, &commit);
    hw__buffered_init(&object);
    hw__buffered_decref(&object, &log);
    hw__log_flush(&log);
    T_EQ(0, hw__buffered_count(&object, &commit));
    hw__buffered_incref(&object, &log);
    hw__log_flush(&log);
    T_EQ(0, hw__buffered_count(&object, &commit));
}

#define THREADS 6
#define OBJECTS 8
#define STEPS 10000

static struct hw__buffered objects[OBJECTS];

/* The references that one thread holds at its end; read after the thread is joined. */
struct player {
    pthread_t thread;
    uint64_t random;
    int held[OBJECTS];
    struct hw__log log;
};

static struct player players[THREADS];

static void *play(void *argument) {
    struct player *self = argument;
    for (int step = 0; step < STEPS; step++) {
        uint64_t dice = t_random(&self->random);
        int i = (int)(dice % OBJECTS);
        if (self->held[i] == 0 || (dice >> 32 & 1) == 0) {
            hw__buffered_incref(&objects[i], &self->log);
            self->held[i]++;
        } else {
            hw__buffered_decref(&objects[i], &self->log);
            self->held[i]--;
        }
    }
    hw__log_flush(&self->log);
    return NULL;
}

static void test_many_threads_add_up(void) {
    for (int i = 0; i < OBJECTS; i++) {
        hw__buffered_init(&objects[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        players[i].random = (uint64_t)i + 1;
        hw__log_init(&players[i].log, &commit);
        T_EQ(0, pthread_create(&players[i].thread, NULL, play, &players[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        T_EQ(0, pthread_join(players[i].thread, NULL));
    }
    for (int i = 0; i < OBJECTS; i++) {
        int64_t expected = 1;
        for (int k = 0; k < THREADS; k++) {
            expected += players[k].held[i];
        }
        T_EQ(expected, hw__buffered_count(&objects[i], &commit));
    }
}

int main(void) {
    t_start();
    T_EQ(0, hw__commit_init(&commit));
    T_RUN(test_a_count_is_exact_only_after_the_flush);
    T_RUN(test_a_full_log_flushes_itself);
    T_RUN(test_increments_go_before_decrements);
    T_RUN(test_an_object_at_zero_is_dead_for_good);
    T_RUN(test_many_threads_add_up);
    hw__commit_destroy(&commit);
    return 0;
}
