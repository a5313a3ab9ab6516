// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "headway/calibrate.h"

/* The first version of struct sched_attr of <linux/sched/types.h>, which clashes with glibc. */
struct attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime; /* the slice in ns; 0 before Linux 6.12 */
    uint64_t deadline, period;
};

/* Returns the kernel's default, as in kernel/sched/fair.c: it grows with the cores, up to eight. */
static int64_t default_slice_ns(int64_t cores) {
    int64_t slice_ns = 750000; /* as long as the kernel did not report it */
    int64_t scale = 1;
    for (int64_t left = cores < 8 ? cores : 8; left > 1; left /= 2) {
        scale++;
    }
    return slice_ns * scale;
}

int hw_calibrate_facts(struct hw_calibrate_facts *facts) {
    if (facts == NULL) {
        return -EINVAL;
    }
    int slack_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct timespec tick; /* the resolution of a coarse clock, which each tick moves on */
    if (slack_ns < 0 || clock_getres(CLOCK_MONOTONIC_COARSE, &tick) != 0) {
        return -errno;
    }
    if (cores < 1) {
        return -EIO;
    }
    struct attributes attributes = {.size = 0};
    int told = syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0 &&
               attributes.policy == 0 /* SCHED_OTHER */ && attributes.runtime != 0;
    *facts = (struct hw_calibrate_facts){
        .timer_slack_ns = slack_ns,
        .slice_ns = told ? (int64_t)attributes.runtime : default_slice_ns(cores),
        .tick_ns = (int64_t)tick.tv_sec * 1000000000 + tick.tv_nsec,
        .slice_is_told = told,
        .cores = (int32_t)cores,
    };
    return 0;
}
