// SPDX-License-Identifier: MIT
#include "calibrate/measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "headway/clock.h"
#include "limits/place.h"
#include "limits/team.h"

#define MOST_THREADS 3

int hw__plan_check(const struct hw_calibrate_plan *plan, bool needs_two) {
    if (plan == NULL || plan->count < 1 || plan->limit_ns < 1 || plan->core < 0 ||
        !hw__cpu_in_range(plan->core) || !hw__cpu_in_range(plan->other)) {
        return -EINVAL;
    }
    return needs_two && plan->other < 0 ? -ENODEV : 0;
}

int hw__plan_run(void (*run)(void *, int), void *context, int threads, const int cores[]) {
    struct hw__job job = {.run = run, .context = context};
    struct hw__span spans[MOST_THREADS];
    return threads > MOST_THREADS ? -EINVAL : hw__team_run(&job, threads, cores, spans);
}

int64_t hw__plan_end_ns(const struct hw_calibrate_plan *plan) {
    int64_t now_ns = hw_now_ns();
    return plan->limit_ns < INT64_MAX - now_ns ? now_ns + plan->limit_ns : INT64_MAX;
}

int hw__futex_sleep(_Atomic uint32_t *word, uint32_t value, int64_t until_ns) {
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    long done = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value,
                        until_ns == 0 ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
    return done == 0 ? 0 : -errno;
}

void hw__futex_wake_one(_Atomic uint32_t *word) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

void hw__spin_until(int64_t until_ns) {
    while (hw_now_ns() < until_ns) {
    }
}

void hw__compute_until(const atomic_bool *over) {
    volatile uint64_t sum = 0;
    while (!atomic_load_explicit(over, memory_order_relaxed)) {
        for (uint64_t i = 0; i < 1000; i++) {
            sum = sum + i;
        }
    }
}

/* Opens a listening socket on a free port of this machine, and fills in its address.
 *
 * Returns the socket or a negative errno. */
static int listen_here(struct sockaddr_in *address) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0) {
        return -errno;
    }
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof *address;
    if (bind(listener, (struct sockaddr *)address, size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)address, &size) != 0) {
        int error = -errno;
        close(listener);
        return error;
    }
    return listener;
}

/* Accepts our own connection. Another program may have connected first; its connection is closed.
 *
 * Returns 0 or a negative errno. */
static int accept_own(int listener, struct hw__loopback *loopback) {
    struct sockaddr_in own, peer;
    socklen_t size = sizeof own;
    if (getsockname(loopback->near, (struct sockaddr *)&own, &size) != 0) {
        return -errno;
    }
    for (;;) {
        size = sizeof peer;
        int fd = accept4(listener, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC);
        if (fd < 0 && errno != EINTR) {
            return -errno;
        }
        if (fd >= 0 && peer.sin_port == own.sin_port) {
            loopback->far = fd;
            return 0;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
}

/* Connects both ends. Returns 0, or a negative errno; the caller must close the ends that are
 * open. */
static int connect_to(int listener, const struct sockaddr_in *address,
                      struct hw__loopback *loopback) {
    loopback->near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (loopback->near < 0 ||
        connect(loopback->near, (const struct sockaddr *)address, sizeof *address) != 0) {
        return -errno;
    }
    int error = accept_own(listener, loopback);
    int on = 1;
    if (error == 0 && (setsockopt(loopback->near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
                       setsockopt(loopback->far, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)) {
        error = -errno;
    }
    return error;
}

int hw__loopback_open(struct hw__loopback *loopback) {
    *loopback = (struct hw__loopback){.near = -1, .far = -1};
    struct sockaddr_in address;
    int listener = listen_here(&address);
    if (listener < 0) {
        return listener;
    }
    int error = connect_to(listener, &address, loopback);
    close(listener);
    if (error != 0) {
        hw__loopback_close(loopback);
    }
    return error;
}

int hw__loopback_reply(const struct hw__loopback *loopback) {
    char byte;
    bool done =
        send(loopback->far, "x", 1, MSG_NOSIGNAL) == 1 && recv(loopback->near, &byte, 1, 0) == 1;
    return done ? 0 : -EPIPE;
}

void hw__loopback_close(struct hw__loopback *loopback) {
    if (loopback->near >= 0) {
        close(loopback->near);
    }
    if (loopback->far >= 0) {
        close(loopback->far);
    }
    *loopback = (struct hw__loopback){.near = -1, .far = -1};
}
