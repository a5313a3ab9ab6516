// SPDX-License-Identifier: MIT
#include "engine/doze.h"

#include <sched.h>
#include <time.h>

#include "engine/help.h"
#include "engine/wake.h"
#include "engine/yield.h"
#include "gil/recorder.h"
#include "schedule/carry_out.h"

struct hw__moment hw__doze_moment(struct hw__sched *sched) {
    return (struct hw__moment){.now_ns = hw__sched_time(sched),
                               .core = sched_getcpu(),
                               .locked = HW__READ(sched->memory->locked) != 0};
}

int64_t hw__doze_may_spin(struct hw__runner *runner, int64_t spin_ns) {
    if (spin_ns == 0 || !hw__wake_may_spin(runner)) {
        return 0;
    }
    hw__decide_spun(&runner->waiter);
    return spin_ns;
}

void hw__doze(struct hw__sched *sched, struct hw__runner *runner, int64_t spin_ns,
              int64_t longest_ns) {
    pthread_mutex_t *mutex = &sched->memory->mutex;
    do {
        pthread_mutex_unlock(mutex);
        hw__wake_unlocked(mutex);
        hw__help_apply(runner);
        hw__wake_sleep(runner, spin_ns, longest_ns);
        int64_t yield_ns = hw__give_way(runner);
        hw__wake_lock(mutex);
        /* No release since this thread was called: the thread to which it yielded has not run, or
         * has not acquired and released the GIL. */
        if (sched->ledger.releases == runner->waiter.called_after) {
            hw__yield_in_vain(runner, yield_ns);
        }
        atomic_store(&runner->word, HW__AWAKE);
        spin_ns = 0;
        longest_ns = 0;
        if (runner->waiter.stage == HW__STAGE_QUEUED) {
            struct hw__moment moment = hw__doze_moment(sched);
            longest_ns = hw__decide_doze_on(&sched->ledger, &runner->waiter, &moment);
        }
    } while (longest_ns > 0);
}

void hw__doze_prepare(struct hw__runner *runner) {
    atomic_store(&runner->word, HW__AWAKE);
    atomic_store_explicit(&runner->gives_way_until_ns, 0, memory_order_relaxed);
}

void hw__doze_plainly(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_nsec += HW__HAND_OVER_NS;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_nsec -= 1000000000;
        deadline.tv_sec++;
    }
    (void)hw__real.timedwait(cond, mutex, &deadline);
}
