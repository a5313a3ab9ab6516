// SPDX-License-Identifier: MIT
/* DESIGN. CPython decides who gets a GIL by the lock in it alone: a thread takes it when it finds
 * it free. What is ours is the sleep of who does not (timedwait), and the call that a release makes
 * (signal). So each waiter sleeps on a word of its own; a release picks one by the policy and calls
 * it; and before it sleeps, a waiter says that CPython is to ask the holder, by returning ETIMEDOUT
 * without having slept, when the policy finds it time.
 *
 * Everything is guarded by the GIL's own mutex, with which CPython calls timedwait() and signal().
 * Nobody sleeps, spins or makes a system call with it held; a wake is done after it is unlocked
 * (hw__sched_unlocked), for on a core that both threads share the woken one would run into it.
 *
 * Safety nets, for a wake that is lost (a thread that was called and ends, a policy that errs):
 * every sleep has an end, the first one's in the queue a near one, and who wakes looks for itself.
 *
 * A thread that is called may be late: another one that finds the GIL free takes it ("barges").
 * The late one keeps its key, so that it loses nothing but the time.
 *
 * - Spinning. Who waits for a GIL whose holder runs on another core spins a little before it
 *   sleeps: a hand-over between cores that are awake takes a fraction of a microsecond.
 * - Grace. A thread that lets go for a call that returns at once (send() to a socket with room)
 *   wants the GIL back sooner than another one could be woken. Whether it will is foretold from
 *   what it did the last four times (two-level adaptive prediction, Yeh and Patt 1991). Then nobody
 *   is called, if one waits that will look by itself soon; the GIL may be left free so for a
 *   twelfth of the time at most.
 * - After a forced release CPython waits until another thread has taken over, and then for the GIL.
 *   For threads that do so each time (those that compute) both waits are one here: else they would
 *   be woken by each hand-over only to go to sleep again. */
#include "schedule/engine.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/rare.h"
#include "headway/clock.h"
#include "trace/events.h"

#define US 1000

/* When the holder has got the GIL: it was not asked, as nobody else wanted it. */
#define UNTOLD (-1)

#define MS 1000000

/* A request may be lost (up to 3.12 the interpreter clears its flag in passing) or not be served
 * for long (C code that holds the GIL): it is made again after this long, then twice as long ... */
#define ASK_AGAIN_NS (100 * US)
#define ASK_AGAIN_MOST_NS (5 * MS)

/* The longest sleep of who goes next, and of the others. */
#define NEXT_SLEEP_NS (5 * MS)
#define OTHERS_SLEEP_NS (50 * MS)

/* How soon who goes next looks by itself while the GIL is free or in hands that will let it go any
 * moment, at first and at most. */
#define GUARD_NS (150 * US)
#define GUARD_MOST_NS (2 * MS)

/* Who holds the GIL for less than this at a time is left to let it go by itself at first. */
#define SHORT_NS (60 * US)

/* What comes so soon is no reason to sleep: Linux adds 50 us to a sleep. */
#define SOON_NS (15 * US)

/* Who mostly lets go by itself within so long is given the time for it. */
#define MODERATE_NS (300 * US)

/* What a call that comes back at once may take without being a loss: two hand-overs take longer. */
#define FREE_OF_CHARGE_NS (1500)

/* A call came back at once if it took no longer. */
#define AT_ONCE_NS (12 * US)

/* Who was called has so long to come before another one is. */
#define CALLED_NS (1 * MS)

/* The part of the time that a GIL may be left free while somebody wants it, 1/2^n, and the most
 * that can be saved up. */
#define BUDGET_SHIFT 4
#define BUDGET_MOST_NS (500 * US)

/* So often a mutex is tried before who wants it goes to sleep. */
#define LOCK_TRIES 50

/* So often in a row, a waiter that finds the GIL free by itself is no accident. */
#define MISSED_MOST 200

/* A thread starves when others have let the GIL go so often while it waited. */
#define STARVED_RELEASES 20

struct hw__sched_options hw__sched_options;

static struct hw__sched scheds[HW__MAX_GILS];

/* The policy for GILs to come. Written with the registry's lock held; the options do not change
 * while a policy is on. */
static const struct hw_policy *_Atomic current;
static int64_t current_options[HW_POLICY_MAX_OPTIONS];
static _Atomic uint32_t generation; /* changes with it */

static atomic_bool unlock_hooked;
static atomic_int spinners;
static _Atomic int cores; /* that this process may run on */

/* Whom this thread has called, and is to wake when it has unlocked this mutex. */
static __thread struct hw__runner *to_wake[2] __attribute__((tls_model("initial-exec")));
static __thread pthread_mutex_t *wake_after __attribute__((tls_model("initial-exec")));

int hw__sched_init(void) {
    if (scheds[0].queue.members != NULL) {
        return 0;
    }
    size_t bytes = HW__MAX_RUNNERS * sizeof(struct hw__runner *);
    char *memory = mmap(NULL, HW__MAX_GILS * bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return -errno;
    }
    for (int i = 0; i < HW__MAX_GILS; i++) {
        scheds[i].queue.members = (struct hw__runner **)(void *)(memory + (size_t)i * bytes);
    }
    return 0;
}

struct hw__sched *hw__sched_of(const struct hw__gil *gil) { return &scheds[gil->index]; }

const struct hw_policy *hw__sched_policy(void) { return atomic_load(&current); }

void hw__sched_set_policy(const struct hw_policy *policy, const int64_t *options) {
    if (policy != NULL) {
        memcpy(current_options, options, sizeof current_options);
        cpu_set_t set;
        cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    }
    atomic_fetch_add(&generation, 1);
    atomic_store(&current, policy);
}

bool hw__sched_is_mutex(const pthread_mutex_t *mutex) {
    const struct hw__gil_memory *memory =
        atomic_load_explicit(&hw__gils[0].memory, memory_order_relaxed);
    return memory != NULL && mutex == &memory->mutex;
}

void hw__sched_unlocks(bool hooked) { atomic_store(&unlock_hooked, hooked); }

static void queue_changed(struct hw__sched *sched) {
    struct hw__runner *first = hw__waiters_first(&sched->queue);
    sched->view.least_key = first == NULL ? INT64_MAX : first->seen.key;
    sched->view.waiting = sched->queue.count;
}

static void enqueue(struct hw__sched *sched, struct hw__runner *runner) {
    atomic_store(&runner->word, HW__AWAKE);
    hw__waiters_push(&sched->queue, runner);
    queue_changed(sched);
}

static void dequeue(struct hw__sched *sched, struct hw__runner *runner) {
    hw__waiters_remove(&sched->queue, runner);
    queue_changed(sched);
}

/* ---------------------------------------------------------------- words */
/* Has it look. It may have done so by itself, and wait anew: then it looks once more. */
static void wake(struct hw__runner *runner) {
    if (atomic_exchange(&runner->word, HW__CALLED) == HW__SLEEPING) {
        int saved = errno;
        syscall(SYS_futex, &runner->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        errno = saved;
    }
}

static void wake_all(void) {
    for (int i = 0; i < 2; i++) {
        struct hw__runner *runner = to_wake[i];
        to_wake[i] = NULL;
        if (runner != NULL) {
            wake(runner);
        }
    }
}

void hw__sched_unlocked(pthread_mutex_t *mutex) {
    if (to_wake[0] != NULL && mutex == wake_after) {
        wake_all();
    }
}

/* Takes a waiter out of the queue and has it look: when the mutex is free, for it wants that at
 * once. */
static void call(struct hw__sched *sched, struct hw__runner *runner) {
    dequeue(sched, runner);
    if (!atomic_load_explicit(&unlock_hooked, memory_order_relaxed)) {
        wake(runner);
        return;
    }
    if (to_wake[1] != NULL || wake_after != &sched->memory->mutex) {
        wake_all();
    }
    wake_after = &sched->memory->mutex;
    to_wake[to_wake[0] == NULL ? 0 : 1] = runner;
}

static void pause_core(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

/* Who holds a GIL's mutex does so for a fraction of a microsecond: less than a sleep would take. */
void hw__sched_lock(pthread_mutex_t *mutex) {
    for (int i = 0; i < LOCK_TRIES && cores > 1; i++) {
        if (pthread_mutex_trylock(mutex) == 0) {
            return;
        }
        pause_core();
    }
    pthread_mutex_lock(mutex);
}

static bool is_called(const struct hw__runner *runner) {
    return atomic_load_explicit(&runner->word, memory_order_acquire) == HW__CALLED;
}

static void spin_on(struct hw__runner *runner, int64_t spin) {
    int64_t until = hw_now_ns() + spin;
    do {
        for (int i = 0; i < 10 && !is_called(runner); i++) {
            pause_core();
        }
    } while (!is_called(runner) && hw_now_ns() < until);
    atomic_store_explicit(&runner->spinning, false, memory_order_relaxed);
    atomic_fetch_sub(&spinners, 1);
}

/* Until called, or for so long; who spins does not sleep then, but is to look. Without any mutex.
 */
static void sleep_on(struct hw__runner *runner, int64_t spin, int64_t sleep) {
    if (spin > 0) {
        spin_on(runner, spin);
        return;
    }
    uint32_t awake = HW__AWAKE;
    if (!atomic_compare_exchange_strong(&runner->word, &awake, HW__SLEEPING)) {
        return;
    }
    struct timespec span = {sleep / 1000000000, sleep % 1000000000};
    int saved = errno;
    syscall(SYS_futex, &runner->word, FUTEX_WAIT_PRIVATE, HW__SLEEPING, &span, NULL, 0);
    errno = saved;
}

/* ---------------------------------------------------------------- what all hooks do */
static int64_t tell_time(struct hw__sched *sched) {
    int64_t now = hw__ticks_now(&sched->ticks);
    if (now > sched->view.now_ns) {
        sched->view.now_ns = now;
    }
    return sched->view.now_ns;
}

/* The calling thread's record, as of this GIL. */
static struct hw__runner *runner_of(struct hw__sched *sched) {
    struct hw__runner *runner = hw__runner_self();
    if (runner == NULL) {
        sched->counts.without++;
        return NULL;
    }
    if (runner->sched != sched || runner->generation != sched->generation) {
        int32_t priority = runner->seen.priority;
        uint32_t urgent = runner->seen.flags & HW_THREAD_URGENT;
        memset(&runner->seen, 0, sizeof runner->seen);
        runner->seen.priority = priority;
        runner->seen.flags = urgent;
        runner->sched = sched;
        runner->generation = sched->generation;
        runner->waiting = false;
        runner->past = 0;
        runner->forced = 0;
        runner->left_ns = 0;
        memset(runner->comes_back, 0, sizeof runner->comes_back);
    }
    return runner;
}

/* It mostly holds for a moment only, also this time so far. */
static bool is_short(const struct hw__sched *sched, const struct hw__runner *runner) {
    int64_t run_ns = runner->seen.run_ns;
    if (runner == sched->holder) {
        run_ns += sched->view.now_ns - runner->seen.acquired_ns;
    }
    return runner->seen.burst_ns < SHORT_NS && run_ns < SHORT_NS;
}

/* A guess from 0 to 3, of which 2 and 3 are a yes. */
static uint8_t confirm(uint8_t guess, bool yes) {
    if (yes) {
        return guess < 3 ? guess + 1 : 3;
    }
    return guess > 0 ? guess - 1 : 0;
}

/* The thread wants the GIL. What did it do since its last release? */
static void learn(struct hw__runner *runner, int64_t now) {
    if (runner->left_ns != 0) {
        bool forced = now - runner->left_ns < 2 * AT_ONCE_NS;
        runner->forced = confirm(runner->forced, forced);
        runner->left_ns = 0;
        if (!forced) {
            runner->waiting = false; /* it did not want the GIL then */
        }
    }
    if (!runner->waiting && runner->seen.released_ns != 0 &&
        (runner->seen.flags & HW_THREAD_FORCED) == 0) {
        bool came = now - runner->seen.released_ns < AT_ONCE_NS;
        uint8_t *guess = &runner->comes_back[runner->past & 15];
        *guess = confirm(*guess, came);
        runner->past = (uint8_t)(runner->past << 1 | came);
    }
}

static void begin_wait(struct hw__sched *sched, struct hw__runner *runner, int64_t now) {
    runner->waiting = true;
    runner->spun = false;
    runner->order = ++sched->arrivals;
    runner->releases = sched->releases;
    runner->guard_ns = GUARD_NS;
    runner->seen.ready_ns = now;
    sched->policy->ready(&sched->view, &runner->seen);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* After how long a holder will have let the GIL go by itself, for all that is known. 0: it
 * computes.
 *
 * Threads that meet in locks and queues let go often. To interrupt one that has such a lock makes
 * the others queue up for it, and then all of them go in step for long (Blasgen et al., "The convoy
 * phenomenon", 1979): which costs much more than to wait. */
static int64_t lets_go_after(const struct hw__runner *holder) {
    bool computes = holder->seen.burst_ns > MODERATE_NS || holder->seen.run_ns > MODERATE_NS;
    return computes ? 0 : MODERATE_NS;
}

/* In how long the holder is to be asked for this waiter: 0 or less is now. */
static int64_t due(struct hw__sched *sched, const struct hw__runner *runner, int64_t now) {
    if (sched->asked) {
        return sched->asked_ns + sched->again_ns - now;
    }
    struct hw__runner *holder = sched->holder;
    if (holder == NULL) {
        /* One without a record, or from before us: as CPython does. */
        return runner->seen.ready_ns + sched->view.interval_ns - now;
    }
    int64_t patience = sched->policy->patience(&sched->view, &runner->seen, &holder->seen);
    patience = patience < 0 ? 0 : least(patience, OTHERS_SLEEP_NS); /* whatever it says */
    if ((sched->policy->flags & HW_POLICY_PLAIN) == 0) {
        int64_t soon_ns = lets_go_after(holder) - (now - holder->seen.acquired_ns);
        patience = patience < soon_ns ? soon_ns : patience;
    }
    /* A sleep of less is longer by the timer's slack. */
    return patience < SOON_NS && (sched->policy->flags & HW_POLICY_PLAIN) == 0 ? 0 : patience;
}

/* How long a waiter in the queue sleeps at most. */
static int64_t sleep_ns(struct hw__sched *sched, const struct hw__runner *runner, int64_t due_ns) {
    if (hw__waiters_first(&sched->queue) != runner) {
        /* Longer than who goes before it, or all would wake to ask for the same. */
        return least(due_ns + NEXT_SLEEP_NS, OTHERS_SLEEP_NS);
    }
    int64_t most = NEXT_SLEEP_NS;
    bool any_moment = sched->holder == NULL || is_short(sched, sched->holder);
    if (any_moment && (sched->policy->flags & HW_POLICY_PLAIN) == 0) {
        most = runner->guard_ns;
    }
    return least(due_ns, most);
}

/* Spinning pays where the GIL is about to come, from a thread that runs now, elsewhere. Once in a
 * wait; and a core is left to others. */
static int64_t spin_ns(const struct hw__sched *sched, struct hw__runner *runner) {
    if (cores < 2 || (sched->policy->flags & HW_POLICY_PLAIN) != 0 || runner->spun) {
        return 0;
    }
    const struct hw__runner *other = sched->holder != NULL ? sched->holder : sched->called;
    bool soon = sched->asked || other == NULL || other == sched->called || is_short(sched, other);
    if (!soon || other == NULL || other->cpu < 0 || other->cpu == sched_getcpu() ||
        hw__sched_options.spin_ns == 0) {
        return 0;
    }
    if (atomic_fetch_add(&spinners, 1) >= cores - 1) {
        atomic_fetch_sub(&spinners, 1);
        return 0;
    }
    runner->spun = true;
    atomic_store_explicit(&runner->spinning, true, memory_order_relaxed);
    return hw__sched_options.spin_ns;
}

/* CPython is to ask the holder: it does so and comes back, with the mutex held all the time. */
static int ask(struct hw__sched *sched, struct hw__runner *runner, int64_t now) {
    sched->again_ns = sched->asked ? sched->again_ns * 2 : ASK_AGAIN_NS;
    if (sched->again_ns > ASK_AGAIN_MOST_NS) {
        sched->again_ns = ASK_AGAIN_MOST_NS;
    }
    sched->asked = true;
    sched->asked_ns = now;
    sched->counts.asked++;
    runner->has_asked = true;
    runner->wake_at_ns = now + sched->again_ns;
    runner->spin_ns = spin_ns(sched, runner);
    return ETIMEDOUT;
}

/* ---------------------------------------------------------------- the watchdog */
void hw__sched_say(const char *text) {
    int saved = errno;
    (void)!write(STDERR_FILENO, text, strlen(text));
    errno = saved;
}

static size_t add_text(char *line, size_t at, size_t room, const char *text) {
    while (*text != '\0' && at + 1 < room) {
        line[at++] = *text++;
    }
    line[at] = '\0';
    return at;
}

static size_t add_number(char *line, size_t at, size_t room, int64_t number) {
    char digits[24] = "";
    int i = (int)sizeof digits - 1;
    do {
        digits[--i] = (char)('0' + number % 10);
    } while ((number /= 10) > 0);
    return add_text(line, at, room, digits + i);
}

static void call_all(struct hw__sched *sched) {
    while (sched->queue.count > 0) {
        struct hw__runner *runner = sched->queue.members[0];
        call(sched, runner);
    }
}

/* Removes the policy from this GIL, and from those to come. */
HW__RARE static void remove_policy(struct hw__gil *gil, struct hw__sched *sched, const char *why,
                                   const struct hw__runner *runner) {
    char line[300];
    size_t at = add_text(line, 0, sizeof line, "headway: the policy ");
    at = add_text(line, at, sizeof line, sched->policy->name);
    at = add_text(line, at, sizeof line, " is removed, CPython schedules again: ");
    at = add_text(line, at, sizeof line, why);
    at = add_text(line, at, sizeof line, " (thread ");
    at = add_number(line, at, sizeof line, runner->tid);
    at = add_text(line, at, sizeof line, ", ");
    at = add_number(line, at, sizeof line, (sched->view.now_ns - runner->seen.ready_ns) / MS);
    add_text(line, at, sizeof line, " ms)\n");
    hw__sched_say(line);
    hw__sched_set_policy(NULL, NULL);
    hw__sched_end(gil);
}

/* Called by who has slept and was not called. Returns whether the policy is gone. */
static bool watch(struct hw__gil *gil, struct hw__sched *sched, struct hw__runner *runner,
                  int64_t now) {
    int64_t limit = hw__sched_options.watchdog_ns;
    if (limit > 0 && now - runner->seen.ready_ns > limit) {
        /* Neither is so where one thread is in a long call of C that cannot let go. */
        const char *why =
            sched->releases - runner->releases > STARVED_RELEASES ? "it let a thread starve"
            : sched->holder != NULL && !sched->asked              ? "it lets nobody ask for the GIL"
                                                                  : NULL;
        if (why != NULL) {
            remove_policy(gil, sched, why, runner);
            return true;
        }
    }
    if (HW__READ(sched->memory->locked) == 0 && sched->called == NULL && !sched->graced) {
        if (++sched->missed > MISSED_MOST) {
            remove_policy(gil, sched, "it does not wake who waits", runner);
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- the hooks */
static void read_interval(struct hw__sched *sched) {
    sched->view.interval_ns = (int64_t)HW__READ(sched->memory->interval_us) * US;
}

/* There is a policy still. Who removes it does so at the one GIL whose mutex it has; at the others
 * it ends here. */
static bool is_on(struct hw__gil *gil, struct hw__sched *sched) {
    if (sched->policy == NULL) {
        return false;
    }
    if (atomic_load_explicit(&generation, memory_order_relaxed) != sched->generation) {
        hw__sched_end(gil);
        return false;
    }
    return true;
}

/* Somebody has come who wants the GIL too: the policy is told who has it. From now on its time
 * counts; before, it was nobody else's. */
static void tell_holder(struct hw__sched *sched, int64_t now) {
    struct hw__runner *holder = sched->holder;
    if (holder != NULL && holder->seen.acquired_ns == UNTOLD) {
        holder->seen.acquired_ns = now;
        sched->policy->acquired(&sched->view, &holder->seen);
    }
}

/* Another thread has been told that it is its turn, and is on its way. */
static bool other_comes(struct hw__sched *sched, const struct hw__runner *runner) {
    return sched->called != NULL && sched->called != runner &&
           tell_time(sched) - sched->called_ns < CALLED_NS;
}

/* Spins, or sleeps, in the queue, without the GIL's mutex that the caller has. Who wakes by itself
 * and finds the GIL free does not snatch it from the one that was called: as who is awake is
 * quicker, it would do so each time. */
static void doze(struct hw__sched *sched, struct hw__runner *runner, int64_t spin,
                 int64_t longest) {
    pthread_mutex_t *mutex = &sched->memory->mutex;
    do {
        pthread_mutex_unlock(mutex);
        hw__sched_unlocked(mutex);
        sleep_on(runner, spin, longest);
        hw__sched_lock(mutex);
        spin = 0;
        longest = CALLED_NS;
        atomic_store(&runner->word, HW__AWAKE);
    } while (runner->place != 0 && HW__READ(sched->memory->locked) == 0 &&
             other_comes(sched, runner));
}

int hw__sched_timedwait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex,
                        const struct timespec *deadline) {
    struct hw__sched *sched = hw__sched_of(gil);
    struct hw__runner *runner = is_on(gil, sched) ? runner_of(sched) : NULL;
    if (runner == NULL) {
        return hw__real.timedwait(cond, mutex, deadline);
    }
    unsigned long switches = HW__READ(sched->memory->switch_number);
    int64_t spin, now = sched->view.now_ns;
    if (runner->has_asked) {
        /* This very moment, and the holder is about to want the mutex: no thinking now. */
        runner->has_asked = false;
        enqueue(sched, runner);
        spin = runner->spin_ns;
    } else {
        read_interval(sched);
        now = tell_time(sched);
        if (sched->called == runner) {
            sched->called = NULL; /* late */
            sched->counts.barged++;
        }
        dequeue(sched, runner);
        tell_holder(sched, now);
        learn(runner, now);
        if (!runner->waiting) {
            begin_wait(sched, runner, now);
        }
        int64_t due_ns = due(sched, runner, now);
        if (due_ns <= 0) {
            return ask(sched, runner, now);
        }
        enqueue(sched, runner);
        runner->wake_at_ns = now + sleep_ns(sched, runner, due_ns);
        spin = spin_ns(sched, runner);
    }
    doze(sched, runner, spin, runner->wake_at_ns - now);
    if (runner->place == 0) { /* called, or the policy is over */
        sched->missed = 0;
        runner->guard_ns = GUARD_NS;
        runner->spun = false;
        return 0;
    }
    dequeue(sched, runner);
    if (!is_on(gil, sched)) {
        return 0;
    }
    now = tell_time(sched);
    if (watch(gil, sched, runner, now)) {
        return 0;
    }
    if (HW__READ(sched->memory->locked) == 0) {
        return 0;
    }
    runner->guard_ns = spin > 0 ? GUARD_NS : least(2 * runner->guard_ns, GUARD_MOST_NS);
    if (HW__READ(sched->memory->switch_number) != switches) {
        return 0; /* CPython begins anew, and so do we */
    }
    return due(sched, runner, now) <= 0 ? ask(sched, runner, now) : 0;
}

/* Tells who goes next that it is its turn. */
static void call_next(struct hw__sched *sched, int64_t now) {
    struct hw__runner *next = hw__waiters_first(&sched->queue);
    if (next == NULL || (sched->called != NULL && now - sched->called_ns < CALLED_NS)) {
        return;
    }
    sched->called = next;
    sched->called_ns = now;
    sched->counts.granted++;
    call(sched, next);
}

/* Whether to leave the GIL free for a moment, since who let it go will be back. */
static bool give_grace(struct hw__sched *sched, const struct hw__runner *releaser, int64_t now) {
    const struct hw_policy *policy = sched->policy;
    const struct hw__runner *next = hw__waiters_first(&sched->queue);
    sched->budget_ns += (now - sched->budget_at_ns) >> BUDGET_SHIFT;
    sched->budget_ns = least(sched->budget_ns, BUDGET_MOST_NS);
    sched->budget_at_ns = now;
    if (policy->grace == NULL || (releaser->seen.flags & HW_THREAD_FORCED) != 0 ||
        releaser->comes_back[releaser->past & 15] < 2 || sched->budget_ns <= 0) {
        return false;
    }
    int64_t grace_ns = policy->grace(&sched->view, &next->seen, &releaser->seen);
    /* Somebody must look when the grace is over. */
    bool spinning = atomic_load_explicit(&next->spinning, memory_order_relaxed);
    bool guarded = next->wake_at_ns - now <= (spinning ? MS : GUARD_NS + grace_ns);
    return grace_ns > 0 && guarded;
}

void hw__sched_release(struct hw__gil *gil) {
    struct hw__sched *sched = hw__sched_of(gil);
    if (HW__READ(sched->memory->locked) != 0 || !is_on(gil, sched)) {
        return;
    }
    struct hw__runner *runner = sched->holder;
    sched->releases++;
    if (runner != NULL && runner->seen.acquired_ns == UNTOLD && runner == hw__runner_known()) {
        runner->seen.run_ns = 0;
        runner->seen.released_ns = 0;
        runner->seen.flags &= ~HW_THREAD_FORCED;
        runner->takes = sched->takes;
        sched->holder = NULL;
        sched->view.holder = NULL;
        return;
    }
    int64_t now = tell_time(sched);
    sched->free_ns = now;
    sched->graced = false;
    if (runner != NULL && runner == hw__runner_known()) {
        struct hw_policy_thread *seen = &runner->seen;
        int64_t held_ns = now - seen->acquired_ns;
        seen->used_ns += held_ns;
        seen->run_ns += held_ns;
        seen->flags = (seen->flags & ~HW_THREAD_FORCED) | (sched->asked ? HW_THREAD_FORCED : 0);
        sched->policy->released(&sched->view, seen, held_ns);
        seen->released_ns = now;
        runner->takes = sched->takes;
        if (!sched->asked) {
            seen->burst_ns += (seen->run_ns - seen->burst_ns) / 4;
            seen->run_ns = 0;
        } else if (gil->main && runner->forced >= 2) {
            /* It wants the GIL back at once: it stands in the queue before it comes to wait. Else
             * another one would be called that is not to go next. */
            begin_wait(sched, runner, now);
            enqueue(sched, runner);
            runner->wake_at_ns = now;
        }
    } else {
        runner = NULL;
    }
    sched->holder = NULL;
    sched->view.holder = NULL;
    sched->asked = false;
    if (sched->queue.count > 0) {
        if (runner != NULL && give_grace(sched, runner, now)) {
            sched->graced = true;
            sched->counts.graced++;
        } else {
            call_next(sched, now);
        }
    }
}

void hw__sched_acquire(struct hw__gil *gil) {
    struct hw__sched *sched = hw__sched_of(gil);
    if (!is_on(gil, sched)) {
        return;
    }
    struct hw__runner *runner = runner_of(sched);
    bool wanted = sched->called != NULL || sched->queue.count > 0;
    if (!wanted && runner != NULL && !runner->waiting) {
        /* Nobody wants it but this thread: then there is nothing to be told, and no time to ask. */
        runner->seen.acquired_ns = UNTOLD;
        runner->seen.ready_ns = 0;
        runner->left_ns = 0;
        runner->cpu = sched_getcpu();
        sched->takes++;
        sched->counts.acquires++;
        sched->free_ns = 0;
        sched->graced = sched->asked = false;
        sched->holder = runner;
        sched->view.holder = &runner->seen;
        return;
    }
    read_interval(sched);
    int64_t now = tell_time(sched);
    if (wanted && sched->free_ns != 0) {
        sched->counts.idle_ns += now - sched->free_ns;
        int64_t charge_ns = now - sched->free_ns - FREE_OF_CHARGE_NS;
        sched->budget_ns -= sched->graced && charge_ns > 0 ? charge_ns : 0;
    }
    sched->graced = false;
    sched->free_ns = 0;
    sched->takes++;
    sched->asked = false;
    sched->holder = runner;
    sched->counts.acquires++;
    sched->view.holder = runner == NULL ? NULL : &runner->seen;
    if (sched->called == runner) {
        sched->called = NULL;
    }
    if (runner == NULL) {
        return;
    }
    dequeue(sched, runner);
    runner->has_asked = false;
    learn(runner, now);
    if (runner->waiting) {
        int64_t wait_ns = now - runner->seen.ready_ns;
        sched->counts.wait_ns += wait_ns;
        sched->counts.worst_wait_ns =
            wait_ns > sched->counts.worst_wait_ns ? wait_ns : sched->counts.worst_wait_ns;
    } else {
        runner->seen.ready_ns = 0;
    }
    runner->waiting = false;
    runner->cpu = sched_getcpu();
    runner->seen.acquired_ns = now;
    sched->policy->acquired(&sched->view, &runner->seen);
    /* Who goes next went to sleep for another holder: is it to ask this one sooner? */
    struct hw__runner *next = hw__waiters_first(&sched->queue);
    if (next != NULL && !is_short(sched, runner)) {
        int64_t ask_at = now + due(sched, next, now);
        if (ask_at + (next->wake_at_ns - now) / 4 + GUARD_NS < next->wake_at_ns) {
            call(sched, next);
        }
    }
}

/* As CPython has it, but not for ever: up to 3.10 nobody may come (gh-96387). */
static int wait_plainly(struct hw__runner *runner, pthread_cond_t *cond, pthread_mutex_t *mutex) {
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_nsec += NEXT_SLEEP_NS;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_nsec -= 1000000000;
        deadline.tv_sec++;
    }
    (void)hw__real.timedwait(cond, mutex, &deadline);
    if (runner != NULL) {
        runner->left_ns = hw_now_ns();
    }
    return 0;
}

int hw__sched_wait(struct hw__gil *gil, pthread_cond_t *cond, pthread_mutex_t *mutex) {
    struct hw__sched *sched = hw__sched_of(gil);
    struct hw__runner *runner = hw__runner_known();
    const struct hw_policy *policy = atomic_load(&current);
    if (policy == NULL || (policy->flags & HW_POLICY_PLAIN) != 0 || runner == NULL ||
        runner->sched != sched || runner->forced < 2) {
        return wait_plainly(runner, cond, mutex);
    }
    struct hw__gil_memory *memory = atomic_load(&gil->memory);
    pthread_mutex_unlock(mutex);
    hw__sched_lock(&memory->mutex);
    if (runner->place != 0 && is_on(gil, sched)) { /* else it is its turn already */
        int64_t now = tell_time(sched);
        if (hw__gil_enter(gil)) {
            hw__on_wait(gil);
            hw__gil_leave(gil);
        }
        int64_t due_ns = sched->holder == NULL ? NEXT_SLEEP_NS : due(sched, runner, now);
        int64_t longest = sleep_ns(sched, runner, due_ns < GUARD_NS ? GUARD_NS : due_ns);
        runner->wake_at_ns = now + longest;
        doze(sched, runner, spin_ns(sched, runner), longest);
    }
    runner->left_ns = hw_now_ns();
    pthread_mutex_unlock(&memory->mutex);
    pthread_mutex_lock(mutex);
    return 0;
}

/* ---------------------------------------------------------------- beginning and end */
void hw__sched_begin(struct hw__gil *gil, const struct hw_policy *policy, const int64_t *options) {
    struct hw__sched *sched = hw__sched_of(gil);
    call_all(sched); /* who sleeps from before */
    struct hw__waiters queue = {.members = sched->queue.members};
    *sched = (struct hw__sched){.queue = queue, .generation = atomic_load(&generation)};
    sched->memory = atomic_load(&gil->memory);
    memcpy(sched->view.options, options, sizeof sched->view.options);
    sched->budget_ns = BUDGET_MOST_NS;
    queue_changed(sched);
    sched->budget_at_ns = tell_time(sched);
    read_interval(sched);
    sched->policy = policy;
    atomic_store(&gil->scheduled, true);
}

void hw__sched_found_holding(struct hw__sched *sched) {
    struct hw__runner *runner = runner_of(sched);
    if (runner != NULL) {
        runner->seen.acquired_ns = tell_time(sched);
        sched->holder = runner;
        sched->view.holder = &runner->seen;
        sched->policy->acquired(&sched->view, &runner->seen);
    }
}

void hw__sched_end(struct hw__gil *gil) {
    struct hw__sched *sched = hw__sched_of(gil);
    call_all(sched);
    sched->policy = NULL;
    sched->holder = sched->called = NULL;
    sched->view.holder = NULL;
    atomic_store(&gil->scheduled, false);
}

void hw__sched_leave(struct hw__runner *runner) {
    /* In a queue it can be that of the main GIL only, whose memory is there for ever. */
    struct hw__sched *sched = runner->sched;
    if (sched == &scheds[0]) {
        pthread_mutex_t *mutex = &sched->memory->mutex;
        hw__sched_lock(mutex);
        dequeue(sched, runner);
        if (sched->called == runner) {
            sched->called = NULL;
        }
        pthread_mutex_unlock(mutex);
    }
}

void hw__sched_adopt(struct hw__gil *gil) {
    const struct hw_policy *policy = atomic_load(&current);
    if (policy != NULL) {
        hw__sched_begin(gil, policy, current_options);
    }
}

void hw__sched_forget(struct hw__gil *gil) {
    if (atomic_load(&gil->scheduled)) {
        hw__sched_end(gil);
    }
}

void hw__sched_after_fork(void) {
    hw__runners_after_fork();
    memset(to_wake, 0, sizeof to_wake);
    atomic_store(&spinners, 0);
    for (int i = 0; i < hw__gil_count(); i++) {
        struct hw__sched *sched = &scheds[i];
        if (sched->policy != NULL) {
            const struct hw_policy *policy = sched->policy;
            int64_t options[HW_POLICY_MAX_OPTIONS];
            memcpy(options, sched->view.options, sizeof options);
            sched->queue.count = 0; /* they are not here */
            hw__sched_begin(&hw__gils[i], policy, options);
        }
    }
    struct hw__runner *self = hw__runner_known();
    if (self != NULL) {
        self->sched = NULL;
    }
}
