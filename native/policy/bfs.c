// SPDX-License-Identifier: MIT
/* Virtual deadlines. A thread gets a time slice and with it a deadline. The thread with the
 * earliest deadline goes next; a waiter whose deadline is earlier than the holder's preempts it at
 * once. A thread gets a new slice, with a later deadline, only when the old one is used up: it does
 * not earn one by sleeping.
 *
 * The policy is Nir Aides's bfs.patch (bpo-7946, msg101612), after Con Kolivas's BFS. */
#include "policy/policies.h"

#define SLICE 0

#define DEADLINE own[0]
#define LEFT own[1]

static void refill(const struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    int64_t slice_ns = gil->options[SLICE] * 1000;
    thread->LEFT = slice_ns;
    thread->DEADLINE = gil->now_ns + slice_ns * 1024 / hw_policy_weight(thread->priority);
}

static void ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    if (thread->LEFT <= 0) {
        refill(gil, thread);
    }
    thread->key = thread->DEADLINE;
}

static void acquired(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    if (thread->LEFT <= 0) {
        refill(gil, thread); /* its first hold, for which it did not have to wait */
    }
}

static void released(struct hw_policy_gil *gil, struct hw_policy_thread *thread, int64_t held_ns) {
    (void)gil;
    thread->LEFT -= held_ns;
}

static int64_t patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder) {
    if (waiter->DEADLINE < holder->DEADLINE) {
        return 0;
    }
    return holder->LEFT - (gil->now_ns - holder->acquired_ns);
}

static const struct hw_policy_option options[] = {
    {"slice_us", 100, 1000000, 10000, "GIL time that a thread gets with one deadline"},
    {.name = NULL},
};

const struct hw_policy hw__policy_bfs = {
    .abi = HW_POLICY_ABI,
    .name = "bfs",
    .about = "virtual deadlines: the earliest goes next; a thread gets a new slice only when its "
             "slice is used up (Aides)",
    .good_for = "teaching: what one virtual deadline for all threads does",
    .bad_at = "threads that use much of their slices between calls: they wait for the slices of "
              "all others",
    .options = options,
    .ready = ready,
    .acquired = acquired,
    .released = released,
    .patience = patience,
};
