// SPDX-License-Identifier: MIT
#include "schedule/watchdog.h"

#define MS INT64_C(1000000)

/* So often in a row, a waiter that finds the GIL free by itself is no accident. */
#define MISSED_MOST 200

/* A thread starves when each of those that want the GIL could have had it so often while it
 * waited. */
#define STARVED_TURNS 20

/* Who holds for longer, though asked, is in a call of C. */
#define STUCK_NS (100 * MS)

int64_t hw__watchdog_stuck_ns(int64_t held_ns) { return held_ns > STUCK_NS ? held_ns : 0; }

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* Who is less urgent than another one waits for longer, and rightly so. */
static int64_t starves_after(const struct hw__ledger *ledger, const struct hw__waiter *waiter,
                             int64_t limit_ns) {
    int32_t least = 0; /* of those that come and go, too, that we do not see here */
    if (ledger->holder != NULL && ledger->holder->seen.priority < least) {
        least = ledger->holder->seen.priority;
    }
    for (int lane = 0; lane < HW_POLICY_LANES; lane++) {
        for (uint32_t i = 0; i < ledger->lanes[lane].count; i++) {
            int32_t priority = ledger->lanes[lane].members[i]->seen.priority;
            least = priority < least ? priority : least;
        }
    }
    int64_t others = hw_policy_weight(least), own = hw_policy_weight(waiter->seen.priority);
    return others > own ? limit_ns * others / own : limit_ns;
}

void hw__watchdog_next_span(struct hw__ledger *ledger, int64_t span) {
    struct hw__crowd *crowd = &ledger->crowd;
    int64_t first = later(crowd->span + 1, span - HW__CROWD_SPANS + 1);
    for (int64_t i = first; i <= span; i++) {
        crowd->most[i % HW__CROWD_SPANS] =
            hw__ledger_waiting(ledger); /* nobody came, some may have gone */
    }
    crowd->span = span;
}

/* The most that waited at once since then. */
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

/* Of the GIL, from which on this waiter is left out. */
static uint64_t starves_after_releases(const struct hw__ledger *ledger,
                                       const struct hw__waiter *waiter) {
    return STARVED_TURNS * ((uint64_t)most_since(ledger, waiter->seen.ready_ns) + 1);
}

const char *hw__watchdog_finds(struct hw__ledger *ledger, const struct hw__waiter *waiter,
                               int64_t now_ns, bool locked) {
    int64_t limit_ns = ledger->settings.watchdog_ns;
    int64_t waited_ns = now_ns - later(waiter->seen.ready_ns, ledger->went_on_ns);
    if (limit_ns > 0 && waited_ns > limit_ns) {
        const struct hw__waiter *holder = ledger->holder;
        int64_t since_ns = holder == NULL ? ledger->stranger_ns : holder->seen.acquired_ns;
        int64_t held_ns = since_ns == 0 ? 0 : now_ns - later(since_ns, ledger->went_on_ns);
        /* Neither is so where one thread is in a long call of C that cannot let go, or was. */
        int64_t excused_ns = ledger->stuck_ns - waiter->stuck_ns;
        excused_ns += ledger->request.made ? hw__watchdog_stuck_ns(held_ns) : held_ns;
        if (ledger->releases - waiter->releases > starves_after_releases(ledger, waiter) &&
            waited_ns - excused_ns > starves_after(ledger, waiter, limit_ns)) {
            return "it let a thread starve";
        }
        /* A long patience that the program or its user chose (a switch interval, an option) is no
         * fault; one without an end, or that is always put off, is. */
        bool overdue = ledger->request.by_ns == HW_NEVER ||
                       (ledger->request.by_ns != 0 &&
                        now_ns - later(ledger->request.by_ns, ledger->went_on_ns) > limit_ns);
        if (!ledger->request.made && held_ns > limit_ns && overdue) {
            return "it lets nobody ask for the GIL";
        }
    }
    if (!locked && ledger->called == NULL && ledger->phase != HW__PHASE_GRACE &&
        ++ledger->missed > MISSED_MOST) {
        return "it does not wake who waits";
    }
    return NULL;
}
