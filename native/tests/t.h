// SPDX-License-Identifier: MIT
/* A test program consists of functions that check facts, and of a main() that calls T_RUN for each.
 * The first wrong fact ends the program with status 1 and prints both values.
 *
 * A program that takes too long ends by SIGALRM. This limit is for tests that hang; it is more than
 * a busy machine needs under any sanitizer. It is T_TIMEOUT_S, times
 * HEADWAY_TEST_TIMEOUT_MULTIPLIER from the environment on slow machines. */
#ifndef HEADWAY_TESTS_T_H
#define HEADWAY_TESTS_T_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define T_TIMEOUT_S 300

/* Checks that the condition holds. */
#define T_TRUE(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Checks that both integers are equal. */
#define T_EQ(expected, actual)                                                                     \
    do {                                                                                           \
        long long t_expected = (long long)(expected);                                              \
        long long t_actual = (long long)(actual);                                                  \
        if (t_expected != t_actual) {                                                              \
            fprintf(stderr, "%s:%d: %s: expected %lld, got %lld\n", __FILE__, __LINE__, #actual,   \
                    t_expected, t_actual);                                                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Runs one test function. Its name is printed first, so that a hang or crash tells where it was,
 * and its CPU time after it. */
#define T_RUN(test)                                                                                \
    do {                                                                                           \
        clock_t t_began = clock();                                                                 \
        fprintf(stderr, "%s\n", #test);                                                            \
        test();                                                                                    \
        fprintf(stderr, "    %.2f s\n", (double)(clock() - t_began) / CLOCKS_PER_SEC);             \
    } while (0)

/* Starts the time limit of the whole program; main() calls it first. */
static inline void t_start(void) {
    const char *multiplier = getenv("HEADWAY_TEST_TIMEOUT_MULTIPLIER");
    alarm(T_TIMEOUT_S * (multiplier == NULL ? 1 : (unsigned)atoi(multiplier)));
}

/* Returns how often to repeat what goes wrong only in rare cases: `full` times if HEADWAY_TEST_FULL
 * is in the environment, as `make test-all` has it, else a quarter of that. */
static inline int t_rounds(int full) {
    return getenv("HEADWAY_TEST_FULL") != NULL || full < 4 ? full : full / 4;
}

/* A small repeatable random generator (xorshift64); the state must not start at 0. */
static inline uint64_t t_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
