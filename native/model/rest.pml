/* SPDX-License-Identifier: MIT
 *
 * native/gil/hooks.c: a GIL that no thread waits for goes to rest. Its hooks are taken out, except for that
 * of timedwait(). A thread that must wait rouses the GIL, and the hooks come back (engine.pml models what
 * happens around that). With IDLE, the GIL goes to rest while others wait, too: these are called, and wait
 * in the C library; a waiter that waits there in vain rouses the GIL. Meanwhile another thread changes the
 * hooks without holding that GIL, as a sub-interpreter with a GIL of its own can:
 *
 * - TRACE: hw_trace_start(): hw__hooks_install(), then the GIL is recorded.
 * - STOP: hw_schedule_stop(): the policy ends, then hw__hooks_remove().
 * - NEW_GIL: another GIL comes to life (look_and_signal(), hw__on_new_gil()), and its holder calls a
 *   waiter. While there are two GILs, no hook goes out.
 * FIXED: an image whose slots cannot be written at run time, so the hooks pass their calls on instead.
 *
 * No sleep in our queue ends by itself. Checked: every thread gets the GIL as often as it wants it. No
 * thread sleeps in the queue while the GIL rests. A GIL that is recorded does not rest. A thread that has
 * unlocked its mutex has woken the threads that it called. */
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

/* hw__hooks_rouse(): sets `done` to false if another thread is changing the hooks at this moment. */
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
#ifdef MUTATION_REST_TRACED /* an earlier version did not look at `traced` */
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

/* begin_change(): waits until hw__hooks_rest() and hw__hooks_rouse() are done. */
inline begin_change() {
#ifdef MUTATION_ROUSE_BEFORE /* an earlier version; the GIL may rest again in between */
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
#ifdef MUTATION_GIL_UNSEEN /* an earlier version */
            gils = 2
#else
            try_change(may);
            if :: may -> put_back(); resting = false; gils = 2; changing = false :: else fi
#endif
        :: slot_signal && gils == 2 -> wake(t, who) /* a sleeper of that GIL; which one does not matter */
        fi;
        if :: slot_unlock -> wake_unlocked(t) :: else fi; /* the unlock of its own mutex */
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

#ifdef CROWD /* a thread that no release calls stays in the queue */
init { atomic { run thread(0); run thread(1); run thread(2) } }
#else
init { atomic { run thread(0); run thread(1); run other(2) } }
#endif
