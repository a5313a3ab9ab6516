// SPDX-License-Identifier: MIT
/* Wake-ups of another core: thread 0 wakes thread 1, which sleeps; thread 2 keeps thread 1's core
 * busy. */
#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

#include "calibrate/measure.h"
#include "headway/clock.h"

struct wakes {
    const struct hw_calibrate_plan *plan;
    int way;
    int64_t gap_ns;
    double *latencies_ns;
    double *calls_ns;
    int64_t made;
    struct hw__loopback loopback;
    _Atomic int64_t called_ns; /* when thread 0 began to wake */
    _Alignas(HW__CALIBRATE_APART) _Atomic uint32_t woken;
    _Alignas(HW__CALIBRATE_APART) _Atomic uint32_t back;
    _Alignas(HW__CALIBRATE_APART) atomic_bool over;
    atomic_int error; /* the first error of any thread */
};

static void fail(struct wakes *wakes, int error) {
    int none = 0;
    (void)atomic_compare_exchange_strong(&wakes->error, &none, error);
}

static void sleep_once(struct wakes *wakes) {
    if (wakes->way == HW_CALIBRATE_BY_SOCKET) {
        char byte;
        if (recv(wakes->loopback.far, &byte, 1, 0) != 1) {
            fail(wakes, -EPIPE);
        }
        return;
    }
    while (atomic_load(&wakes->woken) == 0) {
        (void)hw__futex_sleep(&wakes->woken, 0, 0);
    }
    atomic_store(&wakes->woken, 0);
}

static void wake_once(struct wakes *wakes) {
    if (wakes->way == HW_CALIBRATE_BY_SOCKET) {
        if (send(wakes->loopback.near, "x", 1, MSG_NOSIGNAL) != 1) {
            fail(wakes, -errno);
        }
    } else {
        hw__futex_wake_one(&wakes->woken);
    }
}

static void be_woken(struct wakes *wakes) {
    for (int64_t i = 0;; i++) {
        sleep_once(wakes);
        int64_t now_ns = hw_now_ns();
        if (atomic_load(&wakes->over) || atomic_load(&wakes->error) != 0) {
            return;
        }
        wakes->latencies_ns[i] = (double)(now_ns - atomic_load(&wakes->called_ns));
        if (wakes->way == HW_CALIBRATE_BY_SOCKET && hw__loopback_reply(&wakes->loopback) != 0) {
            fail(wakes, -EPIPE); /* without a reply, the next recv(2) is slower: see calls.c */
            return;
        }
        atomic_store(&wakes->back, 1);
    }
}

static void wake_all(struct wakes *wakes) {
    int64_t end_ns = hw__plan_end_ns(wakes->plan);
    do {
        hw__spin_until(hw_now_ns() + wakes->gap_ns);
        atomic_store(&wakes->called_ns, hw_now_ns());
        atomic_store(&wakes->woken, 1);
        int64_t start_ns = hw_now_ns();
        wake_once(wakes);
        wakes->calls_ns[wakes->made] = (double)(hw_now_ns() - start_ns);
        while (atomic_load(&wakes->back) == 0 && atomic_load(&wakes->error) == 0) {
        }
        atomic_store(&wakes->back, 0);
        wakes->made++;
    } while (wakes->made < wakes->plan->count && hw_now_ns() < end_ns &&
             atomic_load(&wakes->error) == 0);
    atomic_store(&wakes->over, true);
    atomic_store(&wakes->woken, 1);
    wake_once(wakes);
}

static void run(void *context, int index) {
    struct wakes *wakes = context;
    if (index == 0) {
        wake_all(wakes);
        if (wakes->way == HW_CALIBRATE_BY_SOCKET) {
            (void)shutdown(wakes->loopback.near, SHUT_WR); /* in case the last byte was not sent */
        }
    } else if (index == 1) {
        be_woken(wakes);
    } else {
        hw__compute_until(&wakes->over);
    }
}

int64_t hw_calibrate_wake(const struct hw_calibrate_plan *plan, int way, int busy, int64_t gap_ns,
                          double *latencies_ns, double *calls_ns) {
    int error = hw__plan_check(plan, true);
    if (error != 0) {
        return error;
    }
    if (way < 0 || way >= HW_CALIBRATE_WAYS || gap_ns < 0 || gap_ns > HW__CALIBRATE_MOST_NS ||
        plan->other == plan->core || latencies_ns == NULL || calls_ns == NULL) {
        return -EINVAL;
    }
    struct wakes wakes = {.plan = plan,
                          .way = way,
                          .gap_ns = gap_ns,
                          .latencies_ns = latencies_ns,
                          .calls_ns = calls_ns};
    error = hw__loopback_open(&wakes.loopback);
    if (error != 0) {
        return error;
    }
    const int cores[] = {plan->core, plan->other, plan->other};
    error = hw__plan_run(run, &wakes, busy ? 3 : 2, cores);
    hw__loopback_close(&wakes.loopback);
    if (error == 0) {
        error = atomic_load(&wakes.error);
    }
    return error != 0 ? error : wakes.made;
}
