// SPDX-License-Identifier: MIT
/* CPU-bound threads share the GIL evenly, and only they are preempted.
 *
 * Most programs have no CPU-bound thread and are best left alone. Their threads hold the GIL
 * briefly and wait for each other; if one is preempted in the middle of that, the others queue up
 * for what it has locked. So the policy distinguishes two kinds of threads, each with a lane:
 *
 * - A thread is CPU-bound if it holds the GIL for `compute_us` or longer between two releases of
 *   its own. All other threads come first, in the order of their arrival (FIRST_LANE). As soon as
 *   one of them waits, a request is made to a CPU-bound holder. Among each other they wait for a
 *   switch interval, as in CPython. A waiter that the holder has woken itself lets the holder keep
 *   the GIL for `woken_us`: a thread that puts one small item after the other would otherwise lose
 *   the GIL at each item (a pool that gets 20,000 calls took 1.8 times as long).
 * - CPU-bound threads take turns by virtual deadlines (TURN_LANE). A thread's virtual time is the
 *   GIL time that it has used, divided by its weight; the earliest deadline goes next (Stoica and
 *   Abdel-Wahab, "Earliest eligible virtual deadline first", 1995). The time slice is a share of
 *   `latency_us`, by the clock. A preempted thread keeps its deadline until its slice is used up,
 *   and so goes on before the others. A new deadline that is up to one slice earlier than the
 *   latest one of the same priority is moved behind it: otherwise a thread that was not preempted
 *   could wait for several rounds.
 * - A thread does not come first for ever. If it uses more than its share of the GIL, though in
 *   short holds, it takes turns with the CPU-bound threads (the test "cpued" of bpo-7946). The more
 *   often a thread releases the GIL, the less its use counts (as in sched_ext's scx_flash), so that
 *   a server busy with one call after the other still comes first.
 * - CPU-bound threads together get at least `compute_percent` of the time, in turns of TURN_NS in
 *   which no thread preempts them but an urgent one. A thread that has no core for such a turn, as
 *   many others share the cores, has a longer one afterwards, up to MOST_OWED_NS.
 * - An urgent thread (a hint of the program) goes before all others of the first lane, and a
 *   request for it is made at once. It gets no more GIL time: if it is CPU-bound or uses more than
 *   its share, it takes turns like any other thread.
 * - A thread that slept saves up little: its virtual time is at most `credit_us` behind the
 *   others'. A thread that held the GIL for long in one call in C, in which nobody could preempt
 *   it, pays back two shares of `latency_us` at most: the others no longer wait for that call. */
#include "policy/policies.h"

enum { LATENCY, LEAST_SLICE, COMPUTE, PERCENT, CREDIT, HOLD, GRACE, WOKEN };

enum { FIRST_LANE, TURN_LANE };

/* The policy's fields of a thread (`own` of struct hw_policy_thread). */
#define VIRTUAL own[0]  /* virtual time */
#define DEADLINE own[1] /* virtual deadline */
#define TURN_END own[2] /* when the time slice ends; 0: the slice has not begun */
#define SLICE own[3]    /* length of the time slice, by the clock */
#define MARKS own[4]    /* KNOWN, COMPUTES */
#define OWED_IT own[5]  /* the length of a hold that is owed to CPU-bound threads; 0: not owed */

#define KNOWN 1    /* the thread has wanted this GIL before */
#define COMPUTES 2 /* the thread was CPU-bound when it last wanted the GIL */

/* The policy's fields of the GIL (`own` of struct hw_policy_gil). */
#define ARRIVALS own[0]      /* number of arrivals in FIRST_LANE */
#define LAST own[1]          /* the latest deadline given to a CPU-bound thread */
#define LAST_PRIORITY own[2] /* the priority of the thread that got the deadline LAST */
#define CLOCK own[3]         /* the virtual time that CPU-bound threads have reached; only grows */
#define OWED own[4]          /* GIL time owed to CPU-bound threads */
#define OWED_AT own[5]       /* when OWED was last updated */
#define COMPUTED_AT own[6]   /* when a CPU-bound thread was last seen; 0: never */

/* The policy is idle if no CPU-bound thread was seen for this time. It begins idle: otherwise a
 * program would pay for nothing until the policy is asked for the second time. */
#define IDLE_NS 100000000

/* The time that must be owed to CPU-bound threads before they get it. */
#define TURN_NS 1000000

/* The most time that is owed, unless the switch interval is shorter. CPython lets a thread hold the
 * GIL for as long. */
#define MOST_OWED_NS 5000000

/* How far a thread may be ahead of the others, in shares of `latency_us`. The limit is not in
 * slices: among thousands of threads each share is shorter than the least slice, and the thread
 * would wait for half a minute until all others had caught up. */
#define MOST_DEBT_SHARES 2

/* The least time that a thread is expected to need: threads that need less count as equals. */
#define LEAST_NEED_NS 50000

/* The use of a thread that holds the GIL for less than LIGHT_NS at a time counts for less, in
 * proportion to its holds, down to one part in LIGHTEST. */
#define LIGHT_NS 800000
#define LIGHTEST 16

/* Subtracted from the key of an urgent thread in FIRST_LANE: it comes before all others there. */
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

/* Converts GIL time that the thread has used into virtual time. */
static int64_t charge(const struct hw_policy_thread *thread, int64_t ns) {
    int64_t burst_ns = most(thread->burst_ns, thread->run_ns);
    if (burst_ns < LIGHT_NS && !has(thread, COMPUTES)) {
        ns = ns * most(burst_ns, LIGHT_NS / LIGHTEST) / LIGHT_NS;
    }
    return scaled(thread, ns);
}

/* Returns the thread's share of `latency_us`. The thread holds the GIL, or comes to wait while
 * another one may hold it. */
static int64_t share_ns(const struct hw_policy_gil *gil, const struct hw_policy_thread *thread) {
    /* Threads of the first lane count, too: they may turn out to be CPU-bound. */
    int64_t others = gil->in_lane[FIRST_LANE] + gil->in_lane[TURN_LANE];
    others += gil->holder != NULL && gil->holder != thread ? 1 : 0;
    return option_ns(gil, LATENCY) / (others < 2 ? 2 : others);
}

static int64_t slice_ns(const struct hw_policy_gil *gil, const struct hw_policy_thread *thread) {
    return most(share_ns(gil, thread), option_ns(gil, LEAST_SLICE));
}

/* Returns when the thread's turn ends: sooner than planned at its begin if more threads have come
 * since. */
static int64_t turn_end(const struct hw_policy_gil *gil, const struct hw_policy_thread *thread) {
    int64_t slice = slice_ns(gil, thread);
    return slice < thread->SLICE ? thread->TURN_END - thread->SLICE + slice : thread->TURN_END;
}

static bool computes(const struct hw_policy_gil *gil, const struct hw_policy_thread *thread,
                     int64_t held_ns) {
    int64_t limit_ns = option_ns(gil, COMPUTE);
    return thread->run_ns + held_ns >= limit_ns || thread->burst_ns >= limit_ns;
}

/* Updates OWED. The time owed to CPU-bound threads grows while they wait and none of them holds the
 * GIL; it shrinks while one of them holds the GIL and a thread of the first lane waits. `holder`:
 * the thread that has held the GIL since the last update. */
static void account(struct hw_policy_gil *gil, const struct hw_policy_thread *holder) {
    int64_t passed_ns = gil->now_ns - gil->OWED_AT;
    /* A holder that is preempted after its first long hold is marked only when it waits again. */
    bool computing = holder != NULL && (has(holder, COMPUTES) || computes(gil, holder, 0));
    if (computing || gil->in_lane[TURN_LANE] > 0) {
        gil->COMPUTED_AT = gil->now_ns;
    }
    gil->OWED_AT = gil->now_ns;
    if (holder != NULL && has(holder, COMPUTES)) {
        bool costs = gil->in_lane[FIRST_LANE] > 0;
        gil->OWED -= costs ? passed_ns * (100 - gil->options[PERCENT]) / 100 : 0;
    } else if (gil->in_lane[TURN_LANE] > 0) {
        gil->OWED += passed_ns * gil->options[PERCENT] / 100;
    }
    int64_t most_ns = most(least(gil->interval_ns, MOST_OWED_NS), 2 * TURN_NS);
    gil->OWED = most(least(gil->OWED, most_ns), -option_ns(gil, LATENCY) / 2);
}

/* Limits the virtual time of a thread that wants the GIL, and may have been away. */
static void arrive(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    int64_t credit_ns = has(thread, KNOWN) ? option_ns(gil, CREDIT) : 0;
    int64_t debt_ns = scaled(thread, MOST_DEBT_SHARES * share_ns(gil, thread));
    thread->VIRTUAL = most(thread->VIRTUAL, gil->CLOCK - credit_ns);
    thread->VIRTUAL = least(thread->VIRTUAL, gil->CLOCK + debt_ns);
    set(thread, KNOWN, true);
}

/* Tells whether the thread has used more than its share while CPU-bound threads want the GIL, too.
 */
static bool is_overdrawn(const struct hw_policy_gil *gil, const struct hw_policy_thread *thread) {
    bool any = gil->in_lane[TURN_LANE] > 0 || (gil->holder != NULL && has(gil->holder, COMPUTES));
    return any && thread->VIRTUAL > gil->CLOCK + option_ns(gil, CREDIT);
}

/* Gives the thread a deadline and a time slice. */
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
    bool in_turn = has(thread, COMPUTES) || is_overdrawn(gil, thread);
    bool urgent = (thread->flags & HW_THREAD_URGENT) != 0;
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
        classify(gil, thread); /* the thread found the GIL free, so ready() was not called */
    }
    if (thread->TURN_END == 0) {
        thread->TURN_END = thread->acquired_ns + thread->SLICE;
    }
    thread->OWED_IT = has(thread, COMPUTES) && gil->OWED >= TURN_NS ? gil->OWED : 0;
    if (has(thread, COMPUTES)) { /* the other threads in turn are ahead, since they need less */
        gil->CLOCK = most(gil->CLOCK, thread->VIRTUAL);
    }
}

static void released(struct hw_policy_gil *gil, struct hw_policy_thread *thread, int64_t held_ns) {
    account(gil, thread);
    if (has(thread, COMPUTES) || gil->in_lane[TURN_LANE] > 0) {
        thread->VIRTUAL += charge(thread, held_ns);
    }
    if (thread->run_ns > LEAST_NEED_NS && thread->DEADLINE < thread->VIRTUAL) {
        /* The thread needs more than its deadline allowed for. */
        thread->DEADLINE = thread->VIRTUAL + scaled(thread, slice_ns(gil, thread));
    }
}

static int64_t patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder) {
    int64_t held_ns = gil->now_ns - holder->acquired_ns;
    if ((waiter->flags & HW_THREAD_URGENT) != 0 && waiter->lane == FIRST_LANE) {
        return 0;
    }
    if (!has(holder, COMPUTES) && !computes(gil, holder, held_ns)) {
        /* A holder whose calls return at once has the GIL again before a waiter that each release
         * wakes: without a request, CPU-bound threads would not get the time that they are owed. */
        if (waiter->lane == TURN_LANE && gil->OWED >= TURN_NS) {
            return LEAST_NEED_NS - held_ns;
        }
        /* As in CPython, except that the holder counts as CPU-bound as soon as it has held the GIL
         * for `compute_us` in all since its last release by itself. */
        int64_t left_ns = option_ns(gil, COMPUTE) - holder->run_ns - held_ns;
        return least(hw__policy_interval(gil, waiter, holder), left_ns);
    }
    int64_t hold_ns = most(option_ns(gil, HOLD), holder->OWED_IT);
    if ((waiter->flags & HW_THREAD_WOKEN) != 0) {
        hold_ns = most(hold_ns, least(option_ns(gil, WOKEN), gil->interval_ns));
    }
    hold_ns -= held_ns;
    if (waiter->lane == FIRST_LANE) {
        return hold_ns;
    }
    int64_t reached = holder->VIRTUAL + charge(holder, held_ns), deadline = holder->DEADLINE;
    if (reached > deadline) {
        deadline = reached + scaled(holder, slice_ns(gil, holder)); /* as released() will do */
    }
    int64_t left_ns = turn_end(gil, holder) - gil->now_ns;
    return waiter->key < deadline ? least(left_ns, hold_ns) : left_ns;
}

static int32_t lane(struct hw_policy_gil *gil) {
    account(gil, gil->holder);
    return gil->OWED >= TURN_NS ? TURN_LANE : FIRST_LANE;
}

/* While the policy is idle, CPython schedules by itself until a thread has held the GIL for a
 * switch interval while another one waited. That finds the first CPU-bound thread in time only if
 * the switch interval is not longer than `compute_us`. */
static bool idle(struct hw_policy_gil *gil) {
    bool seen = gil->COMPUTED_AT != 0 && gil->now_ns - gil->COMPUTED_AT <= IDLE_NS;
    return gil->interval_ns <= option_ns(gil, COMPUTE) && !seen;
}

/* Gives grace only if all waiters are in turn, and the thread that released the GIL is not. */
static int64_t grace(struct hw_policy_gil *gil, const struct hw_policy_thread *next,
                     const struct hw_policy_thread *releaser) {
    bool gives = next->lane == TURN_LANE && releaser->lane == FIRST_LANE && gil->OWED < TURN_NS;
    return gives ? option_ns(gil, GRACE) : 0;
}

static const struct hw_policy_option options[] = {
    {"latency_us", 1000, 10000000, 42000, "the time in which every CPU-bound thread gets a turn"},
    {"least_slice_us", 100, 1000000, 1000, "the least length of a turn"},
    {"compute_us", 100, 1000000, 5000,
     "a thread that holds the GIL for this long at a time is CPU-bound"},
    {"compute_percent", 1, 90, 10,
     "the least share of the time for all CPU-bound threads together"},
    {"credit_us", 0, 10000000, 5000, "how far a thread that slept may stay behind the others"},
    {"hold_us", 0, 1000000, 10,
     "how long a CPU-bound thread keeps the GIL before the first request"},
    {"grace_us", 0, 1000, 10,
     "how long waiters stay asleep, in case a blocking call returns at once"},
    {"woken_us", 0, 1000000, 2000,
     "how long a CPU-bound thread keeps the GIL before a request for a thread that it has woken, "
     "a switch interval at most"},
    {.name = NULL},
};

const struct hw_policy hw__policy_fair = {
    .abi = HW_POLICY_ABI,
    .name = "fair",
    .about = "CPU-bound threads share the GIL evenly, and at least a tenth of its time; all other "
             "threads go first (the default)",
    .good_for = "servers with background work in threads, and most other programs",
    .bad_at = "one thread that must get the GIL whatever the others get (see priorities)",
    .options = options,
    .ready = ready,
    .acquired = acquired,
    .released = released,
    .patience = patience,
    .lane = lane,
    .grace = grace,
    .idle = idle,
};
