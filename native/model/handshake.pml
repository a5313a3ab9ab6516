/* SPDX-License-Identifier: MIT
 *
 * native/gil/gil.c: hooks that write events of a GIL, and a session that ends meanwhile.
 *
 * hook() is a call of signal() or timedwait(), made with the GIL's mutex held: enter is hw__gil_enter(),
 * leave is hw__gil_leave(). session() is hw_trace_start() and hw_trace_stop(): record is
 * hw__gil_record(), unrecord is hw__gil_unrecord(). After unrecord, the events' memory is unmapped.
 * HEAVY: a kernel without membarrier(2). REFUSED: a filter has refused membarrier(2) since the session
 * began; a wait that is longer than any store takes to become visible then replaces it.
 *
 * Checked: no hook uses the memory before the session has it or after it is unmapped. The thread that ends
 * the session sees all events. A hook sees the fields that hw__gil_record() has emptied. With LIVE (hooks
 * run for ever): the session ends. */
#define THREADS 3
#define WORDS 5
#define MUTEX 0
#define BUSY 1
#define RECORDED 2
#define EVENTS 3
#define ANNOUNCED 4
#include "memory.pml"

#ifdef HEAVY
#define MARK SEQ
#else
#define MARK RLX
#endif
#ifdef MUTATION_LEAVE_RELAXED
#define LEAVE RLX
#else
#define LEAVE REL
#endif
#ifdef MUTATION_RECORD_RELAXED
#define RECORD RLX
#else
#define RECORD SEQ
#endif

bool mapped, ended;
byte written, announcements;

inline enter(t, may) {
    may = true;
#ifndef MUTATION_NO_FIRST_LOOK
    load(t, RECORDED, RLX, may);
#endif
    if
    :: may ->
#ifdef MUTATION_LOOK_FIRST
        load(t, RECORDED, SEQ, may);
        store(t, BUSY, 1, MARK);
#else
        store(t, BUSY, 1, MARK);
        load(t, RECORDED, SEQ, may);
#endif
        if :: may :: else -> leave(t) fi
    :: else
    fi
}

inline leave(t) { store(t, BUSY, 0, LEAVE) }

proctype hook(byte t) {
    byte may, n, left = 2;
end:
    do
    :: left > 0 ->
#ifndef LIVE
        left--;
#endif
        lock(t, MUTEX);
        enter(t, may);
        if
        :: may ->
            assert(mapped);
#ifndef LIVE
            load(t, ANNOUNCED, RLX, n);
            if
            :: n == 0 -> announcements++; store(t, ANNOUNCED, 1, RLX)
            :: else
            fi;
            assert(announcements == 1);
            load(t, EVENTS, RLX, n);
            assert(n == written);
            d_step { written++; n++ }
            store(t, EVENTS, n, RLX);
#endif
            assert(mapped);
            leave(t)
        :: else
        fi;
        unlock(t, MUTEX)
    :: left == 0 -> break
    od
}

inline record(t) {
    mapped = true;
    store(t, ANNOUNCED, 0, RLX);
    announcements = 0;
    store(t, RECORDED, 1, RECORD)
}

/* Waits long enough: all threads see each store that was made before, and each load that was begun before
 * has its value. */
#define patience(t) membarrier(t)

inline unrecord(t) {
    byte busy = 1;
    store(t, RECORDED, 0, SEQ);
#if defined(REFUSED) && !defined(MUTATION_NO_PATIENCE)
    patience(t);
#elif !defined(HEAVY) && !defined(REFUSED) && !defined(MUTATION_NO_BARRIER)
    membarrier(t);
#endif
#ifndef MUTATION_NO_WAIT
    do
    :: busy -> load(t, BUSY, SEQ, busy)
    :: else -> break
    od
#endif
}

proctype session(byte t) {
    byte n, times = 2;
    do
    :: times > 0 ->
        times--;
        record(t);
        unrecord(t);
#ifndef LIVE
        load(t, EVENTS, RLX, n);
        assert(n == written);
#endif
        mapped = false
    :: else -> break
    od;
    ended = true
}

init { atomic { run hook(0); run hook(1); run session(2) } }

#ifdef LIVE
ltl ends { <> ended }
#endif
