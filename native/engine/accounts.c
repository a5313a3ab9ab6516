// SPDX-License-Identifier: MIT
#include "engine/accounts.h"

#include <sched.h>
#include <stdatomic.h>

#include "schedule/decide.h"
#include "schedule/ledger.h"

void hw__accounts_acquired_alone(struct hw__gil *gil, struct hw__sched *sched,
                                 struct hw__runner *runner) {
    hw__ledger_take_alone(&sched->ledger, &runner->waiter, sched_getcpu(),
                          hw__accounts_burst_time(sched, &runner->waiter));
    if (gil->main && hw__decide_rest(&sched->ledger)) {
        hw__sched_rest(gil, sched);
    }
    hw__ledger_check(&sched->ledger);
}

void hw__accounts_early(const struct hw__gil *gil, struct hw__runner *runner) {
    _Atomic int64_t *count = gil->main ? &runner->early : &hw__sched_early_elsewhere;
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}
