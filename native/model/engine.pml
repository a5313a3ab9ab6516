/* SPDX-License-Identifier: MIT
 *
 * The engine of native/engine/ at one GIL, for the models that include this file: wake.c, sched.c and the
 * hooks of engine.c, with the decisions of schedule/decide.c that they carry out, and CPython's take_gil()
 * and drop_gil() around them (gil/protocol.h). Words are sequentially consistent here. The GIL's mutex
 * guards all state except `word` and the flags of the hooks, and `word` and these flags are sequentially
 * consistent in the code, too. handshake.pml and generation.pml model what is not.
 *
 * Three choices are open, and the checker tries all of them: which waiter the policy puts first, whether
 * a hand-off was requested, and whether a thread that was called counts as late (CALLED_NS). So the
 * model has no policy and no clock. A sleep ends by itself only if ends_by_itself() allows it. */
#define NOBODY 15
#define AWAKE 0
#define SLEEPING 1
#define CALLED 2

bool mutex, locked;
bool in_libc[THREADS]; /* the thread sleeps in the C library's timedwait() */

bool on = true, scheduled = true; /* hw__sched_policy(); gil->scheduled and ledger.policy */
bool place[THREADS], asleep[THREADS];
byte word[THREADS], called = NOBODY;
byte to_wake[THREADS * 2]; /* two threads to wake for each thread: a runner plus one; 0: none */
bool unlock_hooked = true;
bool slot_signal = true, slot_lock = true, slot_unlock = true, slot_timedwait = true;
byte first_;
bool graced; /* the GIL is free, and no waiter was called */
bool watchdog_acts; /* the watchdog may still find fault with the policy */

#ifndef RESTING /* rest.pml defines it */
#define RESTING false
#define ROUSE(done) done = true
#define AFTER_ACQUIRE(t) skip
#endif
#ifndef RESTS_IDLE
#define RESTS_IDLE false
#endif
#ifndef WATCHDOG_MAY_ACT
#define WATCHDOG_MAY_ACT false
#endif
#ifndef GRACE_MAY_BE_GIVEN
#define GRACE_MAY_BE_GIVEN false
#endif

#define PENDING(t) (to_wake[(t) * 2] != 0)
#define LOCK() atomic { !mutex -> mutex = true }
#define UNLOCK() mutex = false

/* ---- wake.c */
inline wake_now(r) {
    d_step {
        if
        :: word[r] == SLEEPING -> word[r] = CALLED; asleep[r] = false
        :: else -> word[r] = CALLED
        fi
    }
}
inline wake_all(t) {
    if :: to_wake[(t) * 2] != 0 -> wake_now(to_wake[(t) * 2] - 1); to_wake[(t) * 2] = 0 :: else fi;
    if :: to_wake[(t) * 2 + 1] != 0 -> wake_now(to_wake[(t) * 2 + 1] - 1); to_wake[(t) * 2 + 1] = 0 :: else fi
}
inline wake_unlocked(t) { if :: PENDING(t) -> wake_all(t) :: else fi }
inline wake(t, r) {
    if
    :: !unlock_hooked -> wake_now(r)
    :: else ->
        if :: to_wake[(t) * 2 + 1] != 0 -> wake_all(t) :: else fi;
        if :: !PENDING(t) -> to_wake[(t) * 2] = (r) + 1 :: else -> to_wake[(t) * 2 + 1] = (r) + 1 fi
    fi
}
inline sleep(t) {
#ifdef MUTATION_SLEEP_UNSEEN
    word[t] = SLEEPING;
    asleep[t] = true;
#else
    d_step { if :: word[t] == AWAKE -> word[t] = SLEEPING :: else fi }
    d_step { if :: word[t] == SLEEPING -> asleep[t] = true :: else fi } /* FUTEX_WAIT compares */
#endif
    if
    :: !asleep[t]
    :: atomic { asleep[t] && ends_by_itself(t) -> asleep[t] = false; on_time_out(t) }
    fi
}

/* ---- sched.c; the caller holds the mutex */
inline call(t, r) { place[r] = false; wake(t, r) }
inline pick(r) { if :: place[0] -> r = 0 :: place[1] -> r = 1
#if THREADS > 2
                    :: place[2] -> r = 2
#endif
#if THREADS > 3
                    :: place[3] -> r = 3
#endif
                 fi }
#if THREADS > 3
#define ANY_PLACE (place[0] || place[1] || place[2] || place[3])
#elif THREADS > 2
#define ANY_PLACE (place[0] || place[1] || place[2])
#else
#define ANY_PLACE (place[0] || place[1])
#endif
inline call_all(t) {
#ifndef MUTATION_NOBODY_CALLED
    do
    :: ANY_PLACE -> atomic { pick(first_); call(t, first_); first_ = 0 }
    :: else -> break
    od;
#endif
#ifndef MUTATION_END_DEFERS
    wake_all(t)
#else
    skip
#endif
}
inline end_policy(t) {
    call_all(t);
    called = NOBODY;
    scheduled = false
}

/* ---- CPython's calls, through the slots */
inline unlock_by_slot(t) {
    if
    :: slot_unlock -> UNLOCK();
#ifndef MUTATION_NO_UNLOCK_HOOK
        wake_unlocked(t)
#endif
    :: else -> UNLOCK()
    fi
}
inline real_signal() {
    atomic {
        if
        :: in_libc[0] -> in_libc[0] = false
        :: in_libc[1] -> in_libc[1] = false
#if THREADS > 2
        :: in_libc[2] -> in_libc[2] = false
#endif
        :: else
        fi
    }
}
/* CPython's own switch interval ends the wait. */
inline real_timedwait(t) {
    assert(!PENDING(t));
    atomic { in_libc[t] = true; UNLOCK() }
    atomic { if :: !in_libc[t] :: in_libc[t] = false fi }
    LOCK()
}

/* ---- engine.c; the caller holds the mutex unless a comment says otherwise */
#define OTHER_COMES(t) (called != NOBODY && called != t) /* within CALLED_NS */

inline enqueue(t) {
    word[t] = AWAKE;
    place[t] = true
}
inline doze(t) {
    do
    :: true ->
        UNLOCK();
#ifdef MUTATION_WORD_LATE
        word[t] = AWAKE;
#endif
        wake_unlocked(t);
        sleep(t);
        LOCK();
        word[t] = AWAKE;
        if
        :: place[t] && !locked && OTHER_COMES(t) /* sleeps once more */
        :: break
        fi
    od
}
inline sched_timedwait(t) {
#ifndef MUTATION_LATE_STAYS_CALLED
    if :: called == t -> called = NOBODY :: else fi; /* it comes late */
#endif
    place[t] = false;
#ifdef MUTATION_ENQUEUE_LATE
    UNLOCK();
    LOCK();
#endif
    enqueue(t);
    doze(t);
    if
    :: !place[t] /* it was called, or the policy has ended */
    :: else ->
        place[t] = false;
        if
        :: !on && scheduled -> end_policy(t)
        :: on && WATCHDOG_MAY_ACT -> /* end_policy() of ending.c */
            watchdog_acts = false;
            on = false;
            end_policy(t);
            UNLOCK();
            wake_unlocked(t);
            LOCK()
        :: else
        fi
    fi
}
inline call_next(t) {
    if
    :: ANY_PLACE && called == NOBODY -> atomic { pick(called); call(t, called) }
    :: ANY_PLACE && called != NOBODY -> atomic { pick(called); call(t, called) } /* called long ago, or passed over */
    :: ANY_PLACE && called != NOBODY
    :: !ANY_PLACE
    fi
}
inline hook_release(t, forced) {
    if
    :: scheduled && on ->
        if :: forced -> enqueue(t) :: else fi;
        if
        :: GRACE_MAY_BE_GIVEN && ANY_PLACE -> graced = true /* a sleeper wakes and looks by itself */
        :: call_next(t)
        fi
    :: scheduled && !on -> end_policy(t)
    :: else
    fi
}
inline hook_acquire(t) {
    graced = false;
    if
    :: scheduled && on ->
        if :: called == t -> called = NOBODY :: else fi;
        place[t] = false;
        if
        :: ANY_PLACE -> atomic { pick(first_); call(t, first_); first_ = 0 } /* to make a request sooner */
        :: true
        fi
    :: scheduled && !on -> end_policy(t)
    :: !scheduled && on -> called = NOBODY; scheduled = true
    :: else
    fi
}
/* hw__sched_wait(); the caller does not hold the mutex. */
inline hook_wait(t) {
    LOCK();
    if
    :: place[t] && scheduled && on -> doze(t)
    :: else
    fi;
    UNLOCK();
    wake_unlocked(t)
}
inline hook_lock(t) {
    LOCK();
    if
    :: slot_lock && !RESTING && place[t] && scheduled && on && !locked && OTHER_COMES(t) -> doze(t)
    :: true
    fi
}

/* ---- Python/ceval_gil.c */
inline take_gil(t, may_) {
    hook_lock(t);
    do
    :: locked ->
        if
        :: slot_timedwait && RESTS_IDLE ->
            real_timedwait(t);
            if :: locked -> ROUSE(may_) :: true fi /* it has waited in vain for a switch interval */
        :: slot_timedwait ->
            ROUSE(may_);
            if
            :: !may_ -> real_timedwait(t)
            :: may_ && !scheduled -> real_timedwait(t)
            :: may_ && scheduled && !on -> end_policy(t); real_timedwait(t)
            :: may_ && scheduled && on -> sched_timedwait(t)
            fi
        :: else -> real_timedwait(t)
        fi
    :: else -> break
    od;
    locked = true;
    if :: slot_signal && !RESTING -> hook_acquire(t) :: else fi;
#ifdef MUTATION_REST_UNGUARDED
    unlock_by_slot(t);
    AFTER_ACQUIRE(t)
#else
    AFTER_ACQUIRE(t);
    unlock_by_slot(t)
#endif
}
inline drop_gil(t, forced) {
    LOCK();
    locked = false;
    if :: slot_signal && !RESTING -> hook_release(t, forced) :: else fi;
    real_signal();
    unlock_by_slot(t);
    if :: forced -> hook_wait(t) :: else fi
}
