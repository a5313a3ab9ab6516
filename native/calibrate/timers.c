// SPDX-License-Identifier: MIT
/* Measures how late timers are, and how long interrupts of timers and other interrupts take. */
#include <errno.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "calibrate/measure.h"
#include "headway/clock.h"

#define TIMER_IN_NS 100000 /* a timer that wakes no thread expires after this time */
#define WATCHED_NS 60000   /* the interrupt of that timer is over within this time */
#define TICK_NEAR_NS 20000 /* a core's tick is this close to when another core counts it */

struct timers {
    const struct hw_calibrate_plan *plan;
    int64_t sleep_ns;
    int64_t least_ns;
    double *samples_ns;
    int64_t *starts_ns;
    int32_t *at_tick;
    int64_t made;
    int timer;
    _Alignas(HW__CALIBRATE_APART) _Atomic uint32_t word; /* stays 0 */
    _Alignas(HW__CALIBRATE_APART) atomic_bool over;
};

/* Thread 0 sleeps; thread 1 keeps the core busy. */
static void run_sleeps(void *context, int index) {
    struct timers *timers = context;
    if (index != 0) {
        hw__compute_until(&timers->over);
        return;
    }
    int64_t end_ns = hw__plan_end_ns(timers->plan);
    do {
        int64_t due_ns = hw_now_ns() + timers->sleep_ns;
        int64_t now_ns;
        do {
            (void)hw__futex_sleep(&timers->word, 0, due_ns);
            now_ns = hw_now_ns();
        } while (now_ns < due_ns);
        timers->samples_ns[timers->made++] = (double)(now_ns - due_ns);
    } while (timers->made < timers->plan->count && hw_now_ns() < end_ns);
    atomic_store(&timers->over, true);
}

/* Returns the longest jump of the clock between two times. */
static int64_t longest_gap_ns(int64_t from_ns, int64_t until_ns) {
    int64_t longest_ns = 0;
    int64_t before_ns = hw_now_ns();
    while (before_ns < until_ns) {
        int64_t now_ns = hw_now_ns();
        if (now_ns >= from_ns && now_ns - before_ns > longest_ns) {
            longest_ns = now_ns - before_ns;
        }
        before_ns = now_ns;
    }
    return longest_ns;
}

static void run_interrupts(void *context, int index) {
    (void)index;
    struct timers *timers = context;
    int64_t end_ns = hw__plan_end_ns(timers->plan);
    do {
        int64_t due_ns = hw_now_ns() + TIMER_IN_NS;
        struct itimerspec when = {.it_value = {due_ns / 1000000000, due_ns % 1000000000}};
        (void)timerfd_settime(timers->timer, TFD_TIMER_ABSTIME, &when, NULL);
        timers->samples_ns[timers->made++] = (double)longest_gap_ns(due_ns, due_ns + WATCHED_NS);
    } while (timers->made < timers->plan->count && hw_now_ns() < end_ns);
}

/* Returns the time of the last tick that any core has counted. */
static int64_t coarse_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now); /* exists where CLOCK_MONOTONIC does */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Returns how often this thread was preempted by another thread on its core. */
static long times_preempted(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

/* All cores tick at the same time, but only one of them counts the tick, a little before or after
 * this core's tick. */
static void run_gaps(void *context, int index) {
    (void)index;
    struct timers *timers = context;
    int64_t end_ns = hw__plan_end_ns(timers->plan);
    int64_t tick_ns = coarse_ns();
    int64_t counted_ns = INT64_MIN / 2;
    int64_t gap_end_ns = INT64_MIN / 2;
    long preempted = times_preempted();
    int64_t before_ns = hw_now_ns();
    while (before_ns < end_ns && timers->made < timers->plan->count) {
        int64_t now_ns = hw_now_ns();
        int64_t last_ns = tick_ns;
        tick_ns = coarse_ns();
        if (tick_ns != last_ns) {
            counted_ns = now_ns;
            if (now_ns - gap_end_ns < TICK_NEAR_NS) {
                timers->at_tick[timers->made - 1] = 1;
            }
        }
        if (now_ns - before_ns >= timers->least_ns) {
            timers->starts_ns[timers->made] = before_ns;
            timers->samples_ns[timers->made] = (double)(now_ns - before_ns);
            long last_preempted = preempted;
            preempted = times_preempted();
            bool ran_on = preempted == last_preempted; /* else another thread ran during the jump */
            timers->at_tick[timers->made++] = ran_on && before_ns - counted_ns < TICK_NEAR_NS;
            gap_end_ns = ran_on ? now_ns : INT64_MIN / 2;
            counted_ns = ran_on ? counted_ns : INT64_MIN / 2; /* no tick explains the next jump */
            now_ns = hw_now_ns(); /* the time of these calls is no jump of the clock */
        }
        before_ns = now_ns;
    }
}

int64_t hw_calibrate_timer(const struct hw_calibrate_plan *plan, int busy, int64_t sleep_ns,
                           double *late_ns) {
    int error = hw__plan_check(plan, false);
    if (error != 0 || sleep_ns < 1 || sleep_ns > HW__CALIBRATE_MOST_NS || late_ns == NULL) {
        return error != 0 ? error : -EINVAL;
    }
    struct timers timers = {.plan = plan, .sleep_ns = sleep_ns, .samples_ns = late_ns};
    const int cores[] = {plan->core, plan->core};
    error = hw__plan_run(run_sleeps, &timers, busy ? 2 : 1, cores);
    return error != 0 ? error : timers.made;
}

int64_t hw_calibrate_interrupt(const struct hw_calibrate_plan *plan, double *samples_ns) {
    int error = hw__plan_check(plan, false);
    if (error != 0 || samples_ns == NULL) {
        return error != 0 ? error : -EINVAL;
    }
    struct timers timers = {.plan = plan, .samples_ns = samples_ns};
    timers.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (timers.timer < 0) {
        return -errno;
    }
    error = hw__plan_run(run_interrupts, &timers, 1, (const int[]){plan->core});
    close(timers.timer);
    return error != 0 ? error : timers.made;
}

int64_t hw_calibrate_gaps(const struct hw_calibrate_plan *plan, int64_t least_ns,
                          int64_t *starts_ns, double *lengths_ns, int32_t *at_tick) {
    int error = hw__plan_check(plan, false);
    if (error != 0 || least_ns < 1 || starts_ns == NULL || lengths_ns == NULL || at_tick == NULL) {
        return error != 0 ? error : -EINVAL;
    }
    struct timers timers = {.plan = plan,
                            .least_ns = least_ns,
                            .starts_ns = starts_ns,
                            .samples_ns = lengths_ns,
                            .at_tick = at_tick};
    error = hw__plan_run(run_gaps, &timers, 1, (const int[]){plan->core});
    return error != 0 ? error : timers.made;
}
