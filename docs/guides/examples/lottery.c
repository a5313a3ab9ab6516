/* A custom policy: a lottery. At each hand-over, every waiter has a chance to run next that grows
 * with its weight (thread_priority()), and each turn lasts at most 2 ms. Build it against headway's
 * public header, and name it by its path:
 *
 *     cc -shared -fPIC -O2 -I "$(headway policies --include)" -o lottery.so lottery.c
 *     headway run --policy ./lottery.so app.py
 *
 * A policy gives a waiter its key once, when the wait begins. The lottery yet draws anew at each
 * hand-over, because the exponential distribution has no memory. The key is the time at which the
 * waiter's bell rings, on a clock that stands at the key of the last winner. The bell that rings
 * next wins. How long ago a waiter set its bell does not change how soon the bell rings from now
 * on, so waiters of equal weight have equal chances, whether they are new or have waited. A key
 * without the clock would let the newcomers win: a waiter with a late key would wait for ever. */
#include <headway/policy.h>

enum { TURN };          /* options */
enum { RANDOM, CLOCK }; /* gil->own, which is zero at first */

/* The mean time until a bell rings, for priority 0. */
#define MEAN ((int64_t)1 << 20)

/* Returns a number from 0 to MEAN - 1, by xorshift. */
static int64_t draw(struct hw_policy_gil *gil) {
    uint64_t state = gil->own[RANDOM] == 0 ? 88172645463325252u : (uint64_t)gil->own[RANDOM];
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    gil->own[RANDOM] = (int64_t)state;
    return (int64_t)(state >> 20) % MEAN;
}

/* Returns an exponentially distributed number with the mean MEAN. Draws numbers as long as they
 * fall: if the first rise comes after an odd number of them, the first one is the fraction, else
 * the result is larger by one MEAN, and the draw is repeated (von Neumann, 1951). */
static int64_t until_the_bell(struct hw_policy_gil *gil) {
    for (int64_t whole = 0;; whole += MEAN) {
        int64_t first = draw(gil), last = first, next;
        int falling = 1;
        for (; (next = draw(gil)) < last; last = next) {
            falling++;
        }
        if (falling % 2 == 1) {
            return whole + first;
        }
    }
}

static void ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    int64_t weight = hw_policy_weight(thread->priority); /* 1024 for priority 0 */
    thread->key = gil->own[CLOCK] + until_the_bell(gil) * 1024 / weight;
}

static void acquired(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    if (gil->own[CLOCK] < thread->key) {
        gil->own[CLOCK] = thread->key;
    }
}

static int64_t patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder) {
    (void)waiter;
    return holder->acquired_ns + gil->options[TURN] * 1000 - gil->now_ns;
}

static const struct hw_policy_option options[] = {
    {"turn_us", 100, 1000000, 2000, "the longest time for which a winner keeps the GIL"},
    {.name = NULL},
};

const struct hw_policy headway_policy = {
    .abi = HW_POLICY_ABI,
    .name = "lottery",
    .about = "each hand-over draws the next thread by lot",
    .good_for = "showing how a policy is made",
    .bad_at = "waits that must be short: luck decides",
    .options = options,
    .ready = ready,
    .acquired = acquired,
    .patience = patience,
};
