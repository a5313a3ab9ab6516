// SPDX-License-Identifier: MIT
/* The queue of waiters: after every push and removal, the first is the one with the least key, and
 * among equal keys the one that came first. */
#include "schedule/waiters.h"
#include "t.h"

#define MEMBERS 200
#define STEPS 200000

static struct hw__waiter all[MEMBERS];
static struct hw__waiter *room[MEMBERS];

static struct hw__waiter *expected_first(void) {
    struct hw__waiter *first = NULL;
    for (int i = 0; i < MEMBERS; i++) {
        struct hw__waiter *one = &all[i];
        if (one->place == 0) {
            continue;
        }
        if (first == NULL || one->seen.key < first->seen.key ||
            (one->seen.key == first->seen.key && one->order < first->order)) {
            first = one;
        }
    }
    return first;
}

static void test_random(void) {
    struct hw__waiters waiters = {.members = room};
    uint64_t state = 42, order = 0;
    uint32_t in = 0;
    for (int step = 0; step < STEPS; step++) {
        struct hw__waiter *one = &all[t_random(&state) % MEMBERS];
        if (one->place == 0) {
            one->seen.key = (int64_t)(t_random(&state) % 20) - 10; /* many equals */
            one->order = ++order;
            hw__waiters_push(&waiters, one);
            in++;
        } else {
            hw__waiters_remove(&waiters, one);
            T_EQ(0, one->place);
            in--;
        }
        T_EQ(in, waiters.count);
        T_TRUE(hw__waiters_first(&waiters) == expected_first());
    }
    while (waiters.count > 0) {
        hw__waiters_remove(&waiters, hw__waiters_first(&waiters));
        T_TRUE(hw__waiters_first(&waiters) == expected_first());
    }
}

static void test_not_in_it(void) {
    struct hw__waiters waiters = {.members = room};
    struct hw__waiter one = {.place = 0};
    hw__waiters_remove(&waiters, &one);
    T_EQ(0, waiters.count);
    T_TRUE(hw__waiters_first(&waiters) == NULL);
}

int main(void) {
    t_start();
    T_RUN(test_random);
    T_RUN(test_not_in_it);
    return 0;
}
