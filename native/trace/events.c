// SPDX-License-Identifier: MIT
/* DESIGN: each hook is called with the GIL's mutex held. The mutex orders the events of that GIL
 * and guards its record. A thread's data are touched by that thread only (thread.h names the
 * exceptions). So an event takes no lock and waits for no other thread. Three rare calls differ:
 * - hw__on_new_gil() tries the registry's lock.
 * - hw__on_gil_end(), which is called without the mutex, takes the registry's lock and waits for
 *   hooks.
 * - A forked child's first event makes the child's memory, and waits for that
 *   (hw__session_adopt()).
 *
 * Times are read with the mutex held: the acquire that follows a release has a later time. */
#include "trace/events.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/allowed.h"
#include "base/cpu.h"
#include "base/lease.h"
#include "base/rare.h"
#include "base/tls.h"
#include "gil/recorder.h"
#include "gil/scheduler.h"
#include "headway/clock.h"
#include "trace/parks.h"
#include "trace/slots.h"
#include "trace/stacks.h"
#include "trace/thread.h"

/* For a hold of this length or longer, the share in which the thread ran is recorded. */
#define LONG_HOLD_NS 1000000

/* A hold of this length or longer may be a stall. It is measured also if nothing was read at its
 * begin and no thread requested the GIL, with the thread's last reading before the hold. */
#define STALL_HOLD_NS 10000000

/* With a shorter switch interval there are so many requests that a system call for each would slow
 * them down. */
#define LEAST_INTERVAL_US 100

/* Of the times between threads' holds of a GIL, one is measured in AWAY_EVERY_NS to twice that. A
 * pause saves up the measurements that would have been due in AWAY_BURST_NS. So all times are
 * measured if the GIL is seldom yielded. A thread of which none was measured for AWAY_EACH_NS is
 * measured in any case: other threads may yield the GIL all the time.
 *
 * A measurement is two system calls with the GIL's mutex held. At the end of a system call, the
 * kernel may give the core to another thread of the process, which then has to wait for the mutex.
 * So the limit is for all threads of a GIL together. */
#define AWAY_EVERY_NS 1000000
#define AWAY_BURST_NS 16000000
#define AWAY_EACH_NS 100000000

/* A thread that is back sooner was not blocked: its CPU time is not read again. */
#define AWAY_LEAST_NS 15000

/* A thread that was away for longer is a rare one, and may be a stall. Its CPU time is read at the
 * end also if it was not read at the beginning, and compared with the last one that was read: the
 * thread's holds since then count as run. Its other times away since then must be short, as nothing
 * is known of them: at most one AWAY_KNOWN-th of this one. */
#define AWAY_LONG_NS 50000000
#define AWAY_KNOWN 8

/* A thread that wants the GIL again so soon after the hand-off was preempted: the other reason for
 * a release, a call, takes longer, or as long as nobody needs to know of. */
#define PREEMPTED_NS 50000

/* Up to CPython 3.12, a thread that acquires the GIL clears the request. If the thread that has
 * released it loses its core just then, it does not look for the hand-off. Without a policy,
 * requests are rare, and Python code answers one within microseconds. So a thread that does not
 * look for the hand-off, and has released the GIL so soon after the request, counts as preempted:
 * it has hardly just made a call. */
#define ANSWERED_NS 1000000

/* A thread that had to wait for the GIL's mutex has an event within MUTEX_NS, or within
 * MUTEX_MOST_NS if it lost its core. Later, the mutex was for something else: from CPython 3.13 on,
 * Py_AddPendingCall() takes it in a thread that does not want the GIL (signal_active_thread() in
 * Python/ceval_gil.c). */
#define MUTEX_NS 50000
#define MUTEX_MOST_NS 10000000

HW__RARE bool hw__adopt(void) {
    int expected = HW__INHERITED;
    if (!atomic_compare_exchange_strong(&hw__session.inherited, &expected, HW__ADOPTING)) {
        return expected == 0; /* another thread has done it, or is doing it */
    }
    bool done = hw__session_adopt();
    if (!done) {
        hw__session.active = false;
        /* A recording that the child begins itself has no lease. */
        hw__lease_end(&hw__leases[HW__LEASE_TRACE]);
    }
    hw__threads_forget();
    hw__stacks_forget();
    hw__parks_forget();
    for (int i = 0; i < hw__gil_count(); i++) {
        struct hw__gil *gil = &hw__gils[i];
        hw__stacks_drop(gil);
        gil->meta = NULL;
        if (done && atomic_load(&gil->memory) != NULL) {
            hw__gil_record(gil);
        } else {
            atomic_store(&gil->recorded, false);
        }
    }
    if (!done) {
        hw__parks_close();
    }
    /* Last, since in a free-threaded build other threads of the child may be about to record
     * something. */
    atomic_store(&hw__session.inherited, done ? 0 : HW__LOST);
    return done;
}

/* Writes the META_GIL of a GIL, and counts the GIL in the header. */
HW__RARE static void announce(struct hw__gil *gil, int64_t now_ns) {
    struct hw__header *header = hw__session.header;
    uint32_t count = atomic_load(&header->gil_count);
    while (count <= gil->index &&
           !atomic_compare_exchange_weak(&header->gil_count, &count, gil->index + 1)) {
    }
    struct hw__meta_gil *record = hw__meta_begin(gil, HW__META_GIL, sizeof *record);
    if (record != NULL) {
        record->index = gil->index;
        record->main = gil->main;
        record->address = (uint64_t)(uintptr_t)atomic_load(&gil->memory);
        record->time_ns = now_ns;
        hw__meta_commit(gil, record);
    }
    gil->announced = record != NULL || hw__session.chunk_count == 0;
}

HW__RARE void hw__abandon(struct hw__gil *gil, int64_t now_ns) {
    hw__lease_expire(&hw__leases[HW__LEASE_TRACE], HW__LEASE_EXPIRED);
    atomic_store(&hw__session.header->end_ns, now_ns);
    hw__parks_close();
    if (gil != NULL) {
        atomic_store(&gil->recorded, false);
    }
    hw__session_let_go();
}

/* Begins an event. Returns the calling thread's record, with the time in *now_ns; or NULL, with 0
 * there, and then there must be no event.
 *
 * No event is before the last one of its GIL or of its thread: the counter may be read a little
 * before the mutex is acquired, and each GIL has its own tie to the clock. */
static struct hw__thread *enter(struct hw__gil *gil, int64_t *now_ns) {
    *now_ns = 0;
    if (atomic_load_explicit(&hw__session.inherited, memory_order_acquire) != 0 && !hw__adopt()) {
        return NULL;
    }
    struct hw__thread *thread = hw__thread_self();
    if (thread == NULL) {
        atomic_fetch_add_explicit(&hw__session.header->dropped_events, 1, memory_order_relaxed);
        return NULL;
    }
    int64_t now = hw__ticks_now(&gil->ticks);
    if (hw__lease_over(&hw__leases[HW__LEASE_TRACE], now)) {
        hw__abandon(gil, now);
        return NULL;
    }
    int64_t last_ns = atomic_load_explicit(&gil->last_ns, memory_order_relaxed);
    now = now < last_ns ? last_ns : now;
    now = now < thread->last_ns ? thread->last_ns : now;
    *now_ns = now;
    HW__SET(gil->last_ns, now);
    if (!gil->announced) {
        announce(gil, now);
    }
    return thread;
}

/* Py_IsFinalizing(), which only reads a variable, in any thread. Written while nothing is
 * recorded. */
static int (*is_finalizing)(void);

void hw__events_init(void *function) { is_finalizing = (int (*)(void))(uintptr_t)function; }

bool hw__is_finalizing(void) { return is_finalizing == NULL || is_finalizing(); }

/* PyThreadState_GetInterpreter(), which only reads a field, or NULL; and the main interpreter.
 * Written while nothing is recorded. */
static const void *(*interpreter_of)(const void *thread_state);
static const void *main_interpreter;

/* Each thread that is preempted is seen to look for the hand-off. Written while nothing is
 * recorded.
 */
static bool hand_offs_seen;

void hw__events_tell_hand_offs(bool seen) { hand_offs_seen = seen; }

void hw__events_tell_interpreters(void *function, const void *interpreter) {
    interpreter_of = (const void *(*)(const void *))(uintptr_t)function;
    main_interpreter = interpreter;
}

/* A thread of this valid state releases the GIL. Tells it if the state is a sub-interpreter's. */
static void tell_interpreter(const struct hw__gil *gil, const void *thread_state) {
    if (interpreter_of == NULL || !gil->main || thread_state == NULL) {
        return;
    }
    _Atomic uint32_t *flags = &hw__session.header->flags;
    if ((atomic_load_explicit(flags, memory_order_relaxed) & HW__SUBINTERPRETERS) == 0 &&
        interpreter_of(thread_state) != main_interpreter) {
        atomic_fetch_or_explicit(flags, HW__SUBINTERPRETERS, memory_order_relaxed);
    }
}

/* Returns whether the PyThreadState of a thread that has just acquired the GIL may be freed memory.
 *
 * When the interpreter ends, a daemon thread that waits for the GIL acquires it, sees that it must
 * not go on, and releases it again; take_gil() says of its state: "could be a dangling pointer".
 * The thread that ends the interpreter holds the GIL when Py_IsFinalizing() becomes true, and frees
 * that state later, again with the GIL held. So a thread that acquired the GIL before that moment
 * has a valid state. The first acquire after that moment shows which thread ends the interpreter:
 * the one that released last. */
static bool stateless(struct hw__gil *gil, const struct hw__thread *thread) {
    if (is_finalizing == NULL) {
        return true;
    }
    if (!is_finalizing()) {
        gil->ending = false;
        return false;
    }
    if (!gil->ending) {
        gil->ending = true;
        gil->ender = gil->main ? gil->last : NULL;
    }
    return thread != gil->ender;
}

/* The GIL that the calling thread waits for, if that wait is recorded; and the session that it is
 * recorded in. */
static HW__TLS const struct hw__gil *waits_for;
static HW__TLS uint64_t waits_in;

/* Since when the calling thread had to wait for the mutex of the GIL `mutex_of`; 0: it did not have
 * to wait. */
static HW__TLS int64_t mutex_since_ns;
static HW__TLS const struct hw__gil *mutex_of;

/* When that wait ended, and the GIL's number of switches then. */
static HW__TLS int64_t mutex_until_ns;
static HW__TLS unsigned long mutex_switches;

/* When the calling thread last looked whether the GIL `switched_of` was handed off, after a release
 * on request, or came back from the wait for that; 0: it has had an event since. */
static HW__TLS int64_t switched_ns;
static HW__TLS const struct hw__gil *switched_of;

void hw__on_mutex(const struct hw__gil *gil, int64_t since_ns) {
    mutex_of = gil;
    mutex_since_ns = since_ns;
    if (since_ns != 0) {
        const struct hw__gil_memory *memory =
            atomic_load_explicit(&gil->memory, memory_order_relaxed);
        mutex_until_ns = hw_now_ns();
        mutex_switches = memory == NULL ? 0 : HW__READ(memory->switch_number);
    }
}

/* Tells whether the calling thread, which has an event of this GIL at `now_ns`, has had the GIL's
 * mutex since it last had to wait for it. An event follows the mutex at once, unless the thread
 * lost its core in between. No other thread can have acquired the GIL then. */
static bool has_had_mutex(const struct hw__gil *gil, int64_t now_ns) {
    int64_t since_ns = now_ns - mutex_until_ns;
    const struct hw__gil_memory *memory = atomic_load_explicit(&gil->memory, memory_order_relaxed);
    unsigned long switches = HW__READ(memory->switch_number) - mutex_switches;
    /* An acquire of the thread's own is a switch, too. */
    return since_ns < MUTEX_NS || (since_ns < MUTEX_MOST_NS && switches <= 1);
}

void hw__on_switched(const struct hw__gil *gil) {
    switched_of = gil;
    switched_ns = hw_now_ns();
}

/* The usual case of began_ns() is none of these. */
HW__APART static int64_t began_before_ns(const struct hw__gil *gil, struct hw__thread *thread,
                                         int64_t now_ns) {
    int64_t mutex_ns = mutex_of == gil ? mutex_since_ns : 0, back_ns = switched_ns;
    bool slept = mutex_ns != 0 && mutex_ns <= now_ns && has_had_mutex(gil, now_ns);
    bool back = back_ns != 0 && switched_of == gil;
    bool switched = back && (slept ? mutex_ns : now_ns) - back_ns < PREEMPTED_NS;
    mutex_since_ns = switched_ns = 0;
    /* A call that began soon after the request may take seconds, so what is seen comes first. */
    bool answered = !back && thread->answered && thread->node_gil == gil->index;
    thread->answered = false;
    if (switched || answered) {
        return hw__thread_was_there(thread, thread->last_ns);
    }
    return slept ? hw__thread_was_there(thread, mutex_ns) : now_ns;
}

/* Returns when a wait began that ends or goes on at `now_ns`. A thread that finds the GIL's mutex
 * taken is waiting already. A thread that was preempted wants the GIL from its release on: it can
 * only ask for it after the hand-off, and if it has a core by then. */
static int64_t began_ns(const struct hw__gil *gil, struct hw__thread *thread, int64_t now_ns) {
    if (__builtin_expect((mutex_since_ns | switched_ns) == 0 && !thread->answered, 1)) {
        return now_ns;
    }
    return began_before_ns(gil, thread, now_ns);
}

/* Returns the time of a CPU clock, or 0 if it cannot be read. This is a system call, so it is made
 * for hand-offs that cost much more anyway, and for few others. */
static int64_t cpu_of(clockid_t clock) {
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Returns the CPU time of the calling thread. */
static int64_t cpu_ns(void) { return cpu_of(CLOCK_THREAD_CPUTIME_ID); }

/* Returns the CPU time of the calling thread, which holds no GIL just now: it is about to acquire
 * one, or has released one. */
static int64_t cpu_between(struct hw__thread *thread, int64_t now_ns) {
    thread->cpu_last_ns = cpu_ns();
    thread->cpu_last_at_ns = now_ns;
    thread->cpu_last_hold_ns = thread->hold_ns;
    return thread->cpu_last_ns;
}

static bool cpu_is_told(void) {
    return atomic_load_explicit(&hw__session.control->no_cpu_times, memory_order_relaxed) == 0 &&
           hw__allowed(HW__CALL_CLOCK);
}

/* Returns a share of a time as flags of an event: see HW__RAN_SHIFT. */
static uint32_t share_of(uint64_t cpu, uint64_t length_ns) {
    uint64_t share = cpu >= length_ns ? HW__RAN_ALL : cpu * HW__RAN_ALL / length_ns;
    return (uint32_t)(1 + share) << HW__RAN_SHIFT;
}

/* The calling thread yields the GIL. Returns its CPU time if the time until it wants the GIL again
 * is measured, else 0. The next measurement is due after a random time, as programs go round in
 * loops. */
static int64_t going_away(struct hw__gil *gil, struct hw__thread *thread, int64_t now_ns) {
    bool due = now_ns >= gil->away_due_ns;
    if ((!due && now_ns - thread->away_measured_ns < AWAY_EACH_NS) || !cpu_is_told()) {
        return 0;
    }
    thread->away_measured_ns = now_ns;
    if (due) {
        int64_t due_ns = now_ns - AWAY_BURST_NS;
        due_ns = due_ns > gil->away_due_ns ? due_ns : gil->away_due_ns;
        uint64_t scattered = (uint64_t)now_ns * UINT64_C(0x9e3779b97f4a7c15); /* Knuth 6.4 */
        gil->away_due_ns = due_ns + AWAY_EVERY_NS + (int64_t)((scattered >> 32) % AWAY_EVERY_NS);
    }
    return cpu_between(thread, now_ns);
}

/* Of a time away that was not measured from its beginning: as ran_away(). */
HW__RARE static uint32_t ran_for_long(struct hw__thread *thread, int64_t since_ns, int64_t *cpu) {
    int64_t away_ns = since_ns - thread->last_ns;
    int64_t held_ns = (int64_t)(thread->hold_ns - thread->cpu_last_hold_ns);
    int64_t unknown_ns = thread->last_ns - thread->cpu_last_at_ns - held_ns;
    if (thread->cpu_last_at_ns == 0 || unknown_ns > away_ns / AWAY_KNOWN || held_ns > away_ns / 2 ||
        !cpu_is_told()) {
        return 0;
    }
    int64_t before_ns = thread->cpu_last_ns + held_ns;
    *cpu = cpu_between(thread, since_ns);
    return share_of(*cpu <= before_ns ? 0 : (uint64_t)(*cpu - before_ns), (uint64_t)away_ns);
}

/* The calling thread wants the GIL again since `since_ns`. Returns for the event's flags how much
 * of the time since its release it ran, or 0 if that was not measured. *cpu: the thread's CPU time
 * if it was read, else 0. */
static uint32_t ran_away(const struct hw__gil *gil, struct hw__thread *thread, int64_t since_ns,
                         int64_t *cpu) {
    *cpu = 0;
    int64_t before_ns = thread->cpu_at_release_ns;
    int64_t away_ns = since_ns - thread->last_ns;
    thread->cpu_at_release_ns = 0;
    if (away_ns < (before_ns == 0 ? AWAY_LONG_NS : AWAY_LEAST_NS) ||
        thread->node_gil != gil->index) {
        return 0;
    }
    if (before_ns == 0) {
        return ran_for_long(thread, since_ns, cpu);
    }
    *cpu = cpu_between(thread, since_ns);
    return share_of((uint64_t)(*cpu - before_ns), (uint64_t)away_ns);
}

/* Records that the calling thread has begun to wait for the GIL. The thread has run no Python since
 * its last release, so its stack is still the one of then. */
static void wait_from(struct hw__gil *gil, struct hw__thread *thread, int64_t since_ns) {
    thread->waiting_since_ns = since_ns;
    uint32_t node = thread->node_gil == gil->index ? thread->node : 0;
    int64_t cpu;
    uint32_t away = ran_away(gil, thread, since_ns, &cpu);
    hw__thread_emit(thread, HW__WAIT, gil->index, node, away, since_ns);
}

bool hw__waits_already(const struct hw__gil *gil) {
    return waits_for == gil &&
           waits_in == atomic_load_explicit(&hw__session.id, memory_order_relaxed);
}

void hw__on_wait(struct hw__gil *gil) {
    int64_t now;
    struct hw__thread *thread = enter(gil, &now);
    if (thread == NULL || thread->waiting_since_ns != 0) {
        return;
    }
    waits_for = gil;
    waits_in = hw__session.id;
    wait_from(gil, thread, began_ns(gil, thread, now));
    hw__slot_change(thread, HW__SLOT_WAITING, thread->waiting_since_ns);
}

/* The calling thread requests the GIL, whose mutex keeps the holder from releasing it. Returns for
 * the request's flags how much of its hold the holder has run so far, or 0 if the hold's beginning
 * was not measured. It is measured from here on then: else a holder without a core would look like
 * one that does not answer. */
static uint32_t holder_ran(struct hw__gil *gil, int64_t now_ns) {
    const struct hw__thread *holder = gil->holder;
    if (holder == NULL || gil->interval_us < LEAST_INTERVAL_US) {
        return 0;
    }
    int64_t then_ns = gil->cpu_then_ns, held_ns = now_ns - holder->held_since_ns;
    bool begun = then_ns != 0;
    if ((begun && (held_ns < LONG_HOLD_NS || gil->cpu_since_ns != holder->held_since_ns)) ||
        !cpu_is_told() || !hw__allowed(HW__CALL_CLOCK_OF)) {
        return 0;
    }
    int64_t cpu = cpu_of(hw__cpu_clock(holder->tid));
    if (begun) {
        return cpu < then_ns ? 0 : share_of((uint64_t)(cpu - then_ns), (uint64_t)held_ns);
    }
    gil->cpu_then_ns = cpu;
    gil->cpu_since_ns = now_ns;
    return 0;
}

void hw__on_request(struct hw__gil *gil) {
    int64_t now;
    struct hw__thread *thread = enter(gil, &now);
    if (!hw__gil_is_asked(gil)) {
        gil->requested_ns = now;
    }
    HW__SET(gil->requested, true);
    if (thread != NULL && thread->waiting_since_ns != 0) {
        hw__thread_emit(thread, HW__REQUEST, gil->index, 0, holder_ran(gil, now), now);
        HW__SET(gil->request_told, true);
    }
}

/* Records the switch interval if it is not the last one. The header has the main GIL's first one;
 * another interpreter has one of its own, whose first value is an event. */
static void tell_interval(struct hw__gil *gil, struct hw__thread *thread, uint32_t interval_us,
                          int64_t now_ns) {
    if (interval_us != gil->interval_us) {
        if (gil->interval_us != 0 || !gil->main) {
            hw__thread_emit(thread, HW__INTERVAL, gil->index, interval_us, 0, now_ns);
        }
        gil->interval_us = interval_us;
    }
}

/* Records that the calling thread has acquired the GIL. cpu: its CPU time; 0: not read. */
static void hold(struct hw__gil *gil, struct hw__thread *thread, int64_t now_ns, uint32_t flags,
                 int64_t cpu) {
    thread->held_since_ns = now_ns;
    HW__SET(gil->holder, thread);
    gil->cpu_then_ns = cpu;
    gil->cpu_since_ns = now_ns;
    hw__gil_forget_request(gil);
    hw__thread_emit(thread, HW__ACQUIRE, gil->index, 0, flags, now_ns);
    HW__ADD(thread->slot->holds, 1);
    HW__SET(thread->slot->gil, gil->index);
    hw__slot_change(thread, HW__SLOT_HOLDING, now_ns);
}

/* Returns for the event's flags how much of its hold the thread ran, or 0 if that was not measured.
 * Until the measurement began, the thread counts as running; what it ran between a reading before
 * the hold and the hold counts, too. So it ran for at most the share that is returned. */
static uint32_t ran(const struct hw__gil *gil, const struct hw__thread *thread, uint64_t hold_ns,
                    int64_t now_ns) {
    if (hold_ns < LONG_HOLD_NS) {
        return 0;
    }
    int64_t then_ns = gil->cpu_then_ns, since_ns = gil->cpu_since_ns;
    if (then_ns == 0) {
        int64_t before_ns = thread->held_since_ns - thread->cpu_last_at_ns;
        if (hold_ns < STALL_HOLD_NS || thread->cpu_last_at_ns == 0 ||
            before_ns > (int64_t)hold_ns / AWAY_KNOWN || !cpu_is_told()) {
            return 0;
        }
        then_ns = thread->cpu_last_ns;
        since_ns = thread->held_since_ns;
    }
    int64_t off_ns = now_ns - since_ns - (cpu_ns() - then_ns);
    return share_of(off_ns <= 0 ? hold_ns : hold_ns - (uint64_t)off_ns, hold_ns);
}

void hw__on_acquire(struct hw__gil *gil) {
    waits_for = NULL;
    int64_t now;
    struct hw__thread *thread = enter(gil, &now);
    if (thread == NULL) {
        HW__SET(gil->holder, NULL);
        gil->last = NULL;
        hw__gil_forget_request(gil);
        return;
    }
    int64_t since_ns = began_ns(gil, thread, now);
    if (since_ns < now && thread->waiting_since_ns == 0) {
        wait_from(gil, thread, since_ns);
    }
    int64_t cpu = 0;
    uint32_t away = thread->waiting_since_ns == 0 ? ran_away(gil, thread, now, &cpu) : 0;
    struct hw__gil_memory *memory = atomic_load_explicit(&gil->memory, memory_order_relaxed);
    uint32_t interval_us = hw__gil_interval_us(memory);
    tell_interval(gil, thread, interval_us, now);
    /* CPU time is measured if the thread has waited, or was preempted before: a CPU-bound thread
     * does one or the other at each turn. With a short switch interval holds are short, and there
     * are so many turns that the system call would slow them down. Of other holds it is measured
     * from the first request on. */
    if (cpu == 0 && interval_us >= LONG_HOLD_NS / 1000 &&
        (thread->waiting_since_ns != 0 || thread->was_forced) && cpu_is_told()) {
        cpu = cpu_between(thread, now);
    }
    if (thread->waiting_since_ns != 0) {
        uint64_t wait_ns = (uint64_t)(now - thread->waiting_since_ns);
        thread->waiting_since_ns = 0;
        thread->wait_ns += wait_ns;
        if (wait_ns > thread->longest_wait_ns) {
            thread->longest_wait_ns = wait_ns;
        }
        hw__slot_count_wait(thread->slot, wait_ns);
    }
    hold(gil, thread, now, away, cpu);
    thread->stateless = stateless(gil, thread);
}

void hw__on_release(struct hw__gil *gil) {
    struct hw__gil_memory *memory = atomic_load_explicit(&gil->memory, memory_order_relaxed);
    if (HW__READ(memory->locked) != 0) {
        return; /* a free-threaded build signals also without having held the GIL */
    }
    mutex_since_ns = switched_ns = 0; /* a holder that waits for the mutex still holds the GIL */
    gil->last = NULL;                 /* until it is known which thread releases the GIL */
    if (gil->holder == NULL) {
        return;
    }
    int64_t now;
    struct hw__thread *thread = enter(gil, &now);
    if (thread == NULL || thread != gil->holder || thread->held_since_ns == 0) {
        return;
    }
    uint64_t hold_ns = (uint64_t)(now - thread->held_since_ns);
    const void *thread_state = thread->stateless ? NULL : HW__READ(memory->last_holder);
    thread->node = hw__stacks_take(gil, thread, thread_state);
    tell_interpreter(gil, thread_state);
    bool requested = hw__gil_is_asked(gil);
    hw__thread_emit_release(thread, gil->index, thread->node,
                            (requested ? HW__FORCED : 0) | ran(gil, thread, hold_ns, now), hold_ns,
                            now);
    uint64_t since_asked_ns = hw__held_since_asked(thread, now);
    if (since_asked_ns > thread->longest_hold_ns) {
        thread->longest_hold_ns = since_asked_ns;
    }
    thread->held_since_ns = 0;
    thread->was_forced = requested;
    thread->answered = requested && !hand_offs_seen && now - gil->requested_ns < ANSWERED_NS &&
                       !atomic_load_explicit(&gil->scheduled, memory_order_relaxed);
    thread->hold_ns += hold_ns;
    thread->cpu_at_release_ns = requested ? 0 : going_away(gil, thread, now);
    struct hw__slot *slot = thread->slot;
    HW__ADD(slot->hold_ns, hold_ns);
    HW__ADD(slot->hold_buckets[hw__bucket_of(hold_ns)], 1);
    if (hold_ns > thread->worst_hold_ns) {
        thread->worst_hold_ns = hold_ns;
        HW__SET(slot->worst_hold_ns, hold_ns);
    }
    if (requested) {
        HW__ADD(slot->forced, 1);
    }
    hw__slot_change(thread, HW__SLOT_IDLE, now);
    HW__SET(gil->holder, NULL);
    gil->last = thread;
}

/* Ends the GIL in the trace, and empties its record. The registry's lock must be held, and no hook
 * may be writing an event of the GIL. */
static void end_gil(struct hw__gil *gil, bool recorded) {
    if (recorded && gil->announced && !atomic_load(&hw__session.inherited)) {
        struct hw__meta_gil *record = hw__meta_begin(gil, HW__META_GIL_END, sizeof *record);
        if (record != NULL) {
            record->index = gil->index;
            record->main = gil->main;
            record->address = (uint64_t)(uintptr_t)atomic_load(&gil->memory);
            int64_t now = hw_now_ns();
            record->time_ns = now < gil->last_ns ? gil->last_ns : now;
            hw__meta_commit(gil, record);
        }
    }
    hw__stacks_drop(gil);
    hw__sched_forget(gil);
    hw__gil_remove(gil);
}

/* Empties a record, for a new GIL where all records are in use. From CPython 3.12 on, the end of a
 * sub-interpreter frees its GIL without a call that a hook would see, so most records may be those
 * of GILs that are gone. A GIL's memory is not looked at. If this GIL is still there, its next
 * acquire makes a new record: in the trace it ends, and another one begins. Returns whether a
 * record is empty now. */
static bool retire_idle(void) {
    if (!hw__session.active || atomic_load(&hw__session.inherited) != 0) {
        return false;
    }
    struct hw__gil *gil = hw__gil_idle(hw_now_ns());
    if (gil == NULL) {
        return false;
    }
    int64_t last_ns = gil->last_ns;
    hw__gil_unrecord(gil);
    if (!hw__gil_unused(gil) || gil->last_ns != last_ns) {
        atomic_store(&gil->recorded, true); /* it was used meanwhile */
        return false;
    }
    end_gil(gil, true);
    return true;
}

HW__RARE struct hw__gil *hw__on_new_gil(struct hw__gil_memory *memory) {
    /* The lock is only tried, as this GIL's mutex is held. If a session is just beginning or
     * ending, the GIL's next acquire gets here again. */
    if (!hw__registry_trylock()) {
        return NULL;
    }
    bool main = hw__gil_was_main(memory) || hw__gil_in_runtime(memory);
    struct hw__gil *gil = hw__gil_add(memory, main);
    if (gil == NULL && !main && retire_idle()) {
        gil = hw__gil_add(memory, false);
    }
    if (gil == NULL && !main) {
        hw__gil_say_no_room();
    }
    if (gil != NULL && hw__session.active) {
        hw__gil_record(gil);
    }
    hw__registry_unlock();
    return gil;
}

void hw__on_gil_end(struct hw__gil *gil, struct hw__gil_memory *memory) {
    hw__registry_lock();
    if (atomic_load(&gil->memory) == memory) {
        bool recorded = atomic_load(&gil->recorded);
        hw__gil_unrecord(gil);
        end_gil(gil, recorded);
    }
    hw__registry_unlock();
}

void hw__on_found_holding(struct hw__gil *gil) {
    int64_t now;
    struct hw__gil_memory *memory = atomic_load(&gil->memory);
    struct hw__thread *thread = enter(gil, &now);
    if (thread != NULL) {
        tell_interval(gil, thread, hw__gil_interval_us(memory), now);
        hold(gil, thread, now, HW__ASSUMED, 0);
    }
}
