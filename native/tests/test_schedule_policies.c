// SPDX-License-Identifier: MIT
/* The policies by themselves: a small machine of one GIL and threads that want it, in virtual time.
 * Each thread holds for a while, then stays away for a while; the engine's part is played here in
 * its simplest form: who waits with the least key goes next, and the holder lets go when the
 * first's patience is over. */
#include "policy/policies.h"
#include "t.h"

#include <string.h>

#include "headway/schedule.h"

#define MAX_THREADS 400
#define CROWD 400
#define MS 1000000
#define STEP 10000 /* ns; a holder is looked at so often */

struct actor {
    struct hw_policy_thread seen;
    int64_t burst_ns; /* it wants the GIL for so long ... */
    int64_t away_ns;  /* ... and then not for so long; both 0: it computes for ever */
    int64_t deaf_ns;  /* for so long nobody can interrupt it, once it has the GIL */
    int64_t left_ns;  /* of the burst */
    int64_t back_ns;  /* when it wants it again */
    int64_t used_ns;
    int64_t worst_wait_ns;
    long turns;
    bool waits;
};

struct machine {
    const struct hw_policy *policy;
    struct hw_policy_gil gil;
    struct actor actors[MAX_THREADS];
    int count;
    struct actor *holder;
};

static struct machine machine;

static struct actor *first(void) {
    struct actor *found[HW_POLICY_LANES] = {NULL};
    machine.gil.in_lane[0] = machine.gil.in_lane[1] = 0;
    for (int i = 0; i < machine.count; i++) {
        struct actor *one = &machine.actors[i];
        if (one->waits) {
            struct actor **best = &found[one->seen.lane];
            machine.gil.in_lane[one->seen.lane]++;
            if (*best == NULL || one->seen.key < (*best)->seen.key) {
                *best = one;
            }
        }
    }
    if (found[0] != NULL && found[1] != NULL && machine.policy->lane != NULL) {
        return found[machine.policy->lane(&machine.gil)];
    }
    return found[0] != NULL ? found[0] : found[1];
}

static void want(struct actor *one) {
    first();
    one->waits = true;
    one->seen.ready_ns = machine.gil.now_ns;
    machine.policy->ready(&machine.gil, &one->seen);
    first();
}

static void let_go(bool forced) {
    struct actor *one = machine.holder;
    int64_t held = machine.gil.now_ns - one->seen.acquired_ns;
    one->seen.used_ns += held;
    one->seen.run_ns += held;
    one->seen.flags = (one->seen.flags & ~HW_THREAD_FORCED) | (forced ? HW_THREAD_FORCED : 0);
    if (machine.policy->released != NULL) {
        machine.policy->released(&machine.gil, &one->seen, held);
    }
    one->seen.released_ns = machine.gil.now_ns;
    machine.holder = NULL;
    machine.gil.holder = NULL;
    if (forced) {
        want(one);
    } else {
        one->seen.burst_ns += (one->seen.run_ns - one->seen.burst_ns) / 4;
        one->seen.run_ns = 0;
        one->back_ns = machine.gil.now_ns + one->away_ns;
    }
}

static void take(struct actor *one) {
    int64_t wait = machine.gil.now_ns - one->seen.ready_ns;
    one->worst_wait_ns = wait > one->worst_wait_ns ? wait : one->worst_wait_ns;
    one->waits = false;
    one->turns++;
    one->seen.acquired_ns = machine.gil.now_ns;
    machine.holder = one;
    machine.gil.holder = &one->seen;
    first();
    if (machine.policy->acquired != NULL) {
        machine.policy->acquired(&machine.gil, &one->seen);
    }
}

static void begin(const struct hw_policy *policy) {
    memset(&machine, 0, sizeof machine);
    machine.policy = policy;
    machine.gil.now_ns = 1000 * MS;
    machine.gil.interval_ns = 5 * MS;
    for (int i = 0; policy->options[i].name != NULL; i++) {
        machine.gil.options[i] = policy->options[i].preset;
    }
}

static struct actor *add(int64_t burst_ns, int64_t away_ns) {
    struct actor *one = &machine.actors[machine.count++];
    one->burst_ns = one->left_ns = burst_ns;
    one->away_ns = away_ns;
    return one;
}

static void run(int64_t span_ns) {
    for (int64_t end = machine.gil.now_ns + span_ns; machine.gil.now_ns < end;
         machine.gil.now_ns += STEP) {
        for (int i = 0; i < machine.count; i++) {
            struct actor *one = &machine.actors[i];
            if (!one->waits && one != machine.holder && one->back_ns <= machine.gil.now_ns) {
                one->left_ns = one->burst_ns;
                want(one);
            }
        }
        struct actor *holder = machine.holder;
        struct actor *next = first();
        if (holder != NULL) {
            holder->used_ns += STEP;
            holder->left_ns -= STEP;
            if (holder->burst_ns != 0 && holder->left_ns <= 0) {
                let_go(false);
            } else if (next != NULL &&
                       machine.gil.now_ns - holder->seen.acquired_ns >= holder->deaf_ns &&
                       machine.policy->patience(&machine.gil, &next->seen, &holder->seen) <= 0) {
                let_go(true);
            }
        }
        if (machine.holder == NULL && (next = first()) != NULL) {
            take(next);
        }
    }
}

static double share(const struct actor *one, int64_t span_ns) {
    return (double)one->used_ns / (double)span_ns;
}

#define SPAN (4000LL * MS)

/* Threads that compute share the GIL evenly under every policy. */
static void test_even_shares(void) {
    for (int i = 0; hw_policy_at(i) != NULL; i++) {
        for (int threads = 1; threads <= 8; threads *= 2) {
            begin(hw_policy_at(i));
            for (int j = 0; j < threads; j++) {
                add(0, 0);
            }
            run(SPAN);
            for (int j = 0; j < threads; j++) {
                T_TRUE(share(&machine.actors[j], SPAN) > 0.9 / threads);
            }
        }
    }
}

/* Eight threads that compute: nobody waits for longer than 50 ms under `fair`. */
static void test_no_long_wait(void) {
    begin(&hw__policy_fair);
    for (int j = 0; j < 8; j++) {
        add(0, 0);
    }
    run(SPAN);
    for (int j = 0; j < 8; j++) {
        T_TRUE(machine.actors[j].worst_wait_ns <= 50LL * MS);
    }
}

/* Nor for much longer beside one that comes and goes in phases, and so takes more from one's turn
 * than from another's. */
static void test_no_long_wait_beside_phases(void) {
    static const struct {
        int64_t burst_ns, away_ns, phase_ns;
    } phases[] = {{20000, 20000, 60 * MS},
                  {20000, 60000, 20 * MS},
                  {20000, 20000, 5 * MS},
                  {500000, 500000, 20 * MS}};
    for (int threads = 4; threads <= 8; threads += 4) {
        for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
            begin(&hw__policy_fair);
            struct actor *phased = add(phases[i].burst_ns, phases[i].away_ns);
            for (int j = 0; j < threads; j++) {
                add(0, 0);
            }
            for (int j = 0; j < 40; j++) {
                int64_t some_ns = phases[i].phase_ns * (1 + j * 7 % 10) / 5;
                run(some_ns);
                if (!phased->waits && machine.holder != phased) {
                    phased->back_ns = machine.gil.now_ns + some_ns;
                }
                run(some_ns);
            }
            double sum = 0, squares = 0;
            for (int j = 1; j <= threads; j++) {
                double used = (double)machine.actors[j].used_ns;
                T_TRUE(machine.actors[j].worst_wait_ns <= 75LL * MS);
                sum += used;
                squares += used * used;
            }
            T_TRUE(sum * sum / (threads * squares) > 0.99);
        }
    }
}

/* One that wants the GIL for 20 us every millisecond, beside four that compute: under stock each of
 * its waits is of several intervals, under the others it hardly waits. */
static void test_prompt(void) {
    static const struct hw_policy *const prompt[] = {&hw__policy_fair, &hw__policy_priority,
                                                     &hw__policy_bfs};
    begin(&hw__policy_stock);
    struct actor *small = add(20000, MS);
    for (int j = 0; j < 4; j++) {
        add(0, 0);
    }
    run(SPAN);
    T_TRUE(small->turns < SPAN / (15 * MS));
    for (int i = 0; i < 3; i++) {
        begin(prompt[i]);
        small = add(20000, MS);
        for (int j = 0; j < 4; j++) {
            add(0, 0);
        }
        run(SPAN);
        T_TRUE(small->turns > SPAN / MS * 8 / 10);
    }
}

/* T1 of bpo-7946, "cpued": it computes for 1 ms and lets go for next to nothing, for ever, beside
 * two that compute. `fair` and `bfs` give everyone a third; `priority` starves the two. */
static void test_cpued(void) {
    static const struct hw_policy *const fair[] = {&hw__policy_fair, &hw__policy_bfs};
    for (int i = 0; i < 2; i++) {
        begin(fair[i]);
        add(MS, 2 * STEP);
        add(0, 0);
        add(0, 0);
        run(SPAN);
        for (int j = 0; j < 3; j++) {
            T_TRUE(share(&machine.actors[j], SPAN) > 0.8 / 3);
        }
    }
    begin(&hw__policy_priority);
    add(MS, 2 * STEP);
    add(0, 0);
    add(0, 0);
    run(SPAN);
    T_TRUE(share(&machine.actors[1], SPAN) < 0.1);
}

/* T2: 4 and 16 such threads of 0.8 ms beside one that computes: everyone gets 0.8 of its fair share
 * or more under `fair`. */
static void test_many_fakes(void) {
    for (int fakes = 4; fakes <= 16; fakes *= 4) {
        begin(&hw__policy_fair);
        for (int j = 0; j < fakes; j++) {
            add(800000, 2 * STEP);
        }
        add(0, 0);
        run(SPAN);
        for (int j = 0; j <= fakes; j++) {
            T_TRUE(share(&machine.actors[j], SPAN) > 0.8 / (fakes + 1));
        }
    }
}

/* Who slept for long does not come back with the right to all of the time it missed. */
static void test_bounded_credit(void) {
    begin(&hw__policy_fair);
    struct actor *sleeper = add(500LL * MS, 0);
    struct actor *other = add(0, 0);
    sleeper->back_ns = machine.gil.now_ns + 2000LL * MS;
    run(2000LL * MS);
    T_EQ(0, sleeper->used_ns);
    int64_t before = other->used_ns;
    run(200LL * MS);
    T_TRUE(other->used_ns - before > 80LL * MS);
}

/* Who held for seconds in a call that nobody could interrupt does not wait for as long as all the
 * others did. */
static void test_bounded_debt(void) {
    begin(&hw__policy_fair);
    struct actor *caller = add(0, 0);
    for (int j = 0; j < 3; j++) {
        add(0, 0);
    }
    run(500LL * MS);
    while (machine.holder != caller) {
        run(STEP);
    }
    machine.gil.now_ns += 5000LL * MS;
    let_go(true);
    caller->worst_wait_ns = 0;
    run(SPAN);
    T_TRUE(caller->worst_wait_ns > 40LL * MS);
    T_TRUE(caller->worst_wait_ns < 150LL * MS);
}

/* Among a crowd that always wants the GIL, each for a little, neither: it waits until each of them
 * has come as far as it, and that is so many times its debt. */
static void test_bounded_debt_in_a_crowd(void) {
    begin(&hw__policy_fair);
    struct actor *caller = add(20LL * MS, 0);
    caller->deaf_ns = 20LL * MS;
    while (machine.count < CROWD) {
        add(2 * STEP, STEP);
    }
    run(2000LL * MS);
    T_TRUE(caller->turns > 2);
    T_TRUE(caller->worst_wait_ns > 42LL * MS);
    T_TRUE(caller->worst_wait_ns < 600LL * MS);
}

/* A priority is worth GIL time: five steps are about a factor of three. */
static void test_priority_hint(void) {
    begin(&hw__policy_fair);
    struct actor *favoured = add(0, 0), *other = add(0, 0);
    favoured->seen.priority = -5;
    run(SPAN);
    double ratio = (double)favoured->used_ns / (double)other->used_ns;
    T_TRUE(ratio > 2.5 && ratio < 3.7);
    /* Also of a thread in C calls that last longer than its slice. */
    begin(&hw__policy_fair);
    struct actor *usual = add(0, 0), *background = add(0, 0);
    background->seen.priority = 10; /* a weight of 108 to 1024 */
    background->deaf_ns = 42LL * MS;
    run(2 * SPAN);
    ratio = (double)usual->used_ns / (double)background->used_ns;
    T_TRUE(ratio > 7.5 && ratio < 11.5);
    T_EQ(1024, hw_policy_weight(0));
    T_TRUE(hw_policy_weight(19) > 0);
    T_TRUE(hw_policy_weight(-20) < 100000);
}

/* Who is urgent goes before others that need as little. */
static void test_urgent_hint(void) {
    begin(&hw__policy_fair);
    struct actor *plain = add(0, 0), *urgent = add(0, 0), *holder = add(0, 0);
    urgent->seen.flags = HW_THREAD_URGENT;
    want(holder);
    take(holder);
    machine.gil.now_ns += MS;
    want(plain);
    want(urgent);
    T_TRUE(urgent->seen.key < plain->seen.key);
    T_TRUE(machine.policy->patience(&machine.gil, &urgent->seen, &holder->seen) <= 0);
}

/* Every policy is complete, its options are in order, and names find it. */
static void test_registry(void) {
    char problem[200];
    int count = 0;
    for (; hw_policy_at(count) != NULL; count++) {
        const struct hw_policy *policy = hw_policy_at(count);
        T_EQ(HW_POLICY_ABI, policy->abi);
        T_TRUE(policy->about[0] != '\0' && policy->good_for[0] != '\0' &&
               policy->bad_at[0] != '\0');
        T_TRUE(hw_policy_find(policy->name, problem, sizeof problem) == policy);
        for (const struct hw_policy_option *one = policy->options; one->name != NULL; one++) {
            T_TRUE(one - policy->options < HW_POLICY_MAX_OPTIONS);
            T_TRUE(one->least <= one->preset && one->preset <= one->most);
        }
    }
    T_EQ(4, count);
    T_TRUE(hw_policy_at(0) == &hw__policy_fair);
    T_TRUE(hw_policy_at(-1) == NULL);
    T_TRUE(hw_policy_find("nobody", problem, sizeof problem) == NULL);
    T_TRUE(strstr(problem, "nobody") != NULL);
    T_TRUE(hw_policy_find("/nowhere/x.so", problem, sizeof problem) == NULL);
    T_TRUE(strstr(problem, "/nowhere/x.so") != NULL);
}

int main(void) {
    t_start();
    T_RUN(test_registry);
    T_RUN(test_even_shares);
    T_RUN(test_no_long_wait);
    T_RUN(test_no_long_wait_beside_phases);
    T_RUN(test_prompt);
    T_RUN(test_cpued);
    T_RUN(test_many_fakes);
    T_RUN(test_bounded_credit);
    T_RUN(test_bounded_debt);
    T_RUN(test_bounded_debt_in_a_crowd);
    T_RUN(test_priority_hint);
    T_RUN(test_urgent_hint);
    return 0;
}
