// SPDX-License-Identifier: MIT
/* Laps of event loops and of pools' threads, as derived from events. */
#include "t.h"
#include "trace/format.h"
#include "trace/laps.h"

#define MS 1000000
#define POLL 7   /* the stack of a loop that polls */
#define QUEUE 8  /* the stack of a pool's thread at its queue */
#define SEND 9   /* neither */
#define OTHER 10 /* outside of any loop */

static struct hw__laps *laps;
static struct hw__event events[1 << 16];
static uint32_t count, told;

static void begin_without_stacks(void) {
    int64_t least_ns[HW_HOMES] = {[HW_HOME_LOOP] = 100 * MS, [HW_HOME_POOL] = 200 * MS};
    laps = hw__laps_new(least_ns);
    T_TRUE(laps != NULL);
    count = told = 0;
}

static void begin(void) {
    begin_without_stacks();
    /* Each stack is reported once, and is no home before it is settled. */
    const struct hw__event seen[] = {{1, POLL, HW__RELEASE, 0, 0},
                                     {2, QUEUE, HW__RELEASE, 0, 0},
                                     {3, SEND, HW__HOLD, 0, 1},
                                     {4, POLL, HW__RELEASE, 0, 0},
                                     {5, 0, HW__EXIT, 0, 0}};
    uint32_t start = 0, stacks[8];
    hw__laps_see(laps, 1000, (const char *)seen, sizeof seen, &start);
    T_EQ(sizeof seen, start);
    T_EQ(3, hw__laps_fresh(laps, stacks, 8));
    T_EQ(0, hw__laps_fresh(laps, stacks, 8));
    hw__laps_settle(laps, POLL, HW_HOME_LOOP);
    hw__laps_settle(laps, QUEUE, HW_HOME_POOL);
    hw__laps_settle(laps, SEND, HW_HOME_NONE);
}

static void event(int64_t time_ms, uint32_t kind, uint32_t value, uint32_t flags) {
    events[count++] = (struct hw__event){time_ms * MS, value, (uint8_t)kind, 0, (uint16_t)flags};
}

static struct hw_laps told_at(int64_t now_ms) {
    hw__laps_see(laps, 1, (const char *)events, count * (uint32_t)sizeof events[0], &told);
    struct hw_laps found;
    hw__laps_tell(laps, now_ms * MS, &found);
    return found;
}

/* A lap lasts from the event after a poll to the next poll, whatever the thread releases the GIL
 * for in between. */
static void test_a_late_loop(void) {
    begin();
    event(10, HW__RELEASE, POLL, 0);
    event(20, HW__WAIT, POLL, 0);
    event(90, HW__ACQUIRE, 0, 0);
    event(95, HW__RELEASE, SEND, 0);
    event(96, HW__ACQUIRE, 0, 0);
    event(119, HW__RELEASE, POLL, 0); /* 99 ms: in time */
    T_EQ(0, told_at(119).late[HW_HOME_LOOP]);
    event(130, HW__ACQUIRE, 0, 0);
    event(230, HW__RELEASE, POLL, 0); /* 100 ms: late */
    struct hw_laps found = told_at(231);
    T_EQ(1, found.late[HW_HOME_LOOP]);
    T_EQ(0, found.open[HW_HOME_LOOP]);
    T_EQ(1, found.loop_count);
    T_EQ(1, found.loops[0]);
    T_EQ(0, found.under_way_count);
    T_EQ(1, found.last[HW_HOME_LOOP][0].serial);
    T_EQ(130 * MS, found.last[HW_HOME_LOOP][0].begun_ns);
    T_EQ(230 * MS, found.last[HW_HOME_LOOP][0].ended_ns);
    T_EQ(0, found.last[HW_HOME_LOOP][0].away_since_ns);
    T_EQ(199 * (uint64_t)MS, found.lengths_ns);
    uint64_t lengths = 0;
    for (int i = 0; i < HW_LAP_BUCKETS; i++) {
        lengths += found.lengths[i];
    }
    T_EQ(2, lengths);
    hw__laps_free(laps);
}

/* A lap that goes on is open, even if its chunk is read again and again. */
static void test_an_open_lap(void) {
    begin();
    event(10, HW__RELEASE, POLL, 0);
    event(20, HW__ACQUIRE, 0, 0);
    T_EQ(0, told_at(119).open[HW_HOME_LOOP]);
    T_EQ(1, told_at(120).open[HW_HOME_LOOP]);
    T_EQ(1, told_at(120).under_way_count);
    T_EQ(20 * MS, told_at(120).under_way[0].begun_ns);
    T_EQ(0, told_at(120).under_way[0].ended_ns);
    T_EQ(1, told_at(500).open[HW_HOME_LOOP]);
    /* The ACQUIRE becomes a HOLD in place: the loop is at home. */
    events[count - 1].kind = HW__HOLD;
    events[count - 1].value = POLL;
    events[count - 1].flags = 50;
    struct hw_laps found = told_at(501);
    T_EQ(0, found.open[HW_HOME_LOOP]);
    T_EQ(0, found.late[HW_HOME_LOOP]);
    hw__laps_free(laps);
}

/* A release after a request does not bring a thread home, at whatever stack; nor does an event of
 * another GIL. */
static void test_what_is_no_way_home(void) {
    begin();
    event(10, HW__RELEASE, POLL, 0);
    event(20, HW__ACQUIRE, 0, 0);
    event(30, HW__RELEASE, POLL, HW__FORCED);
    event(40, HW__RELEASE, POLL, 0);
    events[count - 1].gil = 1;
    T_EQ(1, told_at(150).open[HW_HOME_LOOP]);
    event(160, HW__EXIT, 0, 0);
    struct hw_laps found = told_at(400);
    T_EQ(0, found.open[HW_HOME_LOOP]);
    T_EQ(0, found.loop_count);
    hw__laps_free(laps);
}

/* A thread was last seen at a stack that is settled only now: it is at home there, or has left
 * it. */
static void test_settled_late(void) {
    for (int left = 0; left < 2; left++) {
        begin_without_stacks();
        event(10, HW__RELEASE, POLL, 0);
        if (left) {
            event(20, HW__ACQUIRE, 0, 0);
        }
        if (left) {
            event(21, HW__RELEASE, SEND, 0); /* not settled either, and no home */
            event(22, HW__ACQUIRE, 0, 0);
        }
        T_EQ(0, told_at(25).loop_count);
        hw__laps_settle(laps, SEND, HW_HOME_NONE);
        hw__laps_settle(laps, POLL, HW_HOME_LOOP);
        T_EQ(1, told_at(26).loop_count);
        if (!left) {
            event(20, HW__ACQUIRE, 0, 0);
        }
        T_EQ(1, told_at(130).open[HW_HOME_LOOP]);
        event(140, HW__RELEASE, POLL, 0);
        T_EQ(1, told_at(141).late[HW_HOME_LOOP]);
        hw__laps_free(laps);
    }
}

/* A thread that runs a loop for each of its jobs is in no lap between two of them, whether or not
 * the stack at which it waits is settled by then. */
static void test_a_loop_that_has_ended(void) {
    for (int late = 0; late < 2; late++) {
        begin();
        if (!late) {
            event(1, HW__RELEASE, OTHER, 0);
            told_at(2);
            hw__laps_settle(laps, OTHER, HW_HOME_OUTSIDE);
        }
        event(10, HW__RELEASE, POLL, 0);
        event(20, HW__ACQUIRE, 0, 0);
        event(21, HW__RELEASE, OTHER, 0);
        T_EQ(late, told_at(25).loop_count);
        hw__laps_settle(laps, OTHER, HW_HOME_OUTSIDE);
        T_EQ(0, told_at(200).open[HW_HOME_LOOP]);
        event(320, HW__ACQUIRE, 0, 0);
        event(321, HW__RELEASE, POLL, 0);
        struct hw_laps found = told_at(322);
        T_EQ(0, found.late[HW_HOME_LOOP]);
        T_EQ(0, found.lengths_ns);
        T_EQ(1, found.loop_count);
        hw__laps_free(laps);
    }
}

/* A pool's thread was at its queue when the recording began: its first work counts. */
static void test_a_pool(void) {
    begin();
    event(10, HW__ACQUIRE, 0, 0);
    event(260, HW__RELEASE, QUEUE, 0);
    T_EQ(1, told_at(261).late[HW_HOME_POOL]);
    event(300, HW__ACQUIRE, 0, 0);
    event(499, HW__RELEASE, QUEUE, 0);
    struct hw_laps found = told_at(500);
    T_EQ(1, found.late[HW_HOME_POOL]);
    T_EQ(0, found.loop_count);
    T_EQ(0, found.lengths_ns);
    hw__laps_free(laps);
}

/* A lap has the longest time in it in which its thread was away: under way, and when it is over.
 * The time at the queue is none, and a time of the lap before is none. */
static void test_the_longest_time_away(void) {
    begin();
    event(10, HW__RELEASE, QUEUE, 0);
    event(900, HW__ACQUIRE, 0, 0);
    event(901, HW__RELEASE, SEND, 0);
    event(911, HW__WAIT, 0, 0);
    event(912, HW__ACQUIRE, 0, 0);
    event(913, HW__RELEASE, OTHER, HW__FORCED);
    struct hw_lap lap = told_at(1200).under_way[0];
    T_EQ(HW_HOME_POOL, lap.home);
    T_EQ(OTHER, lap.away_stack);
    T_EQ(913 * MS, lap.away_since_ns);
    T_EQ(0, lap.away_until_ns);
    event(1300, HW__ACQUIRE, 0, 0);
    event(1301, HW__RELEASE, SEND, 0);
    T_EQ(OTHER, told_at(1302).under_way[0].away_stack);
    T_EQ(1300 * MS, told_at(1302).under_way[0].away_until_ns);
    T_EQ(SEND, told_at(1800).under_way[0].away_stack);
    event(1801, HW__ACQUIRE, 0, 0);
    event(1802, HW__RELEASE, QUEUE, 0);
    lap = told_at(2500).last[HW_HOME_POOL][0];
    T_EQ(SEND, lap.away_stack);
    T_EQ(1301 * MS, lap.away_since_ns);
    T_EQ(1801 * MS, lap.away_until_ns);
    T_EQ(1802 * MS, lap.ended_ns);
    event(3000, HW__ACQUIRE, 0, 0);
    T_EQ(0, told_at(3200).under_way[0].away_since_ns);
    hw__laps_free(laps);
}

/* The first work of a process's first pool thread ends at a queue that is settled only afterwards:
 * it counts, and so does a lap from a known poll to another one that is new. */
static void test_a_lap_that_ends_at_a_new_home(void) {
    for (int left = 0; left < 2; left++) {
        begin_without_stacks();
        event(10, HW__ACQUIRE, 0, 0);
        event(210, HW__RELEASE, QUEUE, 0);
        if (left) {
            event(250, HW__ACQUIRE, 0, 0);
        }
        T_EQ(0, told_at(251).late[HW_HOME_POOL]);
        hw__laps_settle(laps, QUEUE, HW_HOME_POOL);
        T_EQ(1, told_at(252).late[HW_HOME_POOL]);
        T_EQ(0, told_at(449).open[HW_HOME_POOL]);
        T_EQ(left, told_at(450).open[HW_HOME_POOL]);
        hw__laps_free(laps);
    }
    begin();
    event(10, HW__RELEASE, POLL, 0);
    event(20, HW__ACQUIRE, 0, 0);
    event(120, HW__RELEASE, OTHER, 0);
    T_EQ(0, told_at(121).late[HW_HOME_LOOP]);
    hw__laps_settle(laps, OTHER, HW_HOME_LOOP);
    struct hw_laps found = told_at(122);
    T_EQ(1, found.late[HW_HOME_LOOP]);
    T_EQ(100 * (uint64_t)MS, found.lengths_ns);
    hw__laps_free(laps);
}

/* The first request of a new thread is open although the thread has been at no home: it may hang.
 * Later it ends at the queue, whether or not its stack is settled by then. */
static void test_a_first_request_goes_on(void) {
    for (int late = 0; late < 2; late++) {
        begin();
        if (!late) {
            event(1, HW__RELEASE, OTHER, 0);
            event(2, HW__EXIT, 0, 0);
            told_at(3);
            hw__laps_settle(laps, OTHER, HW_HOME_REQUEST);
        }
        event(10, HW__ACQUIRE, 0, 0);
        event(11, HW__RELEASE, OTHER, 0);
        told_at(12);
        hw__laps_settle(laps, OTHER, HW_HOME_REQUEST);
        T_EQ(0, told_at(209).open[HW_HOME_POOL]);
        T_EQ(1, told_at(210).open[HW_HOME_POOL]);
        event(300, HW__ACQUIRE, 0, 0);
        event(301, HW__RELEASE, QUEUE, 0);
        struct hw_laps found = told_at(900);
        T_EQ(1, found.late[HW_HOME_POOL]);
        T_EQ(0, found.open[HW_HOME_POOL]);
        hw__laps_free(laps);
    }
}

/* A thread that ends before the watcher has settled its stacks, as after one connection, has had
 * its lap all the same; and so has a loop between two polls at the same new stack. */
static void test_laps_before_any_stack_is_settled(void) {
    begin_without_stacks();
    event(10, HW__ACQUIRE, 0, 0);
    event(11, HW__RELEASE, QUEUE, 0);
    event(20, HW__ACQUIRE, 0, 0);
    event(21, HW__RELEASE, SEND, 0);
    event(300, HW__ACQUIRE, 0, 0);
    event(301, HW__RELEASE, OTHER, 0);
    event(302, HW__ACQUIRE, 0, 0);
    event(303, HW__RELEASE, 0, 0);
    event(304, HW__EXIT, 0, 0);
    T_EQ(0, told_at(305).late[HW_HOME_POOL]);
    hw__laps_settle(laps, QUEUE, HW_HOME_POOL);
    hw__laps_settle(laps, SEND, HW_HOME_REQUEST);
    hw__laps_settle(laps, OTHER, HW_HOME_POOL);
    struct hw_laps found = told_at(900);
    T_EQ(1, found.late[HW_HOME_POOL]);
    T_EQ(0, found.open[HW_HOME_POOL]); /* it is gone */
    hw__laps_free(laps);

    begin_without_stacks();
    event(10, HW__RELEASE, POLL, 0);
    event(20, HW__ACQUIRE, 0, 0);
    event(120, HW__RELEASE, POLL, 0);
    event(130, HW__ACQUIRE, 0, 0);
    told_at(131);
    hw__laps_settle(laps, POLL, HW_HOME_LOOP);
    found = told_at(230);
    T_EQ(1, found.late[HW_HOME_LOOP]);
    T_EQ(1, found.open[HW_HOME_LOOP]);
    hw__laps_free(laps);
}

/* A loop that imports yields at many new stacks before the first one is settled, and a thread that
 * does nothing else yields at one or two of them: the lap since the poll is found nevertheless. */
static void test_many_yields_before_the_poll_is_settled(void) {
    static const uint32_t yields[] = {8, 3000, 30000};
    for (int i = 0; i < 3; i++) {
        begin_without_stacks();
        event(10, HW__RELEASE, POLL, 0);
        event(20, HW__ACQUIRE, 0, 0);
        for (uint32_t yield = 0; yield < yields[i]; yield++) {
            event(21, HW__RELEASE, i == 2 ? SEND : 100 + yield, 0);
            event(21, HW__ACQUIRE, 0, 0);
        }
        event(320, HW__RELEASE, POLL, 0);
        event(330, HW__ACQUIRE, 0, 0);
        T_EQ(0, told_at(331).late[HW_HOME_LOOP]);
        hw__laps_settle(laps, SEND, HW_HOME_NONE);
        for (uint32_t yield = 0; yield < yields[i] && i < 2; yield++) {
            hw__laps_settle(laps, 100 + yield, HW_HOME_NONE);
        }
        hw__laps_settle(laps, POLL, HW_HOME_LOOP);
        struct hw_laps found = told_at(430);
        T_EQ(1, found.late[HW_HOME_LOOP]);
        T_EQ(300 * (uint64_t)MS, found.lengths_ns);
        T_EQ(1, found.open[HW_HOME_LOOP]);
        hw__laps_free(laps);
    }
}

/* There is room for a bounded number of yields. Yields at stacks that are settled make room for new
 * ones, and a thread that uses up all places loses its own oldest ones. */
static void test_more_yields_than_there_is_room_for(void) {
    begin_without_stacks();
    for (uint32_t serial = 1; serial <= 5; serial++) {
        struct hw__event some[2 * 4000];
        for (uint32_t yield = 0; yield < 4000; yield++) {
            some[2 * yield] =
                (struct hw__event){10 * MS, 100 + 4000 * serial + yield, HW__RELEASE, 0, 0};
            some[2 * yield + 1] = (struct hw__event){11 * MS, 0, HW__WAIT, 0, 0};
        }
        uint32_t start = 0;
        hw__laps_see(laps, 100 + serial, (const char *)some, sizeof some, &start);
        for (uint32_t yield = 0; yield < 4000 && serial < 5; yield++) {
            hw__laps_settle(laps, 100 + 4000 * serial + yield, HW_HOME_NONE);
        }
    }
    event(10, HW__RELEASE, POLL, 0);
    event(20, HW__ACQUIRE, 0, 0);
    for (uint32_t yield = 0; yield < 20000; yield++) {
        event(21, HW__RELEASE, 30000 + yield, 0);
        event(21, HW__ACQUIRE, 0, 0);
    }
    told_at(22);
    hw__laps_settle(laps, 30000, HW_HOME_LOOP); /* its yield has made room */
    T_EQ(0, told_at(23).loop_count);
    hw__laps_settle(laps, 30000 + 19999, HW_HOME_LOOP);
    T_EQ(1, told_at(24).loop_count);
    event(320, HW__RELEASE, 30000, 0);
    T_EQ(1, told_at(321).late[HW_HOME_LOOP]);
    hw__laps_free(laps);
}

/* A hostile process may make up any numbers: no write goes out of bounds. */
static void test_made_up_numbers(void) {
    begin();
    uint64_t random = 1;
    uint32_t stacks[64];
    for (int round = 0; round < 2000; round++) {
        struct hw__event some[16];
        unsigned char *bytes = (unsigned char *)some;
        for (size_t i = 0; i < sizeof some; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407; /* Knuth, MMIX */
            bytes[i] = (unsigned char)(random >> 56);
        }
        for (int i = 0; i < 16; i++) {
            some[i].gil = 0;
            some[i].kind %= 12;
        }
        uint32_t start = 0;
        hw__laps_see(laps, (uint32_t)(random >> 30), bytes == NULL ? NULL : (char *)some,
                     (uint32_t)sizeof some - (uint32_t)(round % 16), &start);
        int fresh = hw__laps_fresh(laps, stacks, 64);
        for (int i = 0; i < fresh; i++) {
            hw__laps_settle(laps, stacks[i], (int)(random >> 60));
        }
        struct hw_laps found;
        hw__laps_tell(laps, (int64_t)random, &found);
        T_TRUE(found.loop_count <= HW_LAP_LOOPS);
        T_TRUE(found.under_way_count <= HW_LAP_UNDER_WAY);
    }
    hw__laps_free(laps);
}

/* Which threads have a loop, and whether the loop is in its poll. */
static void test_who_loops(void) {
    begin();
    bool at_home = false;
    T_TRUE(!hw__laps_loops(laps, 1, &at_home));
    event(10, HW__RELEASE, POLL, 0);
    told_at(11);
    T_TRUE(hw__laps_loops(laps, 1, &at_home) && at_home);
    event(20, HW__ACQUIRE, 0, 0);
    event(25, HW__RELEASE, SEND, 0);
    told_at(26);
    T_TRUE(hw__laps_loops(laps, 1, &at_home) && !at_home);
    T_TRUE(!hw__laps_loops(laps, 2, &at_home));
    hw__laps_free(laps);
}

int main(void) {
    test_a_late_loop();
    test_an_open_lap();
    test_what_is_no_way_home();
    test_settled_late();
    test_a_loop_that_has_ended();
    test_a_pool();
    test_the_longest_time_away();
    test_a_lap_that_ends_at_a_new_home();
    test_a_first_request_goes_on();
    test_laps_before_any_stack_is_settled();
    test_many_yields_before_the_poll_is_settled();
    test_more_yields_than_there_is_room_for();
    test_made_up_numbers();
    test_who_loops();
    return 0;
}
