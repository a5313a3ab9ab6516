// SPDX-License-Identifier: MIT
/* The engine's prediction of when a thread comes back, and the rules of which thread may spin,
 * which one yields its core, and which one starves. */
#include <sched.h>

#include "engine/wake.h"
#include "engine/yield.h"
#include "headway/clock.h"
#include "schedule/habits.h"
#include "schedule/watchdog.h"
#include "t.h"

#define US 1000
#define MS 1000000

static struct hw__waiter waiter;

/* The thread releases the GIL, and wants it back after `away_ns`. */
static void comes_back_after(int64_t away_ns) {
    static int64_t now = 1000LL * MS;
    waiter.seen.released_ns = now += MS;
    hw__habits_learn(&waiter, now + away_ns);
}

/* Nothing is predicted for a thread that is not known. */
static void test_unknown(void) {
    hw__habits_forget(&waiter);
    T_TRUE(hw__habits_away_ns(&waiter) > AT_ONCE_NS);
}

/* A server's calls in turn: a receive that finds its data, and a send that wakes the client. */
static void test_in_turn(void) {
    hw__habits_forget(&waiter);
    for (int i = 0; i < 30; i++) {
        comes_back_after(1 * US);
        comes_back_after(6 * US);
    }
    T_TRUE(hw__habits_away_ns(&waiter) < 2 * US);
    comes_back_after(1 * US);
    T_TRUE(hw__habits_away_ns(&waiter) > 5 * US);
    T_TRUE(hw__habits_away_ns(&waiter) < AT_ONCE_NS);
}

/* After one long call among short ones, the thread is not expected back at once for the next few
 * calls. */
static void test_once_away(void) {
    hw__habits_forget(&waiter);
    for (int i = 0; i < 30; i++) {
        comes_back_after(1 * US);
    }
    T_TRUE(hw__habits_away_ns(&waiter) < 2 * US);
    comes_back_after(100LL * MS);
    T_TRUE(hw__habits_away_ns(&waiter) > AT_ONCE_NS);
    for (int i = 0; i < 3; i++) {
        comes_back_after(1 * US);
    }
    /* the long call followed three such calls, too */
    T_TRUE(hw__habits_away_ns(&waiter) > AT_ONCE_NS);
    for (int i = 0; i < 5; i++) {
        comes_back_after(1 * US);
    }
    T_TRUE(hw__habits_away_ns(&waiter) < 3 * US);
}

/* One core is left to other threads. A thread that wakes a spinning waiter may spin in its place at
 * once. */
static void test_spins_in_turn(void) {
    static struct hw__runner first, second, third;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    cpu_set_t set;
    T_EQ(0, sched_getaffinity(0, sizeof set, &set));
    int cores = CPU_COUNT(&set);
    hw__wake_prepare();
    T_TRUE(hw__wake_may_spin(&first) == (cores > 1));
    if (cores == 2) {
        T_TRUE(!hw__wake_may_spin(&second));
    }
    T_EQ(0, pthread_mutex_lock(&mutex));
    hw__wake(&first, &mutex);
    T_EQ(0, pthread_mutex_unlock(&mutex));
    T_TRUE(!atomic_load(&first.spinning));
    T_TRUE(hw__wake_may_spin(&second) == (cores > 1));
    /* The first thread's spin is over already: it finds that it was woken. Then the second one's
     * spin ends. */
    hw__wake_sleep(&first, MS, MS);
    if (cores > 1) {
        hw__wake_sleep(&second, 1, MS);
        for (int i = 0; i < cores - 1; i++) {
            atomic_store(&third.spinning, false);
            T_TRUE(hw__wake_may_spin(&third));
        }
        T_TRUE(!hw__wake_may_spin(&third));
    }
}

/* If a yield gave the core to another program for long, the thread does not yield again at once. */
static void test_yields_in_vain(void) {
    static struct hw__runner runner;
    T_TRUE(hw__yield(&runner) > 0);
    hw__yield_in_vain(&runner, 20 * US);
    T_EQ(0, runner.no_yield_until_ns);
    int64_t before_ns = hw_now_ns();
    hw__yield_in_vain(&runner, 1000LL * MS);
    T_TRUE(runner.no_yield_until_ns >= before_ns + 8000LL * MS);
    T_EQ(0, hw__yield(&runner));
}

/* A waiter that has waited for longer than the limit starves, unless its priority makes it wait
 * that long. */
static void test_starves_by_priority(void) {
    static struct hw__ledger ledger;
    struct hw__waiter starved = {.stage = HW__STAGE_QUEUED, .place = 1, .seen = {.ready_ns = 1}};
    ledger.releases = 1000;
    ledger.request.made = true;
    ledger.settings.watchdog_ns = 3000LL * MS;
    T_TRUE(hw__watchdog_finds(&ledger, &starved, 2999LL * MS, true) == NULL);
    T_TRUE(hw__watchdog_finds(&ledger, &starved, 3001LL * MS, true) != NULL);
    starved.seen.priority = 10;
    T_TRUE(hw__watchdog_finds(&ledger, &starved, 27000LL * MS, true) == NULL);
    T_TRUE(hw__watchdog_finds(&ledger, &starved, 30000LL * MS, true) != NULL);
    starved.seen.priority = -10;
    T_TRUE(hw__watchdog_finds(&ledger, &starved, 3001LL * MS, true) != NULL);
}

int main(void) {
    t_start();
    T_RUN(test_unknown);
    T_RUN(test_in_turn);
    T_RUN(test_once_away);
    T_RUN(test_spins_in_turn);
    T_RUN(test_yields_in_vain);
    T_RUN(test_starves_by_priority);
    return 0;
}
