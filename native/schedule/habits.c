// SPDX-License-Identifier: MIT
#include "schedule/habits.h"

#define US 1000

/* A thread that usually holds the GIL for less than this time, from one yield to the next, has
 * short holds: it is expected to release the GIL at any moment. */
#define SHORT_NS (60 * US)

/* A holder that usually holds the GIL for no longer than this, from one yield to the next, is given
 * the time to release it by itself. */
#define MODERATE_NS (300 * US)

/* A thread that holds the GIL for longer than this from one yield to the next is CPU-bound. The
 * value is CPython's default switch interval, after which CPython preempts. A request of a web
 * server takes less. */
#define COMPUTES_NS (5000 * US)

/* The longest time away that is told apart: whatever is longer counts as this. */
#define AWAY_NS (50 * US)

/* For each of the last three releases, `past` keeps one of three kinds in two bits: the thread was
 * back within SOONEST_NS, which is less than a hand-off takes (a receive that finds its data); it
 * was back within AT_ONCE_NS; or it was away for longer. */
#define SOONEST_NS 2500
#define PAST_MASK (HW__PASTS - 1u)

bool hw__habits_short(const struct hw__ledger *ledger, const struct hw__waiter *waiter) {
    int64_t run_ns = waiter->seen.run_ns;
    if (waiter == ledger->holder) {
        run_ns += ledger->view.now_ns - waiter->seen.acquired_ns;
    }
    return waiter->seen.burst_ns < SHORT_NS && run_ns < SHORT_NS;
}

/* Returns the next value of a two-bit saturating counter, of which 2 and 3 mean yes. */
static uint8_t confirm(uint8_t guess, bool yes) {
    if (yes) {
        return guess < 3 ? guess + 1 : 3;
    }
    return guess > 0 ? guess - 1 : 0;
}

void hw__habits_learn(struct hw__waiter *waiter, int64_t now) {
    if (waiter->left_ns != 0) {
        bool forced = now - waiter->left_ns < 2 * AT_ONCE_NS;
        waiter->forced = confirm(waiter->forced, forced);
        waiter->left_ns = 0;
        if (!forced) {
            waiter->stage = HW__STAGE_AWAY; /* it did not want the GIL right after the hand-off */
        }
    }
    if (!hw__waiter_waits(waiter) && waiter->seen.released_ns != 0 &&
        (waiter->seen.flags & HW_THREAD_FORCED) == 0) {
        int64_t away_ns = now - waiter->seen.released_ns;
        away_ns = away_ns < AWAY_NS ? away_ns : AWAY_NS;
        uint16_t *guess = &waiter->away_ns[waiter->past & PAST_MASK];
        *guess = (uint16_t)((*guess + away_ns) / 2);
        int kind = away_ns < SOONEST_NS ? 0 : away_ns < AT_ONCE_NS ? 1 : 2;
        waiter->past = (uint8_t)(waiter->past << 2 | kind);
    }
}

static bool holds_for(const struct hw__waiter *waiter, int64_t than_ns) {
    return waiter->seen.burst_ns > than_ns || waiter->seen.run_ns > than_ns;
}

bool hw__habits_computes(const struct hw__waiter *waiter) { return holds_for(waiter, COMPUTES_NS); }

int64_t hw__habits_lets_go_after(const struct hw__waiter *holder) {
    return holds_for(holder, MODERATE_NS) ? 0 : MODERATE_NS;
}

int64_t hw__habits_away_ns(const struct hw__waiter *waiter) {
    return waiter->away_ns[waiter->past & PAST_MASK];
}

void hw__habits_forget(struct hw__waiter *waiter) {
    waiter->forced = 0;
    waiter->left_ns = 0;
    waiter->past = 0;
    for (unsigned i = 0; i <= PAST_MASK; i++) {
        waiter->away_ns[i] = AWAY_NS;
    }
}

bool hw__habits_waits_on(const struct hw__waiter *waiter) { return waiter->forced >= 2; }
