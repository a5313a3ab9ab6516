// SPDX-License-Identifier: MIT
/* Facts that hold at a GIL in whatever order its threads run. A few threads go through the hooks as
 * the engine's threads do (engine/engine.c), each with the GIL's mutex held. Their steps are tried
 * in every order up to some depth, and in long random orders. After each step the ledger must agree
 * with what the threads have done, and no waiter may be forgotten. */
#include <string.h>

#include "policy/policies.h"
#include "schedule/decide.h"
#include "schedule/habits.h"
#include "sim_world.h"

#define MOST 6
#define NEXT_SLEEP (5 * MS) /* the longest sleep of the next waiter (decide.c) */
#define LONGEST_SLEEP (50 * MS)
#define SPIN (20 * US)

enum state {
    AWAY,
    LOOKS,  /* in take_gil(), about to lock the mutex */
    SLEEPS, /* in the hook of its wait */
    HOLDS,
    SWITCHES /* was preempted: in the hook of the wait for another thread to acquire the GIL */
};

enum step {
    GO_ON,   /* the next action of its state: come, look, acquire, release, see that it was woken */
    WAKE_UP, /* its sleep, or spin, is over */
    LEAVE,   /* it gives up: the interpreter ends */
    STEPS
};

struct thread {
    struct hw__waiter waiter;
    enum state state;
    bool called; /* out of its sleep, from outside; it has not run yet */
    bool spins;
    bool to_switch; /* it sleeps in the wait for the hand-off */
    int64_t until_ns, rests;
};

/* All of the state in one struct, so that it can be saved and restored as a whole. */
static struct world {
    struct hw__ledger ledger;
    struct hw__waiter *members[HW_POLICY_LANES][MOST];
    struct thread threads[MOST];
    int count;
    int64_t now_ns;
    struct thread *holder;
    bool locked, rests, may_rest, somebody_left;
    uint64_t switches;
    struct thread *last;
    int64_t acquires, asked, granted;
} world;

static uint64_t random_state = 1;

static void begin(const struct hw_policy *policy, int count, bool may_rest) {
    int64_t options[HW_POLICY_MAX_OPTIONS] = {0};
    const struct hw__settings settings = {.spin_ns = SPIN, .yields = true};
    memset(&world, 0, sizeof world);
    for (int i = 0; policy->options[i].name != NULL; i++) {
        options[i] = policy->options[i].preset;
    }
    world.ledger.lanes[0].members = world.members[0];
    world.ledger.lanes[1].members = world.members[1];
    world.now_ns = 1000 * MS;
    world.count = count;
    world.may_rest = may_rest;
    hw__ledger_begin(&world.ledger, policy, options, &settings, world.now_ns, 5 * MS);
    world.ledger.phase = HW__PHASE_FREE;
    for (int i = 0; i < count; i++) {
        struct hw__waiter *waiter = &world.threads[i].waiter;
        hw__ledger_forget(waiter);
        waiter->core = -1;
        /* As if the threads had been there before: some compute, some release often. */
        waiter->seen.burst_ns = i % 2 == 0 ? 20 * MS : 20 * US;
        waiter->forced = i % 2 == 0 ? 3 : 0;
        for (int j = 0; j < HW__PASTS; j++) {
            waiter->away_ns[j] = i % 2 == 0 ? 50000 : 2000;
        }
    }
}

static int64_t now(void) { return hw__ledger_time(&world.ledger, world.now_ns); }

static struct hw__moment moment_of(const struct thread *thread) {
    return (struct hw__moment){
        .now_ns = now(), .core = (int32_t)(thread - world.threads) % 2, .locked = world.locked};
}

static struct thread *thread_of(struct hw__waiter *waiter) { return (struct thread *)waiter; }

static void call(struct hw__waiter *waiter) { thread_of(waiter)->called = true; }

/* ---------------------------------------------------------------- the hooks */
static void sleep_for(struct thread *thread, const struct hw__turn *turn) {
    thread->state = SLEEPS;
    thread->called = false;
    thread->spins = turn->spin_ns > 0;
    if (thread->spins) {
        hw__decide_spun(&thread->waiter);
    }
    thread->until_ns = world.now_ns + (thread->spins ? turn->spin_ns : turn->sleep_ns);
}

/* CPython makes the request, and calls the hook again at once. */
static void ask(struct thread *thread, int64_t spin_ns) {
    world.asked++;
    struct hw__turn turn = hw__decide_wait_on(&world.ledger, &thread->waiter);
    turn.spin_ns = spin_ns;
    sleep_for(thread, &turn);
}

static void meet(struct thread *thread) {
    if (thread->rests != world.ledger.counts.rests) {
        hw__ledger_forget_last(&thread->waiter);
        thread->rests = world.ledger.counts.rests;
    }
}

static void rest(void) {
    for (int lane = 0; lane < HW_POLICY_LANES; lane++) {
        while (world.ledger.lanes[lane].count > 0) {
            struct hw__waiter *first = hw__waiters_first(&world.ledger.lanes[lane]);
            hw__ledger_dequeue(&world.ledger, first);
            call(first);
        }
    }
    hw__ledger_rest(&world.ledger);
    world.ledger.counts.rests++;
    world.rests = true;
}

static void take(struct thread *thread) {
    struct hw__ledger *ledger = &world.ledger;
    world.locked = true;
    world.holder = thread;
    world.switches += world.last != thread;
    world.last = thread;
    thread->state = HOLDS;
    if (world.rests) {
        return;
    }
    world.acquires++;
    meet(thread);
    int32_t core = moment_of(thread).core;
    if (!hw__ledger_is_wanted(ledger, &thread->waiter)) {
        hw__ledger_take_alone(ledger, &thread->waiter, core, world.now_ns);
        ledger->alone += world.may_rest ? 4096 : 0; /* as if it had been alone for long */
        if (hw__decide_rest(ledger)) {
            world.may_rest = false;
            rest();
        }
        return;
    }
    (void)hw__ledger_take(ledger, &thread->waiter, now(), core);
    struct hw__waiter *next = hw__decide_look_sooner(ledger, &thread->waiter, now());
    if (next != NULL) {
        call(next);
    }
}

static void wait_in_queue(struct thread *thread) {
    struct hw__moment moment = moment_of(thread);
    struct hw__turn turn = hw__decide_queue(&world.ledger, &thread->waiter, &moment);
    bool to_switch = thread->state == SWITCHES;
    sleep_for(thread, &turn);
    thread->to_switch = to_switch;
}

static void look(struct thread *thread) {
    struct hw__ledger *ledger = &world.ledger;
    struct hw__moment moment = moment_of(thread);
    if (!world.rests && thread->waiter.place != 0 &&
        hw__decide_leaves_it(ledger, &thread->waiter, &moment)) {
        wait_in_queue(thread);
        return;
    }
    if (!world.locked) {
        take(thread);
        return;
    }
    world.rests = false; /* CPython waits, so the hooks are installed again */
    meet(thread);
    struct hw__turn turn = hw__decide_wait(ledger, &thread->waiter, &moment);
    if (turn.what == HW__DO_ASK) {
        ask(thread, turn.spin_ns);
    } else {
        sleep_for(thread, &turn);
    }
}

static void let_go(struct thread *thread) {
    struct hw__ledger *ledger = &world.ledger;
    world.locked = false;
    world.holder = NULL;
    thread->state = AWAY;
    if (world.rests || hw__ledger_drop_alone(ledger, &thread->waiter, world.now_ns)) {
        return;
    }
    bool asked = ledger->request.made;
    if (ledger->stranger_ns != 0) {
        meet(thread);
        hw__ledger_meet(ledger, &thread->waiter);
    }
    struct hw__waiter *known = hw__ledger_drop(ledger, &thread->waiter, now());
    if (known != NULL) {
        (void)hw__decide_wait_at_once(ledger, known, now());
    }
    hw__ledger_dropped(ledger);
    thread->state = asked ? SWITCHES : AWAY;
    struct hw__waiter *next = hw__ledger_next(ledger);
    if (next == NULL) {
        return;
    }
    struct hw__moment moment = moment_of(thread);
    struct hw__call called =
        hw__decide_hand_over(ledger, known, next, &moment, thread_of(next)->spins);
    if (called.next != NULL) {
        world.granted++;
        call(called.next);
    }
}

/* The thread is awake again, and holds the mutex. */
static void end_sleep(struct thread *thread, uint64_t switches) {
    struct hw__ledger *ledger = &world.ledger;
    bool spun = thread->spins, to_switch = thread->to_switch;
    thread->spins = thread->to_switch = thread->called = false;
    thread->state = LOOKS;
    if (to_switch) {
        thread->waiter.left_ns = now();
    } else if (thread->waiter.place == 0) {
        hw__decide_called(ledger, &thread->waiter);
    } else {
        hw__ledger_dequeue(ledger, &thread->waiter);
        struct hw__moment moment = moment_of(thread);
        struct hw__turn turn =
            hw__decide_woken(ledger, &thread->waiter, &moment, spun, world.switches != switches);
        if (turn.what == HW__DO_ASK) {
            ask(thread, turn.spin_ns);
        }
    }
}

static void wake_up(struct thread *thread) {
    world.now_ns = thread->until_ns > world.now_ns ? thread->until_ns : world.now_ns;
    struct hw__moment moment = moment_of(thread);
    int64_t longer_ns = hw__decide_doze_on(&world.ledger, &thread->waiter, &moment);
    if (longer_ns > 0) {
        thread->spins = false;
        thread->until_ns = world.now_ns + longer_ns;
        return;
    }
    end_sleep(thread, world.switches);
}

/* ---------------------------------------------------------------- steps */
static bool may(const struct thread *thread, enum step step) {
    switch (step) {
    case GO_ON:
        return thread->state != SLEEPS || thread->called;
    case WAKE_UP:
        return thread->state == SLEEPS && !thread->called;
    default:
        return thread->state == LOOKS || thread->state == SWITCHES;
    }
}

static void leave(struct thread *thread) {
    hw__ledger_leave(&world.ledger, &thread->waiter);
    thread->state = AWAY;
    world.somebody_left = true;
}

static void go_on(struct thread *thread) {
    switch (thread->state) {
    case AWAY:
        thread->state = LOOKS;
        break;
    case LOOKS:
        look(thread);
        break;
    case SLEEPS:
        end_sleep(thread, world.switches);
        break;
    case HOLDS:
        let_go(thread);
        break;
    case SWITCHES:
        if (thread->waiter.place != 0) {
            wait_in_queue(thread);
        } else {
            thread->waiter.left_ns = now();
            thread->state = LOOKS;
        }
        break;
    }
}

/* ---------------------------------------------------------------- what must hold */
static bool is_awake(const struct thread *thread) {
    return thread->state == LOOKS || thread->state == SWITCHES ||
           (thread->state == SLEEPS && thread->called);
}

static void check_queue(void) {
    uint32_t queued = 0;
    for (int i = 0; i < world.count; i++) {
        const struct thread *thread = &world.threads[i];
        T_EQ(thread->waiter.stage == HW__STAGE_QUEUED, thread->waiter.place != 0);
        queued += thread->waiter.place != 0;
        /* A thread that sleeps and was not woken must be in the queue: otherwise no one would ever
         * wake it. */
        T_TRUE(thread->state != SLEEPS || thread->called || thread->waiter.place != 0);
        T_TRUE(thread->state != HOLDS || thread->waiter.place == 0);
    }
    T_EQ(queued, hw__ledger_waiting(&world.ledger));
}

static void check_holder(void) {
    const struct hw__ledger *ledger = &world.ledger;
    if (world.rests) {
        T_TRUE(ledger->phase == HW__PHASE_STRANGE || !world.locked);
        return;
    }
    bool free_phase = ledger->phase == HW__PHASE_FREE || ledger->phase == HW__PHASE_GRACE;
    T_EQ(!world.locked, free_phase);
    if (ledger->holder != NULL) {
        T_TRUE(world.holder != NULL && ledger->holder == &world.holder->waiter);
    }
}

/* No waiter is forgotten: if the GIL is free and a thread sleeps for it, then a thread that is
 * awake will see this, or a sleep ends. */
static void check_nobody_is_lost(void) {
    const struct hw__waiter *next = hw__ledger_next(&world.ledger);
    bool awake = false;
    for (int i = 0; i < world.count; i++) {
        const struct thread *thread = &world.threads[i];
        awake = awake || is_awake(thread);
        if (thread->state == SLEEPS && !thread->called) {
            T_TRUE(thread->until_ns <= world.now_ns + LONGEST_SLEEP);
        }
    }
    if (world.locked || next == NULL || awake) {
        return;
    }
    const struct thread *first = thread_of((struct hw__waiter *)(uintptr_t)next);
    int64_t in_ns = first->until_ns - world.now_ns;
    if (world.ledger.phase == HW__PHASE_GRACE) {
        T_TRUE(in_ns <= (first->spins ? MS : 160 * US));
    } else {
        T_TRUE(world.somebody_left); /* otherwise a release has woken a waiter */
        T_TRUE(in_ns <= LONGEST_SLEEP);
    }
}

static void check(void) {
    hw__ledger_check(&world.ledger);
    check_queue();
    check_holder();
    check_nobody_is_lost();
    T_EQ(world.acquires, world.ledger.counts.acquires);
    T_EQ(world.asked, world.ledger.counts.asked);
    T_EQ(world.granted, world.ledger.counts.granted);
}

static void make(int thread, enum step step) {
    world.now_ns += US;
    struct thread *one = &world.threads[thread];
    if (step == GO_ON) {
        go_on(one);
    } else if (step == WAKE_UP) {
        wake_up(one);
    } else {
        leave(one);
    }
    check();
}

/* ---------------------------------------------------------------- every order */
static long orders;

static void try_all(int depth, bool leaves) {
    if (depth == 0) {
        orders++;
        return;
    }
    struct world *before = malloc(sizeof *before);
    T_TRUE(before != NULL);
    *before = world;
    for (int i = 0; i < world.count; i++) {
        for (enum step step = GO_ON; step <= (leaves ? LEAVE : WAKE_UP); step++) {
            if (may(&world.threads[i], step)) {
                make(i, step);
                try_all(depth - 1, leaves);
                world = *before;
            }
        }
    }
    free(before);
}

static void test_every_order(void) {
    static const struct {
        int threads, depth;
        bool rests, leaves;
    } cases[] = {{2, 14, false, false}, {2, 14, true, false}, {2, 10, true, true},
                 {3, 10, false, false}, {3, 10, true, false}, {3, 8, true, true}};
    for (int i = 0; hw_policy_at(i) != NULL; i++) {
        for (size_t j = 0; j < sizeof cases / sizeof *cases; j++) {
            begin(hw_policy_at(i), cases[j].threads, cases[j].rests);
            try_all(cases[j].depth, cases[j].leaves);
        }
    }
    fprintf(stderr, "  %ld orders\n", orders);
}

/* ---------------------------------------------------------------- long random orders */
static void test_random_orders(void) {
    for (int run = 0; run < 200; run++) {
        begin(hw_policy_at(run % 4), 2 + run % (MOST - 1), run % 3 == 0);
        for (int i = 0; i < 3000; i++) {
            int thread = (int)(t_random(&random_state) % (uint64_t)world.count);
            uint64_t chance = t_random(&random_state) % 1000;
            enum step step = chance < 2 ? LEAVE : chance < 300 ? WAKE_UP : GO_ON;
            if (t_random(&random_state) % 16 == 0) {
                world.now_ns += (int64_t)(t_random(&random_state) % (6 * 1000 * 1000));
            }
            /* A thread that waits for long takes its steps as quickly as the others: its sleep ends
             * in time. */
            if (may(&world.threads[thread], step)) {
                make(thread, step);
                world.somebody_left = world.somebody_left && hw__ledger_waiting(&world.ledger) > 0;
            }
        }
    }
}

/* From every state that random steps lead to, each waiter gets the GIL within 0.3 s if all threads
 * go on in turn. `priority` is left out, because its CPU-bound threads starve beside others. */
static void test_everybody_comes_to_it(void) {
    static const struct hw_policy *const policies[] = {&hw__policy_fair, &hw__policy_bfs,
                                                       &hw__policy_stock};
    for (int run = 0; run < 400; run++) {
        begin(policies[run % 3], 2 + run % (MOST - 1), run % 4 == 0);
        for (int i = 0; i < 50 + run % 50; i++) {
            int thread = (int)(t_random(&random_state) % (uint64_t)world.count);
            enum step step = t_random(&random_state) % 3 == 0 ? WAKE_UP : GO_ON;
            if (may(&world.threads[thread], step)) {
                make(thread, step);
            }
        }
        bool had[MOST] = {false};
        int left = world.count;
        for (int round = 0; round < 3000 && left > 0; round++) {
            world.now_ns += 100 * US;
            for (int i = 0; i < world.count; i++) {
                struct thread *thread = &world.threads[i];
                if (may(thread, GO_ON)) {
                    make(i, GO_ON);
                } else if (thread->until_ns <= world.now_ns) {
                    make(i, WAKE_UP);
                }
                left -= thread->state == HOLDS && !had[i];
                had[i] = had[i] || thread->state == HOLDS;
            }
        }
        T_EQ(0, left);
    }
}

/* ---------------------------------------------------------------- no thread starves */
static int64_t between(int64_t least, int64_t most) {
    return least + (int64_t)(t_random(&random_state) % (uint64_t)(most - least + 1));
}

/* Adds threads of all kinds, and gives the operations random costs. */
static int add_random_threads(void) {
    int threads = (int)between(2, 8);
    for (int i = 0; i < HW_SIM_COSTS; i++) {
        sim_world.cost_ns[i] = (double)between(0, 2000);
    }
    sim_world.cost_ns[HW_SIM_COST_LOCK] = 20;
    for (int i = 0; i < threads; i++) {
        switch (between(0, 2)) {
        case 0:
            SIM_ADD(SIM_OP(COMPUTE, 0));
            break;
        case 1:
            SIM_ADD(SIM_OP(HOLD, between(20 * US, MS)), SIM_OP(BLOCK, between(0, 2 * MS)));
            break;
        default:
            SIM_ADD(SIM_OP(HOLD, between(MS, 20 * MS)), SIM_OP(SLEEP, between(0, 50 * MS)));
            break;
        }
    }
    return threads;
}

/* However threads come and go, every wait ends under fair and bfs, once the others have had a
 * limited time. */
static void test_nobody_starves(void) {
    static const struct hw_policy *const policies[] = {&hw__policy_fair, &hw__policy_bfs};
    for (int run = 0; run < 40; run++) {
        sim_begin(policies[run % 2], 1 << between(0, 4), 2000 * MS);
        sim_world.gils[0].spin_ns = SPIN;
        sim_world.gils[0].yields = 1;
        sim_world.spec.seed = (uint64_t)run;
        int threads = add_random_threads();
        T_EQ(0, sim_run(2000 * MS));
        for (int i = 0; i < threads; i++) {
            T_TRUE(sim_result(i).worst_wait_ns < 200 * MS);
        }
        sim_end();
    }
}

/* Under fair, CPU-bound threads have held the GIL for the same time at every moment, apart from a
 * turn or two. */
static void test_fair_to_a_turn_or_two(void) {
    for (int threads = 2; threads <= 8; threads++) {
        sim_begin(&hw__policy_fair, 8, 3000 * MS);
        for (int i = 0; i < HW_SIM_COSTS; i++) {
            sim_world.cost_ns[i] = (double)between(0, 500);
        }
        sim_world.cost_ns[HW_SIM_COST_LOCK] = 20;
        for (int i = 0; i < threads; i++) {
            SIM_ADD(SIM_OP(COMPUTE, 0));
        }
        int64_t slice_ns = 42 * MS / (threads > 2 ? threads - 1 : 2);
        for (int64_t ms = 10; ms <= 3000; ms += 10) {
            T_EQ(0, sim_run(ms * MS));
            int64_t least_ns = INT64_MAX, most_ns = 0;
            for (int i = 0; i < threads; i++) {
                int64_t held_ns = sim_result(i).held_ns;
                least_ns = held_ns < least_ns ? held_ns : least_ns;
                most_ns = held_ns > most_ns ? held_ns : most_ns;
            }
            T_TRUE(most_ns - least_ns <= 2 * slice_ns + MS);
        }
        sim_end();
    }
}

int main(void) {
    t_start();
    T_RUN(test_every_order);
    T_RUN(test_random_orders);
    T_RUN(test_everybody_comes_to_it);
    T_RUN(test_nobody_starves);
    T_RUN(test_fair_to_a_turn_or_two);
    return 0;
}
