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

void hw__yield_in_vain(struct hw__runner *self, int64_t yield_ns) {
    if (yield_ns > HW__LONG_YIELD_NS) {
        self->no_yield_until_ns = hw_now_ns() + HW__LONG_YIELD_SHARE * yield_ns;
    }
}
