// SPDX-License-Identifier: MIT
#include "schedule/habits.h"

#define US 1000

/* Who holds the GIL for less than this at a time is left to let it go by itself at first. */
#define SHORT_NS (60 * US)

/* Who mostly lets go by itself within so long is given the time for it. */
#define MODERATE_NS (300 * US)

/* Who holds it for longer computes: CPython's own switch interval, after which it interrupts. A
 * request of a web server takes less. */
#define COMPUTES_NS (5000 * US)

/* A thread that is away for longer is away. */
#define AWAY_NS (50 * US)

/* What is told apart of the last three releases, two bits each: back in less than a hand-over
 * takes (a receive that finds its data), back at once, and away. */
#define SOONEST_NS 2500
#define PAST_MASK (sizeof((struct hw__runner *)NULL)->away_ns / sizeof(uint16_t) - 1)

bool hw__habits_short(const struct hw__sched *sched, const struct hw__runner *runner) {
    int64_t run_ns = runner->seen.run_ns;
    if (runner == sched->holder) {
        run_ns += sched->view.now_ns - runner->seen.acquired_ns;
    }
    return runner->seen.burst_ns < SHORT_NS && run_ns < SHORT_NS;
}

/* A guess from 0 to 3, of which 2 and 3 are a yes. */
static uint8_t confirm(uint8_t guess, bool yes) {
    if (yes) {
        return guess < 3 ? guess + 1 : 3;
    }
    return guess > 0 ? guess - 1 : 0;
}

void hw__habits_learn(struct hw__runner *runner, int64_t now) {
    if (runner->left_ns != 0) {
        bool forced = now - runner->left_ns < 2 * AT_ONCE_NS;
        runner->forced = confirm(runner->forced, forced);
        runner->left_ns = 0;
        if (!forced) {
            runner->waiting = false; /* it did not want the GIL then */
        }
    }
    if (!runner->waiting && runner->seen.released_ns != 0 &&
        (runner->seen.flags & HW_THREAD_FORCED) == 0) {
        int64_t away_ns = now - runner->seen.released_ns;
        away_ns = away_ns < AWAY_NS ? away_ns : AWAY_NS;
        uint16_t *guess = &runner->away_ns[runner->past & PAST_MASK];
        *guess = (uint16_t)((*guess + away_ns) / 2);
        int kind = away_ns < SOONEST_NS ? 0 : away_ns < AT_ONCE_NS ? 1 : 2;
        runner->past = (uint8_t)(runner->past << 2 | kind);
    }
}

static bool holds_for(const struct hw__runner *runner, int64_t than_ns) {
    return runner->seen.burst_ns > than_ns || runner->seen.run_ns > than_ns;
}

bool hw__habits_computes(const struct hw__runner *runner) { return holds_for(runner, COMPUTES_NS); }

int64_t hw__habits_lets_go_after(const struct hw__runner *holder) {
    return holds_for(holder, MODERATE_NS) ? 0 : MODERATE_NS;
}

int64_t hw__habits_away_ns(const struct hw__runner *runner) {
    return runner->away_ns[runner->past & PAST_MASK];
}

void hw__habits_forget(struct hw__runner *runner) {
    runner->forced = 0;
    runner->left_ns = 0;
    runner->past = 0;
    for (unsigned i = 0; i <= PAST_MASK; i++) {
        runner->away_ns[i] = AWAY_NS;
    }
}

bool hw__habits_waits_on(const struct hw__runner *runner) { return runner->forced >= 2; }
