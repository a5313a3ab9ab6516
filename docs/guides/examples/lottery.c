/* A custom policy: a lottery. The waiter that draws the lowest number runs next, and each turn
 * lasts at most 2 ms. Build it against headway's public header, and name it by its path:
 *
 *     cc -shared -fPIC -O2 -I "$(headway policies --include)" -o lottery.so lottery.c
 *     headway run --policy ./lottery.so app.py
 */
#include <headway/policy.h>

enum { TURN };

/* xorshift. `own` belongs to the policy, and is zero at first. */
static int64_t draw(struct hw_policy_gil *gil) {
    uint64_t state = gil->own[0] == 0 ? 88172645463325252u : (uint64_t)gil->own[0];
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    gil->own[0] = (int64_t)state;
    return (int64_t)(state >> 1);
}

static void ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    thread->key = draw(gil);
}

static void acquired(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    (void)gil, (void)thread;
}

static void released(struct hw_policy_gil *gil, struct hw_policy_thread *thread, int64_t held_ns) {
    (void)gil, (void)thread, (void)held_ns;
}

static int64_t patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder) {
    (void)waiter;
    return holder->acquired_ns + gil->options[TURN] * 1000 - gil->now_ns;
}

static const struct hw_policy_option options[] = {
    {"turn_us", 100, 1000000, 2000, "how long a winner keeps the GIL at most"},
    {.name = NULL},
};

const struct hw_policy headway_policy = {
    .abi = HW_POLICY_ABI,
    .name = "lottery",
    .about = "who draws the lowest number goes next",
    .good_for = "showing how a policy is made",
    .bad_at = "waits that are to be short: luck decides",
    .options = options,
    .ready = ready,
    .acquired = acquired,
    .released = released,
    .patience = patience,
};
