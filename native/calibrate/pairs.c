// SPDX-License-Identifier: MIT
/* Two threads that take turns. Thread 0 measures. Thread 1 answers until thread 0 sets `over`. */
#include <errno.h>
#include <sched.h>
#include <stddef.h>

#include "calibrate/measure.h"
#include "headway/clock.h"

#define TIMEOUT_NS INT64_C(5000000000) /* the time-out of waits that end long before it */
#define COLD_NS INT64_C(5000000) /* the time of computing before a round trip with cold code */
#define TOGETHER 64              /* round trips of cache lines that are timed as one */

struct pair {
    const struct hw_calibrate_plan *plan;
    int kind;
    double *samples_ns;
    int64_t made;
    _Alignas(HW__CALIBRATE_APART) _Atomic uint32_t there; /* written by thread 0 */
    _Alignas(HW__CALIBRATE_APART) _Atomic uint32_t back;  /* written by thread 1 */
    _Alignas(HW__CALIBRATE_APART) atomic_bool over;
};

/* Sets the word to 1 and wakes a thread that sleeps on it. */
static void post(_Atomic uint32_t *word) {
    atomic_store(word, 1);
    hw__futex_wake_one(word);
}

/* Sleeps until the word is 1, and sets it to 0. timeout_ns is the longest sleep at a time; 0: no
 * limit. */
static void await(_Atomic uint32_t *word, int64_t timeout_ns) {
    while (atomic_load(word) == 0) {
        (void)hw__futex_sleep(word, 0, timeout_ns == 0 ? 0 : hw_now_ns() + timeout_ns);
    }
    atomic_store(word, 0);
}

static void answer(struct pair *pair) {
    uint32_t seen = 0;
    for (;;) {
        switch (pair->kind) {
        case HW_CALIBRATE_PAIR_YIELD:
            (void)sched_yield();
            break;
        case HW_CALIBRATE_PAIR_CACHE_LINE:
            while (atomic_load(&pair->there) == seen && !atomic_load(&pair->over)) {
            }
            seen = atomic_load(&pair->there);
            atomic_store(&pair->back, seen);
            break;
        default:
            await(&pair->there, 0);
            break;
        }
        if (atomic_load(&pair->over)) {
            return;
        }
        if (pair->kind != HW_CALIBRATE_PAIR_YIELD && pair->kind != HW_CALIBRATE_PAIR_CACHE_LINE) {
            post(&pair->back);
        }
    }
}

/* Makes one turn, or TOGETHER turns for cache lines. */
static void turn(struct pair *pair, uint32_t first) {
    switch (pair->kind) {
    case HW_CALIBRATE_PAIR_YIELD:
        (void)sched_yield();
        break;
    case HW_CALIBRATE_PAIR_CACHE_LINE:
        for (uint32_t i = 0; i < TOGETHER; i++) {
            atomic_store(&pair->there, first + i);
            while (atomic_load(&pair->back) != first + i) {
            }
        }
        break;
    default:
        post(&pair->there);
        await(&pair->back, pair->kind == HW_CALIBRATE_PAIR_FUTEX_TIMED ? TIMEOUT_NS : 0);
        break;
    }
}

static void measure(struct pair *pair) {
    int together = pair->kind == HW_CALIBRATE_PAIR_CACHE_LINE ? TOGETHER : 1;
    int64_t end_ns = hw__plan_end_ns(pair->plan);
    uint32_t next = 1; /* differs from the value before, also when it wraps */
    do {
        if (pair->kind == HW_CALIBRATE_PAIR_FUTEX_COLD) {
            hw__spin_until(hw_now_ns() + COLD_NS);
        }
        int64_t start_ns = hw_now_ns();
        turn(pair, next);
        pair->samples_ns[pair->made++] = (double)(hw_now_ns() - start_ns) / together;
        next += TOGETHER;
    } while (pair->made < pair->plan->count && hw_now_ns() < end_ns);
    atomic_store(&pair->over, true);
    post(&pair->there);
}

static void run(void *context, int index) {
    if (index == 0) {
        measure(context);
    } else {
        answer(context);
    }
}

int64_t hw_calibrate_pair(const struct hw_calibrate_plan *plan, int kind, double *samples_ns) {
    bool apart = kind == HW_CALIBRATE_PAIR_CACHE_LINE;
    int error = hw__plan_check(plan, apart);
    if (error != 0 || kind < 0 || kind >= HW_CALIBRATE_PAIRS || samples_ns == NULL) {
        return error != 0 ? error : -EINVAL;
    }
    if (apart && plan->other == plan->core) {
        return -EINVAL; /* on one core, each thread would spin until the other one's turn */
    }
    struct pair pair = {.plan = plan, .kind = kind, .samples_ns = samples_ns};
    const int cores[] = {plan->core, apart ? plan->other : plan->core};
    error = hw__plan_run(run, &pair, 2, cores);
    return error != 0 ? error : pair.made;
}
