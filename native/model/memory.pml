/* SPDX-License-Identifier: MIT
 *
 * Shared words under a memory model, for the models that include this file. A model defines WORDS (its
 * words are numbered from 0 on) and THREADS, and is checked with one of these memory models:
 *
 * - SC: each load sees the last store.
 * - TSO: x86. The stores of a thread go through a buffer, first in, first out, that only this thread sees.
 *   A sequentially consistent store, an exchange and a fence empty the buffer.
 * - C11: what C11 allows, except for loads that see later stores; aarch64 allows less. Each word is the
 *   list of its stores. A thread's view says, for each word, up to which store the thread has seen it; the
 *   thread may read that store or any later one. A release store carries the view of the storing thread,
 *   and an acquire load takes that view over. A sequentially consistent load reads nothing older than the
 *   last sequentially consistent store to that word. A sequentially consistent fence takes over, and passes
 *   on, the view of all other such fences. A store that DEPTH others have followed is seen by all threads.
 *
 * Orders are as in C: RLX, ACQ, REL, SEQ. Each operation is one step, except for membarrier(). */
#define RLX 0
#define ACQ 1
#define REL 2
#define SEQ 3

#if defined(SC)
byte word[WORDS];
#define LAST(x) word[x]
#define load(t, x, order, to) to = word[x]
#define store(t, x, value, order) word[x] = value
#define exchange(t, x, value, order, to) d_step { to = word[x]; word[x] = value }
#define add(t, x, value) word[x] = word[x] + value
#define lock(t, x) atomic { word[x] == 0 -> word[x] = 1 }
#define membarrier(t) skip
#define memory_model() skip

#elif defined(TSO)
#define DEPTH 3
byte word[WORDS];
byte buffered[THREADS * DEPTH]; /* word << 4 | value */
byte fill[THREADS];
byte turn_;
hidden byte i_;
#define LAST(x) word[x]
#define OLDEST(t) buffered[(t) * DEPTH]
inline drain_one(t) {
    word[OLDEST(t) >> 4] = OLDEST(t) & 15;
    for (i_ : 1 .. DEPTH - 1) { buffered[(t) * DEPTH + i_ - 1] = buffered[(t) * DEPTH + i_] }
    buffered[(t) * DEPTH + DEPTH - 1] = 0;
    fill[t]--
}
inline load(t, x, order, to) {
    d_step {
        to = word[x];
        for (i_ : 0 .. DEPTH - 1) {
            if
            :: i_ < fill[t] && (buffered[(t) * DEPTH + i_] >> 4) == x -> to = buffered[(t) * DEPTH + i_] & 15
            :: else
            fi
        }
    }
}
inline store(t, x, value, order) {
    if
    :: order == SEQ -> atomic { fill[t] == 0 -> word[x] = value }
    :: else -> d_step { fill[t] < DEPTH -> buffered[(t) * DEPTH + fill[t]] = (x) << 4 | (value); fill[t]++ }
    fi
}
#define exchange(t, x, value, order, to) atomic { fill[t] == 0 -> to = word[x]; word[x] = value }
#define add(t, x, value) atomic { fill[t] == 0 -> word[x] = word[x] + value }
#define lock(t, x) atomic { fill[t] == 0 && word[x] == 0 -> word[x] = 1 }
inline membarrier(t) {
    for (turn_ : 0 .. THREADS - 1) {
        d_step { do :: fill[turn_] > 0 -> drain_one(turn_) :: else -> break od; skip }
    }
    turn_ = 0
}
inline drain(t) { d_step { fill[t] > 0 -> drain_one(t) } }
active proctype memory_model() {
    byte t = 0;
end:
    do
    :: atomic { fill[0] > 0 -> drain(0) }
#if THREADS > 1
    :: atomic { fill[1] > 0 -> drain(1) }
#endif
#if THREADS > 2
    :: atomic { fill[2] > 0 -> drain(2) }
#endif
    od
}

#elif defined(C11)
#define DEPTH 4
byte value_[WORDS * DEPTH];        /* the stores of each word, the oldest first */
byte carried[WORDS * DEPTH * WORDS]; /* the view that each store carries */
byte newest[WORDS];
byte view[THREADS * WORDS];
byte sequential[WORDS]; /* the view of all sequentially consistent operations */
byte at_, turn_;
hidden byte i_, j_, k_, least_;
#define VIEW(t, x) view[(t) * WORDS + (x)]
#define VALUE(x, i) value_[(x) * DEPTH + (i)]
#define CARRIED(x, i, y) carried[((x) * DEPTH + (i)) * WORDS + (y)]
#define LAST(x) VALUE(x, newest[x])
#define MAX(a, b) (a > b -> a : b)
#define LESS(a, b) (a > b -> a - b : 0)
/* Forgets the `n` oldest stores of x. */
inline forget(x, n) {
    for (i_ : 0 .. DEPTH - 1) {
        for (j_ : 0 .. WORDS - 1) {
            CARRIED(x, i_, j_) = (i_ + n < DEPTH -> carried[((x) * DEPTH + (i_ + n) % DEPTH) * WORDS + j_] : 0)
        }
        VALUE(x, i_) = (i_ + n < DEPTH -> value_[(x) * DEPTH + (i_ + n) % DEPTH] : 0)
    }
    for (i_ : 0 .. THREADS - 1) { VIEW(i_, x) = LESS(VIEW(i_, x), n) }
    for (i_ : 0 .. WORDS * DEPTH - 1) { carried[i_ * WORDS + x] = LESS(carried[i_ * WORDS + x], n) }
    sequential[x] = LESS(sequential[x], n);
    newest[x] = newest[x] - n
}
/* Forgets the stores that no thread can read any more; they are not part of the state. */
inline settle(x) {
    least_ = newest[x];
    for (i_ : 0 .. THREADS - 1) { least_ = (VIEW(i_, x) < least_ -> VIEW(i_, x) : least_) }
    if :: least_ > 0 -> forget(x, least_) :: else fi
}
inline append(t, x, value, order) {
    if :: newest[x] == DEPTH - 1 -> forget(x, 1) :: else fi;
    newest[x]++;
    VALUE(x, newest[x]) = value;
    VIEW(t, x) = newest[x];
    for (k_ : 0 .. WORDS - 1) {
        CARRIED(x, newest[x], k_) = MAX(CARRIED(x, newest[x], k_), (order >= REL -> VIEW(t, k_) : 0))
    }
    CARRIED(x, newest[x], x) = newest[x];
    if :: order == SEQ -> sequential[x] = newest[x] :: else fi
}
inline take_over(t, x, i) {
    for (k_ : 0 .. WORDS - 1) { VIEW(t, k_) = MAX(VIEW(t, k_), CARRIED(x, i, k_)) }
}
inline load(t, x, order, to) {
    atomic {
        at_ = (order == SEQ -> MAX(VIEW(t, x), sequential[x]) : VIEW(t, x));
        do :: at_ < newest[x] -> at_++ :: break od;
        d_step {
            to = VALUE(x, at_);
            VIEW(t, x) = at_;
            if :: order == ACQ || order == SEQ -> take_over(t, x, at_) :: else fi;
            if :: order == SEQ -> sequential[x] = MAX(sequential[x], at_) :: else fi;
            at_ = 0;
            settle(x);
            skip
        }
    }
}
inline store(t, x, value, order) { d_step { append(t, x, value, order); settle(x); skip } }
/* Reads the last store. What that store carried is carried on (a release sequence). */
inline modify(t, x, value, order, to) {
    to = LAST(x);
    if :: newest[x] == DEPTH - 1 -> forget(x, 1) :: else fi;
    if :: order != RLX && order != REL -> take_over(t, x, newest[x]) :: else fi;
    for (k_ : 0 .. WORDS - 1) { CARRIED(x, newest[x] + 1, k_) = CARRIED(x, newest[x], k_) }
    append(t, x, value, order);
    settle(x)
}
byte was_;
#define exchange(t, x, value, order, to) d_step { modify(t, x, value, order, to); skip }
#define add(t, x, value) d_step { modify(t, x, LAST(x) + value, SEQ, was_); was_ = 0 }
#define lock(t, x) atomic { LAST(x) == 0 -> d_step { modify(t, x, 1, ACQ, was_); was_ = 0 } }
inline fence_of(t) {
    for (k_ : 0 .. WORDS - 1) {
        VIEW(t, k_) = MAX(VIEW(t, k_), sequential[k_]);
        sequential[k_] = VIEW(t, k_)
    }
}
/* Interrupts the core of each thread at some moment between begin and end. */
inline membarrier(t) {
    d_step { fence_of(t); skip }
    for (turn_ : 0 .. THREADS - 1) { d_step { fence_of(turn_); skip } }
    turn_ = 0;
    d_step { fence_of(t); skip }
}
#define memory_model() skip
#endif

#define unlock(t, x) store(t, x, 0, REL)
