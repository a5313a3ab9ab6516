// SPDX-License-Identifier: MIT
/* Proportional share with low latency for who uses little.
 *
 * Each thread has a virtual time: the GIL time that it used, over its weight. Who wants the GIL has
 * a virtual deadline, its virtual time and what it is expected to need; the earliest goes next, and
 * a waiter whose deadline comes before the holder's has it asked (earliest eligible virtual
 * deadline first, Stoica and Abdel-Wahab 1995, as Linux schedules since 6.6, without its test of
 * eligibility: who is ahead of the others has the later deadline for it).
 *
 * - What a thread needs is what it mostly holds between two calls; a thread that computes gets a
 *   slice. It keeps its deadline until the slice is used up, however often it is interrupted, and
 *   so goes on before others that compute.
 * - The slice is a share of `latency_us` by how many want the GIL, so that who computes comes round
 *   in about that time. It is a time by the clock: interruptions shorten it. Threads that compute
 *   go in turn all the same as long as what they got differs by less than a slice, or one that was
 *   not interrupted would wait for several rounds; from then on their deadlines make up for it.
 * - Who slept does not save up: its virtual time is at most `credit_us` behind the others'. And it
 *   loses nothing: a call that lets go and comes back at once gains it nothing (the test "cpued" of
 *   bpo-7946).
 * - Who held for long in one call of C, that nobody could interrupt, pays back two shares of
 *   `latency_us` at most: that the others were kept waiting is over, and it would wait for as long
 *   as all of them were.
 * - A holder that computes is left alone for `hold_us`, so that many short waiters cannot cut it to
 *   dust. */
#include "policy/policies.h"

enum { LATENCY, LEAST_SLICE, CREDIT, HOLD, GRACE };

#define VIRTUAL own[0]  /* its virtual time */
#define DEADLINE own[1] /* its virtual deadline */
#define TURN_END own[2] /* when its slice is over; 0: it has not begun */
#define KNOWN own[3]    /* it has been here before */
#define SLICE own[4]    /* how long its turn is to last, by the clock */

/* Of the GIL. */
#define LAST own[0]          /* the latest deadline that a thread which computes was given ... */
#define LAST_PRIORITY own[1] /* ... which had this priority */
#define CLOCK own[2]         /* the virtual time that the slowest has come to; grows only */

/* So many shares of `latency_us` may a thread be ahead of the others, however short they are: among
 * thousands it would by the least slice wait for half a minute until all had come as far. */
#define MOST_DEBT_SHARES 2

/* The least that a thread is expected to need: those that need less are equals. */
#define LEAST_NEED_NS 50000

static int64_t option_ns(const struct hw_policy_gil *gil, int which) {
    return gil->options[which] * 1000;
}

static int64_t scaled(const struct hw_policy_thread *thread, int64_t ns) {
    return thread->priority == 0 ? ns : ns * 1024 / hw__policy_weight(thread->priority);
}

/* The virtual time of the holder, with the hold that goes on. */
static int64_t virtual_now(const struct hw_policy_gil *gil, const struct hw_policy_thread *holder) {
    return holder->VIRTUAL + scaled(holder, gil->now_ns - holder->acquired_ns);
}

static int64_t share_ns(const struct hw_policy_gil *gil) {
    int64_t others = gil->waiting;
    return option_ns(gil, LATENCY) / (others < 2 ? 2 : others);
}

static int64_t slice_ns(const struct hw_policy_gil *gil) {
    int64_t share = share_ns(gil);
    int64_t least = option_ns(gil, LEAST_SLICE);
    return share < least ? least : share;
}

/* When its turn is over: sooner than was thought when it began, if more have come since. */
static int64_t turn_end(const struct hw_policy_gil *gil, const struct hw_policy_thread *thread) {
    int64_t slice = slice_ns(gil);
    return slice < thread->SLICE ? thread->TURN_END - thread->SLICE + slice : thread->TURN_END;
}

static void advance(struct hw_policy_gil *gil, int64_t to) {
    if (gil->least_key < to) {
        to = gil->least_key; /* a deadline: somewhat later than its thread's virtual time */
    }
    if (to > gil->CLOCK) {
        gil->CLOCK = to;
    }
}

/* What it needs: gives it a deadline. */
static void plan(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    int64_t slice = slice_ns(gil);
    int64_t need = 2 * thread->burst_ns;
    if ((thread->flags & HW_THREAD_FORCED) != 0 && thread->run_ns > need) {
        need = slice; /* it goes on, and nobody knows how long */
    }
    need = need > slice ? slice : need < LEAST_NEED_NS ? LEAST_NEED_NS : need;
    if ((thread->flags & HW_THREAD_URGENT) != 0) {
        need = 0;
    }
    thread->SLICE = slice;
    thread->TURN_END = 0;
    thread->DEADLINE = thread->VIRTUAL + scaled(thread, need);
    if (need == slice) {
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

static void arrive(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    int64_t clock = gil->CLOCK;
    if (gil->holder != NULL && gil->holder != thread) {
        int64_t holder = virtual_now(gil, gil->holder);
        holder = holder < gil->least_key ? holder : gil->least_key;
        clock = holder > clock ? holder : clock;
    }
    int64_t least = clock - (thread->KNOWN ? option_ns(gil, CREDIT) : 0);
    if (thread->VIRTUAL < least || !thread->KNOWN) {
        thread->VIRTUAL = least;
    }
    int64_t most = clock + scaled(thread, MOST_DEBT_SHARES * share_ns(gil));
    if (thread->VIRTUAL > most) {
        thread->VIRTUAL = most;
    }
    thread->KNOWN = 1;
}

static void ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    bool interrupted =
        (thread->flags & HW_THREAD_FORCED) != 0 && gil->now_ns < turn_end(gil, thread);
    if (!interrupted) {
        arrive(gil, thread);
        plan(gil, thread);
    }
    thread->key = thread->DEADLINE;
}

static void acquired(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    if (thread->ready_ns == 0 && (thread->flags & HW_THREAD_FORCED) == 0) {
        arrive(gil, thread); /* it found the GIL free */
        plan(gil, thread);
    }
    if (thread->TURN_END == 0) {
        thread->TURN_END = thread->acquired_ns + thread->SLICE;
    }
    advance(gil, thread->VIRTUAL);
}

static void released(struct hw_policy_gil *gil, struct hw_policy_thread *thread, int64_t held_ns) {
    thread->VIRTUAL += scaled(thread, held_ns);
    if (thread->run_ns > LEAST_NEED_NS && thread->DEADLINE < thread->VIRTUAL) {
        /* It needs more than was thought: it computes. */
        thread->DEADLINE = thread->VIRTUAL + scaled(thread, slice_ns(gil));
    }
    advance(gil, thread->VIRTUAL);
}

static int64_t patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder) {
    int64_t held = gil->now_ns - holder->acquired_ns;
    int64_t left = turn_end(gil, holder) - gil->now_ns;
    int64_t reached = virtual_now(gil, holder);
    int64_t deadline = holder->DEADLINE;
    if (reached > deadline) {
        deadline = reached + scaled(holder, slice_ns(gil)); /* as released() will find */
    }
    if (waiter->key < deadline) {
        int64_t hold = (waiter->flags & HW_THREAD_URGENT) != 0 ? 0 : option_ns(gil, HOLD);
        left = left < hold - held ? left : hold - held;
    }
    return left;
}

static int64_t grace(struct hw_policy_gil *gil, const struct hw_policy_thread *next,
                     const struct hw_policy_thread *releaser) {
    return releaser->VIRTUAL <= next->key ? option_ns(gil, GRACE) : 0;
}

static const struct hw_policy_option options[] = {
    {"latency_us", 1000, 10000000, 42000, "in which all that compute have had their turn"},
    {"least_slice_us", 100, 1000000, 1000, "what a turn lasts at least"},
    {"credit_us", 0, 10000000, 5000, "how far behind the others a thread that slept may be"},
    {"hold_us", 0, 1000000, 10, "for how long who has just got the GIL is not asked"},
    {"grace_us", 0, 1000, 10, "for how long others are left asleep when a call returns at once"},
    {.name = NULL},
};

const struct hw_policy hw__policy_fair = {
    .abi = HW_POLICY_ABI,
    .name = "fair",
    .about = "shares of GIL time in proportion to weight; who uses little hardly waits (the "
             "default)",
    .good_for = "servers with background work in threads, and most other programs",
    .bad_at = "one thread that is to have the GIL whatever the others get (see priorities)",
    .options = options,
    .ready = ready,
    .acquired = acquired,
    .released = released,
    .patience = patience,
    .grace = grace,
};
