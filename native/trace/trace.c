// SPDX-License-Identifier: MIT
/* The recorder's public functions (headway/trace.h): they start and end a session, and answer
 * questions about it.
 *
 * How the files of this folder work together: the hooks of gil/ report what a thread does with a
 * GIL or a lock, through the functions of gil/recorder.h. events.c (GILs) and parks.c (locks, in a
 * build without a GIL) make an event of each report, with the number of the thread's stack
 * (stacks.c), and count it in the thread's slot (slots.h). thread.c keeps a record of each thread,
 * and writes the event into the thread's chunk. session.c makes the memory that has the chunks, and
 * hands it to the collector; format.h and control.h describe the memory. In the collector (another
 * process; for headway.trace() this process itself), collect.c copies the chunks into the file, and
 * laps.c derives laps from the events. */
#include "headway/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lease.h"
#include "base/lock.h"
#include "base/pause.h"
#include "base/say.h"
#include "base/ticks.h"
#include "gil/hooks.h"
#include "gil/parking.h"
#include "gil/probe.h"
#include "gil/recorder.h"
#include "headway/clock.h"
#include "trace/events.h"
#include "trace/leave.h"
#include "trace/names.h"
#include "trace/parks.h"
#include "trace/stacks.h"
#include "trace/thread.h"

/* A shorter garbage collection is not recorded, unless it is of the oldest generation. */
#define SHORT_COLLECTION_NS 1000000
#define OLDEST_GENERATION 2

/* A thread is in hw_trace_start(). Another thread may come there meanwhile: the probe for the GIL
 * releases it, and interpreters with a GIL of their own, or without one, run side by side. Such a
 * thread must not wait, since it may hold the GIL that the first one wants back. Only the thread
 * that has set the flag clears it, and a forked child. Sequentially consistent: the next thread to
 * set it sees the session. */
static atomic_bool starting;

/* Fork: the parent takes the registry's lock before, and gives it back after. The child has a lock
 * of its own, and a session that it has inherited (session.h). */
static void before_fork(void) { hw__registry_before_fork(); }

static void after_fork_in_parent(void) {
    hw__threads_end_left();
    hw__registry_after_fork(false);
}

static void after_fork_in_child(void) {
    hw__registry_after_fork(true);
    hw__say_after_fork();
    hw__leases_after_fork_in_child();
    hw__hooks_after_fork();
    hw__parks_reset_in_child();
    atomic_store(&starting, false);
    for (int i = 0; i < hw__gil_count(); i++) {
        /* The threads that have set these are not in the child. */
        atomic_store(&hw__gils[i].busy, false);
        atomic_store(&hw__gils[i].punctual, 0);
        atomic_store(&hw__gils[i].late, 0);
    }
    hw__names_forget(); /* of the parent's threads */
    hw__session_after_fork();
}

/* When the first process of a container ends, it takes all others with it: the collector, too. */
#define FIRST_PID 1
#define COLLECTED_NS 2000000000

/* Waits until the collector has copied everything, but no longer than COLLECTED_NS: the collector
 * may stand still. */
static void await_collector(void) {
    const struct hw__control *control = hw__session.control;
    int64_t until_ns = hw_now_ns() + COLLECTED_NS;
    unsigned rounds = 0;
    while (atomic_load_explicit(&control->collected_ns, memory_order_acquire) != INT64_MAX &&
           hw_now_ns() < until_ns) {
        hw__pause(&rounds);
    }
}

/* Called by exit(): the interpreter has ended, though daemon threads may still run. A
 * signal and exec() do not get here, and os._exit() not either (leave.h). */
__attribute__((destructor)) static void at_exit(void) {
    if (hw__session.active && !atomic_load(&hw__session.inherited)) {
        hw__parks_flush_own();
        int64_t none = 0; /* if end_ns is not 0, the session has ended already, with its lease */
        hw__session_note_cores(hw__session.header);
        atomic_compare_exchange_strong(&hw__session.header->end_ns, &none, hw_now_ns());
        if (hw__session.header->pid == FIRST_PID && hw__session.door[0] != '\0' &&
            !hw__session.let_go) {
            await_collector();
        }
    }
}

static int init_once(void) {
    static bool done;
    if (done) {
        return 0;
    }
    hw__events_init(hw__interpreter_symbol("Py_IsFinalizing") != NULL
                        ? hw__interpreter_symbol("Py_IsFinalizing")
                        : hw__interpreter_symbol("_Py_IsFinalizing"));
    int error = hw__threads_init();
    if (error == 0) {
        error = -pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    }
    done = error == 0;
    return error;
}

/* From CPython 3.9 to 3.12 a request reaches no holder in another interpreter of the same GIL
 * (docs/internals/gil.md, R8), so a trace must tell whether there were several interpreters. */
static void tell_interpreters(uint32_t python_version) {
    void *(*main_interpreter)(void) =
        (void *(*)(void))(uintptr_t)hw__interpreter_symbol("PyInterpreterState_Main");
    bool matters = python_version >= 0x03090000 && python_version < 0x030D0000;
    if (matters && main_interpreter != NULL) {
        hw__events_tell_interpreters(hw__interpreter_symbol("PyThreadState_GetInterpreter"),
                                     main_interpreter());
    } else {
        hw__events_tell_interpreters(NULL, NULL);
    }
}

/* From CPython 3.13 on, a request is kept in the holder's thread state until that thread has looked
 * for the hand-off. Only the last release of a thread state does not look. Before, the thread that
 * acquires the GIL clears the request. */
static void tell_hand_offs(uint32_t python_version) {
    hw__events_tell_hand_offs(python_version >= 0x030D0000 && hw__hooks_see_locks());
}

/* Starts or stops the recording of all known GILs. The registry's lock must be held. */
static void record_gils(bool recorded) {
    for (int i = 0; i < hw__gil_count(); i++) {
        struct hw__gil *gil = &hw__gils[i];
        struct hw__gil_memory *memory = atomic_load(&gil->memory);
        if (memory == NULL) {
            gil->meta = NULL; /* of a GIL that ended during the session */
            continue;
        }
        hw__gil_unrecord(gil);
        hw__stacks_drop(gil);
        gil->meta = NULL;
        if (recorded) {
            hw__gil_record(gil);
        }
        /* Without hooks the end of this GIL would go unnoticed; its next acquire makes a new
         * record. */
        if (!recorded && !gil->main && !atomic_load(&gil->scheduled)) {
            hw__gil_remove(gil);
        }
    }
}

/* Returns whether there is a session, but the process that wanted it is gone. */
static bool is_abandoned(void) { return hw__lease_over_now(&hw__leases[HW__LEASE_TRACE]); }

/* Returns whether there is a session of this process. An inherited one is made the process's own
 * first: in a free-threaded build a forked child may be asked about its session, or begin one,
 * before it has an event. Must not be called by a hook. */
static bool has_own_session(void) {
    if (hw__session.active && atomic_load(&hw__session.inherited) != 0) {
        unsigned rounds = 0;
        hw__registry_lock(); /* the session must not end meanwhile */
        while (hw__session.active && atomic_load(&hw__session.inherited) != 0 && !hw__adopt()) {
            hw__pause(&rounds); /* another thread of the child is adopting it */
        }
        hw__registry_unlock();
    }
    return hw__session.active;
}

/* Prepares the process for a session, and installs the hooks. Returns 0 or a negative errno. */
static int make_ready(const void *runtime) {
    bool alone = !hw__hooks_wanted();
    int error = init_once();
    if (error == 0) {
        error = hw__hooks_install(runtime, HW__FOR_TRACE);
    }
    if (error == 0 && alone) {
        hw__ticks_prepare();
    }
    return error;
}

/* Finds the main interpreter's GIL, or hooks the waits for locks if the GIL is off. Returns 0 or a
 * negative errno. */
static int find_waits(const void *runtime, const struct hw_trace_options *options) {
    if (!options->gil_enabled) {
        hw__gil_expect_later();
        return hw__parking_install(runtime, options->has_layout ? &options->layout : NULL);
    }
    return atomic_load(&hw__gils[0].memory) == NULL ? hw__gil_find_main() : 0;
}

/* Makes the session's memory. Returns 0 or a negative errno. */
static int make_memory(const struct hw_trace_options *options) {
    const struct hw__gil_memory *memory = atomic_load(&hw__gils[0].memory);
    struct hw__session_facts facts = {
        .family = options->family,
        .python_version = options->python_version,
        .flags = (options->free_threaded ? HW__FREE_THREADED : 0) |
                 (options->gil_enabled ? HW__GIL_ENABLED : 0) |
                 (options->has_layout ? HW__STACKS : 0),
        .interval_us = memory == NULL ? 0 : hw__gil_interval_us(memory),
        .command = options->command,
        .command_bytes = options->command_bytes,
        .executable = options->executable,
        .program = options->program,
        .layout = options->has_layout ? &options->layout : NULL,
    };
    return hw__session_open(options->door, options->bytes, &facts);
}

/* Begins to record, into the memory that is made. */
static void begin(const struct hw_trace_options *options) {
    struct hw__gil *gil = &hw__gils[0];
    struct hw__gil_memory *memory = atomic_load(&gil->memory);
    hw__registry_lock();
    hw__threads_forget();
    hw__names_forget();
    hw__stacks_init(options->has_layout ? &options->layout : NULL);
    tell_interpreters(options->python_version);
    tell_hand_offs(options->python_version);
    atomic_store(&hw__session.inherited, 0);
    hw__session.active = true;
    hw__session_note_policy();
    record_gils(true);
    hw__parks_begin();
    /* The caller may hold this GIL. It does not if it runs in an interpreter with a GIL of its own,
     * or if there is no GIL now: in a free-threaded build the memory may be known from an import
     * during an earlier session, when the GIL was on for a moment. */
    if (memory != NULL && options->gil_enabled) {
        pthread_mutex_lock(&memory->mutex);
        if (hw__gil_is_mine(memory) && hw__gil_enter(gil, memory)) {
            hw__on_found_holding(gil);
            hw__gil_leave(gil);
        }
        pthread_mutex_unlock(&memory->mutex);
    }
    hw__registry_unlock();
}

/* hw_trace_start(), in one thread at a time. */
static int start(const struct hw_trace_options *options) {
    if (hw__session.active && is_abandoned()) {
        (void)hw_trace_stop();
    }
    if (has_own_session()) {
        return -EALREADY;
    }
    const void *runtime = hw__interpreter_symbol("_PyRuntime");
    if (runtime == NULL) {
        return -ENOENT;
    }
    int error = make_ready(runtime);
    if (error != 0) {
        return error;
    }
    error = find_waits(runtime, options);
    if (error == 0) {
        error = make_memory(options);
    }
    if (error != 0) {
        hw__hooks_remove(HW__FOR_TRACE);
        hw__parking_remove();
        return error;
    }
    begin(options);
    hw__hooks_repair();
    hw__parking_repair();
    hw__leave_watch(runtime);
    return 0;
}

int hw_trace_start(const struct hw_trace_options *options) {
    if (atomic_exchange(&starting, true)) {
        return -EALREADY;
    }
    int error = start(options);
    atomic_store(&starting, false);
    return error;
}

void hw__on_policy(void) {
    if (hw__session.active && atomic_load(&hw__session.inherited) == 0) {
        hw__session_note_policy();
    }
}

void hw__on_policy_end(void) {
    if (hw__session.active && atomic_load(&hw__session.inherited) == 0) {
        hw__session_note_policy_end();
    }
}

int hw_trace_stop(void) {
    hw__registry_lock();
    if (!hw__session.active) {
        hw__registry_unlock();
        return -ESRCH;
    }
    record_gils(false); /* from here on no hook writes an event of a GIL */
    hw__parks_stop();
    hw__session.active = false;
    hw__lease_end(&hw__leases[HW__LEASE_TRACE]);
    hw__hooks_remove(HW__FOR_TRACE);
    hw__parking_remove();
    hw__leave_unwatch();
    if (atomic_exchange(&hw__session.inherited, 0) != 0) {
        hw__session_abandon();
    } else {
        hw__session_close();
    }
    hw__registry_unlock();
    return 0;
}

int hw_trace_active(void) {
    if (!has_own_session() || is_abandoned()) {
        return 0;
    }
    return hw__session.chunk_count == 0 ? 2 : 1;
}

const char *hw_trace_path(void) {
    static char path[HW__FILE_BYTES];
    hw__registry_lock();
    path[0] = '\0';
    if (has_own_session()) {
        memcpy(path, hw__session.control->file, sizeof path - 1);
    }
    hw__registry_unlock();
    return path;
}

int64_t hw_trace_collected_ns(void) {
    int64_t until_ns = 0;
    hw__registry_lock();
    if (has_own_session()) {
        until_ns = atomic_load_explicit(&hw__session.control->collected_ns, memory_order_acquire);
    }
    hw__registry_unlock();
    return until_ns;
}

/* Returns whether there is a session of this process, without a collector. The registry's lock must
 * be held. */
static bool is_in_memory(void) { return has_own_session() && hw__session.door[0] == '\0'; }

uint64_t hw_trace_in_memory(void) {
    hw__registry_lock();
    uint64_t number = is_in_memory() ? atomic_load(&hw__session.id) : 0;
    hw__registry_unlock();
    return number;
}

int hw_trace_keep(struct hw_trace_kept *kept) {
    hw__registry_lock();
    int error = is_in_memory() ? hw__session_keep(kept) : -ESRCH;
    hw__registry_unlock();
    return error;
}

void hw_trace_let_go(struct hw_trace_kept *kept) {
    munmap(kept->page, (size_t)sysconf(_SC_PAGESIZE));
    kept->page = NULL;
}

int hw_trace_others(uint64_t *threads, uint64_t *holds) {
    *threads = *holds = 0;
    hw__registry_lock();
    bool there = has_own_session();
    if (there) {
        uint32_t serials = atomic_load(&hw__session.header->thread_count);
        int32_t me = (int32_t)syscall(SYS_gettid);
        *threads = serials;
        for (uint32_t i = 0; i < serials && i < HW__MAX_THREADS; i++) {
            const struct hw__slot *slot = &hw__session.slots[i];
            *holds += slot->tid == me ? 0 : atomic_load(&slot->holds);
        }
    }
    hw__registry_unlock();
    return there ? 0 : -ESRCH;
}

void hw_trace_name(int32_t tid, const char *name) {
    if (!hw__registry_lock_beside_forks()) {
        hw__thread_name_later(tid, name);
        return;
    }
    /* A forked child that has no GIL is told the names before its first event, which makes its own
     * memory, perhaps just now in another thread. */
    if (hw__session.active && atomic_load(&hw__session.inherited) != 0) {
        hw__thread_name_later(tid, name);
    }
    if (hw__session.active && atomic_load(&hw__session.inherited) == 0) {
        if (!hw__thread_name(tid, name)) {
            hw__write_name(tid, name);
        }
    }
    hw__registry_unlock();
}

void hw_trace_note(const char *text) {
    if (!hw__registry_lock_beside_forks()) {
        return;
    }
    if (hw__session.active && atomic_load(&hw__session.inherited) == 0) {
        hw__write_note(text);
    }
    hw__registry_unlock();
}

int hw_gil_times(int64_t *hold_ns, int64_t *wait_ns) {
    *hold_ns = *wait_ns = 0;
    if (!has_own_session()) {
        return -ESRCH;
    }
    const struct hw__thread *thread = hw__thread_known();
    if (thread != NULL) {
        *hold_ns = (int64_t)thread->hold_ns;
        *wait_ns = (int64_t)thread->wait_ns;
        int64_t now = hw_now_ns();
        if (thread->held_since_ns != 0 && now > thread->held_since_ns) {
            *hold_ns += now - thread->held_since_ns;
        }
    }
    return 0;
}

int hw_gil_longest(int64_t *hold_ns, int64_t *wait_ns) {
    *hold_ns = *wait_ns = 0;
    if (!has_own_session()) {
        return -ESRCH;
    }
    struct hw__thread *thread = hw__thread_known();
    if (thread != NULL) {
        int64_t now = hw_now_ns();
        *hold_ns = (int64_t)thread->longest_hold_ns;
        *wait_ns = (int64_t)thread->longest_wait_ns;
        if (thread->held_since_ns != 0) {
            int64_t held_ns = (int64_t)hw__held_since_asked(thread, now);
            *hold_ns = held_ns > *hold_ns ? held_ns : *hold_ns;
        }
        thread->longest_hold_ns = thread->longest_wait_ns = 0;
        thread->longest_since_ns = now;
    }
    return 0;
}

/* Writes the event of a collection: of its end, or with a negative length of its beginning. The
 * registry's lock must be held, so that the session does not end meanwhile. */
static void write_collection(uint32_t generation, int64_t length_ns) {
    if (!hw__session.active || atomic_load(&hw__session.inherited) != 0) {
        return;
    }
    struct hw__thread *thread = hw__thread_known();
    if (thread == NULL || thread->held_since_ns == 0) {
        return;
    }
    int64_t length_us = length_ns < 0 ? 0 : length_ns / 1000 + 1;
    hw__thread_emit(thread, HW__COLLECTED, atomic_load(&thread->slot->gil),
                    length_us > UINT32_MAX ? UINT32_MAX : (uint32_t)length_us, generation & 0xFF,
                    hw__thread_now(thread));
}

/* When the collection that is under way began; 0: none is. There is one at a time. */
static _Atomic int64_t collection_began_ns;

void hw_trace_collection(uint32_t generation, int ends) {
    int64_t length_ns = -1;
    if (!ends) {
        atomic_store(&collection_began_ns, hw_now_ns());
    } else {
        int64_t began = atomic_exchange(&collection_began_ns, 0);
        if (began == 0) {
            return; /* it was under way when the first one was told */
        }
        length_ns = hw_now_ns() - began;
    }
    if (length_ns < SHORT_COLLECTION_NS && generation < OLDEST_GENERATION) {
        return;
    }
    if (hw__registry_lock_beside_forks()) {
        write_collection(generation, length_ns);
        hw__registry_unlock();
    }
}
