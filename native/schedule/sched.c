// SPDX-License-Identifier: MIT
#include "schedule/sched.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/lease.h"
#include "base/say.h"
#include "gil/hooks.h"
#include "schedule/habits.h"
#include "schedule/help.h"
#include "schedule/wake.h"

/* Who waits looks more often: when nobody has for so long, the whole process stood still (SIGSTOP,
 * a container that is paused). */
#define STOPPED_NS 500000000

struct hw__sched_options hw__sched_options;

static struct hw__sched scheds[HW__MAX_GILS];

/* The policy for GILs to come. Written with the registry's lock held; the options do not change
 * while a policy is on. */
static const struct hw_policy *_Atomic current;
static int64_t current_options[HW_POLICY_MAX_OPTIONS];
static _Atomic uint32_t generation; /* changes with it */

struct hw__sched *hw__sched_of(const struct hw__gil *gil) { return &scheds[gil->index]; }

const struct hw_policy *hw__sched_policy(void) { return atomic_load(&current); }

void hw__sched_set_policy(const struct hw_policy *policy, const int64_t *options) {
    if (policy != NULL) {
        memcpy(current_options, options, sizeof current_options);
        hw__wake_prepare();
    }
    atomic_fetch_add(&generation, 1);
    atomic_store(&current, policy);
}

uint32_t hw__sched_waiting(const struct hw__sched *sched) {
    return sched->lanes[0].count + sched->lanes[1].count;
}

struct hw__runner *hw__sched_next(struct hw__sched *sched) {
    bool both = sched->lanes[0].count > 0 && sched->lanes[1].count > 0;
    bool second = sched->lanes[0].count == 0;
    if (both && sched->policy != NULL && sched->policy->lane != NULL) {
        second = sched->policy->lane(&sched->view) != 0;
    }
    return hw__waiters_first(&sched->lanes[second ? 1 : 0]);
}

static void lane_changed(struct hw__sched *sched, uint32_t lane) {
    sched->view.in_lane[lane] = sched->lanes[lane].count;
}

void hw__sched_enqueue(struct hw__sched *sched, struct hw__runner *runner) {
    atomic_store(&runner->word, HW__AWAKE);
    atomic_store_explicit(&runner->gives_way, false, memory_order_relaxed);
    runner->lane = runner->seen.lane == 0 ? 0 : 1; /* whatever the policy says */
    hw__waiters_push(&sched->lanes[runner->lane], runner);
    lane_changed(sched, runner->lane);
}

void hw__sched_dequeue(struct hw__sched *sched, struct hw__runner *runner) {
    hw__waiters_remove(&sched->lanes[runner->lane], runner);
    lane_changed(sched, runner->lane);
}

void hw__sched_call(struct hw__sched *sched, struct hw__runner *runner) {
    hw__sched_dequeue(sched, runner);
    hw__wake(runner, &sched->memory->mutex);
}

int64_t hw__sched_time(struct hw__sched *sched) {
    int64_t now = hw__ticks_now(&sched->ticks);
    int64_t since_ns = now - sched->view.now_ns;
    if (since_ns > 0) {
        sched->view.now_ns = now;
    }
    if (since_ns > STOPPED_NS) { /* or nobody waited: then there is nothing to excuse */
        sched->went_on_ns = now;
    }
    return sched->view.now_ns;
}

struct hw__runner *hw__sched_runner(struct hw__sched *sched) {
    struct hw__runner *runner = hw__runner_self();
    if (runner == NULL) {
        sched->counts.without++;
        return NULL;
    }
    if (runner->sched != sched || runner->generation != sched->generation) {
        if (runner->sched != sched) {
            /* It may stand in the queue of the other one still: who lets go inside a call of C when
             * it was asked is expected back at once, and may go elsewhere. */
            hw__sched_leave(runner);
        }
        memset(&runner->seen, 0, sizeof runner->seen);
        runner->sched = sched;
        runner->generation = sched->generation;
        runner->waiting = runner->called = false;
        runner->has_asked = false; /* the last policy ended that very moment */
        runner->lean = 0;
        hw__wake_spin_ends(runner); /* one that it was to begin when the last policy ended */
        hw__habits_forget(runner);
        runner->rests = sched->counts.rests;
    } else if (runner->rests != sched->counts.rests) {
        /* What it did last is long ago, and what it did since is not known. */
        runner->waiting = runner->called = runner->has_asked = false;
        runner->left_ns = 0;
        runner->seen.run_ns = 0;
        runner->seen.released_ns = 0;
        runner->seen.flags &= ~HW_THREAD_FORCED;
        runner->rests = sched->counts.rests;
    }
    hw__sched_heed(runner);
    return runner;
}

void hw__sched_heed(struct hw__runner *runner) {
    runner->seen.priority = runner->priority;
    runner->seen.flags =
        (runner->seen.flags & ~HW_THREAD_URGENT) | (runner->urgent ? HW_THREAD_URGENT : 0);
}

void hw__sched_read_interval(struct hw__sched *sched) {
    sched->view.interval_ns = (int64_t)HW__READ(sched->memory->interval_us) * 1000;
}

bool hw__sched_is_on(struct hw__gil *gil, struct hw__sched *sched) {
    if (sched->policy == NULL) {
        return false;
    }
    if (atomic_load_explicit(&generation, memory_order_relaxed) != sched->generation) {
        hw__sched_end(gil);
        return false;
    }
    return true;
}

static void call_all(struct hw__sched *sched) {
    for (int lane = 0; lane < HW_POLICY_LANES; lane++) {
        while (sched->lanes[lane].count > 0) {
            hw__sched_call(sched, hw__waiters_first(&sched->lanes[lane]));
        }
    }
    /* At once: the caller may go to sleep in the C library, which unlocks past the hooks. */
    hw__wake_called();
}

/* The queue's memory, made at a GIL's first policy and kept. Pages that are not used take none. */
static bool have_queue(struct hw__sched *sched) {
    static atomic_bool said;
    if (sched->lanes[0].members == NULL) {
        int saved = errno;
        struct hw__runner **memory =
            mmap(NULL, (size_t)HW_POLICY_LANES * HW__MAX_RUNNERS * sizeof(struct hw__runner *),
                 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        errno = saved;
        if (memory == MAP_FAILED) {
            hw__say_once(&said,
                         "no memory for the queue of an interpreter's GIL: it is not scheduled");
            return false;
        }
        sched->lanes[0].members = memory;
        sched->lanes[1].members = memory + HW__MAX_RUNNERS;
    }
    return true;
}

static void begin(struct hw__gil *gil, const struct hw_policy *policy, const int64_t *options) {
    struct hw__sched *sched = hw__sched_of(gil);
    if (!have_queue(sched)) {
        return;
    }
    call_all(sched); /* who sleeps from before */
    struct hw__runner **first = sched->lanes[0].members, **second = sched->lanes[1].members;
    *sched = (struct hw__sched){.lanes = {{.members = first}, {.members = second}},
                                .generation = atomic_load(&generation)};
    sched->memory = atomic_load(&gil->memory);
    memcpy(sched->view.options, options, sizeof sched->view.options);
    sched->budget_at_ns = hw__sched_time(sched);
    sched->idle_at_ns = sched->budget_at_ns + HW__IDLE_EVERY_NS;
    hw__sched_read_interval(sched);
    sched->policy = policy;
    atomic_store(&gil->scheduled, true);
}

void hw__sched_found_holding(struct hw__sched *sched) {
    struct hw__runner *runner = hw__sched_runner(sched);
    if (runner != NULL) {
        runner->seen.acquired_ns = hw__sched_time(sched);
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

static bool rest(struct hw__gil *gil, struct hw__sched *sched, bool idle) {
    bool rests = hw__hooks_rest(atomic_load(&gil->memory), idle);
    if (rests) {
        sched->holder = NULL;
        sched->view.holder = NULL;
        sched->counts.rests++;
    }
    return rests;
}

void hw__sched_rest(struct hw__gil *gil, struct hw__sched *sched) { (void)rest(gil, sched, false); }

atomic_bool hw__sched_any_urgent;

void hw__sched_stand_by(struct hw__gil *gil, struct hw__sched *sched) {
    if (rest(gil, sched, true)) {
        call_all(sched); /* to wait in the C library */
        sched->called = NULL;
    }
}

void hw__sched_leave(struct hw__runner *runner) {
    /* In a queue it can be that of the main GIL only, whose memory is there for ever. Its mutex is
     * not to be touched once the interpreter has ended it: no policy has it then. */
    struct hw__sched *sched = runner->sched;
    if (sched == &scheds[0] && atomic_load(&hw__gils[0].scheduled)) {
        pthread_mutex_t *mutex = &sched->memory->mutex;
        hw__wake_lock(mutex);
        hw__sched_dequeue(sched, runner);
        if (sched->called == runner) {
            sched->called = NULL;
        }
        pthread_mutex_unlock(mutex);
    }
}

void hw__sched_adopt(struct hw__gil *gil) {
    const struct hw_policy *policy = atomic_load(&current);
    if (policy != NULL) {
        begin(gil, policy, current_options);
    }
}

void hw__sched_try_adopt(struct hw__gil *gil) {
    if (atomic_load_explicit(&current, memory_order_relaxed) != NULL && hw__registry_trylock()) {
        hw__sched_adopt(gil);
        hw__registry_unlock();
    }
}

bool hw__sched_remove(const struct hw__sched *sched, int64_t why) {
    if (!hw__registry_trylock()) {
        return false;
    }
    bool same = atomic_load(&generation) == sched->generation;
    if (same) {
        hw__sched_set_policy(NULL, NULL);
        hw__lease_expire(&hw__leases[HW__LEASE_SCHEDULE], why);
    }
    hw__registry_unlock();
    return same;
}

void hw__sched_forget(struct hw__gil *gil) {
    if (atomic_load(&gil->scheduled)) {
        hw__sched_end(gil);
    }
}

void hw__sched_before_fork(void) { hw__registry_before_fork(); }

void hw__sched_after_fork_in_parent(void) { hw__registry_after_fork(false); }

void hw__sched_after_fork_in_child(void) {
    int saved = errno;
    hw__registry_after_fork(true);
    hw__say_after_fork();
    hw__runners_after_fork();
    hw__wake_after_fork();
    hw__help_after_fork();
    hw__hooks_after_fork();
    for (int i = 0; i < hw__gil_count(); i++) {
        struct hw__sched *sched = &scheds[i];
        sched->lanes[0].count = sched->lanes[1].count = 0; /* they are not here */
        if (sched->policy == NULL) {
            continue;
        }
        if (i > 0) {
            /* Its memory may be gone: CPython does not tell of the end of a sub-interpreter's GIL.
             * Its next acquire begins anew. */
            hw__sched_end(&hw__gils[i]);
            continue;
        }
        const struct hw_policy *policy = sched->policy;
        int64_t options[HW_POLICY_MAX_OPTIONS];
        memcpy(options, sched->view.options, sizeof options);
        begin(&hw__gils[i], policy, options);
    }
    struct hw__runner *self = hw__runner_known();
    if (self != NULL) {
        self->sched = NULL;
    }
    errno = saved;
}
