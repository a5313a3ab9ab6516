// SPDX-License-Identifier: MIT
/* The closed model through many connections: one epoll_wait() for all connections that are ready,
 * and then, for each of them, a receive, a reading of the clock and a send. The reading ends one
 * request and begins the next. */
#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "headway/clock.h"
#include "load/events.h"

/* Sends the connection's next request, unless the phase is over.
 *
 * Returns 0 or a negative errno. */
static int go_on(struct hw__phase *phase, struct hw__connection *connection, int64_t now_ns) {
    return hw__phase_goes_on(phase, now_ns) ? hw__phase_send(phase, connection, now_ns, now_ns) : 0;
}

/* Gives up the requests that are out for longer than the time-out.
 *
 * Returns 0 or a negative errno. */
static int expire(struct hw__phase *phase, int epoll_fd, int64_t now_ns) {
    int error = 0;
    while (error == 0 && phase->out.oldest != NULL &&
           now_ns - phase->out.oldest->sent_ns >= phase->peer->config->timeout_ns) {
        struct hw__connection *connection = phase->out.oldest;
        error = hw__phase_lose(phase, connection);
        if (error == 0) {
            error = hw__events_add(epoll_fd, connection);
        }
        if (error == 0) {
            error = go_on(phase, connection, now_ns);
        }
    }
    return error;
}

/* Waits for events, handles all of them, and gives up overdue requests. Reads and updates *now_ns.
 *
 * Returns 0 or a negative errno. */
static int turn(struct hw__phase *phase, int epoll_fd, int64_t *now_ns) {
    struct epoll_event events[HW__EVENTS];
    int64_t left_ns = hw__phase_deadline_ns(phase) - *now_ns;
    /* In ms, rounded up. HW_LOAD_MAX_NS, a day, fits an int. */
    int wait_ms = left_ns <= 0 ? 0 : (int)((left_ns + 999999) / 1000000);
    int ready = epoll_wait(epoll_fd, events, HW__EVENTS, wait_ms);
    if (ready < 0 && errno != EINTR) {
        return -errno;
    }
    bool answered = false;
    for (int i = 0; i < ready; i++) {
        int status = hw__events_take(phase, &events[i]);
        if (status > 0) {
            answered = true;
            *now_ns = hw_now_ns();
            hw__phase_answered(phase, events[i].data.ptr, *now_ns);
            status = go_on(phase, events[i].data.ptr, *now_ns);
        }
        if (status < 0) {
            return status;
        }
    }
    if (!answered) {
        *now_ns = hw_now_ns();
    }
    return expire(phase, epoll_fd, *now_ns);
}

/* Runs the phase, with its epoll open.
 *
 * Returns 0 or a negative errno. */
static int drive(struct hw__phase *phase, int epoll_fd) {
    int64_t now_ns = hw__phase_start(phase);
    for (int i = 0; i < phase->peer->config->connections; i++, now_ns = hw_now_ns()) {
        int error = hw__phase_send(phase, &phase->connections[i], now_ns, now_ns);
        if (error != 0) {
            return error;
        }
    }
    while (phase->out.oldest != NULL && now_ns < phase->stop_ns) {
        int error = turn(phase, epoll_fd, &now_ns);
        if (error != 0) {
            return error;
        }
    }
    hw__phase_abandon(phase);
    return 0;
}

int hw__closed_many(struct hw__phase *phase) {
    int epoll_fd = hw__events_open(phase);
    if (epoll_fd < 0) {
        return epoll_fd;
    }
    int error = drive(phase, epoll_fd);
    close(epoll_fd);
    return error;
}
