// SPDX-License-Identifier: MIT
#include "schedule/habits.h"

#define US 1000

/* Who holds the GIL for less than this at a time is left to let it go by itself at first. */
#define SHORT_NS (60 * US)

/* Who mostly lets go by itself within so long is given the time for it. */
#define MODERATE_NS (300 * US)

/* A call came back at once if it took no longer. */
#define AT_ONCE_NS (12 * US)

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
        bool came = now - runner->seen.released_ns < AT_ONCE_NS;
        uint8_t *guess = &runner->comes_back[runner->past & 15];
        *guess = confirm(*guess, came);
        runner->past = (uint8_t)(runner->past << 1 | came);
    }
}

bool hw__habits_computes(const struct hw__runner *runner) {
    return runner->seen.burst_ns > MODERATE_NS || runner->seen.run_ns > MODERATE_NS;
}

int64_t hw__habits_lets_go_after(const struct hw__runner *holder) {
    return hw__habits_computes(holder) ? 0 : MODERATE_NS;
}

bool hw__habits_back_at_once(const struct hw__runner *runner) {
    return runner->comes_back[runner->past & 15] >= 2;
}

bool hw__habits_waits_on(const struct hw__runner *runner) { return runner->forced >= 2; }
