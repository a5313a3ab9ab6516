// SPDX-License-Identifier: MIT
#include "engine/help.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/sched.h"

/* A thread is of the other kind when so many of its waits in a row, or that many more, say so. */
#define SURE 8

/* What `helped` of a runner says. LEFT: its owner has chosen another policy for it than
 * SCHED_OTHER, which stays. */
enum { NOT, SHORT, BATCH, LEFT };

/* struct sched_attr of <linux/sched/types.h>, which glibc clashes with; its first version. */
struct attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime; /* the slice in nanoseconds; written as 0: as the system sets it */
    uint64_t deadline, period;
};

#define RESET_ON_FORK 1u /* SCHED_FLAG_RESET_ON_FORK */

/* Linux makes a shorter slice as long as this. */
#define LEAST_SLICE_NS 100000u

/* Written while no policy is on. */
static _Atomic int64_t slice;
static atomic_bool batch;
static atomic_bool batch_before; /* there were SCHED_BATCH threads before the policy */

static bool get(pid_t tid, struct attributes *attributes) {
    return syscall(SYS_sched_getattr, tid, attributes, sizeof *attributes, 0) == 0;
}

static bool set(pid_t tid, const struct attributes *attributes) {
    return syscall(SYS_sched_setattr, tid, attributes, 0) == 0;
}

/* All that is not ours to say is written as it was read: the nice value first of all. */
static void help(struct attributes *attributes, int kind) {
    attributes->policy = kind == BATCH ? SCHED_BATCH : SCHED_OTHER;
    attributes->runtime = kind == SHORT ? (uint64_t)atomic_load(&slice) : 0;
    if (attributes->nice >= 0) {
        attributes->flags |= RESET_ON_FORK; /* would reset a nice value below 0, too */
    }
    (void)set(0, attributes);
}

/* Before Linux 6.12 a slice is taken and forgotten. A shorter one than the system has is its least.
 */
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
        /* Without CAP_SYS_NICE that flag can be set, but not taken back. */
        attributes.flags = flags;
        (void)set(runner->tid, &attributes);
    }
}

/* Says yes where that is not to be known. */
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

/* RESET_ON_FORK is for the slice and for nice values; SCHED_BATCH goes on to new threads. */
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
        /* Written first: who ends the policy meanwhile either finds it, or is found to have. */
        atomic_store(&runner->helped, wanted);
        help(&attributes, wanted);
        atomic_store(&runner->has_slice, wanted == SHORT && slice_is_short());
        if (hw__sched_policy() == NULL) {
            atomic_store(&runner->helped, wanted); /* whoever ended it may have been too early */
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
