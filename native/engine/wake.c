// SPDX-License-Identifier: MIT
#include "engine/wake.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/allowed.h"
#include "base/pause.h"
#include "base/tls.h"
#include "engine/yield.h"
#include "headway/clock.h"
#include "schedule/carry_out.h"

/* A wake-up may be left to the next unlock: hw__wake_unlocked() is called there. The thread that
 * changes the hooks sets it after the hook of unlock is in place, and clears it before the hook
 * goes. Relaxed for readers, which have the GIL's mutex. */
static atomic_bool unlock_hooked;

/* The number of threads that spin for a GIL, or are about to. Any thread changes it. Sequentially
 * consistent, as the default; it is a mere count, and orders nothing. */
static atomic_int spinners;

/* The number of cores that this process may use. Written at the start of a policy, and read by any
 * thread; it orders nothing. */
static atomic_int cores;

/* The waiters that this thread must wake, and the mutex after whose unlock it does so. */
static HW__TLS struct hw__runner *to_wake[2];
static HW__TLS pthread_mutex_t *wake_after;

/* This thread's record, if it must yield after those wake-ups; else NULL. */
static HW__TLS struct hw__runner *yields;

void hw__wake_prepare(void) {
    cpu_set_t set;
    bool known = hw__allowed(HW__CALL_AFFINITY) && sched_getaffinity(0, sizeof set, &set) == 0;
    cores = known ? CPU_COUNT(&set) : 1;
}

void hw__wake_unlocks(bool hooked) { atomic_store(&unlock_hooked, hooked); }

bool hw__wake_pending(void) { return to_wake[0] != NULL; }

void hw__wake_after_fork(void) {
    memset(to_wake, 0, sizeof to_wake);
    yields = NULL;
    atomic_store(&spinners, 0);
}

bool hw__wake_may_spin(struct hw__runner *runner) {
    if (atomic_fetch_add(&spinners, 1) >= cores - 1) {
        atomic_fetch_sub(&spinners, 1);
        return false;
    }
    atomic_store_explicit(&runner->spinning, true, memory_order_relaxed);
    return true;
}

/* The waiter and the thread that wakes it may both end the spin; the first one uncounts the
 * spinner. The waking thread does not leave it to the waiter, since it may want to spin next. */
void hw__wake_spin_ends(struct hw__runner *runner) {
    if (atomic_load_explicit(&runner->spinning, memory_order_relaxed) &&
        atomic_exchange_explicit(&runner->spinning, false, memory_order_relaxed)) {
        atomic_fetch_sub(&spinners, 1);
    }
}

/* Wakes the runner. If it has woken up by itself and waits again meanwhile, it looks at the GIL
 * once more than necessary. */
static void wake_now(struct hw__runner *runner) {
    hw__wake_spin_ends(runner);
    if (atomic_exchange(&runner->word, HW__CALLED) == HW__SLEEPING) {
        int saved = errno;
        syscall(SYS_futex, &runner->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        errno = saved;
    }
}

void hw__wake_called(void) {
    for (int i = 0; i < 2; i++) {
        struct hw__runner *runner = to_wake[i];
        to_wake[i] = NULL;
        if (runner != NULL) {
            wake_now(runner);
        }
    }
    yields = NULL;
}

void hw__wake_unlocked(pthread_mutex_t *mutex) {
    if (to_wake[0] == NULL || mutex != wake_after) {
        return;
    }
    struct hw__runner *called = to_wake[0], *self = yields;
    hw__wake_called();
    if (self != NULL) {
        int64_t yield_ns = hw__yield(self);
        if (atomic_load_explicit(&called->word, memory_order_relaxed) == HW__CALLED) {
            hw__yield_in_vain(self, yield_ns);
        }
    }
}

void hw__wake(struct hw__runner *runner, pthread_mutex_t *mutex) {
    if (!atomic_load_explicit(&unlock_hooked, memory_order_relaxed)) {
        wake_now(runner);
        return;
    }
    if (to_wake[1] != NULL || wake_after != mutex) {
        hw__wake_called();
    }
    wake_after = mutex;
    to_wake[to_wake[0] == NULL ? 0 : 1] = runner;
}

void hw__wake_then_yield(struct hw__runner *self) { yields = to_wake[0] != NULL ? self : NULL; }

void hw__wake_lock(pthread_mutex_t *mutex) {
    for (int i = 0; i < HW__LOCK_TRIES && cores > 1; i++) {
        if (pthread_mutex_trylock(mutex) == 0) {
            return;
        }
        hw__pause_core();
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
            hw__pause_core();
        }
    } while (!is_called(runner) && hw_now_ns() < until);
    hw__wake_spin_ends(runner);
}

void hw__wake_sleep(struct hw__runner *runner, int64_t spin_ns, int64_t sleep_ns) {
    if (spin_ns > 0) {
        spin_on(runner, spin_ns);
        return;
    }
    uint32_t awake = HW__AWAKE;
    if (!atomic_compare_exchange_strong(&runner->word, &awake, HW__SLEEPING)) {
        return;
    }
    struct timespec span = {sleep_ns / 1000000000, sleep_ns % 1000000000};
    int saved = errno;
    syscall(SYS_futex, &runner->word, FUTEX_WAIT_PRIVATE, HW__SLEEPING, &span, NULL, 0);
    errno = saved;
}
