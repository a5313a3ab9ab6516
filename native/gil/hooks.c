// SPDX-License-Identifier: MIT
/* On entry of a hook: see protocol.h for the locks; the GIL is held by the caller in signal() and
 * wanted in timedwait(). A hook never blocks but in the real function that it was called for,
 * allocates nothing, uses no stdio, and of Python's API only Py_IsFinalizing(), which reads a
 * variable.
 *
 * Fork: in the child only the forking thread lives. The records stay, for the interpreter makes its
 * GILs anew in place; trace/session.c drops what was the parent's.
 *
 * Thread exit: nothing of a hook is on the stack of a thread that exits, with one exception: up to
 * 3.13 a daemon thread at shutdown leaves by pthread_exit() from take_gil(), after timedwait() has
 * returned to it. From 3.14 on it stays in take_gil() for ever, and is never heard of again.
 *
 * Signals: a handler that runs in the middle of a hook can do no harm: CPython's only set flags.
 *
 * errno: a hook leaves it as the real function does, whatever it does besides; and the functions of
 * threads leave it as it was.
 *
 * The interpreter's end: the hooks stay and see what is left of it; memory that they write to is
 * the session's, which lives on. */
#include "gil/hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include "base/allowed.h"
#include "base/pause.h"
#include "base/rare.h"
#include "elf/got.h"
#include "elf/patch.h"
#include "gil/recorder.h"
#include "gil/scheduler.h"
#include "headway/clock.h"

struct hw__real hw__real;

static struct hw__patch patch;

/* The interpreter's calls that lock a mutex; and those that unlock one, while a policy is on. */
static struct hw__patch lock_patch, unlock_patch;

/* The mutex of the GIL that threads wait for, while a trace alone wants the hooks; else NULL.
 * Written by who has set `changing`. Relaxed: a hook that sees an older one looks further. */
static _Atomic(pthread_mutex_t *) watched;

/* See hw__hooks_rest(). Written last when a GIL goes to rest, and when it is roused. */
static _Atomic(struct hw__gil_memory *) resting;

/* ... as the policy is idle. Written before `resting` when a GIL goes to rest. */
static atomic_bool resting_idle;

/* Who has set it may write both patches and `resting`. Tried by who has a GIL's mutex; waited for
 * by who begins or ends. */
static atomic_bool changing;

/* HW__FOR_...; written by who has set `changing`. */
static _Atomic unsigned users;

static __thread struct hw__sighting *watching __attribute__((tls_model("initial-exec")));

static bool is_scheduled(const struct hw__gil *gil) {
    return atomic_load_explicit(&gil->scheduled, memory_order_relaxed);
}

struct hw__gil_memory *hw__hooks_resting(void) {
    return atomic_load_explicit(&resting, memory_order_relaxed);
}

/* Each waiter wakes once in a switch interval, to have the holder asked to let go if nobody has
 * taken over meanwhile. From some thousands on these wakes take all cores, and a hand-over then
 * takes as long as all of them: the GIL of 4,400 threads that wanted it at once was passed on every
 * 10 ms instead of every 10 us. Whether a program gets there hangs on each microsecond of a
 * hand-over, and recording takes some. So while a recorded GIL has as many waiters as a crowd, only
 * some of them do so as ever, and all further ones together every EACH_NS. With 1,000 punctual ones
 * in place of 256 a bystander of 4,000 threads that woke together waited half as long again as
 * bare, and seconds now and then. Where fewer wait, all are punctual: 600 threads that let go after
 * a microsecond did a fifth less with 256. */
struct hw__late hw__hooks_late = {.waiters = 800, .punctual = 256};
#define EACH_NS 50000
#define LONGEST_NS 500000000

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
    /* The record may have been given to another GIL in the meantime, or to this one anew. */
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

/* The hooks that are out while the main GIL rests are wanted for another one, also for one that is
 * not known yet: its next acquire is to be seen. */
static bool is_wanted_too(const struct hw__gil *gil, const pthread_cond_t *cond,
                          const pthread_mutex_t *mutex) {
    return hw__patch_is_paused(&patch) &&
           (gil != NULL || hw__gil_plausible(hw__gil_of_cond(cond), mutex));
}

/* The policy is idle. CPython asks the holder when this returns ETIMEDOUT and nobody took over
 * meanwhile: then there is something to do. */
static int wait_at_rest(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex,
                        const struct timespec *deadline) {
    struct hw__gil_memory *memory = hw__gil_of_cond(cond);
    unsigned long switches = HW__READ(memory->switch_number);
    int result = hw__real.timedwait(cond, mutex, deadline);
    if (result == ETIMEDOUT && HW__READ(memory->locked) != 0 &&
        HW__READ(memory->switch_number) == switches && hw__hooks_resting() == memory &&
        hw__hooks_rouse()) {
        hw__sched_is_asked(gil);
    }
    return result;
}

uint32_t hw__hooks_quiet = 4096;

/* Has waits for GILs' mutexes seen, that of this GIL quickest; NULL: not seen. The hook of
 * pthread_mutex_lock() costs a program that lets go of the GIL every 100 ns a twentieth of its
 * speed, and where nobody waits for a GIL there is nothing for it to see. The first who has to wait
 * brings it back. A policy wants it always. */
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

/* The GIL that the calling thread has just asked the holder of to let go: the interpreter waits for
 * it again at once. */
static __thread struct hw__gil *again __attribute__((tls_model("initial-exec")));

/* The condition of a GIL whose holder is asked to let go: its next release signals first. Written
 * with that GIL's mutex held; of several GILs it is the last one. Relaxed: where a hook sees an
 * older one, the release finds out itself that it was asked. */
static _Atomic(const pthread_cond_t *) asked;

HW__APART static void tell_request(struct hw__gil *gil) {
    if (hw__gil_enter(gil)) {
        hw__on_request(gil);
        hw__gil_leave(gil);
    }
}

static int hook_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                          const struct timespec *deadline);

/* Waits, and tells where that was for an interval in vain: then the interpreter asks the holder,
 * and calls again at once.
 *
 * In few lines of the cache: all waiters wake at about the same time, each has the GIL's mutex from
 * here until it sleeps again, and the holder that was asked waits for that: see look_and_signal().
 */
HW__APART static int wait_and_ask(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *deadline) {
    struct hw__gil_memory *memory = hw__gil_of_cond(cond);
    unsigned long switches = HW__READ(memory->switch_number);
    int result = wait_for_it(gil, cond, mutex, deadline);
    /* The mutex is held again. The interpreter asks for a drop under this very condition
     * (take_gil() in Python/ceval_gil.c). The record may have been given to another GIL in the
     * meantime. */
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
        tell_request(gil);
    }
    return result;
}

/* The calling thread goes on with its wait: nothing has changed that look_and_wait() would see. */
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
    /* CPython only ever waits with this mutex; whoever has another one at this address now is no
     * GIL.
     */
    if (gil != NULL && mutex != &hw__gil_of_cond(cond)->mutex) {
        return hw__real.timedwait(cond, mutex, deadline);
    }
    const struct hw__gil_memory *at_rest = hw__hooks_resting();
    if (at_rest != NULL && cond == &at_rest->cond &&
        atomic_load_explicit(&resting_idle, memory_order_relaxed) && hw__sched_stays_idle(gil)) {
        return wait_at_rest(gil, cond, mutex, deadline);
    }
    if (at_rest != NULL && (cond == &at_rest->cond || is_wanted_too(gil, cond, mutex)) &&
        !hw__hooks_rouse()) {
        return hw__real.timedwait(cond, mutex, deadline);
    }
    if (gil == NULL || acquire) {
        return hw__real.timedwait(cond, mutex, deadline);
    }
    if (!hw__waits_already(gil)) {
        if (!hw__gil_enter(gil)) {
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

/* What is out is put back. */
static void put_back(void) {
    hw__patch_resume(&lock_patch);
    hw__patch_resume(&unlock_patch);
    hw__wake_unlocks(unlock_patch.count > 0);
    hw__patch_resume(&patch);
}

/* By who changes something. */
static void end_rest(void) {
    if (hw__hooks_resting() != NULL) {
        put_back();
        atomic_store(&resting, NULL);
    }
}

/* A GIL that is not known yet. Nobody has the hooks taken out, or sees that there is no other GIL,
 * while it becomes known. Returns NULL where that cannot be now; its next acquire tries again. */
HW__RARE static struct hw__gil *meet(struct hw__gil_memory *memory) {
    if (!hw__hooks_try_change()) {
        return NULL;
    }
    end_rest();
    struct hw__gil *gil = hw__on_new_gil(memory);
    hw__hooks_end_change();
    return gil;
}

/* One piece of code with all that it calls but what is marked as rare: most of its cost is fetching
 * it.
 *
 * Where the holder was asked to let go, it signals first, and what is recorded of the release comes
 * after it, with the mutex still held. A waiter that has just asked is on its way back to sleep,
 * and in glibc one that does not sleep yet takes a signal that was meant for who has waited
 * longest. Whether the holder is that quick, is a matter of a microsecond in every stock release.
 * With recording before the signal it was too late: an echo server beside two CPU-bound threads
 * answered 2.6 times as often as bare. A release that nobody asked for has no such waiter; there
 * the signal comes last, so that from it to the thread's next step is as long as bare. */
__attribute__((flatten, noinline)) static int look_and_signal(pthread_cond_t *cond, uintptr_t site,
                                                              bool signalled) {
    bool acquire;
    int saved = errno;
    struct hw__sighting *sighting = watching;
    if (sighting != NULL && sighting->memory != NULL && cond == &sighting->memory->switch_cond &&
        sighting->acquire_site == 0) {
        sighting->acquire_site = site;
    }
    struct hw__gil *gil = hw__gil_find(cond, &acquire);
    if (gil == NULL) {
        if (hw__gil_without_room(cond)) {
            return signalled ? 0 : hw__real.signal(cond);
        }
        struct hw__gil_memory *memory = hw__gil_of_switch_cond(cond);
        if (!hw__gil_knows_site(site) && !hw__gil_in_runtime(memory)) {
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
    if (hw__gil_enter(gil)) {
        if (acquire) {
            hw__on_acquire(gil);
        } else {
            hw__on_release(gil);
            if (__builtin_expect(++gil->quiet_releases == hw__hooks_quiet, 0)) {
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
    /* Also under a policy: someone may sleep in the C library from before. */
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
    /* The holder that was asked to let go waits until another has taken over. Nothing is recorded:
     * the GIL's mutex is not held here, and the release itself already said that it was forced. */
    bool acquire;
    struct hw__gil *gil = hw__gil_find(cond, &acquire);
    if (gil != NULL && acquire && is_scheduled(gil) &&
        mutex == &hw__gil_of_switch_cond(cond)->switch_mutex) {
        int saved = errno, result = hw__sched_wait(gil, cond, mutex);
        errno = saved;
        return result;
    }
    return hw__real.wait(cond, mutex);
}

static int hook_destroy(pthread_cond_t *cond) {
    bool acquire;
    struct hw__gil *gil = hw__gil_find(cond, &acquire);
    if (gil != NULL && !acquire) {
        int saved = errno;
        (void)hw__hooks_rouse(); /* another one may come to life in the same place */
        hw__on_gil_end(gil, hw__gil_of_cond(cond));
        errno = saved;
    }
    return hw__real.destroy(cond);
}

/* Without an owner's error checks, which a trylock would not make: a GIL's mutex has none. */
static int lock_gil(struct hw__gil *gil, pthread_mutex_t *mutex) {
    int saved = errno, result = 0;
    bool recorded = atomic_load_explicit(&gil->recorded, memory_order_relaxed);
    int64_t since_ns = 0;
    if (pthread_mutex_trylock(mutex) != 0) {
        since_ns = recorded ? hw_now_ns() : 0;
        if (is_scheduled(gil)) {
            hw__wake_lock(mutex);
        } else {
            result = pthread_mutex_lock(mutex);
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

/* Somebody has the mutex of a GIL that a trace alone watches. */
HW__RARE static int lock_taken(pthread_mutex_t *mutex) {
    struct hw__gil *gil = hw__gil_of_mutex(mutex);
    return gil == NULL ? pthread_mutex_lock(mutex) : lock_gil(gil, mutex);
}

static int hook_lock(pthread_mutex_t *mutex) {
    /* First, and with little code: a holder that was asked to let go comes by here. */
    if (mutex == atomic_load_explicit(&watched, memory_order_relaxed)) {
        return pthread_mutex_trylock(mutex) == 0 ? 0 : lock_taken(mutex);
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

/* Rouses it, too. Who calls need not have the main GIL: until hw__hooks_end_change() it does not go
 * to rest.
 */
static void begin_change(void) {
    unsigned rounds = 0;
    while (!hw__hooks_try_change()) {
        hw__pause(&rounds); /* another thread rouses it */
    }
    end_rest();
}

int hw__hooks_install(const void *runtime, unsigned user) {
    if (hw__real.signal == NULL) {
        int error = resolve();
        if (error != 0) {
            return error;
        }
        /* Never unloaded: see the header. */
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
        /* Without it waits for a GIL's mutex are not seen. */
        static const struct hw__patch_entry lock = {"pthread_mutex_lock", (uintptr_t)hook_lock,
                                                    true, true};
        (void)hw__patch_install(&lock_patch, runtime, &lock, 1);
        hw__patch_resume(&lock_patch);
    }
    if (error == 0 && user == HW__FOR_SCHEDULE) {
        /* Without it a wake is made with the mutex held, which costs, and does no harm. */
        static const struct hw__patch_entry unlock = {"pthread_mutex_unlock",
                                                      (uintptr_t)hook_unlock, true, true};
        hw__wake_unlocks(lock_patch.count > 0 &&
                         hw__patch_install(&unlock_patch, runtime, &unlock, 1) == 0);
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
    /* Not where there is another GIL: its holder may just have called somebody, and is to wake it
     * when it unlocks. None comes meanwhile, see meet(). */
    if (rests && hw__gil_count() == 1) {
        hw__patch_pause(&patch);
        hw__wake_unlocks(false);
        hw__patch_pause(&lock_patch);
        hw__patch_pause(&unlock_patch);
    }
    if (rests) {
        atomic_store_explicit(&resting_idle, idle, memory_order_relaxed);
        atomic_store(&resting, memory);
    }
    hw__hooks_end_change();
    return rests;
}

void hw__hooks_after_fork(void) {
    hw__hooks_end_change(); /* who was at it is not here, and may have come halfway */
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
    }
    if (users == 0) {
        hw__patch_remove(&lock_patch);
    }
    int error = users != 0 ? 0 : hw__patch_remove(&patch);
    hw__hooks_end_change();
    return error;
}

bool hw__hooks_wanted(void) { return users != 0; }

void hw__hooks_watch(struct hw__sighting *sighting) { watching = sighting; }
