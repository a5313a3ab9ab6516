// SPDX-License-Identifier: MIT
/* A server in a thread of the test. It echoes, and misbehaves as the test asks. */
#ifndef HEADWAY_TESTS_SERVER_H
#define HEADWAY_TESTS_SERVER_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "t.h"

#define SERVER_MAX_CLIENTS 128
#define SERVER_BYTES 65536

/* The orders to the server's thread. Only that thread uses the struct between server_start() and
 * server_stop(). */
struct server {
    int type;       /* SOCK_STREAM or SOCK_DGRAM */
    bool silent;    /* never answer */
    bool late;      /* UDP: answer a request when the one after it has come */
    bool reset;     /* close with a reset instead of an end of stream */
    int close_at;   /* TCP: close instead of the n-th answer; 0: never */
    int half_at;    /* TCP: send half of the n-th answer, then close; 0: never */
    int lose_every; /* drop every n-th request; 0: none */
    int stall_at;   /* answer the n-th request only after stall_ns; 0: none */
    int64_t stall_ns;
    int extra_bytes;      /* sent after each answer */
    bool twice;           /* answer twice */
    bool pieces;          /* TCP: answer byte by byte */
    const pthread_t *hit; /* NULL, or a thread that gets SIGUSR1 with each request */
    int port;             /* filled by server_start() */
    /* how many reads it has made; one for each request if requests are small */
    int seen;
    int dropped; /* how many requests it has dropped */
    int socket;
    int stop[2];
    pthread_t thread;
};

/* Sends the received bytes back, with the faults that the test asked for; over UDP, to `client`.
 *
 * Returns whether the connection stays open. */
static inline bool server_answer(struct server *server, int fd, char *bytes, size_t size,
                                 const struct sockaddr_in *client) {
    socklen_t room = client == NULL ? 0 : sizeof *client;
    server->seen++;
    if (server->hit != NULL) {
        T_EQ(0, pthread_kill(*server->hit, SIGUSR1));
    }
    if (server->silent || server->seen == server->close_at) {
        return server->silent;
    }
    if (server->lose_every != 0 && server->seen % server->lose_every == 0) {
        server->dropped++;
        return true;
    }
    if (server->seen == server->stall_at) {
        struct timespec stall = {server->stall_ns / 1000000000, server->stall_ns % 1000000000};
        T_EQ(0, nanosleep(&stall, NULL));
    }
    bool half = server->seen == server->half_at;
    size = half ? size / 2 : size + (size_t)server->extra_bytes;
    for (; server->pieces && size > 1; size--) {
        (void)send(fd, bytes++, 1, MSG_NOSIGNAL);
    }
    for (int i = 0; i <= server->twice; i++) {
        /* The client may be gone; that is no fault. */
        (void)sendto(fd, bytes, size, MSG_NOSIGNAL, (const struct sockaddr *)client, room);
    }
    return !half;
}

/* Answers one datagram. */
static inline void server_datagram(struct server *server) {
    static struct sockaddr_in before;
    char bytes[SERVER_BYTES] = {0};
    struct sockaddr_in client;
    socklen_t room = sizeof client;
    ssize_t size =
        recvfrom(server->socket, bytes, sizeof bytes, 0, (struct sockaddr *)&client, &room);
    T_TRUE(size >= 0);
    if (server->late) {
        if (server->seen++ > 0) {
            (void)sendto(server->socket, bytes, (size_t)size, 0, (struct sockaddr *)&before,
                         sizeof before);
        }
        before = client;
    } else {
        server_answer(server, server->socket, bytes, (size_t)size, &client);
    }
}

/* Reads from one connection, and answers.
 *
 * Returns whether the connection stays open. */
static inline bool server_stream(struct server *server, int fd) {
    char bytes[SERVER_BYTES] = {0};
    ssize_t size = recv(fd, bytes, sizeof bytes - 64, 0);
    return size > 0 && server_answer(server, fd, bytes, (size_t)size, NULL);
}

/* Closes a connection, with a reset if the test asked for one. */
static inline void server_drop(const struct server *server, int fd) {
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    if (server->reset) {
        T_EQ(0, setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    }
    T_EQ(0, close(fd));
}

static inline void *server_main(void *argument) {
    struct server *server = argument;
    struct pollfd fds[2 + SERVER_MAX_CLIENTS] = {{server->stop[0], POLLIN, 0},
                                                 {server->socket, POLLIN, 0}};
    nfds_t count = 2;
    for (;;) {
        T_TRUE(poll(fds, count, -1) >= 0);
        if (fds[0].revents != 0) {
            break;
        }
        for (nfds_t i = count - 1; i >= 2; i--) {
            if (fds[i].revents != 0 && !server_stream(server, fds[i].fd)) {
                server_drop(server, fds[i].fd);
                fds[i] = fds[--count];
            }
        }
        if (fds[1].revents != 0 && server->type == SOCK_DGRAM) {
            server_datagram(server);
        } else if (fds[1].revents != 0) {
            T_TRUE(count < 2 + SERVER_MAX_CLIENTS);
            int fd = accept(server->socket, NULL, NULL);
            T_TRUE(fd >= 0);
            int on = 1;
            T_EQ(0, setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
            fds[count++] = (struct pollfd){fd, POLLIN, 0};
        }
    }
    while (count > 2) {
        T_EQ(0, close(fds[--count].fd));
    }
    return NULL;
}

/* Binds a socket of `type` to a free port of 127.0.0.1, and fills *port.
 *
 * Returns the descriptor. */
static inline int server_bind(int type, int *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, type, 0);
    T_TRUE(fd >= 0);
    T_EQ(0, bind(fd, (struct sockaddr *)&address, size));
    T_EQ(0, getsockname(fd, (struct sockaddr *)&address, &size));
    *port = ntohs(address.sin_port);
    return fd;
}

static inline void server_start(struct server *server) {
    server->socket = server_bind(server->type, &server->port);
    if (server->type == SOCK_STREAM) {
        T_EQ(0, listen(server->socket, SERVER_MAX_CLIENTS));
    }
    T_EQ(0, pipe(server->stop));
    T_EQ(0, pthread_create(&server->thread, NULL, server_main, server));
}

static inline void server_stop(struct server *server) {
    T_EQ(0, close(server->stop[1]));
    T_EQ(0, pthread_join(server->thread, NULL));
    T_EQ(0, close(server->stop[0]));
    T_EQ(0, close(server->socket));
}

#endif
