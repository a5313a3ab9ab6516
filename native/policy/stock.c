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
    .about = "CPython's own rules, carried out by Headway: first come, first served; each waiter "
             "makes its request after a switch interval",
    .good_for = "teaching, and as a reference for the cost of the hooks themselves",
    .bad_at = "I/O-bound threads beside CPU-bound threads: the convoy effect",
    .options = options,
    .ready = ready,
    .patience = hw__policy_interval,
};
