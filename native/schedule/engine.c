// SPDX-License-Identifier: MIT
/* DESIGN. CPython decides who gets a GIL by the lock in it alone: a thread takes it when it finds
 * it free. What is ours is the sleep of who does not (timedwait), and the call that a release makes
 * (signal). So each waiter sleeps on a word of its own; a release picks one by the policy and calls
 * it; and before it sleeps, a waiter says that CPython is to ask the holder, by returning ETIMEDOUT
 * without having slept, when the policy finds it time.
 *
 * Everything is guarded by the GIL's own mutex, with which CPython calls timedwait() and signal().
 * Nobody sleeps, spins or makes a system call with it held; a wake is
 * done after it is unlocked (hw__wake_unlocked), for on a core that both threads share the woken
 * one would run into it.
 *
 * Safety nets, for a wake that is lost (a thread that was called and ends, a policy that errs):
 * every sleep has an end, the first one's in the queue a near one, and who wakes looks for itself.
 *
 * A thread that is called may be late: another one that finds the GIL free takes it ("barges").
 * The late one keeps its key, so that it loses nothing but the time. Threads that do not compute
 * call one more then.
 *
 * - Spinning. Who waits for a GIL whose holder runs on another core spins a little before it
 *   sleeps: a hand-over between cores that are awake takes a fraction of a microsecond.
 * - Grace. A thread that lets go for a call that returns at once (send() to a socket with room)
 *   wants the GIL back sooner than another one could be woken. When it will is foretold from what
 *   it did the last times (two-level adaptive prediction, Yeh and Patt 1991). Then nobody is
 *   called, if one waits that will look by itself soon; what the GIL is left free so, beyond the
 *   time of two hand-overs a call, is a sixteenth of the time at most, of which the shortest calls
 *   come first.
 * - Giving way. A thread that computes, called by one on the same core that goes on to a system
 *   call, yields the core once before it takes the GIL. Else the system may well run it first, for
 *   a tick of 4 ms, with the other one halfway into its call: a thread that slept comes back with
 *   what it overran forgiven, so that threads that compute in turns get more of a core than one.
 *   Where it is the one that calls, after a forced release, and the other one's slice is short
 *   (schedule/help.h), it yields too: what it gives up then is what lets that slice take the core
 *   the next time. Without the short slice that makes things worse.
 * - Rest. While nobody has to wait for the main GIL there is nothing to do, and its hooks are taken
 *   out (gil/hooks.h). Likewise while the policy is idle, whoever waits: who does so in vain for a
 *   switch interval puts the hooks back.
 * - After a forced release CPython waits until another thread has taken over, and then for the GIL.
 *   For threads that do so each time (those that compute) both waits are one here: else they would
 *   be woken by each hand-over only to go to sleep again. */
#include "schedule/engine.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "base/lease.h"
#include "base/say.h"
#include "headway/clock.h"
#include "schedule/habits.h"
#include "schedule/help.h"
#include "schedule/wake.h"
#include "schedule/watchdog.h"
#include "schedule/yield.h"
#include "trace/events.h"

#define US 1000
#define MS 1000000

/* When the holder has got the GIL: the clock was not asked, as nobody else wanted it. */
#define UNTOLD (-1)

/* A request may be lost (up to 3.12 the interpreter clears its flag in passing) or not be served
 * for long (C code that holds the GIL): it is made again after this long, then twice as long ... */
#define ASK_AGAIN_NS (100 * US)
#define ASK_AGAIN_MOST_NS (5 * MS)

/* The longest sleep of who goes next, and of the others. */
#define NEXT_SLEEP_NS (5 * MS)
#define OTHERS_SLEEP_NS (50 * MS)

/* One of those others wakes so often at most: thousands would else keep all cores from everything
 * else. Who goes next is looked after all the more often, the more there are. Each wakes once a
 * second all the same, well within what the watchdog allows. */
#define OTHERS_EACH_NS (100 * US)
#define CROWD_SLEEP_NS (1000 * MS)

/* How soon who goes next looks by itself while the GIL is free or in hands that will let it go any
 * moment, at first and at most. */
#define GUARD_NS (150 * US)
#define GUARD_MOST_NS (2 * MS)

/* What comes so soon is no reason to sleep: Linux adds 50 us to a sleep. */
#define SOON_NS (15 * US)

/* What a call that comes back at once may take without being a loss: two hand-overs take longer. */
#define FREE_OF_CHARGE_NS (1500)

/* A call that comes back so soon is worth grace also when what may be spent on it is used up, until
 * as much as can be saved is overdrawn. */
#define CHEAP_NS (2 * US)

/* Who was called has so long to come before another one is. */
#define CALLED_NS (1 * MS)

/* A holder of whom nothing is known is asked after so long. */
#define STRANGER_NS (300 * US)

/* A GIL rests when so many times in a row nobody had to wait for it. */
#define REST_AFTER 4096

/* The part of the time that a GIL may be left free while somebody wants it, 1/2^n, and the most
 * that can be saved up. */
#define BUDGET_SHIFT 4
#define BUDGET_MOST_NS (500 * US)

static void begin_wait(struct hw__sched *sched, struct hw__runner *runner, int64_t now) {
    runner->waiting = true;
    runner->spun = false;
    runner->order = ++sched->arrivals;
    runner->releases = sched->releases;
    runner->stuck_ns = sched->stuck_ns;
    runner->guard_ns = GUARD_NS;
    runner->seen.ready_ns = now;
    hw__watchdog_crowd(sched, hw__sched_waiting(sched) + 1, now);
    sched->policy->ready(&sched->view, &runner->seen);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* What is said first of a hold is what the watchdog takes the policy at its word for. */
static void promise(struct hw__sched *sched, int64_t in_ns, int64_t now) {
    if (sched->ask_by_ns == 0) {
        sched->ask_by_ns = in_ns > HW_NEVER / 2 ? HW_NEVER : now + (in_ns < 0 ? 0 : in_ns);
    }
}

/* In how long the holder is to be asked for this waiter: 0 or less is now. */
static int64_t due(struct hw__sched *sched, const struct hw__runner *runner, int64_t now) {
    if (sched->asked) {
        return sched->asked_ns + sched->again_ns - now;
    }
    struct hw__runner *holder = sched->holder;
    if (holder == NULL) {
        /* One without a record, or who got it before us or while it rested. */
        int64_t most = sched->view.interval_ns;
        if ((sched->policy->flags & HW_POLICY_PLAIN) == 0) {
            most = least(most, STRANGER_NS);
        }
        int64_t left_ns = runner->seen.ready_ns + most - now;
        promise(sched, left_ns, now);
        return left_ns;
    }
    int64_t patience = sched->policy->patience(&sched->view, &runner->seen, &holder->seen);
    promise(sched, patience, now);
    patience = patience < 0 ? 0 : least(patience, OTHERS_SLEEP_NS); /* whatever it says */
    if ((sched->policy->flags & HW_POLICY_PLAIN) == 0) {
        int64_t soon_ns = hw__habits_lets_go_after(holder) - (now - holder->seen.acquired_ns);
        patience = patience < soon_ns ? soon_ns : patience;
    }
    /* A sleep of less is longer by the timer's slack. */
    return patience < SOON_NS && (sched->policy->flags & HW_POLICY_PLAIN) == 0 ? 0 : patience;
}

/* How long a waiter in the queue sleeps at most. */
static int64_t sleep_ns(struct hw__sched *sched, const struct hw__runner *runner, int64_t due_ns) {
    if (hw__sched_next(sched) != runner) {
        /* Longer than who goes before it, or all would wake to ask for the same. */
        int64_t sleep = least(due_ns + NEXT_SLEEP_NS, OTHERS_SLEEP_NS);
        int64_t crowd = least((int64_t)hw__sched_waiting(sched) * OTHERS_EACH_NS, CROWD_SLEEP_NS);
        return sleep > crowd ? sleep : crowd;
    }
    int64_t most = NEXT_SLEEP_NS;
    bool any_moment = sched->holder == NULL || hw__habits_short(sched, sched->holder);
    if (any_moment && sched->policy->grace != NULL && hw__habits_computes(runner)) {
        most = runner->guard_ns; /* nobody may call it */
    }
    return least(due_ns, most);
}

/* Spinning pays where the GIL is about to come, from a thread that runs now, elsewhere. Once in a
 * wait; and a core is left to others. It is for threads that compute, and for who waits for one:
 * threads that let go often would take the GIL from each other at each call, with a lock in hand
 * that the other one wants next (four threads that print had half of their rate). */
static int64_t spin_ns(const struct hw__sched *sched, struct hw__runner *runner) {
    if ((sched->policy->flags & HW_POLICY_PLAIN) != 0 || runner->spun) {
        return 0;
    }
    const struct hw__runner *other = sched->holder != NULL ? sched->holder : sched->called;
    if (other == NULL || (!hw__habits_computes(runner) && !hw__habits_computes(other))) {
        return 0;
    }
    bool soon = sched->asked || other == sched->called || hw__habits_short(sched, other);
    if (!soon || other->cpu < 0 || other->cpu == sched_getcpu() || hw__sched_options.spin_ns == 0) {
        return 0;
    }
    if (!hw__wake_may_spin(runner)) {
        return 0;
    }
    runner->spun = true;
    return hw__sched_options.spin_ns;
}

/* CPython is to ask the holder: it does so and comes back, with the mutex held all the time. */
static int ask(struct hw__sched *sched, struct hw__runner *runner, int64_t now) {
    if (!sched->asked) {
        bool early = now - runner->seen.ready_ns < sched->view.interval_ns;
        sched->asked_early = early ? runner : NULL;
    }
    sched->again_ns = sched->asked ? sched->again_ns * 2 : ASK_AGAIN_NS;
    if (sched->again_ns > ASK_AGAIN_MOST_NS) {
        sched->again_ns = ASK_AGAIN_MOST_NS;
    }
    sched->asked = true;
    sched->asked_ns = now;
    sched->counts.asked++;
    runner->has_asked = true;
    runner->wake_at_ns = now + sched->again_ns;
    runner->spin_ns = spin_ns(sched, runner);
    return ETIMEDOUT;
}

/* ---------------------------------------------------------------- the hooks */
/* Somebody has come who wants the GIL too: the policy is told who has it. From now on its time
 * counts; before, it was nobody else's. */
static void tell_holder(struct hw__sched *sched, int64_t now) {
    struct hw__runner *holder = sched->holder;
    if (holder == NULL && sched->stranger_ns == 0) {
        sched->stranger_ns = now;
    }
    if (holder != NULL && holder->seen.acquired_ns == UNTOLD) {
        holder->seen.acquired_ns = now;
        sched->policy->acquired(&sched->view, &holder->seen);
    }
}

/* Another thread has been told that it is its turn, and is on its way. */
static bool other_comes(struct hw__sched *sched, const struct hw__runner *runner) {
    return sched->called != NULL && sched->called != runner &&
           hw__sched_time(sched) - sched->called_ns < CALLED_NS;
}

/* It has come. */
static void forget_call(struct hw__sched *sched, struct hw__runner *runner) {
    runner->called = false;
    if (sched->called == runner) {
        sched->called = NULL;
    }
}

/* Spins, or sleeps, in the queue, without the GIL's mutex that the caller has. Who wakes by itself
 * and finds the GIL free does not snatch it from the one that was called: as who is awake is
 * quicker, it would do so each time. */
static void doze(struct hw__sched *sched, struct hw__runner *runner, int64_t spin,
                 int64_t longest) {
    pthread_mutex_t *mutex = &sched->memory->mutex;
    for (;;) {
        pthread_mutex_unlock(mutex);
        hw__wake_unlocked(mutex);
        hw__help_apply(runner);
        hw__wake_sleep(runner, spin, longest);
        bool gives_way = atomic_load_explicit(&runner->gives_way, memory_order_relaxed);
        int64_t yield_ns = gives_way ? hw__yield(runner) : 0;
        hw__wake_lock(mutex);
        if (sched->releases == runner->called_after) {
            hw__yield_in_vain(runner, yield_ns);
        }
        atomic_store(&runner->word, HW__AWAKE);
        if (runner->place == 0 || HW__READ(sched->memory->locked) != 0 ||
            !other_comes(sched, runner)) {
            return;
        }
        spin = 0;
        longest = CALLED_NS;
        runner->wake_at_ns = sched->view.now_ns + longest;
    }
}

/* From within a hook: at this GIL the policy is over, at the others it is at the next thing that
 * happens there. The hooks stay and do nothing.
 *
 * Returns whether it is over: false where somebody starts or stops something this very moment. */
static bool end_policy(struct hw__gil *gil, pthread_mutex_t *mutex, int64_t why, const char *text) {
    if (!hw__sched_remove(hw__sched_of(gil), why)) {
        return false;
    }
    hw__sched_end(gil);
    /* The rest takes its time, and CPython goes on. */
    pthread_mutex_unlock(mutex);
    hw__wake_unlocked(mutex);
    hw__help_end();
    if (text != NULL) {
        hw__say(text);
    }
    hw__wake_lock(mutex);
    return true;
}

/* Whoever put the policy on from outside is gone: then it is over, too. */
static bool is_abandoned(struct hw__gil *gil, pthread_mutex_t *mutex, int64_t now) {
    return hw__lease_over(&hw__leases[HW__LEASE_SCHEDULE], now) &&
           end_policy(gil, mutex, HW__LEASE_EXPIRED, NULL);
}

int hw__sched_timedwait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex,
                        const struct timespec *deadline) {
    struct hw__sched *sched = hw__sched_of(gil);
    struct hw__runner *runner = hw__sched_is_on(gil, sched) ? hw__sched_runner(sched) : NULL;
    if (runner == NULL) {
        return hw__real.timedwait(cond, mutex, deadline);
    }
    unsigned long switches = HW__READ(sched->memory->switch_number);
    int64_t spin, now = sched->view.now_ns;
    if (runner->has_asked) {
        /* This very moment, and the holder is about to want the mutex: no thinking now. */
        runner->has_asked = false;
        hw__sched_enqueue(sched, runner);
        spin = runner->spin_ns;
    } else {
        hw__sched_read_interval(sched);
        now = hw__sched_time(sched);
        sched->alone = 0;
        if (runner->called) { /* late */
            forget_call(sched, runner);
            sched->counts.barged++;
        }
        hw__sched_dequeue(sched, runner);
        if (is_abandoned(gil, mutex, now)) {
            return 0; /* CPython waits anew, as without us */
        }
        tell_holder(sched, now);
        hw__habits_learn(runner, now);
        if (!runner->waiting) {
            begin_wait(sched, runner, now);
            hw__help_note(runner, hw__habits_computes(runner));
        }
        int64_t due_ns = due(sched, runner, now);
        if (due_ns <= 0) {
            return ask(sched, runner, now);
        }
        hw__sched_enqueue(sched, runner);
        runner->wake_at_ns = now + sleep_ns(sched, runner, due_ns);
        spin = spin_ns(sched, runner);
    }
    doze(sched, runner, spin, runner->wake_at_ns - now);
    if (runner->place == 0) { /* called, or the policy is over */
        sched->missed = 0;
        runner->guard_ns = GUARD_NS;
        runner->spun = false;
        return 0;
    }
    hw__sched_dequeue(sched, runner);
    if (!hw__sched_is_on(gil, sched)) {
        return 0;
    }
    now = hw__sched_time(sched);
    if (is_abandoned(gil, mutex, now)) {
        return 0;
    }
    const char *why = hw__watchdog_finds(sched, runner, now);
    if (why != NULL) {
        char text[HW__SAY_BYTES];
        hw__watchdog_text(sched, runner, why, text, sizeof text);
        if (end_policy(gil, mutex, HW__LEASE_WATCHDOG, text)) {
            return 0;
        }
    }
    if (HW__READ(sched->memory->locked) == 0) {
        return 0;
    }
    runner->guard_ns = spin > 0 ? GUARD_NS : least(2 * runner->guard_ns, GUARD_MOST_NS);
    if (HW__READ(sched->memory->switch_number) != switches) {
        return 0; /* CPython begins anew, and so do we */
    }
    return due(sched, runner, now) <= 0 ? ask(sched, runner, now) : 0;
}

/* Whether to call one more although one is on its way. Among threads that do not compute each time
 * that one is passed over calls another, as without us. For a thread that comes back from a system
 * call takes a free GIL without being in the queue, and where the core is short the system gives
 * it to the threads that are ready: one that is called, alone against all that come back, waits too
 * long (a server with 16 connections had twice the 99th percentile). Where one of them computes it
 * would only be woken in vain. */
static bool calls_another(const struct hw__sched *sched, const struct hw__runner *releaser,
                          const struct hw__runner *next) {
    return sched->passed_over && releaser != NULL && !hw__habits_computes(releaser) &&
           !hw__habits_computes(next);
}

/* Whether the policy is idle; asked now and then. Not where a thread is urgent: idle is who looks
 * at nobody but threads that compute. */
static bool is_idle(const struct hw__gil *gil, struct hw__sched *sched, int64_t now) {
    if (!gil->main || sched->policy->idle == NULL || now < sched->idle_at_ns) {
        return false;
    }
    sched->idle_at_ns = now + HW__IDLE_EVERY_NS;
    return !atomic_load_explicit(&hw__sched_any_urgent, memory_order_relaxed) &&
           sched->policy->idle(&sched->view);
}

bool hw__sched_stays_idle(const struct hw__gil *gil) {
    struct hw__sched *sched = hw__sched_of(gil);
    int64_t interval_ns = (int64_t)HW__READ(sched->memory->interval_us) * 1000;
    return sched->policy != NULL && interval_ns == sched->view.interval_ns &&
           !atomic_load_explicit(&hw__sched_any_urgent, memory_order_relaxed) &&
           !hw__lease_over(&hw__leases[HW__LEASE_SCHEDULE], hw_now_ns());
}

void hw__sched_is_asked(struct hw__gil *gil) {
    struct hw__sched *sched = hw__sched_of(gil);
    if (!hw__sched_is_on(gil, sched)) {
        return;
    }
    int64_t now = hw__sched_time(sched);
    sched->idle_at_ns = now + HW__IDLE_EVERY_NS;
    sched->stranger_ns = now - sched->view.interval_ns;
    sched->asked = true;
    sched->asked_ns = now;
    sched->again_ns = ASK_AGAIN_NS;
    sched->counts.asked++;
}

/* Tells who goes next that it is its turn. `releaser`: NULL, or who has just let the GIL go. */
static void call_next(struct hw__sched *sched, struct hw__runner *releaser, int64_t now) {
    struct hw__runner *next = hw__sched_next(sched);
    if (next == NULL || (sched->called != NULL && now - sched->called_ns < CALLED_NS &&
                         !calls_another(sched, releaser, next))) {
        return;
    }
    sched->passed_over = false;
    sched->called = next;
    sched->called_ns = now;
    sched->counts.granted++;
    bool may_yield = (sched->policy->flags & HW_POLICY_PLAIN) == 0 && hw__sched_options.yields &&
                     next->cpu == sched_getcpu();
    bool next_yields = may_yield && hw__habits_computes(next);
    atomic_store_explicit(&next->gives_way, next_yields, memory_order_relaxed);
    next->called = true;
    next->called_after = sched->releases;
    hw__sched_call(sched, next);
    if (may_yield && releaser != NULL && (releaser->seen.flags & HW_THREAD_FORCED) != 0 &&
        hw__habits_computes(releaser) && hw__help_is_short(next)) {
        hw__wake_then_yield(releaser);
    }
}

/* Whether to leave the GIL free for a moment, since who let it go will be back. */
static bool give_grace(struct hw__sched *sched, const struct hw__runner *releaser, int64_t now) {
    const struct hw_policy *policy = sched->policy;
    const struct hw__runner *next = hw__sched_next(sched);
    sched->budget_ns += (now - sched->budget_at_ns) >> BUDGET_SHIFT;
    sched->budget_ns = least(sched->budget_ns, BUDGET_MOST_NS);
    sched->budget_at_ns = now;
    int64_t away_ns = hw__habits_away_ns(releaser);
    if (policy->grace == NULL || (releaser->seen.flags & HW_THREAD_FORCED) != 0 ||
        away_ns > AT_ONCE_NS || sched->budget_ns <= (away_ns < CHEAP_NS ? -BUDGET_MOST_NS : 0)) {
        return false;
    }
    int64_t grace_ns = policy->grace(&sched->view, &next->seen, &releaser->seen);
    /* Somebody must look when the grace is over. */
    bool spinning = atomic_load_explicit(&next->spinning, memory_order_relaxed);
    bool guarded = next->wake_at_ns - now <= (spinning ? MS : GUARD_NS + grace_ns);
    return grace_ns > 0 && guarded;
}

/* Who lets the GIL go got it unseen: it is treated as if it had got it when it was first wanted. */
static struct hw__runner *meet_stranger(struct hw__sched *sched) {
    struct hw__runner *runner = hw__sched_runner(sched);
    if (runner == NULL) {
        sched->stuck_ns += hw__watchdog_stuck_ns(sched->view.now_ns - sched->stranger_ns);
        return NULL;
    }
    runner->waiting = false;
    runner->seen.ready_ns = 0;
    runner->seen.acquired_ns = sched->stranger_ns;
    sched->view.holder = &runner->seen;
    sched->policy->acquired(&sched->view, &runner->seen);
    return runner;
}

void hw__sched_release(struct hw__gil *gil) {
    struct hw__sched *sched = hw__sched_of(gil);
    if (HW__READ(sched->memory->locked) != 0 || !hw__sched_is_on(gil, sched)) {
        return;
    }
    struct hw__runner *runner = sched->holder;
    sched->releases++;
    if (runner != NULL && runner->seen.acquired_ns == UNTOLD && runner == hw__runner_known()) {
        runner->seen.run_ns = 0;
        runner->seen.released_ns = 0;
        runner->seen.flags &= ~HW_THREAD_FORCED;
        sched->holder = NULL;
        sched->view.holder = NULL;
        return;
    }
    int64_t now = hw__sched_time(sched);
    sched->free_ns = now;
    sched->graced = false;
    if (runner == NULL && sched->stranger_ns != 0) {
        runner = meet_stranger(sched);
        sched->stranger_ns = 0;
    }
    if (runner != NULL && runner == hw__runner_known()) {
        struct hw_policy_thread *seen = &runner->seen;
        int64_t held_ns = now - seen->acquired_ns;
        sched->stuck_ns += hw__watchdog_stuck_ns(held_ns);
        seen->used_ns += held_ns;
        seen->run_ns += held_ns;
        seen->flags = (seen->flags & ~HW_THREAD_FORCED) | (sched->asked ? HW_THREAD_FORCED : 0);
        sched->policy->released(&sched->view, seen, held_ns);
        seen->released_ns = now;
        if (!sched->asked) {
            seen->burst_ns += (seen->run_ns - seen->burst_ns) / 4;
            seen->run_ns = 0;
        } else if (gil->main && hw__habits_waits_on(runner)) {
            /* It wants the GIL back at once: it stands in the queue before it comes to wait. Else
             * another one would be called that is not to go next. */
            hw__sched_heed(runner);
            begin_wait(sched, runner, now);
            hw__help_note(runner, true);
            hw__sched_enqueue(sched, runner);
            runner->wake_at_ns = now;
        }
    } else {
        runner = NULL;
    }
    sched->holder = NULL;
    sched->view.holder = NULL;
    sched->asked = false;
    if (hw__sched_waiting(sched) > 0) {
        if (runner != NULL && give_grace(sched, runner, now)) {
            sched->graced = true;
            sched->counts.graced++;
        } else {
            call_next(sched, runner, now);
        }
    }
}

void hw__sched_acquire(struct hw__gil *gil) {
    struct hw__sched *sched = hw__sched_of(gil);
    if (!hw__sched_is_on(gil, sched)) {
        return;
    }
    struct hw__runner *runner = hw__sched_runner(sched);
    struct hw__runner *asked_early = sched->asked_early;
    sched->asked_early = NULL; /* whoever has come */
    bool wanted = sched->called != NULL || hw__sched_waiting(sched) > 0;
    if (!wanted && runner != NULL && !runner->waiting) {
        /* Nobody wants it but this thread: then there is nothing to be told, and no time to ask. */
        runner->seen.acquired_ns = UNTOLD;
        runner->seen.ready_ns = 0;
        runner->left_ns = 0;
        runner->cpu = sched_getcpu();
        sched->counts.acquires++;
        sched->free_ns = sched->stranger_ns = sched->ask_by_ns = 0;
        sched->graced = sched->asked = false;
        sched->holder = runner;
        sched->view.holder = &runner->seen;
        if (gil->main && ++sched->alone >= REST_AFTER) {
            sched->alone = 0;
            hw__sched_rest(gil, sched);
        }
        return;
    }
    sched->alone = 0;
    hw__sched_read_interval(sched);
    int64_t now = hw__sched_time(sched);
    if (wanted && sched->free_ns != 0) {
        sched->counts.idle_ns += now - sched->free_ns;
        int64_t charge_ns = least(now - sched->free_ns - FREE_OF_CHARGE_NS, GUARD_MOST_NS);
        sched->budget_ns -= sched->graced && charge_ns > 0 ? charge_ns : 0;
    }
    sched->graced = false;
    sched->free_ns = sched->stranger_ns = sched->ask_by_ns = 0;
    sched->asked = false;
    sched->holder = runner;
    sched->counts.acquires++;
    sched->view.holder = runner == NULL ? NULL : &runner->seen;
    sched->passed_over = sched->called != NULL && sched->called != runner;
    if (runner == NULL) {
        return;
    }
    forget_call(sched, runner);
    hw__sched_dequeue(sched, runner);
    runner->has_asked = false;
    hw__habits_learn(runner, now);
    if (runner->waiting) {
        int64_t wait_ns = now - runner->seen.ready_ns;
        sched->counts.wait_ns += wait_ns;
        if (asked_early == runner) {
            sched->counts.early++;
            sched->counts.early_wait_ns += wait_ns;
            atomic_fetch_add_explicit(&runner->early, 1, memory_order_relaxed);
        }
        sched->counts.worst_wait_ns =
            wait_ns > sched->counts.worst_wait_ns ? wait_ns : sched->counts.worst_wait_ns;
    } else {
        runner->seen.ready_ns = 0;
    }
    runner->waiting = false;
    runner->cpu = sched_getcpu();
    runner->seen.acquired_ns = now;
    sched->policy->acquired(&sched->view, &runner->seen);
    if (is_idle(gil, sched, now)) {
        hw__sched_stand_by(gil, sched);
        return;
    }
    /* Who goes next went to sleep for another holder: is it to ask this one sooner? */
    struct hw__runner *next = hw__sched_next(sched);
    if (next != NULL && !hw__habits_short(sched, runner)) {
        int64_t ask_at = now + due(sched, next, now);
        if (ask_at + (next->wake_at_ns - now) / 4 + GUARD_NS < next->wake_at_ns) {
            hw__sched_call(sched, next);
        }
    }
}

/* As CPython has it, but not for ever: up to 3.10 nobody may come (gh-96387). */
static int wait_plainly(struct hw__runner *runner, pthread_cond_t *cond, pthread_mutex_t *mutex) {
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_nsec += NEXT_SLEEP_NS;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_nsec -= 1000000000;
        deadline.tv_sec++;
    }
    (void)hw__real.timedwait(cond, mutex, &deadline);
    if (runner != NULL) {
        runner->left_ns = hw_now_ns();
    }
    return 0;
}

/* The calling thread waits in the queue, before CPython has it wait for the GIL. */
static void wait_in_queue(struct hw__gil *gil, struct hw__sched *sched, struct hw__runner *runner) {
    int64_t now = hw__sched_time(sched);
    if (hw__gil_enter(gil)) {
        hw__on_wait(gil);
        hw__gil_leave(gil);
    }
    int64_t due_ns = sched->holder == NULL ? NEXT_SLEEP_NS : due(sched, runner, now);
    int64_t longest = sleep_ns(sched, runner, due_ns < GUARD_NS ? GUARD_NS : due_ns);
    runner->wake_at_ns = now + longest;
    doze(sched, runner, spin_ns(sched, runner), longest);
}

void hw__sched_locked(struct hw__gil *gil) {
    struct hw__runner *runner = hw__runner_known();
    if (runner == NULL || runner->place == 0) {
        return;
    }
    struct hw__sched *sched = hw__sched_of(gil);
    if (runner->sched == sched && hw__sched_is_on(gil, sched) &&
        (sched->policy->flags & HW_POLICY_PLAIN) == 0 && HW__READ(sched->memory->locked) == 0 &&
        other_comes(sched, runner)) {
        wait_in_queue(gil, sched, runner);
        if (runner->left_ns != 0) {
            runner->left_ns = hw_now_ns(); /* it wanted it all the time */
        }
    }
}

int hw__sched_wait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex) {
    struct hw__sched *sched = hw__sched_of(gil);
    struct hw__runner *runner = hw__runner_known();
    const struct hw_policy *policy = hw__sched_policy();
    if (policy == NULL || (policy->flags & HW_POLICY_PLAIN) != 0 || runner == NULL ||
        runner->sched != sched || !hw__habits_waits_on(runner)) {
        return wait_plainly(runner, cond, mutex);
    }
    /* Not the record's: without the GIL's mutex, that may just have been emptied. */
    struct hw__gil_memory *memory = hw__gil_of_switch_cond(cond);
    pthread_mutex_unlock(mutex);
    hw__wake_lock(&memory->mutex);
    if (runner->place != 0 && hw__sched_is_on(gil, sched)) { /* else it is its turn already */
        wait_in_queue(gil, sched, runner);
    }
    runner->left_ns = hw_now_ns();
    pthread_mutex_unlock(&memory->mutex);
    hw__wake_unlocked(&memory->mutex); /* where the policy ended, all are called */
    pthread_mutex_lock(mutex);
    return 0;
}
