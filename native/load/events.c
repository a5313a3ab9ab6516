// SPDX-License-Identifier: MIT
#include "load/events.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

int hw__events_add(int epoll_fd, struct hw__connection *connection) {
    /* EPOLLOUT is reported again only after a send() that found no room. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = connection};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) == 0 ? 0 : -errno;
}

int hw__events_open(struct hw__phase *phase) {
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0) {
        return -errno;
    }
    for (int i = 0; i < phase->peer->config->connections; i++) {
        int error = hw__events_add(epoll_fd, &phase->connections[i]);
        if (error != 0) {
            close(epoll_fd);
            return error;
        }
    }
    return epoll_fd;
}

/* Returns a negative errno: why a connection can no longer be used. */
static int why_gone(const struct hw__connection *connection) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        return -errno;
    }
    return error == 0 ? -ECONNRESET : -error;
}

int hw__events_take(struct hw__phase *phase, const struct epoll_event *event) {
    struct hw__connection *connection = event->data.ptr;
    if (event->events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) {
        return why_gone(connection);
    }
    if (connection->unsent_bytes > 0) {
        int error = hw__connection_send(connection, phase->peer);
        if (error != 0) {
            return error;
        }
    }
    return event->events & EPOLLIN ? hw__connection_receive(connection, phase->peer, MSG_DONTWAIT)
                                   : 0;
}
