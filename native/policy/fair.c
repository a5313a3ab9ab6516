// SPDX-License-Identifier: MIT
/* Threads that compute share the GIL evenly, and only they are interrupted.
 *
 * Most programs have no thread that computes, and are best left as they are: their threads hold the
 * GIL for a moment and wait for each other, and an interruption in the middle of that makes the
 * others queue for what the interrupted one has locked. So the policy tells two kinds apart.
 *
 * - A thread computes that holds the GIL for `compute_us` or longer from one call to the next.
 *   Threads that do not come first, in the order of their arrival, and a thread that computes is
 *   asked for the GIL as soon as one of them waits. Among each other they wait for a switch
 *   interval, as without us.
 * - Threads that compute go in turn, by virtual deadlines: a thread's virtual time is the GIL time
 *   that it used, over its weight, and the earliest goes next (Stoica and Abdel-Wahab, "Earliest
 *   eligible virtual deadline first", 1995). The slice is a share of `latency_us`, by the clock.
 *   Who is interrupted keeps its deadline until its slice is used up, and so goes on before others.
 *   They go in turn all the same as long as what they got differs by less than a slice, or one that
 *   was not interrupted would wait for several rounds.
 * - Coming first is not for ever. A thread that takes more than its share of the GIL, though in
 *   small parts, goes in turn with those that compute (the test "cpued" of bpo-7946). What it uses
 *   weighs the less, the more often it lets go (as in sched_ext's scx_flash): a server that is busy
 *   with one call after the other is no such thread.
 * - Those that compute have at least `compute_percent` of the time between them, in turns of
 *   TURN_NS in which nobody interrupts them.
 * - Who slept does not save up: its virtual time is at most `credit_us` behind the others'. Who
 * held for long in one call of C, that nobody could interrupt, pays back two shares of `latency_us`
 * at most: that the others were kept waiting is over. */
#include "policy/policies.h"

enum { LATENCY, LEAST_SLICE, COMPUTE, PERCENT, CREDIT, HOLD, GRACE };

enum { FIRST_LANE, TURN_LANE };

#define VIRTUAL own[0]  /* its virtual time */
#define DEADLINE own[1] /* its virtual deadline */
#define TURN_END own[2] /* when its slice is over; 0: it has not begun */
#define SLICE own[3]    /* how long its turn is to last, by the clock */
#define MARKS own[4]    /* of those below */

#define KNOWN 1    /* it has been here before */
#define COMPUTES 2 /* as of when it last wanted the GIL */
#define OWED_IT 4  /* it has the GIL as the part of those that compute was due */

/* Of the GIL. */
#define ARRIVALS own[0]      /* of threads that come first */
#define LAST own[1]          /* the latest deadline that a thread which computes was given ... */
#define LAST_PRIORITY own[2] /* ... which had this priority */
#define CLOCK own[3]       /* the virtual time that those which compute have come to; grows only */
#define OWED own[4]        /* GIL time that those which compute are to get ... */
#define OWED_AT own[5]     /* ... as of then */
#define COMPUTED_AT own[6] /* when a thread that computes was seen last */

/* Without one for so long there is nothing to do but what CPython does. */
#define IDLE_NS 100000000

/* So much is owed to those that compute before it is given. */
#define TURN_NS 1000000

/* So many shares of `latency_us` may a thread be ahead of the others, however short they are: among
 * thousands it would by the least slice wait for half a minute until all had come as far. */
#define MOST_DEBT_SHARES 2

/* The least that a thread is expected to need: those that need less are equals. */
#define LEAST_NEED_NS 50000

/* What a thread uses that holds for less than that at a time counts for less, in proportion, down
 * to one part in so many. */
#define LIGHT_NS 800000
#define LIGHTEST 16

/* Urgent threads come before all that arrived. */
#define URGENT (INT64_C(1) << 62)

static int64_t option_ns(const struct hw_policy_gil *gil, int which) {
    return gil->options[which] * 1000;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static bool has(const struct hw_policy_thread *thread, int64_t mark) {
    return (thread->MARKS & mark) != 0;
}

static void set(struct hw_policy_thread *thread, int64_t mark, bool to) {
    thread->MARKS = to ? thread->MARKS | mark : thread->MARKS & ~mark;
}

static int64_t scaled(const struct hw_policy_thread *thread, int64_t ns) {
    return thread->priority == 0 ? ns : ns * 1024 / hw_policy_weight(thread->priority);
}

/* What so much GIL time is in virtual time. */
static int64_t charge(const struct hw_policy_thread *thread, int64_t ns) {
    int64_t burst_ns = most(thread->burst_ns, thread->run_ns);
    if (burst_ns < LIGHT_NS && !has(thread, COMPUTES)) {
        ns = ns * most(burst_ns, LIGHT_NS / LIGHTEST) / LIGHT_NS;
    }
    return scaled(thread, ns);
}

/* The part of `latency_us` for a thread that has the GIL, or comes to wait while another one may
 * have it. */
static int64_t share_ns(const struct hw_policy_gil *gil, const struct hw_policy_thread *thread) {
    int64_t others = gil->in_lane[FIRST_LANE] + gil->in_lane[TURN_LANE]; /* may yet compute */
    others += gil->holder != NULL && gil->holder != thread ? 1 : 0;
    return option_ns(gil, LATENCY) / (others < 2 ? 2 : others);
}

static int64_t slice_ns(const struct hw_policy_gil *gil, const struct hw_policy_thread *thread) {
    return most(share_ns(gil, thread), option_ns(gil, LEAST_SLICE));
}

/* When its turn is over: sooner than was thought when it began, if more have come since. */
static int64_t turn_end(const struct hw_policy_gil *gil, const struct hw_policy_thread *thread) {
    int64_t slice = slice_ns(gil, thread);
    return slice < thread->SLICE ? thread->TURN_END - thread->SLICE + slice : thread->TURN_END;
}

/* Keeps the account of what those that compute are to get, while both kinds want the GIL; `holder`:
 * who had it since the account was looked at last. */
static void account(struct hw_policy_gil *gil, const struct hw_policy_thread *holder) {
    int64_t passed_ns = gil->now_ns - gil->OWED_AT;
    if ((holder != NULL && has(holder, COMPUTES)) || gil->in_lane[TURN_LANE] > 0) {
        gil->COMPUTED_AT = gil->now_ns;
    }
    gil->OWED_AT = gil->now_ns;
    if (holder != NULL && has(holder, COMPUTES)) {
        bool costs = gil->in_lane[FIRST_LANE] > 0;
        gil->OWED -= costs ? passed_ns * (100 - gil->options[PERCENT]) / 100 : 0;
    } else if (gil->in_lane[TURN_LANE] > 0) {
        gil->OWED += passed_ns * gil->options[PERCENT] / 100;
    }
    gil->OWED = most(least(gil->OWED, 2 * TURN_NS), -option_ns(gil, LATENCY) / 2);
}

/* It wants the GIL, and may have been away. */
static void arrive(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    int64_t credit_ns = has(thread, KNOWN) ? option_ns(gil, CREDIT) : 0;
    int64_t debt_ns = scaled(thread, MOST_DEBT_SHARES * share_ns(gil, thread));
    thread->VIRTUAL = most(thread->VIRTUAL, gil->CLOCK - credit_ns);
    thread->VIRTUAL = least(thread->VIRTUAL, gil->CLOCK + debt_ns);
    set(thread, KNOWN, true);
}

static bool computes(const struct hw_policy_gil *gil, const struct hw_policy_thread *thread,
                     int64_t held_ns) {
    int64_t limit_ns = option_ns(gil, COMPUTE);
    return thread->run_ns + held_ns >= limit_ns || thread->burst_ns >= limit_ns;
}

/* It took more than its share, and others that compute want the GIL, too. */
static bool is_overdrawn(const struct hw_policy_gil *gil, const struct hw_policy_thread *thread) {
    bool any = gil->in_lane[TURN_LANE] > 0 || (gil->holder != NULL && has(gil->holder, COMPUTES));
    return any && thread->VIRTUAL > gil->CLOCK + option_ns(gil, CREDIT);
}

/* Gives it a deadline, and a slice. */
static void plan(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    int64_t slice = slice_ns(gil, thread);
    int64_t need = has(thread, COMPUTES) ? slice : least(2 * thread->burst_ns, slice);
    thread->SLICE = slice;
    thread->TURN_END = 0;
    thread->DEADLINE = thread->VIRTUAL + scaled(thread, most(need, LEAST_NEED_NS));
    if (has(thread, COMPUTES)) {
        int64_t behind = gil->LAST - thread->DEADLINE;
        if (behind >= 0 && behind <= scaled(thread, slice) &&
            thread->priority == gil->LAST_PRIORITY) {
            thread->DEADLINE = gil->LAST + 1;
        }
        if (thread->DEADLINE > gil->LAST) {
            gil->LAST = thread->DEADLINE;
            gil->LAST_PRIORITY = thread->priority;
        }
    }
}

static void classify(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    arrive(gil, thread);
    set(thread, COMPUTES, computes(gil, thread, 0));
    plan(gil, thread);
    bool urgent = (thread->flags & HW_THREAD_URGENT) != 0;
    bool in_turn = !urgent && (has(thread, COMPUTES) || is_overdrawn(gil, thread));
    thread->lane = in_turn ? TURN_LANE : FIRST_LANE;
    thread->key = in_turn ? thread->DEADLINE : ++gil->ARRIVALS - (urgent ? URGENT : 0);
}

static void ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    account(gil, gil->holder);
    bool interrupted = has(thread, COMPUTES) && (thread->flags & HW_THREAD_FORCED) != 0 &&
                       gil->now_ns < turn_end(gil, thread);
    if (!interrupted) {
        classify(gil, thread);
    }
}

static void acquired(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    account(gil, NULL);
    if (thread->ready_ns == 0 && (thread->flags & HW_THREAD_FORCED) == 0) {
        classify(gil, thread); /* it found the GIL free */
    }
    if (thread->TURN_END == 0) {
        thread->TURN_END = thread->acquired_ns + thread->SLICE;
    }
    set(thread, OWED_IT, has(thread, COMPUTES) && gil->OWED >= TURN_NS);
    if (has(thread, COMPUTES)) { /* others in turn are ahead of these, since they need less */
        gil->CLOCK = most(gil->CLOCK, thread->VIRTUAL);
    }
}

static void released(struct hw_policy_gil *gil, struct hw_policy_thread *thread, int64_t held_ns) {
    account(gil, thread);
    if (has(thread, COMPUTES) || gil->in_lane[TURN_LANE] > 0) {
        thread->VIRTUAL += charge(thread, held_ns);
    }
    if (thread->run_ns > LEAST_NEED_NS && thread->DEADLINE < thread->VIRTUAL) {
        /* It needs more than was thought. */
        thread->DEADLINE = thread->VIRTUAL + scaled(thread, slice_ns(gil, thread));
    }
}

static int64_t patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder) {
    int64_t held_ns = gil->now_ns - holder->acquired_ns;
    if ((waiter->flags & HW_THREAD_URGENT) != 0) {
        return 0;
    }
    if (!has(holder, COMPUTES) && !computes(gil, holder, held_ns)) {
        /* As without us, but that it computes is known sooner of one that was interrupted before.
         */
        int64_t left_ns = option_ns(gil, COMPUTE) - holder->run_ns - held_ns;
        return least(hw__policy_interval(gil, waiter, holder), left_ns);
    }
    int64_t hold_ns = option_ns(gil, HOLD);
    hold_ns = (has(holder, OWED_IT) ? most(hold_ns, TURN_NS) : hold_ns) - held_ns;
    if (waiter->lane == FIRST_LANE) {
        return hold_ns;
    }
    int64_t reached = holder->VIRTUAL + charge(holder, held_ns), deadline = holder->DEADLINE;
    if (reached > deadline) {
        deadline = reached + scaled(holder, slice_ns(gil, holder)); /* as released() will find */
    }
    int64_t left_ns = turn_end(gil, holder) - gil->now_ns;
    return waiter->key < deadline ? least(left_ns, hold_ns) : left_ns;
}

static int32_t lane(struct hw_policy_gil *gil) {
    account(gil, gil->holder);
    return gil->OWED >= TURN_NS ? TURN_LANE : FIRST_LANE;
}

/* CPython itself finds the first thread that computes, if it asks the holder no later than after
 * `compute_us`. */
static bool idle(struct hw_policy_gil *gil) {
    return gil->interval_ns <= option_ns(gil, COMPUTE) && gil->now_ns - gil->COMPUTED_AT > IDLE_NS;
}

/* Where those that compute wait, and nobody else. */
static int64_t grace(struct hw_policy_gil *gil, const struct hw_policy_thread *next,
                     const struct hw_policy_thread *releaser) {
    bool gives = next->lane == TURN_LANE && releaser->lane == FIRST_LANE && gil->OWED < TURN_NS;
    return gives ? option_ns(gil, GRACE) : 0;
}

static const struct hw_policy_option options[] = {
    {"latency_us", 1000, 10000000, 42000, "in which all that compute have had their turn"},
    {"least_slice_us", 100, 1000000, 1000, "what a turn lasts at least"},
    {"compute_us", 100, 1000000, 5000, "who holds the GIL for so long at a time computes"},
    {"compute_percent", 1, 90, 10,
     "the part of the time that threads which compute get at least, between them"},
    {"credit_us", 0, 10000000, 5000, "how far behind the others a thread that slept may be"},
    {"hold_us", 0, 1000000, 10, "for how long who computes and has just got the GIL is not asked"},
    {"grace_us", 0, 1000, 10, "for how long others are left asleep when a call returns at once"},
    {.name = NULL},
};

const struct hw_policy hw__policy_fair = {
    .abi = HW_POLICY_ABI,
    .name = "fair",
    .about = "threads that compute share the GIL evenly and let the others go first, which "
             "are not interrupted (the default)",
    .good_for = "servers with background work in threads, and most other programs",
    .bad_at = "one thread that is to have the GIL whatever the others get (see priorities)",
    .options = options,
    .ready = ready,
    .acquired = acquired,
    .released = released,
    .patience = patience,
    .lane = lane,
    .grace = grace,
    .idle = idle,
};
