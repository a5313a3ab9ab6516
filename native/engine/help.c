// SPDX-License-Identifier: MIT
#include "engine/help.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/sched.h"

/* Each wait moves a balance by 1, from -SURE (CPU-bound) to SURE. A thread is of a kind only at an
 * end of that range. In between, it keeps the help that it has. */
#define SURE 8

/* The values of `helped` of a runner. SHORT: a short time slice. BATCH: SCHED_BATCH. LEFT: the
 * program has chosen a class other than SCHED_OTHER for the thread, which then gets no help. */
enum { NOT, SHORT, BATCH, LEFT };

/* The first version of struct sched_attr. <linux/sched/types.h>, which has it, clashes with glibc.
 */
struct attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime; /* the time slice in nanoseconds; writing 0 restores the system's own */
    uint64_t deadline, period;
};

#define RESET_ON_FORK 1u /* SCHED_FLAG_RESET_ON_FORK */

/* The shortest time slice of Linux, which lengthens a shorter one to this. */
#define LEAST_SLICE_NS 100000u

/* Written while no policy is on. */
static _Atomic int64_t slice;
static atomic_bool batch;
/* A thread was SCHED_BATCH before the policy, or that could not be found out. */
static atomic_bool batch_before;

static bool get(pid_t tid, struct attributes *attributes) {
    return syscall(SYS_sched_getattr, tid, attributes, sizeof *attributes, 0) == 0;
}

static bool set(pid_t tid, const struct attributes *attributes) {
    return syscall(SYS_sched_setattr, tid, attributes, 0) == 0;
}

/* Applies help of one kind to the calling thread. `attributes` must be as just read: everything
 * else, above all the nice value, is written back unchanged. */
static void help(struct attributes *attributes, int kind) {
    attributes->policy = kind == BATCH ? SCHED_BATCH : SCHED_OTHER;
    attributes->runtime = kind == SHORT ? (uint64_t)atomic_load(&slice) : 0;
    if (attributes->nice >= 0) {
        /* With a nice value below 0 the flag is not set: it would reset that in children, too. */
        attributes->flags |= RESET_ON_FORK;
    }
    (void)set(0, attributes);
}

/* Tells whether the calling thread has the short slice that was set. Before Linux 6.12 the system
 * accepts a slice and ignores it. */
static bool slice_is_short(void) {
    struct attributes attributes = {.size = 0};
    uint64_t asked = (uint64_t)atomic_load(&slice);
    return get(0, &attributes) && attributes.runtime != 0 &&
           attributes.runtime <= (asked < LEAST_SLICE_NS ? LEAST_SLICE_NS : asked);
}

static void undo(const struct hw__runner *runner, int kind) {
    struct attributes attributes = {.size = 0};
    bool is_as_we_left_it = get(runner->tid, &attributes) &&
                            attributes.policy == (kind == BATCH ? SCHED_BATCH : SCHED_OTHER);
    if (!is_as_we_left_it) {
        return;
    }
    uint64_t flags = attributes.flags;
    attributes.policy = SCHED_OTHER;
    attributes.runtime = 0;
    if (!atomic_load(&runner->was_reset)) {
        attributes.flags &= ~(uint64_t)RESET_ON_FORK;
    }
    if (!set(runner->tid, &attributes)) {
        /* Without CAP_SYS_NICE the flag RESET_ON_FORK can be set but not cleared. */
        attributes.flags = flags;
        (void)set(runner->tid, &attributes);
    }
}

/* Tells whether a thread of the process is SCHED_BATCH; true if that cannot be found out. */
static bool any_is_batch(void) {
    DIR *threads = opendir("/proc/self/task");
    bool found = threads == NULL;
    struct dirent *thread;
    while (!found && (thread = readdir(threads)) != NULL) {
        int tid = atoi(thread->d_name);
        found = tid > 0 && sched_getscheduler(tid) == SCHED_BATCH;
    }
    if (threads != NULL) {
        (void)closedir(threads);
    }
    return found;
}

void hw__help_prepare(int64_t slice_ns, bool with_batch) {
    int saved = errno;
    atomic_store(&slice, slice_ns);
    atomic_store(&batch_before, with_batch && any_is_batch());
    atomic_store(&batch, with_batch);
    errno = saved;
}

/* New threads inherit SCHED_BATCH: RESET_ON_FORK resets only the slice and nice values. */
void hw__help_begin(struct hw__runner *runner) {
    struct attributes attributes = {.size = 0};
    if (atomic_load_explicit(&batch, memory_order_relaxed) && !batch_before &&
        get(0, &attributes) && attributes.policy == SCHED_BATCH) {
        atomic_store(&runner->helped, BATCH);
    }
}

void hw__help_note(struct hw__runner *runner, bool computes) {
    int lean = runner->lean + (computes ? -1 : 1);
    runner->lean = (int8_t)(lean > SURE ? SURE : lean < -SURE ? -SURE : lean);
}

bool hw__help_is_short(struct hw__runner *runner) {
    return atomic_load_explicit(&runner->has_slice, memory_order_relaxed);
}

static void end(struct hw__runner *runner) {
    atomic_store(&runner->has_slice, false);
    int kind = atomic_exchange(&runner->helped, NOT);
    if (kind == SHORT || kind == BATCH) {
        int saved = errno;
        undo(runner, kind);
        errno = saved;
    }
}

void hw__help_apply(struct hw__runner *runner) {
    int64_t short_ns = atomic_load_explicit(&slice, memory_order_relaxed);
    bool with_batch = atomic_load_explicit(&batch, memory_order_relaxed);
    int kind = atomic_load_explicit(&runner->helped, memory_order_relaxed);
    int wanted = kind;
    if (runner->lean == SURE) {
        wanted = short_ns > 0 ? SHORT : NOT;
    } else if (runner->lean == -SURE) {
        wanted = with_batch ? BATCH : NOT;
    }
    if (wanted == kind || kind == LEFT) {
        return;
    }
    int saved = errno;
    struct attributes attributes = {.size = 0};
    if (!get(0, &attributes) || attributes.policy != (kind == BATCH ? SCHED_BATCH : SCHED_OTHER)) {
        atomic_store(&runner->helped, LEFT);
    } else if (wanted == NOT) {
        end(runner);
    } else {
        if (kind == NOT) {
            atomic_store(&runner->was_reset, (attributes.flags & RESET_ON_FORK) != 0);
        }
        /* Written before the help is applied. A thread that ends the policy meanwhile either sees
         * `helped` and undoes the help, or the check below sees that the policy has ended. */
        atomic_store(&runner->helped, wanted);
        help(&attributes, wanted);
        atomic_store(&runner->has_slice, wanted == SHORT && slice_is_short());
        if (hw__sched_policy() == NULL) {
            /* The thread that ended the policy may have cleared `helped` before help() ran. */
            atomic_store(&runner->helped, wanted);
            end(runner);
        }
    }
    errno = saved;
}

void hw__help_end(void) { hw__runners_each(end); }

void hw__help_after_fork(void) {
    struct hw__runner *self = hw__runner_known();
    if (self != NULL) {
        end(self);
    }
}
