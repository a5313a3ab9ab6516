// SPDX-License-Identifier: MIT
/* Looks after a policy from outside: by the eyes of waiters that wake by themselves. */
#ifndef HEADWAY_SCHEDULE_WATCHDOG_H
#define HEADWAY_SCHEDULE_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#include "schedule/ledger.h"

/* Of a hold, what no policy is to blame for: all of it where it is so long that it must be a call
 * of C that cannot let go. */
int64_t hw__watchdog_stuck_ns(int64_t held_ns);

/* For hw__watchdog_crowd(): what comes belongs to a later span. */
void hw__watchdog_next_span(struct hw__ledger *ledger, int64_t span);

/* So many wait now, or want to: they are remembered for those that have to wait for all of them,
 * and find few left when they look. */
static inline void hw__watchdog_crowd(struct hw__ledger *ledger, uint32_t waiting, int64_t now_ns) {
    struct hw__crowd *crowd = &ledger->crowd;
    int64_t span = now_ns >> HW__CROWD_SHIFT;
    uint32_t *most = &crowd->most[span % HW__CROWD_SPANS];
    if (span != crowd->span) {
        hw__watchdog_next_span(ledger, span);
    }
    if (*most < waiting) {
        *most = waiting;
    }
}

/* What is wrong with the policy, found by a waiter that has slept and was not called; NULL:
 * nothing. `locked`: somebody has the GIL. */
const char *hw__watchdog_finds(struct hw__ledger *ledger, const struct hw__waiter *waiter,
                               int64_t now_ns, bool locked);

#endif
