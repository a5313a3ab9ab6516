// SPDX-License-Identifier: MIT
#include "load/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "headway/clock.h"

void hw__queue_add(struct hw__queue *queue, struct hw__connection *connection) {
    connection->older = queue->newest;
    connection->newer = NULL;
    *(queue->newest == NULL ? &queue->oldest : &queue->newest->newer) = connection;
    queue->newest = connection;
}

void hw__queue_remove(struct hw__queue *queue, struct hw__connection *connection) {
    *(connection->older == NULL ? &queue->oldest : &connection->older->newer) = connection->newer;
    *(connection->newer == NULL ? &queue->newest : &connection->newer->older) = connection->older;
}

/* Waits until connect() has succeeded or failed.
 *
 * Returns 0, the negative errno of connect(), or -ETIMEDOUT. */
static int wait_connected(int fd, int64_t timeout_ns) {
    int64_t deadline_ns = hw_now_ns() + timeout_ns;
    for (;;) {
        int64_t left_ns = deadline_ns - hw_now_ns();
        if (left_ns <= 0) {
            return -ETIMEDOUT;
        }
        struct pollfd event = {.fd = fd, .events = POLLOUT};
        struct timespec wait = {left_ns / 1000000000, left_ns % 1000000000};
        int ready = ppoll(&event, 1, &wait, NULL);
        if (ready < 0 && errno != EINTR) {
            return -errno;
        }
        if (ready > 0) {
            int error = 0;
            socklen_t size = sizeof error;
            return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? -error : -errno;
        }
    }
}

/* Sets up a new non-blocking socket, connects it and makes it blocking.
 *
 * Returns 0 or a negative errno. */
static int set_up(int fd, const struct hw__peer *peer) {
    int64_t timeout_ns = peer->config->timeout_ns;
    /* For receives that block; the other ones override it with MSG_DONTWAIT. */
    struct timeval tick = {0, (timeout_ns < HW__TICK_NS ? timeout_ns : HW__TICK_NS) / 1000 + 1};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick) != 0) {
        return -errno;
    }
    int on = 1;
    if (peer->config->protocol == HW_LOAD_TCP &&
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
        return -errno;
    }
    if (connect(fd, (const struct sockaddr *)&peer->address, sizeof peer->address) != 0) {
        int error = errno == EINPROGRESS ? wait_connected(fd, timeout_ns) : -errno;
        if (error != 0) {
            return error;
        }
    }
    return fcntl(fd, F_SETFL, O_RDWR) == 0 ? 0 : -errno;
}

int hw__connection_open(struct hw__connection *connection, const struct hw__peer *peer) {
    int kind = peer->config->protocol == HW_LOAD_TCP ? SOCK_STREAM : SOCK_DGRAM;
    *connection = (struct hw__connection){.fd = -1};
    int fd = socket(AF_INET, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    int error = set_up(fd, peer);
    if (error != 0) {
        close(fd);
        return error;
    }
    connection->fd = fd;
    return 0;
}

void hw__connection_close(struct hw__connection *connection) {
    if (connection->fd >= 0) {
        close(connection->fd);
        connection->fd = -1;
    }
}

int hw__connection_begin(struct hw__connection *connection, const struct hw__peer *peer) {
    connection->out = true;
    connection->unsent_bytes = peer->config->request_bytes;
    connection->missing_bytes = peer->config->response_bytes;
    return hw__connection_send(connection, peer);
}

int hw__connection_send(struct hw__connection *connection, const struct hw__peer *peer) {
    const char *end = (const char *)peer->config->request + peer->config->request_bytes;
    while (connection->unsent_bytes > 0) {
        ssize_t sent = send(connection->fd, end - connection->unsent_bytes,
                            (size_t)connection->unsent_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            connection->unsent_bytes -= sent;
        } else if (errno == EAGAIN) {
            return 0;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

/* Tells whether the received bytes fit: part of a stream, or a whole datagram. This function can't
 * fail. */
static bool fits(const struct hw__connection *connection, const struct hw__peer *peer,
                 ssize_t received) {
    if (!connection->out) {
        return false;
    }
    if (peer->config->protocol == HW_LOAD_UDP) {
        return received == connection->missing_bytes;
    }
    /* An answer that is complete before its request would be an answer to something else. */
    return received < connection->missing_bytes ||
           (received == connection->missing_bytes && connection->unsent_bytes == 0);
}

int hw__connection_receive(struct hw__connection *connection, const struct hw__peer *peer,
                           int flags) {
    for (;;) {
        /* One byte more than is missing: if room is left over, there is no further data. That saves
         * the call that would return EAGAIN. */
        size_t room = (size_t)connection->missing_bytes + 1;
        room = room < peer->buffer_bytes ? room : peer->buffer_bytes;
        ssize_t received = recv(connection->fd, peer->buffer, room, flags);
        if (received < 0) {
            /* A signal ends a wait like a tick. Otherwise, signals could make the wait endless. */
            return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        }
        if (received == 0 && peer->config->protocol == HW_LOAD_TCP) {
            return -ECONNRESET;
        }
        if (!fits(connection, peer, received)) {
            return -EPROTO;
        }
        connection->missing_bytes -= received;
        if ((size_t)received < room) {
            connection->out = connection->missing_bytes > 0;
            return !connection->out;
        }
    }
}
