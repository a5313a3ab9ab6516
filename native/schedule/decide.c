// SPDX-License-Identifier: MIT
#include "schedule/decide.h"

#include "schedule/habits.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

/* The longest time between two requests to the same holder. The time doubles with each request. */
#define ASK_AGAIN_MOST_NS (5 * MS)

/* A waiter that has waited for this long does not leave a holder the time in which it usually
 * releases the GIL: threads that hold it briefly, in regular turns, may have it back each time
 * before the waiter is awake. */
#define LATE_NS (20 * MS)

/* The longest sleep of the waiter that goes next, and of each of the others. The limit is chosen
 * when a sleep begins: a waiter that becomes the next one meanwhile keeps its longer sleep. */
#define NEXT_SLEEP_NS (5 * MS)
#define OTHERS_SLEEP_NS (50 * MS)

/* In a crowd the others sleep longer, so that together they wake at most once in OTHERS_EACH_NS:
 * thousands of waiters would otherwise keep all cores busy. No sleep is longer than CROWD_SLEEP_NS,
 * which is well within what the watchdog allows. So more than 10,000 waiters wake more often. */
#define OTHERS_EACH_NS (100 * US)
#define CROWD_SLEEP_NS (1000 * MS)

/* A release in grace wakes no waiter. So while the next release may give grace, the waiter that
 * goes next, if it is CPU-bound, sleeps for `guard_ns` of struct hw__waiter at most. `guard_ns`
 * begins at HW__GUARD_NS and grows up to this. */
#define GUARD_MOST_NS (2 * MS)

/* A request that is due within this time is made now: Linux adds 50 us to a sleep. */
#define SOON_NS (15 * US)

/* A thread that is expected back within this time may overdraw the budget. It gets no grace once
 * the budget is overdrawn by BUDGET_MOST_NS. */
#define CHEAP_NS (2 * US)

/* How long a thread waits at most before it makes a request to a holder that is not known, unless
 * the policy is plain. */
#define STRANGER_NS (300 * US)

/* A GIL rests after this many acquires in a row while no other thread wanted it. */
#define REST_AFTER 4096

/* The budget of grace: a GIL may be left free, while a thread wants it, for 1/2^BUDGET_SHIFT of the
 * time. BUDGET_MOST_NS is the most that can be saved up. */
#define BUDGET_SHIFT 4
#define BUDGET_MOST_NS (500 * US)

/* ---------------------------------------------------------------- when is a request made? */
/* Keeps the first answer about this hold for the watchdog: the policy's, or stranger_due()'s. */
static void promise(struct hw__ledger *ledger, int64_t in_ns, int64_t now_ns) {
    if (ledger->request.by_ns == 0) {
        ledger->request.by_ns = in_ns > HW_NEVER / 2 ? HW_NEVER : now_ns + (in_ns < 0 ? 0 : in_ns);
    }
}

/* Returns the same as due() for a holder that is not known. The time counts from the beginning of
 * the waiter's wait, since nothing is known of the hold. */
static int64_t stranger_due(struct hw__ledger *ledger, const struct hw__waiter *waiter,
                            int64_t now_ns) {
    int64_t most_ns = ledger->view.interval_ns;
    if (!hw__ledger_is_plain(ledger)) {
        most_ns = hw__least(most_ns, STRANGER_NS);
    }
    int64_t left_ns = waiter->seen.ready_ns + most_ns - now_ns;
    promise(ledger, left_ns, now_ns);
    return left_ns;
}

/* Returns in how many nanoseconds the request for this waiter must be made; 0 or less: now. */
static int64_t due(struct hw__ledger *ledger, struct hw__waiter *waiter, int64_t now_ns) {
    if (ledger->request.made) {
        return ledger->request.at_ns + ledger->request.again_ns - now_ns;
    }
    const struct hw__waiter *holder = ledger->holder;
    if (holder == NULL) {
        return stranger_due(ledger, waiter, now_ns);
    }
    int64_t patience_ns = hw__ledger_patience(ledger, waiter);
    promise(ledger, patience_ns, now_ns);
    /* A policy may return any number. */
    patience_ns = patience_ns < 0 ? 0 : hw__least(patience_ns, OTHERS_SLEEP_NS);
    if (hw__ledger_is_plain(ledger)) {
        return patience_ns;
    }
    if (now_ns - waiter->seen.ready_ns < LATE_NS) {
        int64_t held_ns = now_ns - holder->seen.acquired_ns;
        int64_t soon_ns = hw__habits_lets_go_after(holder) - held_ns;
        patience_ns = patience_ns < soon_ns ? soon_ns : patience_ns;
    }
    return patience_ns < SOON_NS ? 0 : patience_ns;
}

/* ---------------------------------------------------------------- how does a waiter wait? */
/* Returns how long a waiter in the queue sleeps at most. */
static int64_t sleep_ns(struct hw__ledger *ledger, const struct hw__waiter *waiter,
                        int64_t due_ns) {
    const struct hw__waiter *next = hw__ledger_next(ledger);
    if (next != waiter) {
        /* Longer than the waiter that goes next, or all would wake up for the same request. A next
         * waiter that the holder has woken makes its request late: this one makes its own. */
        bool own = !ledger->request.made &&
                   (next->seen.flags & ~waiter->seen.flags & HW_THREAD_WOKEN) != 0;
        int64_t sleep = hw__least(own ? due_ns : due_ns + NEXT_SLEEP_NS, OTHERS_SLEEP_NS);
        int64_t crowd =
            hw__least((int64_t)hw__ledger_waiting(ledger) * OTHERS_EACH_NS, CROWD_SLEEP_NS);
        return sleep > crowd ? sleep : crowd;
    }
    int64_t most_ns = NEXT_SLEEP_NS;
    bool any_moment = ledger->holder == NULL || hw__habits_short(ledger, ledger->holder);
    if (any_moment && hw__ledger_may_give_grace(ledger) && hw__habits_computes(waiter)) {
        most_ns = waiter->guard_ns; /* the release may give grace, and then wakes nobody */
    }
    return hw__least(due_ns, most_ns);
}

/* Returns how long the waiter may spin; 0: not at all. A waiter spins once in a wait, and again
 * after another thread has woken it. It spins only if the GIL is about to come from a thread whose
 * last acquire was on another core. The waiter or that thread must be CPU-bound. Threads that
 * release the GIL often must not spin: they would take the GIL from each other at each call, while
 * the other one holds a lock that the spinner wants next (four threads that print had half of their
 * throughput). */
static int64_t spin_ns(const struct hw__ledger *ledger, const struct hw__waiter *waiter,
                       int32_t core) {
    if (hw__ledger_is_plain(ledger) || waiter->spun) {
        return 0;
    }
    const struct hw__waiter *other = ledger->holder != NULL ? ledger->holder : ledger->called;
    if (other == NULL || (!hw__habits_computes(waiter) && !hw__habits_computes(other))) {
        return 0;
    }
    bool soon = ledger->request.made || other == ledger->called || hw__habits_short(ledger, other);
    return !soon || other->core < 0 || other->core == core ? 0 : ledger->settings.spin_ns;
}

void hw__decide_spun(struct hw__waiter *waiter) { waiter->spun = true; }

/* Tells whether a request is made sooner than CPython would make it: after a switch interval of the
 * waiter's wait in which no other thread has acquired the GIL (take_gil() in Python/ceval_gil.c).
 * Less than SOON_NS is no difference: due() rounds by as much. */
static bool is_early(const struct hw__ledger *ledger, const struct hw__waiter *waiter,
                     int64_t now_ns) {
    int64_t ready_ns = waiter->seen.ready_ns, switched_ns = ledger->switched_ns;
    int64_t since_ns = ready_ns > switched_ns ? ready_ns : switched_ns;
    return now_ns - since_ns + SOON_NS < ledger->view.interval_ns;
}

/* Records a request. The hook returns, CPython makes the request, and the waiter comes back; the
 * GIL's mutex stays held all the time. */
static struct hw__turn ask(struct hw__ledger *ledger, struct hw__waiter *waiter,
                           const struct hw__moment *moment) {
    struct hw__request *request = &ledger->request;
    if (!request->made) {
        request->early = is_early(ledger, waiter, moment->now_ns) ? waiter : NULL;
    }
    request->again_ns =
        request->made ? hw__least(request->again_ns * 2, ASK_AGAIN_MOST_NS) : HW__ASK_AGAIN_NS;
    request->made = true;
    request->at_ns = moment->now_ns;
    ledger->counts.asked++;
    waiter->stage = HW__STAGE_ASKING;
    waiter->wake_at_ns = moment->now_ns + request->again_ns;
    return (struct hw__turn){.what = HW__DO_ASK, .spin_ns = spin_ns(ledger, waiter, moment->core)};
}

static struct hw__turn sleep_until(struct hw__ledger *ledger, struct hw__waiter *waiter,
                                   int64_t longest_ns, const struct hw__moment *moment) {
    waiter->wake_at_ns = moment->now_ns + longest_ns;
    return (struct hw__turn){.what = HW__DO_SLEEP,
                             .sleep_ns = longest_ns,
                             .spin_ns = spin_ns(ledger, waiter, moment->core)};
}

struct hw__turn hw__decide_wait(struct hw__ledger *ledger, struct hw__waiter *waiter,
                                const struct hw__moment *moment) {
    ledger->alone = 0;
    if (waiter->stage == HW__STAGE_CALLED) { /* it came late: another thread has the GIL */
        hw__ledger_has_come(ledger, waiter);
        ledger->counts.barged++;
    }
    hw__ledger_dequeue(ledger, waiter);
    hw__ledger_notice(ledger, moment->now_ns);
    hw__habits_learn(waiter, moment->now_ns);
    bool begins = !hw__waiter_waits(waiter);
    if (begins) {
        hw__ledger_want(ledger, waiter, moment->now_ns);
    }
    struct hw__turn turn;
    int64_t due_ns = due(ledger, waiter, moment->now_ns);
    if (due_ns <= 0) {
        turn = ask(ledger, waiter, moment);
    } else {
        hw__ledger_enqueue(ledger, waiter);
        turn = sleep_until(ledger, waiter, sleep_ns(ledger, waiter, due_ns), moment);
    }
    turn.begins = begins;
    return turn;
}

struct hw__turn hw__decide_wait_on(struct hw__ledger *ledger, struct hw__waiter *waiter) {
    hw__ledger_enqueue(ledger, waiter);
    return (struct hw__turn){.what = HW__DO_SLEEP,
                             .sleep_ns = waiter->wake_at_ns - ledger->view.now_ns};
}

/* ---------------------------------------------------------------- what does a woken waiter do? */
/* Tells whether another waiter has been called and is on its way. */
static bool other_comes(const struct hw__ledger *ledger, const struct hw__waiter *waiter,
                        int64_t now_ns) {
    return ledger->called != NULL && ledger->called != waiter &&
           now_ns - ledger->called_ns < HW__CALLED_NS;
}

/* A waiter that wakes up by itself leaves a free GIL to the one that was called. Otherwise it would
 * get the GIL each time, since a thread that is awake is quicker than one that is being woken. */
int64_t hw__decide_doze_on(struct hw__ledger *ledger, struct hw__waiter *waiter,
                           const struct hw__moment *moment) {
    if (waiter->stage != HW__STAGE_QUEUED || moment->locked ||
        !other_comes(ledger, waiter, moment->now_ns)) {
        return 0;
    }
    waiter->wake_at_ns = moment->now_ns + HW__CALLED_NS;
    return HW__CALLED_NS;
}

void hw__decide_called(struct hw__ledger *ledger, struct hw__waiter *waiter) {
    ledger->missed = 0;
    waiter->guard_ns = HW__GUARD_NS;
    waiter->spun = false;
}

struct hw__turn hw__decide_woken(struct hw__ledger *ledger, struct hw__waiter *waiter,
                                 const struct hw__moment *moment, bool spun, bool switched) {
    if (!moment->locked) {
        return (struct hw__turn){.what = HW__DO_RETURN};
    }
    waiter->guard_ns = spun ? HW__GUARD_NS : hw__least(2 * waiter->guard_ns, GUARD_MOST_NS);
    /* After a switch CPython starts the switch interval again, and so does the scheduler. */
    if (switched || due(ledger, waiter, moment->now_ns) > 0) {
        return (struct hw__turn){.what = HW__DO_RETURN};
    }
    return ask(ledger, waiter, moment);
}

struct hw__turn hw__decide_queue(struct hw__ledger *ledger, struct hw__waiter *waiter,
                                 const struct hw__moment *moment) {
    int64_t due_ns = ledger->holder == NULL ? NEXT_SLEEP_NS : due(ledger, waiter, moment->now_ns);
    due_ns = due_ns < HW__GUARD_NS ? HW__GUARD_NS : due_ns;
    return sleep_until(ledger, waiter, sleep_ns(ledger, waiter, due_ns), moment);
}

bool hw__decide_leaves_it(const struct hw__ledger *ledger, const struct hw__waiter *waiter,
                          const struct hw__moment *moment) {
    return !hw__ledger_is_plain(ledger) && !moment->locked &&
           other_comes(ledger, waiter, moment->now_ns);
}

/* ---------------------------------------------------------------- which one does a release wake?
 */
/* A CPU-bound thread that is preempted wants the GIL back at once. It joins the queue before the
 * release chooses a waiter: the release may then call the thread itself, and calls no waiter that
 * comes after it in the queue. */
bool hw__decide_wait_at_once(struct hw__ledger *ledger, struct hw__waiter *releaser,
                             int64_t now_ns) {
    if (!ledger->request.made || !hw__habits_waits_on(releaser)) {
        return false;
    }
    hw__ledger_want(ledger, releaser, now_ns);
    hw__ledger_enqueue(ledger, releaser);
    releaser->wake_at_ns = now_ns;
    return true;
}

/* Tells whether a release calls one more waiter although one is on its way, as each release of
 * CPython does. It does if the called waiter was passed over, and neither the releaser nor the next
 * waiter is CPU-bound.
 *
 * A thread that returns from a system call acquires a free GIL without having been in the queue. If
 * cores are short, the operating system runs the threads that are ready in turn. A single called
 * waiter then competes with all threads that return from system calls, and waits too long (a server
 * with 16 connections had twice the 99th percentile). If one of the two threads is CPU-bound, one
 * more waiter would be woken in vain. */
static bool calls_another(const struct hw__ledger *ledger, const struct hw__waiter *releaser,
                          const struct hw__waiter *next) {
    return ledger->passed_over && releaser != NULL && !hw__habits_computes(releaser) &&
           !hw__habits_computes(next);
}

/* Tells whether the GIL is left free for a moment, because the thread that released it is expected
 * back. Updates the budget. */
static bool give_grace(struct hw__ledger *ledger, const struct hw__waiter *releaser,
                       const struct hw__waiter *next, int64_t now_ns, bool next_spins) {
    ledger->budget_ns += (now_ns - ledger->budget_at_ns) >> BUDGET_SHIFT;
    ledger->budget_ns = hw__least(ledger->budget_ns, BUDGET_MOST_NS);
    ledger->budget_at_ns = now_ns;
    int64_t away_ns = hw__habits_away_ns(releaser);
    if ((releaser->seen.flags & HW_THREAD_FORCED) != 0 || away_ns > AT_ONCE_NS ||
        ledger->budget_ns <= (away_ns < CHEAP_NS ? -BUDGET_MOST_NS : 0)) {
        return false;
    }
    /* A policy may return any number. */
    int64_t grace_ns = hw__least(hw__ledger_grace(ledger, next, releaser), OTHERS_SLEEP_NS);
    /* The waiter that goes next must look by itself soon after the grace is over. */
    bool guarded = next->wake_at_ns - now_ns <= (next_spins ? MS : HW__GUARD_NS + grace_ns);
    return grace_ns > 0 && guarded;
}

static struct hw__call call_next(struct hw__ledger *ledger, struct hw__waiter *releaser,
                                 struct hw__waiter *next, const struct hw__moment *moment) {
    if (ledger->called != NULL && moment->now_ns - ledger->called_ns < HW__CALLED_NS &&
        !calls_another(ledger, releaser, next)) {
        return (struct hw__call){.next = NULL};
    }
    hw__ledger_call(ledger, next, moment->now_ns);
    bool may_yield =
        !hw__ledger_is_plain(ledger) && ledger->settings.yields && next->core == moment->core;
    bool caller_computes = releaser != NULL && (releaser->seen.flags & HW_THREAD_FORCED) != 0 &&
                           hw__habits_computes(releaser);
    return (struct hw__call){.next = next,
                             .next_yields = may_yield && hw__habits_computes(next),
                             .caller_may_yield = may_yield && caller_computes};
}

struct hw__call hw__decide_hand_over(struct hw__ledger *ledger, struct hw__waiter *releaser,
                                     struct hw__waiter *next, const struct hw__moment *moment,
                                     bool next_spins) {
    if (releaser != NULL && give_grace(ledger, releaser, next, moment->now_ns, next_spins)) {
        ledger->phase = HW__PHASE_GRACE;
        ledger->counts.graced++;
        return (struct hw__call){.next = NULL};
    }
    return call_next(ledger, releaser, next, moment);
}

/* ---------------------------------------------------------------- what follows an acquire? */
bool hw__decide_rest(struct hw__ledger *ledger) {
    if (ledger->alone < REST_AFTER) {
        return false;
    }
    ledger->alone = 0;
    return true;
}

/* The waiter that goes next went to sleep when another thread held the GIL. It is woken now only if
 * its request to this holder is due so much sooner that the wake-up pays. */
struct hw__waiter *hw__decide_look_sooner(struct hw__ledger *ledger,
                                          const struct hw__waiter *holder, int64_t now_ns) {
    struct hw__waiter *next = hw__ledger_next(ledger);
    if (next == NULL || hw__habits_short(ledger, holder)) {
        return NULL;
    }
    int64_t ask_at_ns = now_ns + due(ledger, next, now_ns);
    if (ask_at_ns + (next->wake_at_ns - now_ns) / 4 + HW__GUARD_NS >= next->wake_at_ns) {
        return NULL;
    }
    hw__ledger_dequeue(ledger, next);
    return next;
}
