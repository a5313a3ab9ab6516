// SPDX-License-Identifier: MIT
/* Each decision on made-up states of a GIL: the action, and its exact time. There is a table of
 * cases for each decision; the policy answers what the case tells it to. */
#include "schedule/decide.h"

#include <string.h>

#include "schedule/habits.h"
#include "t.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define NOW (1000 * MS)
#define INTERVAL (5 * MS)
#define SPIN (20 * US)
#define WAITERS 10001
#define COUNT(table) (sizeof(table) / sizeof *(table))

/* The stages of sleep that decide.c documents. */
#define GUARD (150 * US)
#define CALLED (1 * MS)

static int64_t said_patience, said_grace;

static void ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    (void)gil, (void)thread; /* the case sets the key */
}

static int64_t patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder) {
    (void)gil, (void)waiter, (void)holder;
    return said_patience;
}

static int64_t grace(struct hw_policy_gil *gil, const struct hw_policy_thread *next,
                     const struct hw_policy_thread *releaser) {
    (void)gil, (void)next, (void)releaser;
    return said_grace;
}

static const struct hw_policy told = {.ready = ready, .patience = patience, .grace = grace};
static const struct hw_policy plain = {
    .flags = HW_POLICY_PLAIN, .ready = ready, .patience = patience};

static struct hw__ledger ledger;
static struct hw__waiter holder, waiter, other, crowd[WAITERS];
static struct hw__waiter *members[HW_POLICY_LANES][WAITERS + 2];

static void begin(const struct hw_policy *policy) {
    static const int64_t options[HW_POLICY_MAX_OPTIONS];
    const struct hw__settings settings = {.spin_ns = SPIN, .yields = true};
    memset(&ledger, 0, sizeof ledger);
    ledger.lanes[0].members = members[0];
    ledger.lanes[1].members = members[1];
    hw__ledger_begin(&ledger, policy, options, &settings, NOW - 100 * MS, INTERVAL);
    for (struct hw__waiter *const *one = (struct hw__waiter *[]){&holder, &waiter, &other, NULL};
         *one != NULL; one++) {
        memset(*one, 0, sizeof **one);
        hw__ledger_forget(*one);
        (*one)->core = 0;
    }
    said_patience = said_grace = 0;
    ledger.phase = HW__PHASE_FREE;
}

/* `holder` has had the GIL for `held_ns`, and mostly holds it for `burst_ns`. */
static void give(int64_t held_ns, int64_t burst_ns) {
    holder.seen.burst_ns = burst_ns;
    (void)hw__ledger_time(&ledger, NOW - held_ns);
    (void)hw__ledger_take(&ledger, &holder, NOW - held_ns, 1);
    (void)hw__ledger_time(&ledger, NOW);
}

/* Queues a waiter that waits since `since_ns`, and sleeps until `wake_in_ns` from now. */
static void queue(struct hw__waiter *one, int64_t key, int64_t since_ns, int64_t wake_in_ns) {
    one->seen.key = key;
    hw__ledger_want(&ledger, one, since_ns);
    hw__ledger_enqueue(&ledger, one);
    one->wake_at_ns = NOW + wake_in_ns;
}

static const struct hw__moment held = {.now_ns = NOW, .core = 0, .locked = true};
static const struct hw__moment is_free = {.now_ns = NOW, .core = 0, .locked = false};

/* ---------------------------------------------------------------- when is a request made? */
static void test_when_a_known_holder_is_asked(void) {
    static const struct {
        int64_t patience_ns, held_ns, burst_ns;
        bool plain;
        int64_t asked_in_ns; /* 0: now */
    } cases[] = {
        {0, 10 * MS, 10 * MS, false, 0},
        {-MS, 10 * MS, 10 * MS, false, 0},
        {2 * MS, 10 * MS, 10 * MS, false, 2 * MS},
        {HW_NEVER, 10 * MS, 10 * MS, false, 5 * MS}, /* the waiter looks again all the same */
        {14 * US, 10 * MS, 10 * MS, false, 0},       /* too soon for a sleep */
        {16 * US, 10 * MS, 10 * MS, false, 16 * US},
        {14 * US, 10 * MS, 10 * MS, true, 14 * US}, /* CPython would sleep */
        /* the holder releases by itself within 0.3 ms */
        {0, 100 * US, 100 * US, false, 200 * US},
        {0, 0, 299 * US, false, 300 * US},
        {0, 100 * US, 100 * US, true, 0},
        {0, 290 * US, 100 * US, false, 0}, /* not 10 us later */
        {0, 300 * US, 100 * US, false, 0}, /* it has not released */
        {0, 100 * US, 301 * US, false, 0}, /* its usual hold is longer */
        {MS, 100 * US, 100 * US, false, MS},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(cases[i].plain ? &plain : &told);
        give(cases[i].held_ns, cases[i].burst_ns);
        said_patience = cases[i].patience_ns;
        struct hw__turn turn = hw__decide_wait(&ledger, &waiter, &held);
        hw__ledger_check(&ledger);
        T_TRUE(turn.begins);
        T_EQ(cases[i].asked_in_ns == 0 ? HW__DO_ASK : HW__DO_SLEEP, turn.what);
        T_EQ(cases[i].asked_in_ns == 0, ledger.request.made);
        if (turn.what == HW__DO_SLEEP) {
            T_EQ(cases[i].asked_in_ns, turn.sleep_ns);
            T_EQ(NOW + turn.sleep_ns, waiter.wake_at_ns);
            T_EQ(HW__STAGE_QUEUED, waiter.stage);
        } else {
            T_EQ(HW__STAGE_ASKING, waiter.stage);
            T_EQ(1, ledger.counts.asked);
        }
        /* The policy's first answer for this hold is kept for the watchdog. */
        int64_t by_ns = cases[i].patience_ns == HW_NEVER ? HW_NEVER
                        : cases[i].patience_ns < 0       ? NOW
                                                         : NOW + cases[i].patience_ns;
        T_EQ(by_ns, ledger.request.by_ns);
    }
}

/* The holder is unknown: a thread without a record. */
static void test_when_a_stranger_is_asked(void) {
    static const struct {
        int64_t waited_ns;
        bool plain;
        int64_t asked_in_ns;
    } cases[] = {
        {0, false, GUARD}, /* the request is due at 300 us; the waiter looks before that */
        {200 * US, false, 100 * US}, {300 * US, false, 0}, {0, true, 5 * MS},
        {4 * MS, true, MS},          {5 * MS, true, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(cases[i].plain ? &plain : &told);
        waiter.seen.burst_ns = 10 * MS; /* CPU-bound: during a grace period, no one may wake it */
        (void)hw__ledger_take(&ledger, NULL, NOW - 10 * MS, -1);
        hw__ledger_want(&ledger, &waiter, NOW - cases[i].waited_ns);
        struct hw__turn turn = hw__decide_wait(&ledger, &waiter, &held);
        T_TRUE(!turn.begins);
        T_EQ(HW__PHASE_STRANGE, ledger.phase);
        T_EQ(NOW, ledger.stranger_ns);
        T_EQ(cases[i].asked_in_ns == 0 ? HW__DO_ASK : HW__DO_SLEEP, turn.what);
        T_EQ(cases[i].asked_in_ns, turn.sleep_ns);
        hw__ledger_check(&ledger);
    }
}

/* A request is made again after 0.1 ms, then after twice as long each time, up to 5 ms. */
static void test_requests_are_repeated(void) {
    static const int64_t after_us[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000};
    begin(&told);
    give(10 * MS, 10 * MS);
    struct hw__moment moment = held;
    T_EQ(HW__DO_ASK, hw__decide_wait(&ledger, &waiter, &moment).what);
    for (size_t i = 0; i < COUNT(after_us); i++) {
        struct hw__turn turn = hw__decide_wait_on(&ledger, &waiter);
        T_EQ(HW__DO_SLEEP, turn.what);
        T_EQ(after_us[i] * US, turn.sleep_ns);
        T_EQ(0, turn.spin_ns);
        hw__ledger_check(&ledger);
        moment.now_ns = hw__ledger_time(&ledger, moment.now_ns + after_us[i] * US - 1);
        hw__ledger_dequeue(&ledger, &waiter);
        T_EQ(HW__DO_RETURN, hw__decide_woken(&ledger, &waiter, &moment, false, false).what);
        moment.now_ns = hw__ledger_time(&ledger, moment.now_ns + 1);
        T_EQ(HW__DO_ASK, hw__decide_woken(&ledger, &waiter, &moment, false, false).what);
        T_EQ((int)i + 2, ledger.counts.asked);
    }
}

/* The waiter that made a request sooner than CPython would have: its wait counts as shortened.
 * CPython waits for a switch interval in which no other thread acquires the GIL. */
static void test_who_asks_early(void) {
    static const struct {
        int64_t waited_ns, held_ns;
        bool again; /* the holder held the GIL before that, too */
        bool early;
    } cases[] = {
        {0, 10 * MS, false, true},           {5 * MS, 10 * MS, false, false},
        {20 * MS, 4 * MS, false, true},      {20 * MS, 5 * MS, false, false},
        {20 * MS, 4 * MS, true, false},      {4 * MS, 1 * MS, true, true},
        {5 * MS - 1, 10 * MS, false, false}, /* a sleep may end as much sooner */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(&told);
        (void)hw__ledger_time(&ledger, NOW - 30 * MS);
        struct hw__waiter *before = cases[i].again ? &holder : &other;
        (void)hw__ledger_take(&ledger, before, NOW - 30 * MS, 1);
        hw__ledger_want(&ledger, &waiter, NOW - cases[i].waited_ns);
        (void)hw__ledger_drop(&ledger, before, NOW - cases[i].held_ns);
        hw__ledger_dropped(&ledger);
        give(cases[i].held_ns, 10 * MS);
        (void)hw__decide_wait(&ledger, &waiter, &held);
        T_TRUE(ledger.request.early == (cases[i].early ? &waiter : NULL));
    }
}

/* ---------------------------------------------------------------- how does a waiter wait? */
static void test_how_long_waiters_sleep(void) {
    static const struct {
        int64_t due_ns;
        int ahead; /* how many wait before it */
        int64_t sleep_ns;
    } cases[] = {
        {MS, 0, MS},
        {20 * MS, 0, 5 * MS}, /* the next waiter looks for itself */
        {MS, 1, 6 * MS},      /* the others look later than the next one */
        {49 * MS, 1, 50 * MS},
        {HW_NEVER, 1, 50 * MS},
        {MS, 100, 10100 * US}, /* each of a crowd in its turn, one every 0.1 ms */
        {MS, 1000, 100100 * US},
        {MS, 10000, 1000 * MS}, /* but at least once a second */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(&told);
        give(10 * MS, 10 * MS);
        for (int j = 0; j < cases[i].ahead; j++) {
            memset(&crowd[j], 0, sizeof crowd[j]);
            queue(&crowd[j], 0, NOW - MS, MS);
        }
        waiter.seen.key = 1;
        said_patience = cases[i].due_ns;
        struct hw__turn turn = hw__decide_wait(&ledger, &waiter, &held);
        T_EQ(HW__DO_SLEEP, turn.what);
        T_EQ(cases[i].sleep_ns, turn.sleep_ns);
        hw__ledger_check(&ledger);
    }
}

/* The next waiter lets the holder, which has woken it, keep the GIL for longer. A waiter behind it
 * that the holder has not woken makes its own request in time; one that it has woken, too, does
 * not. */
static void test_who_waits_behind_one_that_the_holder_has_woken(void) {
    for (int both = 0; both < 2; both++) {
        begin(&told);
        give(10 * MS, 10 * MS);
        said_patience = 2 * MS;
        other.woken_by = &holder;
        T_EQ(2 * MS, hw__decide_wait(&ledger, &other, &held).sleep_ns);
        T_TRUE((other.seen.flags & HW_THREAD_WOKEN) != 0);
        waiter.seen.key = 1;
        waiter.woken_by = both != 0 ? &holder : &crowd[0];
        said_patience = MS;
        T_EQ(both != 0 ? 6 * MS : MS, hw__decide_wait(&ledger, &waiter, &held).sleep_ns);
        T_EQ(both != 0, (waiter.seen.flags & HW_THREAD_WOKEN) != 0);
        hw__ledger_check(&ledger);
    }
}

/* The next waiter looks early if the GIL may become free without a wake-up. That happens beside a
 * holder whose holds are very short, under a policy that leaves the GIL free for such holders. */
static void test_who_looks_for_itself(void) {
    static const struct {
        int64_t waiter_burst_ns, holder_burst_ns, guard_ns, sleep_ns;
    } cases[] = {
        {10 * MS, 10 * US, GUARD, GUARD},
        {10 * MS, 10 * US, 2 * MS, 2 * MS},
        {10 * MS, 100 * US, GUARD, 3 * MS}, /* the holder's holds are not that short */
        {10 * US, 10 * US, GUARD, 3 * MS},  /* this waiter is woken, because it is not CPU-bound */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(&told);
        give(10 * US, cases[i].holder_burst_ns);
        waiter.seen.burst_ns = cases[i].waiter_burst_ns;
        hw__ledger_want(&ledger, &waiter, NOW);
        waiter.guard_ns = cases[i].guard_ns;
        said_patience = 3 * MS;
        T_EQ(cases[i].sleep_ns, hw__decide_wait(&ledger, &waiter, &held).sleep_ns);
    }
}

/* The guard grows after each look in vain, up to 2 ms. After a wake-up or a spin it is as short as
 * at first. */
static void test_the_guard(void) {
    static const int64_t after_us[] = {300, 600, 1200, 2000, 2000};
    begin(&told);
    give(10 * US, 10 * US);
    hw__ledger_want(&ledger, &waiter, NOW);
    T_EQ(GUARD, waiter.guard_ns);
    said_patience = 100 * MS;
    for (size_t i = 0; i < COUNT(after_us); i++) {
        T_EQ(HW__DO_RETURN, hw__decide_woken(&ledger, &waiter, &held, false, false).what);
        T_EQ(after_us[i] * US, waiter.guard_ns);
    }
    (void)hw__decide_woken(&ledger, &waiter, &held, true, false);
    T_EQ(GUARD, waiter.guard_ns);
    (void)hw__decide_woken(&ledger, &waiter, &held, false, false);
    waiter.spun = true;
    ledger.missed = 7;
    hw__decide_called(&ledger, &waiter);
    T_EQ(GUARD, waiter.guard_ns);
    T_TRUE(!waiter.spun);
    T_EQ(0, ledger.missed);
}

static void test_who_spins(void) {
    enum { COMPUTES = 10 * 1000 * 1000, LETS_GO = 10 * 1000 };
    static const struct {
        int64_t waiter_burst_ns, holder_burst_ns, held_ns;
        int32_t waiter_core;
        bool plain, asked, spun, spins;
    } cases[] = {
        {COMPUTES, COMPUTES, 10 * MS, 0, false, true, false, true}, /* a request was just made */
        /* the hold goes on for long */
        {COMPUTES, COMPUTES, 10 * MS, 0, false, false, false, false},
        /* the holder releases in a moment */
        {COMPUTES, LETS_GO, 10 * US, 0, false, false, false, true},
        /* this hold is longer than usual */
        {COMPUTES, LETS_GO, 100 * US, 0, false, false, false, false},
        /* neither thread is CPU-bound */
        {LETS_GO, LETS_GO, 10 * US, 0, false, false, false, false},
        {LETS_GO, COMPUTES, 10 * MS, 0, false, true, false, true},
        {COMPUTES, COMPUTES, 10 * MS, 1, false, true, false, false}, /* on the holder's core */
        /* the waiter has spun before */
        {COMPUTES, COMPUTES, 10 * MS, 0, false, true, true, false},
        {COMPUTES, COMPUTES, 10 * MS, 0, true, true, false, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(cases[i].plain ? &plain : &told);
        give(cases[i].held_ns, cases[i].holder_burst_ns);
        waiter.seen.burst_ns = cases[i].waiter_burst_ns;
        hw__ledger_want(&ledger, &waiter, NOW);
        if (cases[i].spun) {
            hw__decide_spun(&waiter);
        }
        said_patience = cases[i].asked ? 0 : 3 * MS;
        struct hw__moment moment = held;
        moment.core = cases[i].waiter_core;
        struct hw__turn turn = hw__decide_wait(&ledger, &waiter, &moment);
        T_EQ(cases[i].asked ? HW__DO_ASK : HW__DO_SLEEP, turn.what);
        T_EQ(cases[i].spins ? SPIN : 0, turn.spin_ns);
    }
}

/* ---------------------------------------------------------------- what does a woken waiter do? */
/* Another waiter was woken `ago_ns` ago, and the GIL is free. */
static void call_other(int64_t ago_ns) {
    ledger.phase = HW__PHASE_FREE;
    ledger.called = &other;
    ledger.called_ns = NOW - ago_ns;
    other.stage = HW__STAGE_CALLED;
}

static void test_who_leaves_a_free_gil(void) {
    static const struct {
        bool other_called, self_called, locked, plain;
        int64_t ago_ns;
        bool dozes, leaves;
    } cases[] = {
        {true, false, false, false, 0, true, true},
        {true, false, false, false, CALLED - 1, true, true},
        /* the woken waiter has not come in time */
        {true, false, false, false, CALLED, false, false},
        {true, false, true, false, 0, false, false},   /* another thread holds the GIL */
        {false, false, false, false, 0, false, false}, /* no waiter was woken */
        {false, true, false, false, 0, false, false},  /* this waiter was woken itself */
        {true, false, false, true, 0, true, false},    /* as in CPython: first come, first served */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(cases[i].plain ? &plain : &told);
        queue(&waiter, 0, NOW - MS, 0);
        if (cases[i].other_called) {
            call_other(cases[i].ago_ns);
        }
        ledger.called = cases[i].self_called ? &waiter : ledger.called;
        struct hw__moment moment = cases[i].locked ? held : is_free;
        T_EQ(cases[i].leaves, hw__decide_leaves_it(&ledger, &waiter, &moment));
        T_EQ(cases[i].dozes ? CALLED : 0, hw__decide_doze_on(&ledger, &waiter, &moment));
        if (cases[i].dozes) {
            T_EQ(NOW + CALLED, waiter.wake_at_ns);
        }
        waiter.stage = HW__STAGE_WANTS; /* it has left the queue */
        T_EQ(0, hw__decide_doze_on(&ledger, &waiter, &moment));
    }
}

static void test_who_asks_on_waking(void) {
    static const struct {
        bool locked, switched;
        int64_t patience_ns;
        enum hw__do what;
    } cases[] = {
        {false, false, 0, HW__DO_RETURN},
        {true, false, 0, HW__DO_ASK},
        {true, true, 0, HW__DO_RETURN}, /* CPython starts the interval again */
        {true, false, MS, HW__DO_RETURN},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(&told);
        give(10 * MS, 10 * MS);
        hw__ledger_want(&ledger, &waiter, NOW - MS);
        said_patience = cases[i].patience_ns;
        struct hw__moment moment = cases[i].locked ? held : is_free;
        T_EQ(cases[i].what,
             hw__decide_woken(&ledger, &waiter, &moment, false, cases[i].switched).what);
    }
}

/* A woken waiter that comes late, after another thread has acquired the GIL, waits again and is
 * counted. */
static void test_who_was_called_and_comes_late(void) {
    begin(&told);
    queue(&waiter, 0, NOW - MS, 0);
    T_TRUE(hw__decide_hand_over(&ledger, NULL, &waiter, &is_free, false).next == &waiter);
    T_EQ(HW__STAGE_CALLED, waiter.stage);
    give(0, 10 * MS);
    T_TRUE(ledger.passed_over);
    said_patience = MS;
    struct hw__turn turn = hw__decide_wait(&ledger, &waiter, &held);
    T_TRUE(!turn.begins && turn.what == HW__DO_SLEEP);
    T_EQ(1, ledger.counts.barged);
    T_TRUE(ledger.called == NULL);
    hw__ledger_check(&ledger);
}

/* The policy sees such a waiter again when it is late: it may have no core, while the threads that
 * have one take the GIL from each other. */
static void test_who_is_late_counts_as_waiting(void) {
    for (uint32_t lane = 0; lane < HW_POLICY_LANES; lane++) {
        begin(&told);
        waiter.seen.lane = lane;
        queue(&waiter, 0, NOW - MS, 0);
        T_EQ(1, ledger.view.in_lane[lane]);
        (void)hw__ledger_time(&ledger, NOW);
        T_TRUE(hw__decide_hand_over(&ledger, NULL, &waiter, &is_free, false).next == &waiter);
        (void)hw__ledger_time(&ledger, NOW + CALLED - 1);
        T_EQ(0, ledger.view.in_lane[lane]);
        (void)hw__ledger_time(&ledger, NOW + CALLED);
        T_EQ(1, ledger.view.in_lane[lane]);
        hw__ledger_check(&ledger);
        queue(&other, 1, NOW, 0); /* a waiter of lane 0, called in its place */
        const struct hw__moment later = {.now_ns = NOW + CALLED, .core = 0, .locked = false};
        T_TRUE(hw__decide_hand_over(&ledger, NULL, &other, &later, false).next == &other);
        T_EQ(lane == 0 ? 0 : 1, ledger.view.in_lane[lane]);
        (void)hw__ledger_take(&ledger, &waiter, NOW + CALLED, 1);
        T_EQ(0, ledger.view.in_lane[lane]);
        hw__ledger_check(&ledger);
    }
}

static void test_how_long_one_in_the_queue_sleeps(void) {
    static const struct {
        bool known;
        int64_t patience_ns, sleep_ns;
    } cases[] = {
        {false, 0, 5 * MS}, /* the GIL is free for another one */
        {true, 0, GUARD},   /* the request is made after waking, not from here */
        {true, MS, MS},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(&told);
        if (cases[i].known) {
            give(10 * MS, 10 * MS);
        }
        queue(&waiter, 0, NOW, 0);
        said_patience = cases[i].patience_ns;
        struct hw__turn turn = hw__decide_queue(&ledger, &waiter, &held);
        T_EQ(HW__DO_SLEEP, turn.what);
        T_EQ(cases[i].sleep_ns, turn.sleep_ns);
        T_TRUE(!ledger.request.made);
    }
}

/* ---------------------------------------------------------------- which waiter is woken? */
/* A thread that was preempted and mostly wants the GIL back at once is queued from its release
 * on. */
static void test_who_waits_at_once(void) {
    for (int asked = 0; asked < 2; asked++) {
        for (int guess = 0; guess <= 3; guess++) {
            begin(&told);
            give(10 * MS, 10 * MS);
            holder.forced = (uint8_t)guess;
            ledger.request.made = asked != 0;
            T_TRUE(hw__ledger_drop(&ledger, &holder, NOW) == &holder);
            T_EQ(asked && guess >= 2, hw__decide_wait_at_once(&ledger, &holder, NOW));
            hw__ledger_dropped(&ledger);
            T_EQ(asked && guess >= 2 ? HW__STAGE_QUEUED : HW__STAGE_AWAY, holder.stage);
            T_EQ(asked && guess >= 2 ? 1 : 0, hw__ledger_waiting(&ledger));
            hw__ledger_check(&ledger);
        }
    }
}

static void test_when_the_gil_is_left_free(void) {
    static const struct {
        int64_t grace_ns, away_ns, budget_ns, wake_in_ns;
        bool forced, spins, grace;
    } cases[] = {
        {10 * US, 5 * US, 100 * US, 100 * US, false, false, true},
        {0, 5 * US, 100 * US, 100 * US, false, false, false}, /* the policy gives no grace */
        /* the releaser was preempted */
        {10 * US, 5 * US, 100 * US, 100 * US, true, false, false},
        {10 * US, 12 * US, 100 * US, 100 * US, false, false, true},  /* it comes back soon enough */
        {10 * US, 13 * US, 100 * US, 100 * US, false, false, false}, /* it does not */
        {10 * US, 5 * US, 0, 100 * US, false, false, false},         /* the budget is used up */
        /* but this grace costs little */
        {10 * US, US, 0, 100 * US, false, false, true},
        {10 * US, US, -499 * US, 100 * US, false, false, true},
        {10 * US, US, -500 * US, 100 * US, false, false, false},
        {10 * US, 5 * US, 100 * US, 160 * US, false, false, true},
        {10 * US, 5 * US, 100 * US, 161 * US, false, false, false}, /* no waiter looks in time */
        {HW_NEVER, 5 * US, 100 * US, 161 * US, false, false, true}, /* a policy may say so */
        {10 * US, 5 * US, 100 * US, MS, false, true, true},
        {10 * US, 5 * US, 100 * US, MS + 1, false, true, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(&told);
        holder.seen.flags = cases[i].forced ? HW_THREAD_FORCED : 0;
        for (int j = 0; j < HW__PASTS; j++) {
            holder.away_ns[j] = (uint16_t)cases[i].away_ns;
        }
        queue(&waiter, 0, NOW - MS, cases[i].wake_in_ns);
        said_grace = cases[i].grace_ns;
        ledger.budget_ns = cases[i].budget_ns;
        ledger.budget_at_ns = NOW;
        struct hw__call call =
            hw__decide_hand_over(&ledger, &holder, &waiter, &is_free, cases[i].spins);
        T_TRUE((call.next == NULL) == cases[i].grace);
        T_EQ(cases[i].grace ? HW__PHASE_GRACE : HW__PHASE_FREE, ledger.phase);
        T_EQ(cases[i].grace ? 1 : 0, ledger.counts.graced);
        T_EQ(cases[i].grace ? 0 : 1, ledger.counts.granted);
        T_EQ(cases[i].grace ? HW__STAGE_QUEUED : HW__STAGE_CALLED, waiter.stage);
        hw__ledger_check(&ledger);
    }
}

/* A plain policy is not asked for grace. */
static void test_a_plain_policy_gives_no_grace(void) {
    struct hw_policy gives = told;
    gives.flags = HW_POLICY_PLAIN;
    begin(&gives);
    queue(&waiter, 0, NOW - MS, 100 * US);
    said_grace = 10 * US;
    ledger.budget_ns = 100 * US;
    ledger.budget_at_ns = NOW;
    struct hw__call call = hw__decide_hand_over(&ledger, &holder, &waiter, &is_free, false);
    T_TRUE(call.next == &waiter);
    T_EQ(HW__PHASE_FREE, ledger.phase);
    T_EQ(0, ledger.counts.graced);
    hw__ledger_check(&ledger);
}

/* A sixteenth of the time is saved up as the budget of grace, 0.5 ms at most. The time for which
 * the GIL was left free is taken from the budget, less 1.5 us, and 2 ms at most. */
static void test_the_budget_of_grace(void) {
    static const struct {
        int64_t since_ns, before_ns, saved_ns, free_ns, after_ns;
    } cases[] = {
        {160 * US, 0, 10 * US, 1500, 10 * US},
        {160 * US, 0, 10 * US, 4500, 7 * US},
        {160 * US, 0, 10 * US, 10 * MS, 10 * US - 2 * MS},
        {100 * MS, 0, 500 * US, 1000, 500 * US},
        {160 * US, -20 * US, -10 * US, 0, -10 * US},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(&told);
        give(MS, 10 * US);
        for (int j = 0; j < HW__PASTS; j++) {
            holder.away_ns[j] = 1000;
        }
        queue(&waiter, 0, NOW - MS, 0);
        said_grace = 10 * US;
        ledger.budget_ns = cases[i].before_ns;
        ledger.budget_at_ns = NOW - cases[i].since_ns;
        (void)hw__ledger_drop(&ledger, &holder, NOW);
        hw__ledger_dropped(&ledger);
        T_TRUE(hw__decide_hand_over(&ledger, &holder, &waiter, &is_free, false).next == NULL);
        T_EQ(cases[i].saved_ns, ledger.budget_ns);
        int64_t now_ns = hw__ledger_time(&ledger, NOW + cases[i].free_ns);
        (void)hw__ledger_take(&ledger, &holder, now_ns, 0);
        T_EQ(cases[i].after_ns, ledger.budget_ns);
        T_EQ(cases[i].free_ns, ledger.counts.idle_ns);
    }
}

/* A woken waiter has 1 ms to come. Another one is woken sooner only if the first was passed over,
 * and only among threads that are not CPU-bound. */
static void test_whether_another_one_is_called(void) {
    static const struct {
        int64_t ago_ns;
        bool passed_over, releaser_known;
        int64_t releaser_burst_ns, next_burst_ns;
        bool calls;
    } cases[] = {
        {0, false, true, US, US, false},     {CALLED - 1, false, true, US, US, false},
        {CALLED, false, true, US, US, true}, {0, true, true, US, US, true},
        {0, true, false, US, US, false},     {0, true, true, 10 * MS, US, false},
        {0, true, true, US, 10 * MS, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(&told);
        call_other(cases[i].ago_ns);
        ledger.passed_over = cases[i].passed_over;
        holder.seen.burst_ns = cases[i].releaser_burst_ns;
        waiter.seen.burst_ns = cases[i].next_burst_ns;
        queue(&waiter, 0, NOW - MS, MS);
        struct hw__call call = hw__decide_hand_over(
            &ledger, cases[i].releaser_known ? &holder : NULL, &waiter, &is_free, false);
        T_TRUE((call.next == &waiter) == cases[i].calls);
        if (cases[i].calls) {
            T_TRUE(ledger.called == &waiter && ledger.called_ns == NOW && !ledger.passed_over);
        } else {
            T_TRUE(call.next == NULL && ledger.called == &other);
        }
        hw__ledger_check(&ledger);
    }
}

/* Two threads share a core. A CPU-bound thread gives up the core when it is woken. A CPU-bound
 * thread that was preempted may give up the core after it has woken the other. */
static void test_who_yields(void) {
    static const struct {
        bool plain, yields, same_core, forced;
        int64_t releaser_burst_ns, next_burst_ns;
        bool next_yields, caller_may;
    } cases[] = {
        {false, true, true, true, 10 * MS, 10 * MS, true, true},
        {false, true, true, true, 10 * MS, US, false, true},
        {false, true, true, true, US, 10 * MS, true, false},
        {false, true, true, false, 10 * MS, 10 * MS, true, false},
        {false, true, false, true, 10 * MS, 10 * MS, false, false},
        {false, false, true, true, 10 * MS, 10 * MS, false, false},
        {true, true, true, true, 10 * MS, 10 * MS, false, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(cases[i].plain ? &plain : &told);
        ledger.settings.yields = cases[i].yields;
        holder.seen.burst_ns = cases[i].releaser_burst_ns;
        holder.seen.flags = cases[i].forced ? HW_THREAD_FORCED : 0;
        waiter.seen.burst_ns = cases[i].next_burst_ns;
        waiter.core = cases[i].same_core ? is_free.core : is_free.core + 1;
        queue(&waiter, 0, NOW - MS, MS);
        struct hw__call call = hw__decide_hand_over(&ledger, &holder, &waiter, &is_free, false);
        T_TRUE(call.next == &waiter);
        T_EQ(cases[i].next_yields, call.next_yields);
        T_EQ(cases[i].caller_may, call.caller_may_yield);
    }
}

/* ---------------------------------------------------------------- what follows an acquire? */
/* The next waiter is woken if its request to this holder is due sooner than it was going to look,
 * by at least 0.15 ms and a quarter of its sleep. */
static void test_who_is_to_look_sooner(void) {
    static const struct {
        int64_t patience_ns, wake_in_ns, burst_ns;
        bool looks;
    } cases[] = {
        {MS, 5 * MS, 10 * MS, true},
        {MS, MS, 10 * MS, false},
        {3600 * US - 1, 5 * MS, 10 * MS, true}, /* 3.6 + 1.25 + 0.15 */
        {3600 * US, 5 * MS, 10 * MS, false},
        {0, 200 * US + 1, 10 * MS, true}, /* 0.05 + 0.15 */
        {0, 200 * US, 10 * MS, false},
        {0, 5 * MS, 10 * US, false}, /* the holder releases in a moment */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        begin(&told);
        queue(&waiter, 0, NOW - MS, cases[i].wake_in_ns);
        give(0, cases[i].burst_ns);
        said_patience = cases[i].patience_ns;
        struct hw__waiter *next = hw__decide_look_sooner(&ledger, &holder, NOW);
        T_TRUE(next == (cases[i].looks ? &waiter : NULL));
        T_EQ(cases[i].looks ? HW__STAGE_WANTS : HW__STAGE_QUEUED, waiter.stage);
        hw__ledger_check(&ledger);
    }
    begin(&told);
    give(0, 10 * MS);
    T_TRUE(hw__decide_look_sooner(&ledger, &holder, NOW) == NULL);
}

/* A GIL rests after 4096 acquires in a row during which no other thread wanted it. */
static void test_when_a_gil_rests(void) {
    begin(&told);
    for (int i = 0; i < 3 * 4096; i++) {
        T_TRUE(!hw__ledger_is_wanted(&ledger, &holder));
        hw__ledger_take_alone(&ledger, &holder, 0, 0);
        T_EQ(i % 4096 == 4095, hw__decide_rest(&ledger));
        T_TRUE(hw__ledger_drop_alone(&ledger, &holder, 0));
    }
    for (int i = 0; i < 4095; i++) {
        hw__ledger_take_alone(&ledger, &holder, 0, 0);
        T_TRUE(!hw__decide_rest(&ledger));
        T_TRUE(i == 4094 || hw__ledger_drop_alone(&ledger, &holder, 0));
    }
    (void)hw__decide_wait(&ledger, &waiter, &held); /* another thread wants it, once */
    hw__ledger_leave(&ledger, &waiter);
    (void)hw__ledger_drop(&ledger, &holder, NOW);
    hw__ledger_dropped(&ledger);
    hw__ledger_take_alone(&ledger, &holder, 0, 0);
    T_TRUE(!hw__decide_rest(&ledger));
}

static bool said_idle;

static bool idle(struct hw_policy_gil *gil) {
    (void)gil;
    return said_idle;
}

/* A policy is asked whether it is idle as soon as it begins, and then at most once in 100 ms. */
static void test_when_a_policy_is_idle(void) {
    static const struct hw_policy idler = {.ready = ready, .patience = patience, .idle = idle};
    begin(&idler); /* 100 ms before NOW */
    said_idle = true;
    T_TRUE(hw__ledger_is_idle(&ledger, NOW - 100 * MS));
    T_TRUE(!hw__ledger_is_idle(&ledger, NOW - 1));
    said_idle = false;
    T_TRUE(!hw__ledger_is_idle(&ledger, NOW));
    said_idle = true;
    T_TRUE(!hw__ledger_is_idle(&ledger, NOW + 100 * MS - 1));
    T_TRUE(hw__ledger_is_idle(&ledger, NOW + 100 * MS));
    begin(&told);
    T_TRUE(!hw__ledger_is_idle(&ledger, NOW));
}

/* A burst is the sum of its holds, also if a thread that was preempted finds the GIL free again. */
static void test_a_burst_goes_on_after_a_preemption(void) {
    begin(&told);
    (void)hw__ledger_take(&ledger, &holder, NOW, 0);
    ledger.request.made = true;
    (void)hw__ledger_drop(&ledger, &holder, NOW + 6 * MS);
    hw__ledger_dropped(&ledger);
    T_EQ(6 * MS, holder.seen.run_ns);
    T_TRUE(hw__waiter_goes_on(&holder));
    hw__ledger_take_alone(&ledger, &holder, 0, NOW + 7 * MS);
    T_TRUE(hw__ledger_drop_alone(&ledger, &holder, NOW + 11 * MS));
    T_EQ(10 * MS / 4, holder.seen.burst_ns);
    T_TRUE(!hw__waiter_goes_on(&holder));
    holder.seen.run_ns = 6 * MS; /* a waiter comes into the second part */
    hw__ledger_take_alone(&ledger, &holder, 0, NOW + 20 * MS);
    hw__ledger_notice(&ledger, NOW + 23 * MS);
    T_EQ(9 * MS, holder.seen.run_ns);
    T_EQ(NOW + 23 * MS, holder.seen.acquired_ns);
}

int main(void) {
    t_start();
    T_RUN(test_when_a_known_holder_is_asked);
    T_RUN(test_when_a_stranger_is_asked);
    T_RUN(test_requests_are_repeated);
    T_RUN(test_who_asks_early);
    T_RUN(test_how_long_waiters_sleep);
    T_RUN(test_who_waits_behind_one_that_the_holder_has_woken);
    T_RUN(test_who_looks_for_itself);
    T_RUN(test_the_guard);
    T_RUN(test_who_spins);
    T_RUN(test_who_leaves_a_free_gil);
    T_RUN(test_who_asks_on_waking);
    T_RUN(test_who_was_called_and_comes_late);
    T_RUN(test_who_is_late_counts_as_waiting);
    T_RUN(test_how_long_one_in_the_queue_sleeps);
    T_RUN(test_who_waits_at_once);
    T_RUN(test_when_the_gil_is_left_free);
    T_RUN(test_a_plain_policy_gives_no_grace);
    T_RUN(test_the_budget_of_grace);
    T_RUN(test_whether_another_one_is_called);
    T_RUN(test_who_yields);
    T_RUN(test_who_is_to_look_sooner);
    T_RUN(test_when_a_gil_rests);
    T_RUN(test_when_a_policy_is_idle);
    T_RUN(test_a_burst_goes_on_after_a_preemption);
    return 0;
}
