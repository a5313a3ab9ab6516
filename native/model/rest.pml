/* SPDX-License-Identifier: MIT
 *
 * native/gil/hooks.c: a GIL that nobody waits for goes to rest, and its hooks are taken out, but for
 * that of timedwait(); who has to wait rouses it, and they come back (engine.pml has what happens
 * around that). With IDLE it goes to rest while others wait, too: these are called, and wait in the C
 * library; who does so in vain rouses it. And somebody who changes the hooks meanwhile without that GIL, as a sub-interpreter
 * with a GIL of its own can:
 *
 * - TRACE: hw_trace_start(): hw__hooks_install(), then the GIL is recorded.
 * - STOP: hw_schedule_stop(): the policy ends, then hw__hooks_remove().
 * - NEW_GIL: another GIL comes to life (look_and_signal(), hw__on_new_gil()), and its holder calls
 *   somebody. While there are two, no hook goes out.
 * FIXED: an image whose slots cannot be written in passing, so that the hooks pass by instead.
 *
 * No sleep in our queue ends by itself. Checked: every thread gets the GIL as often as it wants it;
 * nobody sleeps in the queue while the GIL rests; a GIL that is recorded does not rest; who has
 * unlocked its mutex has woken whom it called. */
#define THREADS 3
#define HOLDS 2
#define ends_by_itself(t) false
#define on_time_out(t) skip
#define RESTING resting
#define ROUSE(done) rouse(done)
#define AFTER_ACQUIRE(t) may_rest(t)
bool resting, changing, paused, traced, recorded;
#ifdef IDLE
#define RESTS_IDLE resting /* wait_at_rest() of hooks.c */
#define MAY_REST true
#else
#define MAY_REST (!ANY_PLACE && called == NOBODY)
#endif
byte gils = 1;
#include "engine.pml"

inline put_back() {
    if
    :: paused ->
        slot_lock = true;
        slot_unlock = true;
        unlock_hooked = true;
        slot_signal = true;
        paused = false
    :: else
    fi
}
inline try_change(done) { d_step { done = !changing; changing = true } }

/* hw__hooks_rouse(): false where somebody else is at the hooks this very moment. */
inline rouse(done) {
    if
#ifdef MUTATION_NOT_ROUSED
    :: true -> done = true
#endif
    :: !resting -> done = true
    :: else ->
        try_change(done);
        if
        :: done -> put_back(); resting = false; changing = false
        :: else
        fi
    fi
}

/* hw__hooks_rest(), in hw__sched_acquire(). */
inline may_rest(t) {
    if
    :: slot_signal && !resting && scheduled && on && MAY_REST && !recorded && !changing ->
        atomic { !changing -> changing = true }
        if
#ifdef MUTATION_REST_TRACED /* as it was */
        :: true ->
#else
        :: traced
        :: !traced ->
#endif
            if
#ifndef FIXED
            :: gils == 1 ->
                paused = true;
                slot_signal = false;
                unlock_hooked = false;
                slot_lock = false;
                slot_unlock = false;
#ifdef MUTATION_GIL_UNSEEN
                if :: gils != 1 -> put_back() :: else fi
#endif
#endif
            :: else
            fi;
            resting = true
        fi;
        changing = false;
#if defined(IDLE) && !defined(MUTATION_IDLE_CALLS_NOBODY) /* hw__sched_stand_by() */
        if :: resting -> call_all(t); called = NOBODY :: else fi
#endif
    :: true
    fi
}

/* begin_change(): until hw__hooks_rest() and hw__hooks_rouse() are out of the way. */
inline begin_change() {
#ifdef MUTATION_ROUSE_BEFORE /* as it was: it may rest again in between */
    do
    :: !resting -> break
    :: atomic { resting && !changing -> changing = true } put_back(); resting = false; changing = false; break
    od;
    atomic { !changing -> changing = true }
#else
    atomic { !changing -> changing = true }
    put_back();
#ifndef MUTATION_LEAVE_AT_REST
    resting = false
#endif
#endif
}

proctype thread(byte t) {
    byte left = HOLDS;
    bool may;
    do
    :: left > 0 -> left--; take_gil(t, may); drop_gil(t, false)
    :: else -> break
    od;
    assert(!place[t] && !PENDING(t))
}

proctype other(byte t) {
    skip;
#ifdef TRACE
    begin_change();
    traced = true;
    changing = false;
    recorded = true
#endif
#ifdef STOP
    unlock_hooked = false;
    on = false;
    LOCK();
    if :: scheduled -> end_policy(t) :: else fi;
    UNLOCK();
    wake_unlocked(t);
    begin_change();
    slot_lock = false;
    slot_unlock = false;
    slot_timedwait = false;
    slot_signal = false;
    changing = false
#endif
#ifdef NEW_GIL
    byte hooks = 3, who = 2;
    bool may;
    do
    :: hooks > 0 ->
        hooks--;
        if
        :: !slot_signal
        :: slot_signal && gils == 1 ->
#ifdef MUTATION_GIL_UNSEEN /* as it was */
            gils = 2
#else
            try_change(may);
            if :: may -> put_back(); resting = false; gils = 2; changing = false :: else fi
#endif
        :: slot_signal && gils == 2 -> wake(t, who) /* a sleeper of that GIL; whose is of no matter */
        fi;
        if :: slot_unlock -> wake_unlocked(t) :: else fi; /* of its own mutex */
        assert(!PENDING(t))
    :: else -> break
    od
#endif
}

active proctype watch() {
end:
    do
    :: atomic { recorded && resting -> assert(false) }
    :: atomic { resting && !mutex && ANY_PLACE -> assert(false) }
    od
}

#ifdef CROWD /* one that is not called by a release stays in the queue */
init { atomic { run thread(0); run thread(1); run thread(2) } }
#else
init { atomic { run thread(0); run thread(1); run other(2) } }
#endif
