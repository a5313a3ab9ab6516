// SPDX-License-Identifier: MIT
#include "schedule/watchdog.h"

#define MS INT64_C(1000000)

/* A policy is at fault if waiters wake up by themselves and find the GIL free, with nobody called,
 * more than this many times before another thread wakes a waiter. */
#define MISSED_MOST 200

/* A thread starves if, while it waits, the GIL is released more than this many times for each
 * thread that wants it. */
#define STARVED_TURNS 20

/* A thread that holds the GIL for longer than this, though requested, is in a call in C. */
#define STUCK_NS (100 * MS)

int64_t hw__watchdog_stuck_ns(int64_t held_ns) { return held_ns > STUCK_NS ? held_ns : 0; }

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* Returns the wait after which the thread may count as starved. A thread of lower priority than
 * another one rightly waits longer, in proportion to their weights. */
static int64_t starves_after(const struct hw__ledger *ledger, const struct hw__waiter *waiter,
                             int64_t limit_ns) {
    /* Threads of priority 0 count as present: they may have left before the watchdog looks. */
    int32_t most_favoured = 0;
    if (ledger->holder != NULL && ledger->holder->seen.priority < most_favoured) {
        most_favoured = ledger->holder->seen.priority;
    }
    for (int lane = 0; lane < HW_POLICY_LANES; lane++) {
        for (uint32_t i = 0; i < ledger->lanes[lane].count; i++) {
            int32_t priority = ledger->lanes[lane].members[i]->seen.priority;
            most_favoured = priority < most_favoured ? priority : most_favoured;
        }
    }
    int64_t others = hw_policy_weight(most_favoured);
    int64_t own = hw_policy_weight(waiter->seen.priority);
    return others > own ? limit_ns * others / own : limit_ns;
}

void hw__watchdog_next_span(struct hw__ledger *ledger, int64_t span) {
    struct hw__crowd *crowd = &ledger->crowd;
    int64_t first = later(crowd->span + 1, span - HW__CROWD_SPANS + 1);
    for (int64_t i = first; i <= span; i++) {
        /* No thread has begun to wait in these spans; some may have left. */
        crowd->most[i % HW__CROWD_SPANS] = hw__ledger_waiting(ledger);
    }
    crowd->span = span;
}

/* Returns the largest number of threads that waited at one time since then. */
static uint32_t most_since(const struct hw__ledger *ledger, int64_t since_ns) {
    const struct hw__crowd *crowd = &ledger->crowd;
    uint32_t most = hw__ledger_waiting(ledger);
    int64_t oldest = crowd->span - HW__CROWD_SPANS + 1;
    for (int64_t i = later(oldest, since_ns >> HW__CROWD_SHIFT); i <= crowd->span; i++) {
        uint32_t one = crowd->most[i % HW__CROWD_SPANS];
        most = one > most ? one : most;
    }
    return most;
}

/* Returns the number of releases of the GIL after which this waiter may count as starved. */
static uint64_t starves_after_releases(const struct hw__ledger *ledger,
                                       const struct hw__waiter *waiter) {
    return STARVED_TURNS * ((uint64_t)most_since(ledger, waiter->seen.ready_ns) + 1);
}

/* Returns for how long waiters have seen that the request is late. The caller is one that makes it
 * next, unless the policy says otherwise. Must be called at each look: the first one that finds the
 * request late is noted, and the time counts from there. */
static int64_t overdue_ns(struct hw__ledger *ledger, int64_t now_ns) {
    struct hw__request *request = &ledger->request;
    if (request->made) {
        return 0;
    }
    if (request->by_ns == HW_NEVER) {
        return HW_NEVER;
    }
    if (request->by_ns == 0 || now_ns <= request->by_ns) {
        return 0;
    }
    if (request->late_ns == 0) {
        request->late_ns = now_ns;
    }
    return now_ns - later(request->late_ns, ledger->went_on_ns);
}

const char *hw__watchdog_finds(struct hw__ledger *ledger, const struct hw__waiter *waiter,
                               int64_t now_ns, bool locked) {
    int64_t limit_ns = ledger->settings.watchdog_ns;
    if (limit_ns <= 0) {
        return NULL;
    }
    int64_t late_for_ns = overdue_ns(ledger, now_ns);
    int64_t waited_ns = now_ns - later(waiter->seen.ready_ns, ledger->went_on_ns);
    if (waited_ns > limit_ns) {
        const struct hw__waiter *holder = ledger->holder;
        int64_t since_ns = holder == NULL ? ledger->stranger_ns : holder->seen.acquired_ns;
        int64_t held_ns = since_ns == 0 ? 0 : now_ns - later(since_ns, ledger->went_on_ns);
        /* The policy is not to blame for the time that a thread spends, or has spent, in a long
         * call in C that cannot release the GIL. */
        int64_t excused_ns = ledger->stuck_ns - waiter->stuck_ns;
        excused_ns += ledger->request.made ? hw__watchdog_stuck_ns(held_ns) : held_ns;
        if (ledger->releases - waiter->releases > starves_after_releases(ledger, waiter) &&
            waited_ns - excused_ns > starves_after(ledger, waiter, limit_ns)) {
            return "it let a thread starve";
        }
        /* A long patience that the program or its user has chosen (a switch interval, an option) is
         * no fault. A patience without end, or one that is put off again and again, is a fault. */
        if (held_ns > limit_ns && late_for_ns > limit_ns) {
            return "it lets no thread request the GIL";
        }
    }
    if (!locked && ledger->called == NULL && ledger->phase != HW__PHASE_GRACE &&
        ++ledger->missed > MISSED_MOST) {
        return "it does not wake the waiters";
    }
    return NULL;
}
