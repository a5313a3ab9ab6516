/* SPDX-License-Identifier: MIT
 *
 * native/engine/sched.c: the policy that is on, at GILs (of sub-interpreters) whose mutex the thread that
 * changes the policy does not hold. starter() is hw_schedule_stop() of policy 1, then
 * hw_schedule_start() of policy 2. gil() is the hooks of such a GIL. They adopt the policy that is on
 * (hw__sched_adopt()), find it over (hw__sched_is_on()), or remove it (the watchdog in
 * hw__sched_timedwait()).
 *
 * Checked: a policy that the last generation leaves on at this GIL is the one that is on, and has its own
 * options. A watchdog that finds fault with one policy removes no other. */
#define THREADS 2
#define WORDS 4
#define REGISTRY 0
#define CURRENT 1 /* 0: none */
#define GENERATION 2
#define OPTIONS 3 /* of that policy */
#include "memory.pml"

bool over;    /* no thread starts or stops a policy any more */
bool removed; /* a watchdog that watched policy 2 has removed it */

inline set_policy(t, policy) {
    add(t, GENERATION, 1);
    store(t, CURRENT, policy, SEQ)
}

inline try_lock(t, done) {
    atomic {
        if
        :: LAST(REGISTRY) == 0 -> lock(t, REGISTRY); done = true
        :: else -> done = false
        fi
    }
}

proctype starter(byte t) {
    lock(t, REGISTRY);
    set_policy(t, 0);
    unlock(t, REGISTRY);
    lock(t, REGISTRY);
    store(t, OPTIONS, 2, RLX);
    set_policy(t, 2);
    unlock(t, REGISTRY);
    over = true
}

inline adopt(t) {
    load(t, CURRENT, SEQ, seen);
    if
    :: seen == 0 -> may = false
    :: else ->
        may = true;
#ifndef MUTATION_ADOPT_UNLOCKED /* an earlier version did not lock */
        try_lock(t, may);
        if :: may -> load(t, CURRENT, SEQ, seen) :: else fi
#endif
    fi;
    if
    :: may ->
        policy = seen;
        load(t, OPTIONS, RLX, options);
        load(t, GENERATION, SEQ, generation);
#ifndef MUTATION_ADOPT_UNLOCKED
        unlock(t, REGISTRY)
#endif
    :: else
    fi
}

inline remove(t) {
    may = true;
#ifndef MUTATION_WATCHDOG_UNLOCKED /* an earlier version did not lock */
    try_lock(t, may);
    if
    :: may ->
        load(t, GENERATION, SEQ, seen);
        if :: seen == generation -> removed = (policy == 2); set_policy(t, 0) :: else fi;
        unlock(t, REGISTRY)
    :: else
    fi;
#else
    removed = (policy == 2);
    set_policy(t, 0);
#endif
    policy = 0
}

proctype gil(byte t) {
    byte policy = 1, options = 1, generation, seen, hooks = 3;
    bool may;
    do
    :: hooks > 0 ->
        hooks--;
        if
        :: policy == 0 -> adopt(t)
        :: else
        fi;
        if
        :: policy != 0 ->
            load(t, GENERATION, RLX, seen);
            if
            :: seen != generation -> policy = 0
            :: else ->
                assert(generation != LAST(GENERATION) || (policy == LAST(CURRENT) && options == policy) || LAST(REGISTRY) != 0);
                if :: remove(t) :: true fi
            fi
        :: else
        fi
    :: else -> break
    od;
    seen = 0;
    over;
    assert(generation != LAST(GENERATION) || policy == 0 || (policy == LAST(CURRENT) && options == policy));
    assert(LAST(CURRENT) == 2 || removed)
}

init {
    atomic {
        store(0, CURRENT, 1, SEQ);
        store(0, OPTIONS, 1, SEQ);
#ifdef C11
        membarrier(0);
#endif
        run starter(0);
        run gil(1)
    }
}
