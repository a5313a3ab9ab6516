// SPDX-License-Identifier: MIT
/* Locks: protocol.h says which of the GIL's mutexes is held on entry of a hook. In signal() the
 * caller has the GIL, in timedwait() it wants the GIL. A hook blocks only in the real function that
 * it was called for, for the GIL's mutex and, under a policy, in the engine's sleep. It uses no
 * heap and no stdio; memory for more threads, stacks or events is mapped. Of Python's API it calls
 * only Py_IsFinalizing(), which reads a variable, and on 3.9 to 3.12
 * PyThreadState_GetInterpreter(), which reads a field. There are three rare exceptions:
 *
 * - The end of a GIL, in destroy(), takes the registry's lock and waits for hooks.
 * - A forked child's first event makes the child's memory, and waits for that (trace/session.h).
 * - A line on stderr starts a thread, for which the C library may allocate (base/say.h).
 *
 * Fork: in the child only the forking thread lives. The records stay, since the interpreter
 * initialises its GILs anew in place; trace/session.c drops the parent's session.
 *
 * Thread exit: a thread that exits has nothing of a hook on its stack. That holds for a daemon
 * thread at shutdown, too. Up to 3.13 it leaves by pthread_exit(), from take_gil() (3.8: from its
 * callers): at its entry, or after timedwait() has returned. From 3.14 on it stays in take_gil()
 * for ever, and calls no hook again.
 *
 * Signals: a handler that runs in the middle of a hook can do no harm, since CPython's handlers
 * only set flags.
 *
 * errno: a hook leaves errno as the real function does, whatever else the hook calls; the functions
 * of threads leave errno as it was.
 *
 * The interpreter's end: the hooks stay in place and see what remains of the interpreter. The
 * memory that they write to is the session's, which outlives the interpreter. */
#include "gil/hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include "base/allowed.h"
#include "base/pause.h"
#include "base/rare.h"
#include "base/tls.h"
#include "elf/got.h"
#include "elf/patch.h"
#include "gil/posts.h"
#include "gil/recorder.h"
#include "gil/scheduler.h"
#include "headway/clock.h"

struct hw__real hw__real;

static struct hw__patch patch;

/* The patches of the interpreter's calls that lock a mutex and, while a policy is on, of those that
 * unlock one. */
static struct hw__patch lock_patch, unlock_patch;

/* The mutex of the GIL that threads wait for, while a trace is the only user of the hooks; else
 * NULL. Written by the thread that has set `changing`. Relaxed: a hook that sees an older value
 * looks the mutex up. */
static _Atomic(pthread_mutex_t *) watched;

/* The GIL that rests, or NULL (hw__hooks_rest()). Written last when a GIL goes to rest, and last
 * when it is roused. */
static _Atomic(struct hw__gil_memory *) resting;

/* The GIL rests because its policy is idle. Written before `resting` when a GIL goes to rest. */
static atomic_bool resting_idle;

/* The thread that has set this flag may write all patches, `watched`, `users` and `resting`. A
 * thread with a GIL's mutex only tries to set it; a thread that installs, repairs or removes the
 * hooks waits until it can. */
static atomic_bool changing;

/* HW__FOR_TRACE, HW__FOR_SCHEDULE. Written by the thread that has set `changing`. */
static _Atomic unsigned users;

static HW__TLS struct hw__sighting *watching;

static bool is_scheduled(const struct hw__gil *gil) {
    return atomic_load_explicit(&gil->scheduled, memory_order_relaxed);
}

struct hw__gil_memory *hw__hooks_resting(void) {
    return atomic_load_explicit(&resting, memory_order_relaxed);
}

/* In stock CPython each waiter wakes once in a switch interval, to make a request if no other
 * thread has acquired the GIL meanwhile. From some thousands of waiters on, these wake-ups take all
 * cores, and a hand-off takes as long as all of them: the GIL of 4,400 threads that wanted it at
 * once was handed off every 10 ms instead of every 10 us. A microsecond more or less in a hand-off
 * decides whether a program gets into this state, and recording takes about that long.
 *
 * So while a recorded GIL has as many waiters as a crowd, only some of the waiters wake once in an
 * interval, and all further ones together wake once in EACH_NS. With 1,000 punctual waiters in
 * place of 256, a bystander of 4,000 threads that woke together waited half as long again as in a
 * bare process, and now and then for seconds. With fewer waiters than a crowd, all of them are
 * punctual: 600 threads that release the GIL after a microsecond did a fifth less work with 256
 * punctual waiters. */
struct hw__late hw__hooks_late = {.waiters = 800, .punctual = 256};
#define EACH_NS 50000
#define LONGEST_NS 500000000

/* Memory of _PyRuntime of which nothing else is known is taken for a GIL's only with a switch
 * interval of a day at most. */
#define DAY_NS INT64_C(86400000000000)

static struct timespec put_off(const struct timespec *deadline, uint32_t late) {
    int64_t ns = (int64_t)late * EACH_NS;
    ns = (ns < LONGEST_NS ? ns : LONGEST_NS) + deadline->tv_nsec;
    return (struct timespec){.tv_sec = deadline->tv_sec + ns / 1000000000,
                             .tv_nsec = ns % 1000000000};
}

static int sleep_recorded(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex,
                          const struct timespec *deadline) {
    uint32_t punctual = atomic_load_explicit(&gil->punctual, memory_order_relaxed);
    uint32_t waiters = punctual + atomic_load_explicit(&gil->late, memory_order_relaxed);
    bool late = waiters >= hw__hooks_late.waiters && punctual >= hw__hooks_late.punctual;
    _Atomic uint32_t *sleepers = late ? &gil->late : &gil->punctual;
    uint32_t before = late ? waiters - punctual : punctual;
    atomic_store_explicit(sleepers, before + 1, memory_order_relaxed);
    struct timespec later = late ? put_off(deadline, before + 1) : *deadline;
    int result = hw__real.timedwait(cond, mutex, &later);
    /* The record may have been filled meanwhile for another GIL, or anew for this one. */
    before = atomic_load_explicit(sleepers, memory_order_relaxed);
    if (before > 0 &&
        atomic_load_explicit(&gil->memory, memory_order_relaxed) == hw__gil_of_cond(cond)) {
        atomic_store_explicit(sleepers, before - 1, memory_order_relaxed);
    }
    return result;
}

static int wait_for_it(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex,
                       const struct timespec *deadline) {
    if (is_scheduled(gil)) {
        return hw__sched_timedwait(gil, cond, mutex, deadline);
    }
    return atomic_load_explicit(&gil->recorded, memory_order_relaxed)
               ? sleep_recorded(gil, cond, mutex, deadline)
               : hw__real.timedwait(cond, mutex, deadline);
}

/* Tells whether another GIL needs the hooks that are out while the main GIL rests. That GIL may
 * have no record yet: its next acquire must be seen. */
static bool is_wanted_too(const struct hw__gil *gil, const pthread_cond_t *cond,
                          const pthread_mutex_t *mutex) {
    return hw__patch_is_paused(&patch) &&
           (gil != NULL || hw__gil_plausible(hw__gil_of_cond(cond), mutex));
}

/* Tells whether the calling thread may wait in the C library for the GIL that rests, because its
 * policy is idle. The main interpreter's GIL has index 0, and no other GIL rests. */
static bool may_wait_at_rest(const struct hw__gil_memory *at_rest, const pthread_cond_t *cond,
                             const pthread_mutex_t *mutex) {
    return at_rest != NULL && cond == &at_rest->cond && mutex == &at_rest->mutex &&
           atomic_load_explicit(&resting_idle, memory_order_relaxed) &&
           hw__sched_stays_idle(&hw__gils[0]);
}

/* The calling thread's wait in the C library has timed out, and the GIL has not changed hands:
 * CPython makes a request, and the policy has something to do. The GIL is roused. */
HW__APART static void ask_at_rest(struct hw__gil_memory *memory) {
    int saved = errno;
    if (hw__hooks_resting() == memory && hw__hooks_rouse()) {
        hw__sched_is_asked(&hw__gils[0]);
    }
    errno = saved;
}

/* The calling thread's last wait for the GIL that rests: the number of switches then, and the
 * deadline of the first wait with that number. */
static HW__TLS unsigned long rest_switches;
static HW__TLS struct timespec rest_deadline;

/* Tells whether the calling thread has waited for a switch interval and more while one thread had
 * the GIL again and again. Each release woke the calling thread, which came too late, and CPython
 * then begins the interval anew: it never makes a request. The deadlines tell the time. */
static bool is_passed_over(const struct hw__gil_memory *memory, unsigned long switches,
                           const struct timespec *deadline) {
    if (rest_switches != switches) {
        rest_switches = switches;
        rest_deadline = *deadline;
        return false;
    }
    int64_t waited_ns = (deadline->tv_sec - rest_deadline.tv_sec) * INT64_C(1000000000) +
                        deadline->tv_nsec - rest_deadline.tv_nsec;
    return waited_ns >= hw__gil_interval_ns(memory);
}

/* Waits in the C library for the main GIL, which rests while its policy is idle. This function is
 * short: two threads that call os.stat() in a loop did 0.87 of what they do without a policy where
 * it also looked the GIL up and read the clock, with the mutex held that the other thread wants. */
static int wait_at_rest(struct hw__gil_memory *memory, const struct timespec *deadline) {
    unsigned long switches = HW__READ(memory->switch_number);
    if (__builtin_expect(is_passed_over(memory, switches, deadline), 0)) {
        rest_switches = 0;
        int saved = errno;
        (void)hw__hooks_rouse();
        errno = saved;
        return 0; /* the caller finds the GIL locked, and waits under the policy */
    }
    int result = hw__real.timedwait(&memory->cond, &memory->mutex, deadline);
    if (result == ETIMEDOUT && HW__READ(memory->locked) != 0 &&
        HW__READ(memory->switch_number) == switches) {
        ask_at_rest(memory);
    }
    return result;
}

uint32_t hw__hooks_quiet = 4096;

/* Has waits for the mutexes of GILs observed, those for this GIL's mutex most quickly; with NULL,
 * no longer. Without this, the hook of pthread_mutex_lock() takes a twentieth of the speed of a
 * program that releases the GIL every 100 ns; where one thread alone uses a GIL, the hook has
 * nothing to see. The first other thread that waits for a GIL or acquires one brings the hook back.
 * A policy always needs the hook.
 *
 * A report bounds the waits that are not seen meanwhile (traces/analysis/missing.py), by the events
 * at which the hook goes and comes. */
static void watch_mutexes(struct hw__gil_memory *memory) {
    pthread_mutex_t *mutex = memory == NULL ? NULL : &memory->mutex;
    bool as_it_is = hw__patch_is_paused(&lock_patch) == (memory == NULL) &&
                    atomic_load_explicit(&watched, memory_order_relaxed) == mutex;
    if (!as_it_is && users == HW__FOR_TRACE && hw__hooks_try_change()) {
        if (users == HW__FOR_TRACE) {
            atomic_store_explicit(&watched, mutex, memory_order_relaxed);
            if (mutex != NULL) {
                hw__patch_resume(&lock_patch);
            } else {
                hw__patch_pause(&lock_patch);
            }
        }
        hw__hooks_end_change();
    }
}

/* The GIL for which the calling thread has just made a request: the interpreter calls timedwait()
 * for it again at once. */
static HW__TLS struct hw__gil *again;

/* The condition variable of a GIL whose holder has a request: the next release signals first.
 * Written with that GIL's mutex held; among several GILs the last one counts. Relaxed: where a hook
 * sees an older value, the release itself finds the request. */
static _Atomic(const pthread_cond_t *) asked;

/* The GIL that the calling thread has released on request, and that GIL's switch_mutex, if it is
 * what the thread locks next: then CPython is about to wait for the hand-off. Else NULL. */
static HW__TLS struct hw__gil *handing_over;
static HW__TLS const pthread_mutex_t *handing_over_by;

HW__APART static void tell_request(struct hw__gil *gil, const struct hw__gil_memory *memory) {
    if (hw__gil_enter(gil, memory)) {
        hw__on_request(gil);
        hw__gil_leave(gil);
    }
}

static int hook_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                          const struct timespec *deadline);

/* Waits, and records a request where the wait timed out in vain; the interpreter then makes the
 * request, and calls timedwait() again at once.
 *
 * This function's code is in few cache lines on purpose. All waiters wake at about the same time,
 * each has the GIL's mutex from here until it sleeps again, and the holder with the request waits
 * for that mutex: see look_and_signal(). */
HW__APART static int wait_and_ask(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *deadline) {
    struct hw__gil_memory *memory = hw__gil_of_cond(cond);
    unsigned long switches = HW__READ(memory->switch_number);
    int result = wait_for_it(gil, cond, mutex, deadline);
    /* The mutex is held again. The interpreter makes a request under this very condition
     * (take_gil() in Python/ceval_gil.c). The record may have become another GIL's meanwhile. */
    if (result != ETIMEDOUT || HW__READ(memory->locked) == 0 ||
        HW__READ(memory->switch_number) != switches ||
        atomic_load_explicit(&gil->memory, memory_order_relaxed) != memory) {
        return result;
    }
    again = gil;
    if (!is_scheduled(gil)) {
        __builtin_prefetch((const void *)(uintptr_t)hook_timedwait);
        __builtin_prefetch((const void *)(uintptr_t)wait_and_ask);
        atomic_store_explicit(&asked, cond, memory_order_relaxed);
    }
    if (!atomic_load_explicit(&gil->request_told, memory_order_relaxed)) {
        tell_request(gil, memory);
    }
    return result;
}

/* Tells whether the calling thread may go on with its wait: nothing has changed that
 * look_and_wait() would have to look at. */
static bool may_wait_on(const struct hw__gil *gil, const pthread_cond_t *cond) {
    const struct hw__gil_memory *memory = hw__gil_of_cond(cond);
    return atomic_load_explicit(&gil->memory, memory_order_relaxed) == memory &&
           atomic_load_explicit(&gil->recorded, memory_order_relaxed) && !is_scheduled(gil) &&
           hw__hooks_resting() == NULL && hw__waits_already(gil);
}

static int look_and_wait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                         const struct timespec *deadline) {
    bool acquire;
    struct hw__sighting *sighting = watching;
    if (sighting != NULL && sighting->memory == NULL) {
        struct hw__gil_memory *memory = hw__gil_of_cond(cond);
        if (hw__gil_plausible(memory, mutex)) {
            sighting->memory = memory;
            sighting->seen(sighting->context);
        }
    }
    struct hw__gil *gil = hw__gil_find(cond, &acquire);
    /* CPython waits only with its GIL's own mutex. A call with another mutex is for a condition
     * variable that now lies at the address of a former GIL. */
    if (gil != NULL && mutex != &hw__gil_of_cond(cond)->mutex) {
        return hw__real.timedwait(cond, mutex, deadline);
    }
    const struct hw__gil_memory *at_rest = hw__hooks_resting();
    if (at_rest != NULL && (cond == &at_rest->cond || is_wanted_too(gil, cond, mutex)) &&
        !hw__hooks_rouse()) {
        return hw__real.timedwait(cond, mutex, deadline);
    }
    if (gil == NULL || acquire) {
        return hw__real.timedwait(cond, mutex, deadline);
    }
    if (!hw__waits_already(gil)) {
        if (!hw__gil_enter(gil, hw__gil_of_cond(cond))) {
            return wait_for_it(gil, cond, mutex, deadline);
        }
        hw__on_wait(gil);
        gil->quiet_releases = 0;
        hw__gil_leave(gil);
        watch_mutexes(hw__gil_of_cond(cond));
    }

    return wait_and_ask(gil, cond, mutex, deadline);
}

static int hook_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                          const struct timespec *deadline) {
    struct hw__gil_memory *at_rest = hw__hooks_resting();
    if (may_wait_at_rest(at_rest, cond, mutex)) {
        return wait_at_rest(at_rest, deadline);
    }
    int saved = errno;
    struct hw__gil *gil = again;
    again = NULL;
    int result = gil != NULL && may_wait_on(gil, cond) ? wait_and_ask(gil, cond, mutex, deadline)
                                                       : look_and_wait(cond, mutex, deadline);
    errno = saved;
    return result;
}

bool hw__hooks_try_change(void) {
    return !atomic_exchange_explicit(&changing, true, memory_order_acquire);
}

void hw__hooks_end_change(void) { atomic_store_explicit(&changing, false, memory_order_release); }

/* Puts back the hooks that are out. */
static void put_back(void) {
    hw__patch_resume(&lock_patch);
    hw__patch_resume(&unlock_patch);
    hw__posts_resume();
    hw__wake_unlocks(unlock_patch.count > 0);
    hw__patch_resume(&patch);
}

/* Ends the rest. The caller must have set `changing`. */
static void end_rest(void) {
    if (hw__hooks_resting() != NULL) {
        put_back();
        atomic_store(&resting, NULL);
    }
}

/* Makes the record of a GIL that has none. Meanwhile no other thread can have the hooks taken out,
 * or see that there is no other GIL. Returns NULL where that is not possible now; the GIL's next
 * acquire tries again. */
HW__RARE static struct hw__gil *meet(struct hw__gil_memory *memory) {
    if (!hw__hooks_try_change()) {
        return NULL;
    }
    end_rest();
    struct hw__gil *gil = hw__on_new_gil(memory);
    hw__hooks_end_change();
    return gil;
}

/* Notes from where the watching thread signals an acquire. */
HW__RARE static void note_site(struct hw__sighting *sighting, uintptr_t site) {
    for (int i = 0; i < HW__ACQUIRE_SITES; i++) {
        if (sighting->acquire_sites[i] == 0) {
            sighting->acquire_sites[i] = site;
        }
        if (sighting->acquire_sites[i] == site) {
            return;
        }
    }
}

/* Tells whether this may be the main interpreter's GIL, switched on when nothing probes for it. */
static bool may_be_later_main(const struct hw__gil_memory *memory) {
    return hw__gil_in_runtime(memory) && hw__gil_interval_ns(memory) <= DAY_NS;
}

/* Handles an acquire or a release, and signals. This function and all that it calls, apart from
 * rare code, are one piece of code: most of its cost is the fetching of code.
 *
 * Where the holder has a request, the hook signals first, and records the release after that, with
 * the mutex still held. A waiter that has just made a request is on its way back to sleep, and in
 * glibc a waiter that does not sleep yet takes a signal that was meant for the one that has waited
 * longest. In a stock release it is a matter of a microsecond whether the holder is that quick.
 * With recording before the signal the holder was too late: an echo server beside two CPU-bound
 * threads answered 2.6 times as often as in a bare process. A release without a request has no such
 * waiter; there the signal comes last, so that the time from the signal to the thread's next step
 * is that of a bare process. */
__attribute__((flatten, noinline)) static int look_and_signal(pthread_cond_t *cond, uintptr_t site,
                                                              bool signalled) {
    bool acquire;
    int saved = errno;
    struct hw__sighting *sighting = watching;
    if (sighting != NULL && sighting->memory != NULL && cond == &sighting->memory->switch_cond) {
        note_site(sighting, site);
    }
    struct hw__gil *gil = hw__gil_find(cond, &acquire);
    if (gil == NULL) {
        if (hw__gil_without_room(cond)) {
            return signalled ? 0 : hw__real.signal(cond);
        }
        struct hw__gil_memory *memory = hw__gil_of_switch_cond(cond);
        if (!hw__gil_knows_site(site) && !may_be_later_main(memory)) {
            return signalled ? 0 : hw__real.signal(cond);
        }
        if (!hw__gil_plausible(memory, &memory->mutex)) {
            return signalled ? 0 : hw__real.signal(cond);
        }
        gil = meet(memory);
        errno = saved;
        if (gil == NULL) {
            return signalled ? 0 : hw__real.signal(cond);
        }
        acquire = true;
    }
    int result = 0;
    if (!signalled && !acquire && hw__gil_is_asked(gil) && !is_scheduled(gil)) {
        result = hw__real.signal(cond);
        signalled = true;
    }
    if (hw__gil_enter(gil, acquire ? hw__gil_of_switch_cond(cond) : hw__gil_of_cond(cond))) {
        if (acquire) {
            const struct hw__thread *before = gil->last;
            hw__on_acquire(gil);
            if (gil->holder != before) {
                gil->quiet_releases = 0;
                if (__builtin_expect(hw__patch_is_paused(&lock_patch), 0)) {
                    watch_mutexes(hw__gil_of_switch_cond(cond));
                }
            }
        } else {
            bool held = gil->holder != NULL;
            hw__on_release(gil);
            if (signalled && !is_scheduled(gil)) {
                handing_over = gil;
                handing_over_by = &hw__gil_of_cond(cond)->switch_mutex;
            }
            bool released = held && gil->holder == NULL; /* else there is no event */
            if (released && __builtin_expect(++gil->quiet_releases == hw__hooks_quiet, 0)) {
                watch_mutexes(NULL);
            }
        }
        hw__gil_leave(gil);
    }
    if (acquire && !is_scheduled(gil)) {
        hw__sched_try_adopt(gil);
    }
    if (is_scheduled(gil)) {
        if (acquire) {
            hw__sched_acquire(gil);
        } else {
            hw__sched_release(gil);
        }
    }
    errno = saved;
    /* A thread may sleep in the C library from before the policy. */
    return signalled ? result : hw__real.signal(cond);
}

static int hook_signal(pthread_cond_t *cond) {
    const struct hw__gil_memory *at_rest = hw__hooks_resting();
    if (at_rest != NULL && (cond == &at_rest->cond || cond == &at_rest->switch_cond)) {
        return hw__real.signal(cond);
    }
    uintptr_t site = (uintptr_t)__builtin_return_address(0);
    if (cond == atomic_load_explicit(&asked, memory_order_relaxed)) {
        int result = hw__real.signal(cond);
        atomic_store_explicit(&asked, NULL, memory_order_relaxed);
        look_and_signal(cond, site, true);
        return result;
    }
    return look_and_signal(cond, site, false);
}

static int hook_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    /* A holder that released the GIL because of a request waits here until another thread has
     * acquired it. No event is written: the GIL's mutex is not held here, and the release itself
     * has said that it was forced. */
    bool acquire;
    struct hw__gil *gil = hw__gil_find(cond, &acquire);
    if (gil == NULL || !acquire || mutex != &hw__gil_of_switch_cond(cond)->switch_mutex) {
        return hw__real.wait(cond, mutex);
    }
    int result, saved = errno;
    if (is_scheduled(gil)) {
        result = hw__sched_wait(gil, cond, mutex);
    } else {
        result = hw__real.wait(cond, mutex);
    }
    if (atomic_load_explicit(&gil->recorded, memory_order_relaxed)) {
        hw__on_switched(gil);
    }
    errno = saved;
    return result;
}

static int hook_destroy(pthread_cond_t *cond) {
    bool acquire;
    struct hw__gil *gil = hw__gil_find(cond, &acquire);
    if (gil != NULL && !acquire) {
        int saved = errno;
        (void)hw__hooks_rouse(); /* another GIL may be created at the same address */
        hw__on_gil_end(gil, hw__gil_of_cond(cond));
        errno = saved;
    }
    return hw__real.destroy(cond);
}

/* How long a thread of a recorded program tries to lock a GIL's mutex before it sleeps: about as
 * long as it takes to record an acquire after a wait. Events are recorded with the mutex held, so
 * in a bare process the mutex would be free sooner by that time. Without the tries a thread slept
 * where a bare one would not have: two threads that call os.stat() in a loop did 0.70 of what they
 * do in a bare process, and with the tries 0.96.
 *
 * Where many threads wait for the GIL, the bare process, too, has threads that sleep for the mutex,
 * and tries would prevent that: 32 such threads did 0.8 of bare without tries, and 1.7 with them.
 */
#define TRY_NS 1000
#define TRY_PAUSES 8   /* between two tries */
#define TRY_WAITERS 16 /* threads that wait for the GIL; from this number on there are no tries */

static int lock_recorded(const struct hw__gil *gil, pthread_mutex_t *mutex, int64_t since_ns) {
    if (atomic_load_explicit(&gil->punctual, memory_order_relaxed) < TRY_WAITERS) {
        do {
            for (int i = 0; i < TRY_PAUSES; i++) {
                hw__pause_core();
            }
            if (pthread_mutex_trylock(mutex) == 0) {
                return 0;
            }
        } while (hw_now_ns() - since_ns < TRY_NS);
    }
    return pthread_mutex_lock(mutex);
}

/* Locks a GIL's mutex, with a trylock first. A trylock skips the error checks of a mutex's owner; a
 * GIL's mutex has none. */
static int lock_gil(struct hw__gil *gil, pthread_mutex_t *mutex) {
    int saved = errno, result = 0;
    bool recorded = atomic_load_explicit(&gil->recorded, memory_order_relaxed);
    int64_t since_ns = 0;
    if (pthread_mutex_trylock(mutex) != 0) {
        since_ns = recorded ? hw_now_ns() : 0;
        if (is_scheduled(gil)) {
            hw__wake_lock(mutex);
        } else {
            result = recorded ? lock_recorded(gil, mutex, since_ns) : pthread_mutex_lock(mutex);
        }
    }
    if (recorded) {
        hw__on_mutex(gil, since_ns);
    }
    if (is_scheduled(gil)) {
        hw__sched_locked(gil);
    }
    errno = saved;
    return result;
}

/* Locks the watched mutex after a trylock has failed. Only a trace uses the hooks here. */
HW__RARE static int lock_taken(pthread_mutex_t *mutex) {
    struct hw__gil *gil = hw__gil_of_mutex(mutex);
    return gil == NULL ? pthread_mutex_lock(mutex) : lock_gil(gil, mutex);
}

/* Locks the switch_mutex of a GIL that the calling thread has released on request. If another
 * thread has acquired the GIL by now, hook_wait() is not called. */
HW__APART static int lock_to_hand_over(pthread_mutex_t *mutex) {
    int result = pthread_mutex_lock(mutex), saved = errno;
    if (atomic_load_explicit(&handing_over->recorded, memory_order_relaxed)) {
        hw__on_switched(handing_over);
    }
    errno = saved;
    return result;
}

static int hook_lock(pthread_mutex_t *mutex) {
    /* Comes first, with little code, since a holder with a request passes here. */
    bool hands_over = mutex == handing_over_by;
    handing_over_by = NULL;
    if (mutex == atomic_load_explicit(&watched, memory_order_relaxed)) {
        return pthread_mutex_trylock(mutex) == 0 ? 0 : lock_taken(mutex);
    }
    if (__builtin_expect(hands_over, 0)) {
        return lock_to_hand_over(mutex);
    }
    struct hw__gil *gil = hw__gil_of_mutex(mutex);
    return gil == NULL ||
                   atomic_load_explicit(&gil->memory, memory_order_relaxed) == hw__hooks_resting()
               ? pthread_mutex_lock(mutex)
               : lock_gil(gil, mutex);
}

static int hook_unlock(pthread_mutex_t *mutex) {
    if (!hw__wake_pending()) {
        return pthread_mutex_unlock(mutex);
    }
    int result = pthread_mutex_unlock(mutex), saved = errno;
    hw__wake_unlocked(mutex);
    errno = saved;
    return result;
}

/* Resolves the real functions. Returns 0 or -ENOSYS. */
static int resolve(void) {
#define HW__RESOLVE(name, symbol, required, pauses, parameters)                                    \
    hw__real.name = (int(*) parameters)(uintptr_t)hw__next_function(#symbol);                      \
    if (hw__real.name == NULL)                                                                     \
        return -ENOSYS;
    HW__GIL_FUNCTIONS(HW__RESOLVE)
#undef HW__RESOLVE
    return 0;
}

bool hw__hooks_rouse(void) {
    if (hw__hooks_resting() == NULL) {
        return true;
    }
    if (!hw__hooks_try_change()) {
        return false;
    }
    end_rest();
    hw__hooks_end_change();
    return true;
}

/* Begins a change of the hooks; waits until the calling thread can. A GIL that rests is roused. The
 * caller need not hold the main GIL, which does not go to rest before hw__hooks_end_change(). */
static void begin_change(void) {
    unsigned rounds = 0;
    while (!hw__hooks_try_change()) {
        hw__pause(&rounds); /* another thread changes the hooks */
    }
    end_rest();
}

int hw__hooks_install(const void *runtime, unsigned user) {
    if (hw__real.signal == NULL) {
        int error = resolve();
        if (error != 0) {
            return error;
        }
        /* This library is never unloaded: hooks.h says why. */
        Dl_info self;
        if (dladdr(&hw__real, &self) == 0 ||
            dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == NULL) {
            return -ENOSYS;
        }
    }
    if (!hw__got_keep(runtime)) {
        return -ENOSYS;
    }
    hw__allowed_look();
    begin_change();
    atomic_store_explicit(&watched, NULL, memory_order_relaxed);
    hw__gil_set_runtime(runtime);
#define HW__ENTRY(name, symbol, required, pauses, parameters)                                      \
    {#symbol, (uintptr_t)hook_##name, required, pauses},
    static const struct hw__patch_entry entries[] = {HW__GIL_FUNCTIONS(HW__ENTRY)};
#undef HW__ENTRY
    int error =
        hw__patch_install(&patch, runtime, entries, (int)(sizeof entries / sizeof *entries));
    if (error == 0) {
        users |= user;
    }
    if (error == 0) {
        /* Optional: without this hook, waits for a GIL's mutex are not seen. */
        static const struct hw__patch_entry lock = {"pthread_mutex_lock", (uintptr_t)hook_lock,
                                                    true, true};
        (void)hw__patch_install(&lock_patch, runtime, &lock, 1);
        hw__patch_resume(&lock_patch);
    }
    if (error == 0 && user == HW__FOR_SCHEDULE) {
        /* Optional: without this hook, a waiter is woken with the mutex held, which costs time and
         * does no harm. */
        static const struct hw__patch_entry unlock = {"pthread_mutex_unlock",
                                                      (uintptr_t)hook_unlock, true, true};
        hw__wake_unlocks(lock_patch.count > 0 &&
                         hw__patch_install(&unlock_patch, runtime, &unlock, 1) == 0);
        hw__posts_install(runtime);
    }
    hw__hooks_end_change();
    return error;
}

int hw__hooks_repair(void) {
    begin_change();
    int repaired = hw__patch_repair(&patch);
    hw__hooks_end_change();
    return repaired;
}

bool hw__hooks_rest(struct hw__gil_memory *memory, bool idle) {
    if (!hw__hooks_try_change()) {
        return false;
    }
    bool rests = users == HW__FOR_SCHEDULE;
    /* The hooks stay in place where there is another GIL: its holder may have just chosen a waiter,
     * which the hook of unlock must wake. No other GIL gets a record meanwhile: see meet(). */
    if (rests && hw__gil_count() == 1) {
        hw__patch_pause(&patch);
        hw__wake_unlocks(false);
        hw__patch_pause(&lock_patch);
        hw__patch_pause(&unlock_patch);
        hw__posts_pause();
    }
    if (rests) {
        atomic_store_explicit(&resting_idle, idle, memory_order_relaxed);
        atomic_store(&resting, memory);
    }
    hw__hooks_end_change();
    return rests;
}

void hw__hooks_after_fork(void) {
    hw__got_after_fork();
    hw__hooks_end_change(); /* the thread that changed the hooks is not in the child; its change may
                             * be half done */
    put_back();
    atomic_store(&resting, NULL);
}

int hw__hooks_remove(unsigned user) {
    begin_change();
    atomic_store_explicit(&watched, NULL, memory_order_relaxed);
    users &= ~user;
    if (user == HW__FOR_SCHEDULE) {
        hw__wake_unlocks(false);
        hw__patch_remove(&unlock_patch);
        hw__posts_remove();
    }
    if (users == 0) {
        hw__patch_remove(&lock_patch);
    }
    int error = users != 0 ? 0 : hw__patch_remove(&patch);
    hw__hooks_end_change();
    return error;
}

bool hw__hooks_wanted(void) { return users != 0; }

bool hw__hooks_see_locks(void) { return lock_patch.count > 0; }

void hw__hooks_watch(struct hw__sighting *sighting) { watching = sighting; }
