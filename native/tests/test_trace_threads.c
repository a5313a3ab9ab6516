// SPDX-License-Identifier: MIT
/* Threads begin, have names, and end. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "gil_world.h"
#include "trace/names.h"
#include "trace/thread.h"
#include "trace_file.h"

static pthread_key_t late_key;

/* Returns how many slots of the current session belong to a thread that lives. */
static int live_slots(void) {
    int count = 0;
    for (uint32_t i = 0; i < HW__MAX_THREADS; i++) {
        count += hw__session.slots[i].state != HW__SLOT_FREE;
    }
    return count;
}

/* Runs `function` in a new thread, and joins the thread. */
static void run_thread(void *(*function)(void *), void *argument) {
    pthread_t thread;
    T_EQ(0, pthread_create(&thread, NULL, function, argument));
    world_join(thread);
}

static void *take_twice(void *argument) {
    struct world_worker worker = {.gil = fake_main_gil(), .rounds = 2};
    world_work(&worker);
    return argument;
}

/* A thread that ends gives its record back, and closes its chunk; its counts can be read for a
 * while. Thousands of short threads need no more than a few of each. */
static void test_thousands_of_short_threads(void) {
    enum { MANY = WORLD_TSAN ? 1000 : 5000 };
    T_EQ(0, world_try_start("short.hwt", 32 * HW__CHUNK_BYTES, false));
    for (int i = 0; i < MANY; i++) {
        run_thread(take_twice, NULL);
        if (i % 500 == 0) {
            T_EQ(1, live_slots());
        }
    }
    T_EQ(1, live_slots());
    T_EQ(0, hw__session.header->dropped_events);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("short.hwt"));
    T_EQ(MANY + 1, trace.header->thread_count);
    /* Each thread that is not overwritten is there as a whole. */
    uint64_t threads = trace.kinds[HW__EXIT];
    T_TRUE(threads > 20 && threads < 32);
    T_TRUE(trace.kinds[HW__ACQUIRE] >= 2 * threads);
    trace_close(&trace);
}

/* All threads of a session are in its file if there is room for them, including those that have
 * ended. */
static void test_all_are_told(void) {
    enum { SOME = 100 };
    world_start("told.hwt");
    for (int i = 0; i < SOME; i++) {
        run_thread(take_twice, NULL);
    }
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("told.hwt"));
    T_TRUE(trace.complete);
    T_EQ(SOME, trace.kinds[HW__EXIT]);
    T_EQ(SOME + 1, trace.header->thread_count);
    T_EQ(3 * SOME + 1, trace.kinds[HW__ACQUIRE]);
    trace_check_slots(&trace);
    trace_close(&trace);
}

static void *name_itself(void *argument) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    T_EQ(0, pthread_setname_np(pthread_self(), "by-the-os"));
    PyEval_RestoreThread(me);
    hw_trace_name(gettid(), argument);
    PyEval_SaveThread();
    fake_state_free(me);
    return NULL;
}

/* Acquires the GIL *times times, in a thread that has no name in Python. */
static void *take_unnamed(void *times) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    T_EQ(0, pthread_setname_np(pthread_self(), "by-the-os"));
    for (int i = 0; i < *(int *)times; i++) {
        PyEval_RestoreThread(me);
        PyEval_SaveThread();
    }
    /* The name at the thread's end does not matter if the name has been read before. */
    T_EQ(0, pthread_setname_np(pthread_self(), "at-its-end"));
    fake_state_free(me);
    return NULL;
}

/* Returns a chunk of a thread, by the thread's serial. */
static const struct hw__chunk *chunk_of(const struct trace *trace, uint32_t serial) {
    for (uint32_t i = 0; trace_chunk(trace, i) != NULL; i++) {
        const struct hw__chunk *chunk = trace_chunk(trace, i);
        if (chunk->kind == HW__CHUNK_EVENTS && chunk->owner == serial) {
            return chunk;
        }
    }
    T_TRUE(!"a chunk of that thread");
    return NULL;
}

/* A name that is too long for a slot is cut there. */
#define LONG_NAME "0123456789 123456789 123456789 123456789 123456789 123456789 123456789"

/* A thread has the name that the OS knows until Python gives it another one, both in its slot and
 * in its chunks. */
static void test_names(void) {
    world_start("names.hwt");
    run_thread(name_itself, "Herr M\xc3\xbcller");
    run_thread(name_itself, LONG_NAME);
    T_EQ(0, pthread_setname_np(pthread_self(), "main-thread"));
    hw_trace_name(gettid() + 1000000, "nobody");
    T_EQ(0, hw_trace_stop());
    hw_trace_name(gettid(), "too late");
    struct trace trace = trace_open(world_path("names.hwt"));
    T_EQ(0, strcmp("Herr M\xc3\xbcller", trace.slots[1].name));
    T_EQ(1, chunk_of(&trace, 2)->named);
    T_EQ(0, strcmp("Herr M\xc3\xbcller", chunk_of(&trace, 2)->name));
    T_EQ(HW__NAME_BYTES - 1, strlen(trace.slots[2].name));
    T_EQ(0, strncmp(LONG_NAME, trace.slots[2].name, HW__NAME_BYTES - 1));
    T_EQ(0, chunk_of(&trace, 1)->named);
    const struct hw__meta_name *record = NULL;
    T_EQ(1, trace_count_meta(&trace, 0, HW__META_NAME, (const void **)&record));
    T_EQ(gettid() + 1000000, record->tid);
    T_EQ(strlen("nobody"), record->name_bytes);
    T_EQ(0, memcmp("nobody", record + 1, record->name_bytes));
    trace_close(&trace);
}

/* A note is a record of a meta chunk; one that does not fit in a chunk is left out, and so is one
 * without a session. */
static void test_notes(void) {
    static char long_text[HW__CHUNK_BYTES + 1];
    memset(long_text, 'x', HW__CHUNK_BYTES);
    world_start("notes.hwt");
    hw_trace_note("{\"standing\":[]}");
    hw_trace_note(long_text);
    T_EQ(0, hw_trace_stop());
    hw_trace_note("{}");
    struct trace trace = trace_open(world_path("notes.hwt"));
    const struct hw__meta_note *record = NULL;
    T_EQ(1, trace_count_meta(&trace, 0, HW__META_NOTE, (const void **)&record));
    T_EQ(strlen("{\"standing\":[]}"), record->note_bytes);
    T_EQ(0, memcmp("{\"standing\":[]}", record + 1, record->note_bytes));
    trace_close(&trace);
}

/* For a thread without a name in Python, the recorder reads the OS's name, after some events or at
 * the thread's end. */
static void test_names_by_the_os(void) {
    int once = 1, often = 100;
    world_start("os_names.hwt");
    run_thread(take_unnamed, &once);
    run_thread(take_unnamed, &often);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("os_names.hwt"));
    T_EQ(0, strcmp("at-its-end", chunk_of(&trace, 2)->name));
    T_EQ(0, strcmp("by-the-os", chunk_of(&trace, 3)->name));
    T_EQ(0, strcmp("by-the-os", trace.slots[2].name));
    T_EQ(0, chunk_of(&trace, 3)->named);
    trace_close(&trace);
}

/* A thread that Python names before its first event has that name in its slot and in its chunks,
 * whichever thread gives it. The last name counts. */
static void *take_named(void *argument) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    hw_trace_name(gettid(), "first");
    hw_trace_name(gettid(), argument);
    PyEval_RestoreThread(me);
    PyEval_SaveThread();
    fake_state_free(me);
    return NULL;
}

static void test_named_before_its_first_event(void) {
    world_start("before.hwt");
    run_thread(take_named, "last");
    T_EQ(0, strcmp("last", hw__session.slots[1].name));
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("before.hwt"));
    T_EQ(0, strcmp("last", chunk_of(&trace, 2)->name));
    T_EQ(1, chunk_of(&trace, 2)->named);
    T_EQ(0, trace_count_meta(&trace, 0, HW__META_NAME, NULL));
    trace_close(&trace);
}

/* The names of as many threads as there is room for are kept; a further one takes the place of the
 * first. */
static void test_names_are_kept_and_taken_once(void) {
    enum { PLACES = 1024 };
    char text[HW__NAME_BYTES] = "";
    hw__names_forget();
    T_TRUE(!hw__names_take(1, text));
    for (int32_t tid = 1; tid <= PLACES + 1; tid++) {
        snprintf(text, sizeof text, "%d", (int)tid);
        hw__names_keep(tid, text);
    }
    T_TRUE(!hw__names_take(1, text));
    for (int32_t tid = 2; tid <= PLACES + 1; tid++) {
        T_TRUE(hw__names_take(tid, text));
        T_EQ(tid, atoi(text));
        T_TRUE(!hw__names_take(tid, text));
    }
}

static struct meeting {
    sem_t done, go;
} meeting;

static void *take_and_wait(void *argument) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    *(pid_t *)argument = gettid();
    PyEval_RestoreThread(me);
    PyEval_SaveThread();
    sem_post(&meeting.done);
    while (sem_wait(&meeting.go) != 0) {
    }
    PyEval_RestoreThread(me);
    PyEval_SaveThread();
    fake_state_free(me);
    return NULL;
}

/* A thread that gets its name from another one has it in its slot at once. A record gives the name,
 * too, because the thread's chunk began without one. */
static void test_named_by_another(void) {
    T_EQ(0, sem_init(&meeting.done, 0, 0));
    T_EQ(0, sem_init(&meeting.go, 0, 0));
    world_start("another.hwt");
    pthread_t thread;
    pid_t tid;
    T_EQ(0, pthread_create(&thread, NULL, take_and_wait, &tid));
    void *me = PyEval_SaveThread();
    T_EQ(0, sem_wait(&meeting.done));
    PyEval_RestoreThread(me);
    hw_trace_name(tid, "given");
    T_EQ(0, strcmp("given", hw__session.slots[1].name));
    sem_post(&meeting.go);
    world_join(thread);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("another.hwt"));
    const struct hw__meta_name *record = NULL;
    T_EQ(1, trace_count_meta(&trace, 0, HW__META_NAME, (const void **)&record));
    T_EQ(tid, record->tid);
    T_TRUE(record->time_ns > trace.header->start_ns && record->time_ns < trace.header->end_ns);
    trace_close(&trace);
}

/* A thread that lived in one session ends in the next one without an event there, and touches
 * nothing of that session. */
static void test_ends_in_another_session(void) {
    pthread_t thread;
    pid_t tid;
    world_start("before.hwt");
    T_EQ(0, pthread_create(&thread, NULL, take_and_wait, &tid));
    void *me = PyEval_SaveThread();
    T_EQ(0, sem_wait(&meeting.done));
    PyEval_RestoreThread(me);
    T_EQ(0, hw_trace_stop());
    sem_post(&meeting.go); /* acquires the GIL without a session */
    world_join(thread);
    world_start("after.hwt");
    T_EQ(0, hw_trace_stop());

    /* The other way round: the thread begins without a session. */
    T_EQ(0, pthread_create(&thread, NULL, take_and_wait, &tid));
    me = PyEval_SaveThread();
    T_EQ(0, sem_wait(&meeting.done));
    PyEval_RestoreThread(me);
    world_start("then.hwt");
    sem_post(&meeting.go);
    world_join(thread);
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("before.hwt"));
    T_EQ(0, trace.kinds[HW__EXIT]);
    trace_close(&trace);
    trace = trace_open(world_path("after.hwt"));
    T_EQ(1, trace.header->thread_count);
    T_EQ(1, trace.event_count);
    trace_close(&trace);
    trace = trace_open(world_path("then.hwt"));
    T_EQ(1, trace.kinds[HW__EXIT]);
    T_EQ(2, trace.header->thread_count);
    trace_check_slots(&trace);
    trace_close(&trace);
}

/* A destructor of another library uses Python after ours has run: the thread begins again in the
 * file, and ends again. */
static void use_late(void *value) {
    static _Thread_local int times;
    if (times++ == 0) {
        pthread_setspecific(late_key, value); /* once more, after ours has run */
    }
    take_twice(NULL);
}

static void *have_late_destructor(void *argument) {
    T_EQ(0, pthread_setspecific(late_key, &late_key));
    return take_twice(argument);
}

static void test_destructors_that_use_python(void) {
    world_start("late.hwt");
    T_EQ(0, pthread_key_create(&late_key, use_late));
    run_thread(have_late_destructor, NULL);
    T_EQ(1, live_slots());
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("late.hwt"));
    T_TRUE(trace.complete);
    T_TRUE(trace.kinds[HW__EXIT] >= 2);
    T_EQ(trace.kinds[HW__EXIT] + 1, trace.header->thread_count);
    T_EQ(1 + 1 + 3 * 2, trace.kinds[HW__ACQUIRE]);
    trace_close(&trace);
    T_EQ(0, pthread_key_delete(late_key));
}

/* In a process that has used up the first keys for thread-specific data, the recorder is not told
 * of a thread's end. The thread's record is found to be free when all are in use. The test runs in
 * a child, because the key is made once. */
static void without_a_key(void) {
    for (int i = 0; i < 40; i++) {
        pthread_key_t key;
        T_EQ(0, pthread_key_create(&key, NULL));
    }
    world_start("");
    for (int i = 0; i < HW__MAX_THREADS + 100; i++) {
        run_thread(take_twice, NULL);
    }
    T_EQ(0, hw__session.header->dropped_events);
    T_EQ(HW__MAX_THREADS + 101, hw__session.header->thread_count);
    T_EQ(0, hw_trace_stop());
}

static void test_without_a_key(void) { world_wait(world_fork(without_a_key)); }

/* A program limits its address space after tracing has begun: threads without a record are not
 * recorded until there is room. */
enum { CROWD = 600, RECORDS = 512 /* the records that there are at first */ };

static sem_t crowd_begins[2], crowd_ends, crowd_done;

static void *be_of_crowd(void *argument) {
    struct fake_state *me = fake_state_new(fake_main_gil()); /* while there still is memory */
    sem_post(&crowd_done);
    for (int i = 0; i < 2; i++) {
        sem_wait(&crowd_begins[i]);
        for (int n = 0; n < (i == 0 ? 2 : 1200); n++) {
            PyEval_RestoreThread(me);
            me = PyEval_SaveThread();
        }
        sem_post(&crowd_done);
    }
    sem_wait(&crowd_ends);
    fake_state_free(me);
    return argument;
}

/* Lets the threads go, one after another: all at once, they would hand the GIL on for minutes on a
 * machine with many cores. */
static void crowd_round(sem_t *begins) {
    void *me = PyEval_SaveThread();
    for (int i = 0; i < CROWD; i++) {
        sem_post(begins);
        sem_wait(&crowd_done);
    }
    PyEval_RestoreThread(me);
}

static void limited_later(void) {
    pthread_t threads[CROWD];
    sem_init(&crowd_begins[0], 0, 0);
    sem_init(&crowd_begins[1], 0, 0);
    sem_init(&crowd_ends, 0, 0);
    sem_init(&crowd_done, 0, 0);
    world_start("");
    for (int i = 0; i < CROWD; i++) {
        T_EQ(0, pthread_create(&threads[i], NULL, be_of_crowd, NULL));
    }
    for (int i = 0; i < CROWD; i++) {
        sem_wait(&crowd_done);
    }
    if (WORLD_CAN_LIMIT) {
        world_limit_address_space(32 << 20);
    }
    crowd_round(&crowd_begins[0]);
    world_limit_address_space(RLIM_INFINITY);
    T_EQ(WORLD_CAN_LIMIT ? RECORDS : CROWD + 1, live_slots());
    crowd_round(&crowd_begins[1]); /* a thread without a record tries again after 1,000 events */
    T_EQ(CROWD + 1, live_slots());
    for (int i = 0; i < CROWD; i++) {
        sem_post(&crowd_ends);
    }
    for (int i = 0; i < CROWD; i++) {
        world_join(threads[i]);
    }
    T_EQ(1, live_slots());
    T_EQ(0, hw_trace_stop());
}

static void test_limited_later(void) { world_wait(world_fork(limited_later)); }

int main(void) {
    t_start();
    world_begin();
    world_enter();
    if (!WORLD_TSAN) {
        T_RUN(test_without_a_key); /* before the key is made; thousands of threads */
    }
    T_RUN(test_limited_later); /* before there have been so many threads */
    T_RUN(test_all_are_told);
    T_RUN(test_names);
    T_RUN(test_notes);
    T_RUN(test_names_by_the_os);
    T_RUN(test_named_before_its_first_event);
    T_RUN(test_names_are_kept_and_taken_once);
    T_RUN(test_named_by_another);
    T_RUN(test_ends_in_another_session);
    T_RUN(test_destructors_that_use_python);
    T_RUN(test_thousands_of_short_threads);
    world_leave();
    return 0;
}
