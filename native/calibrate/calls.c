// SPDX-License-Identifier: MIT
/* Calls of one thread by itself. Each kind of call has a function that is timed. If that call needs
 * a counterpart before or after it, the kind also has functions that are not timed. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/lock.h"
#include "calibrate/measure.h"
#include "headway/clock.h"

#define NEAR_NS 300000            /* mostly before the next tick, and late enough not to expire */
#define FAR_NS INT64_C(500000000) /* after the next tick, whatever its period is */
#define TOGETHER 32               /* the number of short calls that are timed as one */

struct calls {
    const struct hw_calibrate_plan *plan;
    const struct kind *kind;
    double *samples_ns;
    int64_t made;
    _Atomic uint32_t word; /* always 1, so that a futex wait for 0 returns at once */
    pthread_mutex_t mutex;
    int timer;
    struct hw__loopback loopback;
};

struct kind {
    void (*before)(struct calls *calls); /* NULL: nothing */
    void (*timed)(struct calls *calls);
    void (*after)(struct calls *calls);
    int together; /* the number of calls that are timed as one */
};

static void nothing(struct calls *calls) { (void)calls; }
static void clock_read(struct calls *calls) {
    (void)calls;
    (void)hw_now_ns();
}
static void futex_check(struct calls *calls) { (void)hw__futex_sleep(&calls->word, 0, 0); }
static void futex_wake(struct calls *calls) { hw__futex_wake_one(&calls->word); }
static void yield(struct calls *calls) {
    (void)calls;
    (void)sched_yield();
}
static void lock(struct calls *calls) {
    hw__mutex_lock(&calls->mutex);
    hw__mutex_unlock(&calls->mutex);
}

static void set(const struct calls *calls, int64_t in_ns) {
    struct itimerspec when = {.it_value = {in_ns / 1000000000, in_ns % 1000000000}};
    (void)timerfd_settime(calls->timer, 0, &when, NULL);
}
static void set_near(struct calls *calls) { set(calls, NEAR_NS); }
static void set_far(struct calls *calls) { set(calls, FAR_NS); }
static void cancel(struct calls *calls) { set(calls, 0); }

/* These calls succeed: no other process uses the connection, and a byte always fits. */
static void give(struct calls *calls) {
    (void)!send(calls->loopback.near, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}
static void take(struct calls *calls) {
    char byte;
    (void)!recv(calls->loopback.far, &byte, 1, 0);
}
static void take_none(struct calls *calls) {
    char byte;
    (void)!recv(calls->loopback.far, &byte, 1, MSG_DONTWAIT);
}

/* Answers the request, as a server does. If a byte gets no answer, recv(2) acknowledges it with a
 * packet of its own, which takes several times as long as the call itself. */
static void reply(struct calls *calls) { hw__loopback_reply(&calls->loopback); }
static void take_and_reply(struct calls *calls) {
    take(calls);
    reply(calls);
}

static const struct kind kinds[HW_CALIBRATE_CALLS] = {
    [HW_CALIBRATE_CLOCK] = {nothing, clock_read, nothing, TOGETHER},
    [HW_CALIBRATE_FUTEX_CHECK] = {nothing, futex_check, nothing, TOGETHER},
    [HW_CALIBRATE_FUTEX_WAKE_NONE] = {nothing, futex_wake, nothing, TOGETHER},
    [HW_CALIBRATE_YIELD] = {nothing, yield, nothing, TOGETHER},
    [HW_CALIBRATE_LOCK] = {nothing, lock, nothing, TOGETHER},
    [HW_CALIBRATE_TIMER_SET_NEAR] = {nothing, set_near, cancel, 1},
    [HW_CALIBRATE_TIMER_CANCEL_NEAR] = {set_near, cancel, nothing, 1},
    [HW_CALIBRATE_TIMER_SET_FAR] = {nothing, set_far, cancel, 1},
    [HW_CALIBRATE_TIMER_CANCEL_FAR] = {set_far, cancel, nothing, 1},
    [HW_CALIBRATE_SEND] = {nothing, give, take_and_reply, 1},
    [HW_CALIBRATE_RECEIVE] = {give, take, reply, 1},
    [HW_CALIBRATE_RECEIVE_NONE] = {nothing, take_none, nothing, 1},
};

static void run(void *context, int index) {
    (void)index;
    struct calls *calls = context;
    const struct kind *kind = calls->kind;
    int64_t end_ns = hw__plan_end_ns(calls->plan);
    do {
        kind->before(calls);
        int64_t start_ns = hw_now_ns();
        for (int i = 0; i < kind->together; i++) {
            kind->timed(calls);
        }
        int64_t took_ns = hw_now_ns() - start_ns;
        kind->after(calls);
        calls->samples_ns[calls->made++] = (double)took_ns / kind->together;
    } while (calls->made < calls->plan->count && hw_now_ns() < end_ns);
}

/* Opens what the calls work on.
 *
 * Returns 0, or a negative errno with nothing to close. */
static int open_all(struct calls *calls) {
    calls->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (calls->timer < 0) {
        return -errno;
    }
    int error = hw__mutex_init(&calls->mutex);
    if (error != 0) {
        close(calls->timer);
        return error;
    }
    error = hw__loopback_open(&calls->loopback);
    if (error != 0) {
        pthread_mutex_destroy(&calls->mutex);
        close(calls->timer);
    }
    return error;
}

int64_t hw_calibrate_call(const struct hw_calibrate_plan *plan, int call, double *samples_ns) {
    int error = hw__plan_check(plan, false);
    if (error != 0 || call < 0 || call >= HW_CALIBRATE_CALLS || samples_ns == NULL) {
        return error != 0 ? error : -EINVAL;
    }
    struct calls calls = {
        .plan = plan, .kind = &kinds[call], .samples_ns = samples_ns, .word = 1, .timer = -1};
    error = open_all(&calls);
    if (error != 0) {
        return error;
    }
    error = hw__plan_run(run, &calls, 1, (const int[]){plan->core});
    hw__loopback_close(&calls.loopback);
    pthread_mutex_destroy(&calls.mutex);
    close(calls.timer);
    return error != 0 ? error : calls.made;
}
