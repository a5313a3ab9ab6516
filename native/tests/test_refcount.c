// SPDX-License-Identifier: MIT
/* The reference-count experiment as a caller sees it. */
#include "headway/refcount.h"
#include "process.h"

/* 3500 pairs are not a multiple of a log's size, so that a missing flush at the end would show. */
static struct hw_refcount_config config(int kind, int threads, int sharing) {
    return (struct hw_refcount_config){
        .kind = kind, .threads = threads, .sharing = sharing, .objects = 1, .pairs = 3500};
}

/* Returns the checksum of the work of `threads` threads, computed the slow way. */
static uint64_t expected_checksum(int threads, int64_t pairs, int work) {
    uint64_t checksum = 0;
    for (int thread = 0; thread < threads; thread++) {
        uint64_t x = (uint64_t)thread + 1;
        for (int64_t i = 0; i < pairs * work; i++) {
            x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        }
        checksum ^= x;
    }
    return checksum;
}

static void check(const struct hw_refcount_config *config) {
    struct surroundings before = look_around();
    struct hw_refcount_result result;
    T_EQ(0, hw_refcount(config, &result));
    T_EQ(0, result.lost);
    T_TRUE(result.thread_min_ns > 0);
    T_TRUE(result.thread_min_ns <= result.thread_max_ns);
    T_TRUE(result.thread_max_ns <= result.elapsed_ns);
    T_EQ(expected_checksum(config->threads, config->pairs, config->work), result.checksum);
    check_unchanged(&before);
}

static void test_no_reference_is_lost(void) {
    const int threads[] = {1, 2, 7};
    const int objects[] = {1, 2, 256};
    for (int kind = HW_REFCOUNT_PLAIN; kind <= HW_REFCOUNT_BUFFERED; kind++) {
        for (int sharing = HW_REFCOUNT_OWN; sharing <= HW_REFCOUNT_SHARED; sharing++) {
            for (int i = 0; i < 9; i++) {
                struct hw_refcount_config tried = config(kind, threads[i / 3], sharing);
                tried.objects = objects[i % 3];
                tried.work = i % 3;
                if (kind != HW_REFCOUNT_PLAIN || sharing == HW_REFCOUNT_OWN || tried.threads == 1) {
                    check(&tried);
                }
            }
        }
    }
}

static void test_as_many_threads_as_allowed(void) {
    for (int kind = HW_REFCOUNT_ATOMIC; kind <= HW_REFCOUNT_BUFFERED; kind++) {
        struct hw_refcount_config tried = config(kind, HW_REFCOUNT_MAX_THREADS, HW_REFCOUNT_SHARED);
        tried.pairs = 300;
        check(&tried);
    }
}

static void test_pinned(void) {
    const int cpus[] = {usable_cpu(false), HW_REFCOUNT_UNPINNED, usable_cpu(true)};
    for (int kind = HW_REFCOUNT_PLAIN; kind <= HW_REFCOUNT_BUFFERED; kind++) {
        struct hw_refcount_config tried = config(kind, 3, HW_REFCOUNT_OWN);
        tried.cpus = cpus;
        check(&tried);
    }
}

static void test_plain_counts_are_not_shared_between_threads(void) {
    struct hw_refcount_result result;
    struct hw_refcount_config tried = config(HW_REFCOUNT_PLAIN, 2, HW_REFCOUNT_SHARED);
    T_EQ(-EINVAL, hw_refcount(&tried, &result));
    tried.threads = 1;
    T_EQ(0, hw_refcount(&tried, &result));
}

static void refuse(struct hw_refcount_config refused) {
    struct hw_refcount_result result = {.lost = 42};
    T_EQ(-EINVAL, hw_refcount(&refused, &result));
    T_EQ(42, result.lost);
}

static void test_bad_arguments_are_refused_and_change_nothing(void) {
    struct surroundings before = look_around();
    const int no_such_cpu[] = {-2};
    const int missing_cpu[] = {CPU_SETSIZE - 1};
    const struct hw_refcount_config good = config(HW_REFCOUNT_ATOMIC, 1, HW_REFCOUNT_OWN);
    struct hw_refcount_config bad;
    struct hw_refcount_result result;
    T_EQ(-EINVAL, hw_refcount(NULL, &result));
    T_EQ(-EINVAL, hw_refcount(&good, NULL));
    refuse((bad = good, bad.kind = -1, bad));
    refuse((bad = good, bad.kind = 4, bad));
    refuse((bad = good, bad.threads = 0, bad));
    refuse((bad = good, bad.threads = HW_REFCOUNT_MAX_THREADS + 1, bad));
    refuse((bad = good, bad.sharing = 2, bad));
    refuse((bad = good, bad.sharing = -1, bad));
    refuse((bad = good, bad.objects = 0, bad));
    refuse((bad = good, bad.objects = -4, bad));
    refuse((bad = good, bad.objects = 3, bad));
    refuse((bad = good, bad.objects = 2 * HW_REFCOUNT_MAX_OBJECTS, bad));
    refuse((bad = good, bad.pairs = 0, bad));
    refuse((bad = good, bad.work = -1, bad));
    refuse((bad = good, bad.cpus = no_such_cpu, bad));
    refuse((bad = good, bad.cpus = missing_cpu, bad));
    check_unchanged(&before);
}

int main(void) {
    t_start();
    T_RUN(test_no_reference_is_lost);
    T_RUN(test_as_many_threads_as_allowed);
    T_RUN(test_pinned);
    T_RUN(test_plain_counts_are_not_shared_between_threads);
    T_RUN(test_bad_arguments_are_refused_and_change_nothing);
    return 0;
}
