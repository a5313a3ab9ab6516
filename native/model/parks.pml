/* SPDX-License-Identifier: MIT
 *
 * native/trace/parks.c: threads of a free-threaded build that record a park, and a session that ends
 * meanwhile. There is no GIL and so no mutex of one. A recording thread counts itself in `telling`, then
 * checks whether the door is open. The thread that ends the session closes the door, then waits until the
 * count is 0.
 *
 * teller() is hw__parks_wanted(), then hw__on_park(), hw__on_unpark(), or hw__on_spin():
 * hw__telling_begin(), the event, the count again. An event that a spin keeps back is written later: by its
 * own thread, as such an event, or by the end of the session when the count is 0, after all others.
 * session() is hw__parks_begin(), then hw__parks_stop(), after which the memory is unmapped.
 * CHILD: a forked child instead of session(). Its first event makes the session its own (hw__adopt()) and
 * finds that it cannot.
 *
 * Checked: no thread records without memory. The thread that ends the session sees all events. */
#define THREADS 3
#define WORDS 5
#define TELLING 0
#define DOOR 1
#define EVENTS 2
#define INHERITED 3
#define META 4 /* free_meta, which is tried and never waited for; here it orders the events of two tellers */
#include "memory.pml"

/* session.inherited */
#define OWN 0
#define FROM_PARENT 1
#define ADOPTING 2
#define LOST 3

#ifdef MUTATION_DOOR_RELAXED
#define CLOSE RLX
#else
#define CLOSE SEQ
#endif
#ifdef MUTATION_LOOK_RELAXED
#define LOOK RLX
#else
#define LOOK SEQ
#endif

bool mapped;
byte written;

#ifdef MUTATION_COUNT_RELAXED /* no read-modify-write */
inline count(t, by, scratch) { load(t, TELLING, RLX, scratch); store(t, TELLING, scratch + (by), RLX) }
#else
inline count(t, by, scratch) { add(t, TELLING, by) }
#endif

/* adopt() that fails. A try of another thread is not waited for. */
inline adopt(t, may) {
    exchange_if(t, INHERITED, FROM_PARENT, ADOPTING, may);
    if
    :: may == FROM_PARENT ->
        mapped = false;
        store(t, DOOR, 0, CLOSE);
#ifdef MUTATION_LOST_IS_OWN /* an earlier version */
        store(t, INHERITED, OWN, SEQ);
#else
        store(t, INHERITED, LOST, SEQ);
#endif
        may = false
    :: else -> may = (may == OWN)
    fi
}

/* A compare-and-exchange; if it fails, it changes nothing. */
inline exchange_if(t, x, expected, value, was) {
    atomic {
        if
        :: LAST(x) == expected -> exchange(t, x, value, SEQ, was)
        :: else -> was = LAST(x)
        fi
    }
}

/* begin_telling() */
inline begin(t, may, n) {
#ifdef MUTATION_LOOK_FIRST
    load(t, DOOR, LOOK, may);
    count(t, 1, n)
#else
    count(t, 1, n);
    load(t, DOOR, LOOK, may)
#endif
}

proctype teller(byte t) {
    byte may, n, left = 2;
    do
    :: left > 0 ->
        left--;
        begin(t, may, n);
        if
        :: may ->
#ifdef MUTATION_LEASE_FIRST /* an earlier version */
            assert(mapped);
#endif
#ifdef CHILD
            load(t, INHERITED, SEQ, may);
            if :: may != OWN -> adopt(t, may) :: else -> may = true fi;
#endif
            if :: may -> assert(mapped) :: else fi /* the end of a lease is noted there */
        :: else
        fi;
        count(t, -1, n);
        if
        :: may ->
            begin(t, may, n);
            if
            :: may ->
                assert(mapped);
                lock(t, META);
                load(t, EVENTS, RLX, n);
                d_step { written++; n++ }
                store(t, EVENTS, n, RLX);
                unlock(t, META);
                assert(mapped)
            :: else
            fi;
            count(t, -1, n)
        :: else
        fi
    :: else -> break
    od
}

proctype session(byte t) {
    byte n;
    mapped = true;
    store(t, DOOR, 1, SEQ);
    store(t, DOOR, 0, CLOSE);
#ifndef MUTATION_NO_WAIT
    n = 1;
    do
    :: n != 0 -> load(t, TELLING, SEQ, n)
    :: else -> break
    od;
#endif
    load(t, EVENTS, RLX, n);
    assert(n == written);
    mapped = false
}

init {
    atomic {
#ifdef CHILD
        mapped = true;
        store(0, INHERITED, FROM_PARENT, SEQ);
        store(0, DOOR, 1, SEQ);
#ifdef C11
        membarrier(0);
#endif
        run teller(0); run teller(1)
#else
        run teller(0); run teller(1); run session(2)
#endif
    }
}
