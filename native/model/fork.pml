/* SPDX-License-Identifier: MIT
 *
 * The state that a forked child inherits from threads that do not exist in it: native/gil/gil.c (the
 * registry's lock, `busy`), native/gil/hooks.c (`changing`, slots that are out), native/engine/wake.c.
 *
 * other() is a thread with another GIL. It is somewhere in the hook in which that GIL becomes known
 * (look_and_signal(), hw__on_new_gil()), or in which the main GIL goes to rest (hw__hooks_rest()).
 * forker() forks at any moment; from then on, other() does not exist. The scheduler's handlers take the
 * registry's lock before a fork and release it after it (hw__sched_before_fork()). TRACED: the handlers
 * of native/trace/trace.c do the same. FIRST: those handlers run first in the child.
 *
 * LIBRARY: the handler of another library runs while our handlers have the lock. It waits for the end of
 * a thread, ender() (on_exit_of_thread(), hw__registry_lock_beside_forks()).
 *
 * Checked: the child can install and remove hooks, and begin and end policies and sessions: it blocks
 * nowhere. The child finds no hook out. */
bool registry, changing, busy, slots_in = true, paused, forked;
byte depth; /* how many times the forking thread has taken the registry's lock */

#if defined(TRACED) || defined(MUTATION_NO_FIRST_LOOK)
#define ENTERS true /* hw__gil_enter() marks a hook only where its GIL is recorded */
#else
#define ENTERS false
#endif

#ifdef LIBRARY
byte forks; /* the handlers that have the registry's lock or are about to take it */
bool ended;

proctype ender() {
    if
    :: atomic { !registry -> registry = true } registry = false
#ifndef MUTATION_END_WAITS /* an earlier version waited */
    :: registry && forks > 0 /* the record of ender() is ended after the fork */
#endif
    fi;
    ended = true
}
#endif

proctype other() {
    {
        do
        :: atomic { !changing -> changing = true }
            if
            :: atomic { !registry -> registry = true } registry = false
            :: paused = true; slots_in = false
            :: paused -> slots_in = true; paused = false
            fi;
            changing = false
        :: ENTERS -> busy = true; busy = false
        od
    } unless { forked }
}

inline lock_registry() {
    if :: depth == 0 -> atomic { !registry -> registry = true } :: else fi;
    depth++
}
inline unlock_registry() {
    assert(registry && depth > 0);
    depth--;
    if :: depth == 0 -> registry = false :: else fi
}

/* trace.c: after_fork_in_child(), and hw__session_after_fork(). */
inline trace_in_child() {
#ifdef TRACED
    unlock_registry();
#ifndef MUTATION_BUSY_KEPT
    busy = false;
#endif
#endif
    skip
}

/* hw__sched_after_fork_in_child(). */
inline schedule_in_child() {
#ifndef MUTATION_REGISTRY_KEPT /* an earlier version kept it */
    unlock_registry();
#endif
#ifndef MUTATION_CHANGING_KEPT
    changing = false;
#endif
    if
    :: paused ->
#ifndef MUTATION_SLOTS_KEPT
        slots_in = true;
#endif
        paused = false
    :: else
    fi
}

proctype forker() {
#ifdef LIBRARY
    forks++;
#endif
#ifdef TRACED
    lock_registry();
#endif
#ifndef MUTATION_REGISTRY_KEPT
    lock_registry();
#endif
#ifdef LIBRARY
    ended;
#endif
    forked = true;
#ifdef FIRST
    trace_in_child();
    schedule_in_child();
#else
    schedule_in_child();
    trace_in_child();
#endif
    /* hw_schedule_start(), hw_trace_stop() */
    atomic { !changing -> changing = true }
    changing = false;
    lock_registry();
    !busy;
    unlock_registry();
    assert(slots_in)
}

init {
    atomic {
        run forker();
#ifdef LIBRARY /* without other(): a thread that runs for ever would hide an endless wait */
        run ender()
#else
        run other()
#endif
    }
}
