// SPDX-License-Identifier: MIT
/* CPython's own behaviour, carried out by Headway: the reference with which the other policies are
 * compared. The thread that has waited longest goes next (the C library's condition variables wake
 * threads in about that order), and a request is made after a switch interval (take_gil() in
 * Python/ceval_gil.c). */
#include "policy/policies.h"

static void ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    thread->key = hw__policy_turn(gil);
}

static const struct hw_policy_option options[] = {{.name = NULL}};

const struct hw_policy hw__policy_stock = {
    .abi = HW_POLICY_ABI,
    .flags = HW_POLICY_PLAIN,
    .name = "stock",
    .about = "what CPython does by itself, done by us: first come, first served, each waits a "
             "switch interval before it asks",
    .good_for = "teaching, and a reference: what the hooks themselves cost",
    .bad_at = "threads that do I/O beside threads that compute: the convoy effect",
    .options = options,
    .ready = ready,
    .patience = hw__policy_interval,
};
