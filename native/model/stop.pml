/* SPDX-License-Identifier: MIT
 *
 * native/engine/control.c and ending.c: a policy ends while threads are anywhere in its hooks (engine.pml),
 * and another policy begins. stopper() is a thread that does not use the GIL: hw_schedule_stop(), then
 * hw_schedule_start() of the next policy. The hooks go out and come in slot by slot. WATCHDOG: a waiter ends
 * the policy from inside a hook instead. ELSEWHERE: a waiter at another GIL does, and at this GIL the policy
 * ends at the next call of a hook. TRACED: the recorder keeps the hooks of signal() and timedwait() in.
 *
 * No sleep in our queue ends by itself. Checked: every thread gets the GIL as often as it wants it, so no
 * thread sleeps in a queue that no release looks at. No thread is left to be woken. */
#define THREADS 4
#ifndef HOLDS
#define HOLDS 1
#endif
#define ends_by_itself(t) (slips > 0)
#define on_time_out(t) slips--
#ifdef WATCHDOG
byte slips = 1; /* a waiter that wakes by itself runs the watchdog */
#define WATCHDOG_MAY_ACT watchdog_acts
#else
byte slips = 0;
#endif
#include "engine.pml"

proctype thread(byte t) {
    byte left = HOLDS;
    bool may;
    do
    :: left > 0 -> left--; take_gil(t, may); drop_gil(t, false)
    :: else -> break
    od;
    assert(!place[t])
}

inline put(are_in) {
#ifndef TRACED
    slot_timedwait = are_in;
    slot_signal = are_in;
#endif
    slot_lock = are_in;
    slot_unlock = are_in
}

proctype stopper(byte t) {
#if defined(WATCHDOG)
    watchdog_acts = true
#elif defined(ELSEWHERE)
    on = false
#else
    unlock_hooked = false;
    on = false;
    LOCK();
    if :: scheduled -> end_policy(t) :: else fi;
    UNLOCK();
    wake_unlocked(t);
    put(false);
#ifdef AGAIN
    put(true);
    unlock_hooked = true;
    on = true;
    LOCK();
    scheduled = true;
    UNLOCK()
#endif
#endif
}

init { atomic { run thread(0); run thread(1); run thread(2); run stopper(3) } }
