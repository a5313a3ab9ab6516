// SPDX-License-Identifier: MIT
/* The watchdog: finds faults of a policy. It has no thread of its own; it runs in waiters that wake
 * up by themselves. */
#ifndef HEADWAY_SCHEDULE_WATCHDOG_H
#define HEADWAY_SCHEDULE_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#include "schedule/ledger.h"

/* Returns the part of a hold for which no policy is to blame: all of it if the hold is so long that
 * it must be a call in C that cannot release the GIL, else 0. */
int64_t hw__watchdog_stuck_ns(int64_t held_ns);

/* Begins `span` in the ledger's record of crowds. Called by hw__watchdog_crowd() only. */
void hw__watchdog_next_span(struct hw__ledger *ledger, int64_t span);

/* Records that `waiting` threads now wait or want to. Waiters may leave before the watchdog looks,
 * so the largest number is kept for each span. */
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

/* Looks for a fault of the policy, and counts in `missed` that the waiter woke by itself to a free
 * GIL. The caller is a waiter that has slept and was not called; `locked`: a thread holds the GIL.
 * Returns the fault as a text, or NULL if there is none. */
const char *hw__watchdog_finds(struct hw__ledger *ledger, const struct hw__waiter *waiter,
                               int64_t now_ns, bool locked);

#endif
