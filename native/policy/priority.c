// SPDX-License-Identifier: MIT
/* Two classes of threads, told apart by a thread's last release. A thread that was preempted is
 * CPU-bound. A thread that released the GIL by itself is I/O-bound, and so is each new thread.
 * I/O-bound threads go before CPU-bound threads and preempt them at once. Threads of the same class
 * wait a switch interval for each other.
 *
 * The policy is from David Beazley, "Revisiting thread priorities and the new GIL" (2010), and
 * bpo-7946. */
#include "policy/policies.h"

#define COMPUTING (INT64_C(1) << 62)

static bool computes(const struct hw_policy_thread *thread) {
    return (thread->flags & HW_THREAD_FORCED) != 0;
}

static void ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    thread->key = hw__policy_turn(gil) + (computes(thread) ? COMPUTING : 0);
}

static int64_t patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder) {
    bool preempts = !computes(waiter) && computes(holder);
    return preempts ? 0 : hw__policy_interval(gil, waiter, holder);
}

static const struct hw_policy_option options[] = {{.name = NULL}};

const struct hw_policy hw__policy_priority = {
    .abi = HW_POLICY_ABI,
    .name = "priority",
    .about = "two classes: threads that yield the GIL come before threads that are preempted "
             "(Beazley)",
    .good_for = "teaching: a few threads with little work beside CPU-bound threads",
    .bad_at = "CPU-bound threads: busy servers and threads that yield often starve them, and pools "
              "with many small pieces of work slow them down",
    .options = options,
    .ready = ready,
    .patience = patience,
};
