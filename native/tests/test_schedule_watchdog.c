// SPDX-License-Identifier: MIT
/* The histories of a GIL that the watchdog calls a fault, and those that it does not, made up. */
#include <string.h>

#include "headway/schedule.h"
#include "schedule/watchdog.h"
#include "t.h"

#define MS INT64_C(1000000)
#define LIMIT_MS 3000
#define MOST_WAITERS 1000

static struct hw__ledger ledger;
static struct hw__waiter holder, waiter;
static struct hw__waiter others[MOST_WAITERS];
static struct hw__waiter *members[MOST_WAITERS];

/* Another thread has had the GIL for 1 ms, and a request to it is due in 1 ms. `waiter` has waited
 * since 0 ms, during `releases` releases, beside `beside` others. */
static void set_up(int64_t now_ms, uint64_t releases, int beside) {
    memset(&ledger, 0, sizeof ledger);
    memset(&holder, 0, sizeof holder);
    memset(&waiter, 0, sizeof waiter);
    memset(others, 0, sizeof others);
    ledger.settings.watchdog_ns = LIMIT_MS * MS;
    ledger.policy = hw_policy_at(0);
    ledger.lanes[0].members = members;
    for (int i = 0; i < beside; i++) {
        hw__waiters_push(&ledger.lanes[0], &others[i]);
    }
    ledger.phase = HW__PHASE_HELD;
    ledger.holder = &holder;
    ledger.releases = releases;
    ledger.view.now_ns = now_ms * MS;
    holder.seen.acquired_ns = (now_ms - 1) * MS;
    ledger.request.by_ns = (now_ms + 1) * MS;
    waiter.stage = HW__STAGE_WANTS; /* it woke by itself */
    waiter.seen.ready_ns = 1;       /* 0: it does not wait */
}

static const char *finds(void) {
    const char *why = hw__watchdog_finds(&ledger, &waiter, ledger.view.now_ns, true);
    return why == NULL ? "" : why;
}

#define STARVES "it let a thread starve"
#define NOBODY_ASKS "it lets no thread request the GIL"
#define T_SAME(expected, actual) T_TRUE(strcmp(expected, actual) == 0)

static void test_starves(void) {
    set_up(LIMIT_MS - 1, 10000, 3);
    T_SAME("", finds()); /* not long enough */
    set_up(LIMIT_MS + 2, 10000, 3);
    T_SAME(STARVES, finds());
    set_up(LIMIT_MS + 2, 10, 3);
    T_SAME("", finds()); /* the others have hardly had more */
    set_up(LIMIT_MS + 2, 10000, 3);
    ledger.settings.watchdog_ns = 0;
    T_SAME("", finds()); /* the watchdog is off */
}

/* First come, first served: with many waiters, a round is long. */
static void test_many_wait(void) {
    for (int beside = 50; beside < MOST_WAITERS; beside *= 2) {
        set_up(2 * LIMIT_MS, (uint64_t)beside * 3, beside);
        T_SAME("", finds());
        set_up(2 * LIMIT_MS, (uint64_t)beside * 50, beside);
        T_SAME(STARVES, finds());
    }
}

/* When most of a crowd has gone, a thread that waited for all of them does not starve either. */
static void test_a_crowd_that_has_gone(void) {
    set_up(2 * LIMIT_MS, 3 * MOST_WAITERS, 3);
    T_SAME(STARVES, finds()); /* nothing is known of a crowd */
    hw__watchdog_crowd(&ledger, MOST_WAITERS, LIMIT_MS / 2 * MS);
    hw__watchdog_crowd(&ledger, 3, (2 * LIMIT_MS - 1) * MS);
    T_SAME("", finds());
    waiter.seen.ready_ns = LIMIT_MS / 4 * MS;
    T_SAME("", finds());
    waiter.seen.ready_ns = (2 * LIMIT_MS - LIMIT_MS - 100) * MS; /* it came after they had gone */
    T_SAME(STARVES, finds());
    ledger.releases = 50 * MOST_WAITERS;
    waiter.seen.ready_ns = 1;
    T_SAME(STARVES, finds()); /* too many releases, even for such a crowd */
    /* The crowd was longer ago than the watchdog remembers. */
    ledger.releases = 3 * MOST_WAITERS;
    hw__watchdog_crowd(&ledger, 3, 100LL * LIMIT_MS * MS);
    ledger.view.now_ns = (100LL * LIMIT_MS + 1) * MS;
    holder.seen.acquired_ns = ledger.view.now_ns;
    T_SAME(STARVES, finds());
}

/* A waiter of lower priority waits longer, in the proportion of the weights. */
static void test_priorities(void) {
    const struct {
        int waiter, other, limits;
    } cases[] = {{0, 0, 1}, {0, 10, 1}, {-10, 0, 1}, {-5, -5, 1}, {10, 0, 9}, {0, -10, 9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int in_queue = 0; in_queue < 2; in_queue++) {
            for (int longer = 0; longer < 2; longer++) {
                int64_t limits = cases[i].limits;
                set_up(limits * LIMIT_MS + (longer ? limits * LIMIT_MS / 4 : -limits), 100000, 2);
                waiter.seen.priority = cases[i].waiter;
                (in_queue ? &others[1] : &holder)->seen.priority = cases[i].other;
                T_SAME(longer ? STARVES : "", finds());
            }
        }
    }
}

/* A long C call, finished or not, is not the policy's fault. */
static void test_long_calls(void) {
    set_up(2 * LIMIT_MS, 10000, 3);
    ledger.stuck_ns = LIMIT_MS * MS + 1000;
    T_SAME("", finds());
    waiter.stuck_ns = ledger.stuck_ns; /* the call ended before the waiter came */
    T_SAME(STARVES, finds());
    set_up(2 * LIMIT_MS, 10000, 3);
    ledger.request.made = true;
    holder.seen.acquired_ns = LIMIT_MS / 2 * MS;
    T_SAME("", finds());
}

static void test_stopped_process(void) {
    set_up(100 * LIMIT_MS, 10000, 3);
    ledger.went_on_ns = (100 * LIMIT_MS - 10) * MS;
    T_SAME("", finds());
    holder.seen.acquired_ns = 1;
    ledger.request.by_ns = MS;
    ledger.request.late_ns = 2 * MS;
    T_SAME("", finds());
}

/* A holder to which no request may be made is a fault; a long patience is none. */
static void test_nobody_asks(void) {
    set_up(2 * LIMIT_MS, 0, 3);
    holder.seen.acquired_ns = 1;
    ledger.request.by_ns = HW_NEVER;
    T_SAME(NOBODY_ASKS, finds());
    ledger.request.by_ns = 5 * LIMIT_MS * MS;
    T_SAME("", finds());
    ledger.request.by_ns = 3 * LIMIT_MS / 2 * MS;
    T_SAME("", finds());
    ledger.request.by_ns = LIMIT_MS / 2 * MS;
    T_SAME("", finds()); /* late, but this waiter is the first that had a core */
    ledger.view.now_ns += LIMIT_MS * MS;
    T_SAME("", finds());
    ledger.view.now_ns += 1; /* late for so long, and still no request may be made */
    T_SAME(NOBODY_ASKS, finds());
    ledger.request.made = true;
    T_SAME("", finds());
    ledger.request.made = false;
    ledger.request.by_ns = 0; /* the policy has not been asked yet */
    T_SAME("", finds());
}

/* Returns in which ms the watchdog finds a fault, if a waiter looks every `every_ms` and makes no
 * request; 0: in none. The waiter begins to wait at 0 ms, the hold as well, and the request is due
 * at `by_ms` by the first answer. */
static int64_t found_in_ms(int64_t every_ms, int64_t by_ms) {
    set_up(0, 0, 0);
    holder.seen.acquired_ns = 1;
    ledger.request.by_ns = by_ms * MS + 1;
    for (int64_t now_ms = every_ms; now_ms < 4 * LIMIT_MS; now_ms += every_ms) {
        ledger.view.now_ns = now_ms * MS + 1;
        if (strcmp(finds(), "") != 0) {
            T_SAME(NOBODY_ASKS, finds());
            return now_ms;
        }
    }
    return 0;
}

/* A request that is put off at each look is a fault after the limit, from the first look on that
 * finds it late. */
static void test_put_off(void) {
    for (int64_t every_ms = 1; every_ms <= 50; every_ms++) {
        for (int64_t by_ms = 0; by_ms <= LIMIT_MS; by_ms += LIMIT_MS / 20) {
            int64_t first_late_ms = (by_ms / every_ms + 1) * every_ms;
            int64_t found_ms = found_in_ms(every_ms, by_ms);
            T_TRUE(found_ms > first_late_ms + LIMIT_MS);
            T_TRUE(found_ms <= first_late_ms + LIMIT_MS + every_ms);
        }
    }
    T_EQ(5 + 5 + LIMIT_MS + 5, found_in_ms(5, 5));
}

/* Waiters that find the GIL free, with nobody called, again and again are a fault; but none with
 * the watchdog off. */
static void test_wakes_nobody(void) {
    for (int64_t limit_ns = 0; limit_ns <= LIMIT_MS * MS; limit_ns += LIMIT_MS * MS) {
        set_up(1, 0, 3);
        ledger.phase = HW__PHASE_FREE;
        ledger.holder = NULL;
        ledger.settings.watchdog_ns = limit_ns;
        int found = 0;
        for (int i = 0; i < 1000; i++) {
            found += hw__watchdog_finds(&ledger, &waiter, MS, false) != NULL;
        }
        T_EQ(limit_ns > 0, found > 0);
    }
}

int main(void) {
    t_start();
    T_RUN(test_starves);
    T_RUN(test_many_wait);
    T_RUN(test_a_crowd_that_has_gone);
    T_RUN(test_priorities);
    T_RUN(test_long_calls);
    T_RUN(test_stopped_process);
    T_RUN(test_nobody_asks);
    T_RUN(test_put_off);
    T_RUN(test_wakes_nobody);
    return 0;
}
