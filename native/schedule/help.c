// SPDX-License-Identifier: MIT
#include "schedule/help.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "schedule/sched.h"

/* A thread is of the other kind when so many of its waits in a row, or that many more, say so. */
#define SURE 8

/* What `helped` of a runner says. */
enum { NOT, SHORT, BATCH };

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

/* Written while no policy is on. */
static _Atomic int64_t slice;
static atomic_bool batch;
static bool batch_before; /* the thread that began the policy was SCHED_BATCH anyway */

static bool get(pid_t tid, struct attributes *attributes) {
    return syscall(SYS_sched_getattr, tid, attributes, sizeof *attributes, 0) == 0;
}

static bool set(pid_t tid, const struct attributes *attributes) {
    return syscall(SYS_sched_setattr, tid, attributes, 0) == 0;
}

/* Whatever else it is (real time, idle), its owner wants it to be. */
static bool is_ordinary(const struct attributes *attributes) {
    return attributes->policy == SCHED_OTHER || attributes->policy == SCHED_BATCH;
}

/* All that is not ours to say is written as it was read: the nice value first of all. */
static void help(pid_t tid, int kind) {
    struct attributes attributes = {.size = 0};
    if (!get(tid, &attributes) || !is_ordinary(&attributes)) {
        return;
    }
    int64_t short_ns = atomic_load(&slice);
    attributes.policy = kind == BATCH && atomic_load(&batch) ? SCHED_BATCH : SCHED_OTHER;
    attributes.runtime = kind == SHORT ? (uint64_t)short_ns : 0;
    if (kind == NOT) {
        attributes.flags &= ~(uint64_t)RESET_ON_FORK;
    } else if (attributes.nice >= 0) {
        attributes.flags |= RESET_ON_FORK; /* would reset a nice value below 0, too */
    }
    (void)set(tid, &attributes);
}

void hw__help_prepare(int64_t slice_ns, bool with_batch) {
    atomic_store(&slice, slice_ns);
    struct attributes attributes = {.size = 0};
    batch_before = get(0, &attributes) && attributes.policy == SCHED_BATCH;
    atomic_store(&batch, with_batch);
}

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
    if (wanted == kind) {
        return;
    }
    int saved = errno;
    /* Written first: who ends the policy meanwhile either finds it, or is found to have ended it.
     */
    atomic_store(&runner->helped, wanted);
    help(0, wanted);
    if (hw__sched_policy() == NULL) {
        atomic_store(&runner->helped, NOT);
        help(0, NOT);
    }
    errno = saved;
}

static void end(struct hw__runner *runner) {
    if (atomic_exchange(&runner->helped, NOT) != NOT) {
        help(runner->tid, NOT);
    }
}

void hw__help_end(void) {
    int saved = errno;
    hw__runners_each(end);
    errno = saved;
}

void hw__help_after_fork(void) {
    struct hw__runner *self = hw__runner_known();
    if (self != NULL) {
        int saved = errno;
        end(self);
        errno = saved;
    }
}
