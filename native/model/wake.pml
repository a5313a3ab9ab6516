/* SPDX-License-Identifier: MIT
 *
 * native/engine/: threads that want a GIL under a policy, each for HOLDS holds (engine.pml has the steps).
 * Only a call wakes a sleeping thread, except that a sleep ends by itself SLIPS times in all, at any moment.
 * So each call may come too late, and each wake-up may reach a thread that has looked long before. FORCED:
 * one of the threads also gets a request to release the GIL, and then waits in the queue. GRACE: there are
 * also releases after which no waiter is called; then any sleeper wakes and looks by itself.
 *
 * Checked: every thread gets the GIL as often as it wants it (no thread sleeps for ever: there is no invalid
 * end state), one at a time. A thread in the queue wants the GIL. No thread is left to be woken. */
#define THREADS 3
#ifndef SLIPS
#define SLIPS 1
#endif
#ifndef HOLDS
#define HOLDS 2
#endif
byte slips = SLIPS;
#define ends_by_itself(t) (slips > 0 || (graced && !locked))
#define on_time_out(t) if :: graced && !locked :: else -> slips-- fi
#ifdef GRACE
#define GRACE_MAY_BE_GIVEN true
#endif
#include "engine.pml"

byte holders;

proctype thread(byte t) {
    byte left = HOLDS;
    bool forced, may;
    do
    :: left > 0 ->
        left--;
        take_gil(t, may);
        holders++;
        assert(holders == 1 && !place[t] && called != t);
        holders--;
#ifdef FORCED
        if
        :: t == 0 && left > 0 -> forced = true /* the thread comes back */
        :: forced = false
        fi;
#endif
        drop_gil(t, forced)
    :: else -> break
    od;
    assert(!place[t] && !PENDING(t))
}

init { atomic { run thread(0); run thread(1); run thread(2) } }
