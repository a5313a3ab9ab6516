// SPDX-License-Identifier: MIT
/* The time by the processor's counter agrees with the clock's. Where the counter cannot be used
 * (another clocksource, another processor), the clock itself is read, and all of these tests hold
 * the more easily. */
#include "base/ticks.h"
#include "headway/clock.h"
#include "t.h"

#include <stdbool.h>

/* The most that the counter may be off: half a microsecond for a slewed clock, and as much for a
 * rate that was measured over the shortest time. */
#define OFF_NS 1000

/* Reads the time, and checks it against the clock before and after. */
static int64_t checked(struct hw__ticks *ticks) {
    int64_t before_ns = hw_now_ns();
    int64_t now_ns = hw__ticks_now(ticks);
    int64_t after_ns = hw_now_ns();
    T_TRUE(now_ns >= before_ns - OFF_NS);
    T_TRUE(now_ns <= after_ns + OFF_NS);
    return now_ns;
}

static void check_for(struct hw__ticks *ticks, int64_t duration_ns) {
    for (int64_t end_ns = hw_now_ns() + duration_ns; checked(ticks) < end_ns;) {
    }
}

/* Returns whether the counter is in use. If the counter can be used at all, it is in use as soon as
 * its rate is known. */
static bool tied(const struct hw__ticks *ticks) { return ticks->span != 0; }

static bool used; /* whether the counter can be used on this machine */

static void test_it_tells_the_clocks_time(void) {
    struct hw__ticks ticks = {0};
    check_for(&ticks, 1500000000); /* longer than the longest time over which a rate is measured */
    used = tied(&ticks);
    fprintf(stderr, "the counter is %s\n", used ? "in use" : "not used here");
}

/* Runs until the rate is known: on a busy machine, the thread may not run long enough for that in a
 * fixed time. */
static void check_until_tied(struct hw__ticks *ticks) {
    do {
        check_for(ticks, 20000000);
    } while (used && !tied(ticks));
}

/* The shortest jump takes seconds: the counter must not get there while the thread has no core, or
 * the old tie would seem to hold. */
static void test_a_counter_that_jumps_is_tied_anew(void) {
    const uint64_t jumps[] = {UINT64_C(1) << 50, -(UINT64_C(1) << 50), UINT64_C(1) << 34};
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
        struct hw__ticks ticks = {0};
        check_until_tied(&ticks);
        ticks.tick += jumps[i];
        ticks.base_tick += jumps[i];
        check_until_tied(&ticks);
    }
}

static void test_another_rate_is_measured_anew(void) {
    struct hw__ticks ticks = {0};
    check_until_tied(&ticks);
    if (!used) {
        return;
    }
    /* Pretends that the counter ran a tenth slower until now. */
    ticks.rate += ticks.rate / 10;
    ticks.base_tick += (hw__ticks_counter() - ticks.base_tick) / 11;
    for (int64_t end_ns = hw_now_ns() + 2000000; hw_now_ns() < end_ns;) {
    }
    check_until_tied(&ticks);
}

static void test_a_long_silence_does_no_harm(void) {
    struct hw__ticks ticks = {0};
    check_until_tied(&ticks);
    /* Shifts everything back by an hour, for the clock and for the counter. */
    if (used) {
        uint64_t hour = (uint64_t)((double)ticks.span * 3600e3);
        ticks.tick -= hour;
        ticks.base_tick -= hour;
        ticks.ns -= INT64_C(3600000000000);
        ticks.base_ns -= INT64_C(3600000000000);
    }
    check_until_tied(&ticks);
}

int main(void) {
    t_start();
    hw__ticks_prepare();
    T_RUN(test_it_tells_the_clocks_time);
    T_RUN(test_a_counter_that_jumps_is_tied_anew);
    T_RUN(test_another_rate_is_measured_anew);
    T_RUN(test_a_long_silence_does_no_harm);
    return 0;
}
