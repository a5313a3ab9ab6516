// SPDX-License-Identifier: MIT
/* The closed model through one connection, in the fastest way: send, receive, read the clock. The
 * receive blocks for at most a tick (HW__TICK_NS). A poll with the deadline follows only for an
 * answer that takes longer, and for a request or an answer that comes in parts. */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>

#include "headway/clock.h"
#include "load/phase.h"

/* Waits until the connection is ready, or until `deadline_ns`.
 *
 * Returns 0 or a negative errno: -ETIME at the deadline. */
static int wait_ready(const struct hw__connection *connection, int64_t deadline_ns) {
    int64_t left_ns = deadline_ns - hw_now_ns();
    if (left_ns <= 0) {
        return -ETIME;
    }
    short events = connection->unsent_bytes > 0 ? POLLIN | POLLOUT : POLLIN;
    struct pollfd event = {.fd = connection->fd, .events = events};
    struct timespec wait = {left_ns / 1000000000, left_ns % 1000000000};
    return ppoll(&event, 1, &wait, NULL) < 0 && errno != EINTR ? -errno : 0;
}

/* Completes the request that is out: sends the rest of it and receives the answer.
 *
 * Returns 0 once it is answered, or a negative errno: -ETIME at the phase's deadline. */
static int finish(struct hw__phase *phase, struct hw__connection *connection) {
    int status = 0;
    if (connection->unsent_bytes == 0) {
        status = hw__connection_receive(connection, phase->peer, 0);
    }
    while (status == 0) {
        int error = wait_ready(connection, hw__phase_deadline_ns(phase));
        if (error == 0) {
            error = hw__connection_send(connection, phase->peer);
        }
        if (error != 0) {
            return error;
        }
        status = hw__connection_receive(connection, phase->peer, MSG_DONTWAIT);
    }
    return status < 0 ? status : 0;
}

int hw__closed_one(struct hw__phase *phase) {
    struct hw__connection *connection = phase->connections;
    int64_t now_ns = hw__phase_start(phase);
    do {
        int error = hw__phase_send(phase, connection, now_ns, now_ns);
        if (error == 0) {
            error = finish(phase, connection);
        }
        now_ns = hw_now_ns();
        if (error == -ETIME) {
            if (now_ns >= phase->stop_ns) {
                hw__phase_abandon(phase);
                return 0;
            }
            error = hw__phase_lose(phase, connection);
        } else if (error == 0) {
            hw__phase_answered(phase, connection, now_ns);
        }
        if (error != 0) {
            return error;
        }
    } while (hw__phase_goes_on(phase, now_ns));
    return 0;
}
