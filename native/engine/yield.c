// SPDX-License-Identifier: MIT
#include "engine/yield.h"

#include <sched.h>

#include "base/allowed.h"
#include "headway/clock.h"
#include "schedule/carry_out.h"

int64_t hw__yield(struct hw__runner *self) {
    int64_t before_ns = hw_now_ns();
    if (before_ns < self->no_yield_until_ns || !hw__allowed(HW__CALL_YIELD)) {
        return 0;
    }
    sched_yield();
    return hw_now_ns() - before_ns;
}

int64_t hw__give_way(struct hw__runner *self) {
    int64_t until_ns = atomic_load_explicit(&self->gives_way_until_ns, memory_order_relaxed);
    return until_ns != 0 && hw_now_ns() < until_ns ? hw__yield(self) : 0;
}

void hw__yield_in_vain(struct hw__runner *self, int64_t yield_ns) {
    if (yield_ns > HW__LONG_YIELD_NS) {
        self->no_yield_until_ns = hw_now_ns() + HW__LONG_YIELD_SHARE * yield_ns;
    }
}
