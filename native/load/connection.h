// SPDX-License-Identifier: MIT
/* One connection of the load: opening it, and sending one request at a time without blocking. */
#ifndef HEADWAY_LOAD_CONNECTION_H
#define HEADWAY_LOAD_CONNECTION_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headway/load.h"

/* How long a blocking recv() waits before its caller reads the clock. */
#define HW__TICK_NS INT64_C(50000000)

/* The state that all connections of a run share. */
struct hw__peer {
    const struct hw_load_config *config;
    struct sockaddr_in address;
    void *buffer; /* receives the answers; nothing reads it */
    size_t buffer_bytes;
};

/* A connection. Times are those of hw_now_ns(). */
struct hw__connection {
    int fd;                /* the socket; -1: there is none */
    bool out;              /* a request is out: it has begun, and its answer is not complete */
    int64_t unsent_bytes;  /* bytes of the request that are not sent yet */
    int64_t missing_bytes; /* bytes of the answer that have not arrived yet */
    int64_t due_ns;        /* when the request should have been sent */
    int64_t sent_ns;       /* when the request was sent */
    struct hw__connection *older; /* the older neighbour in its queue (it is in one at most) */
    struct hw__connection *newer; /* the newer neighbour in its queue */
};

/* A queue of connections in the order in which they were added. */
struct hw__queue {
    struct hw__connection *oldest;
    struct hw__connection *newest;
};

/* Adds a connection that is in no queue. This function can't fail. */
void hw__queue_add(struct hw__queue *queue, struct hw__connection *connection);

/* Removes a connection that is in the queue. This function can't fail. */
void hw__queue_remove(struct hw__queue *queue, struct hw__connection *connection);

/* Opens a socket and connects it, within the config's time-out. The socket has TCP_NODELAY and
 * close-on-exec.
 *
 * Returns 0, or a negative errno with connection->fd -1. */
int hw__connection_open(struct hw__connection *connection, const struct hw__peer *peer);

/* Closes the connection, if it is open. This function can't fail. */
void hw__connection_close(struct hw__connection *connection);

/* Begins the next request: sends as much of it as fits at once. No request may be out. The caller
 * sets due_ns and sent_ns.
 *
 * Returns 0 or a negative errno. */
int hw__connection_begin(struct hw__connection *connection, const struct hw__peer *peer);

/* Continues to send a request that did not fit.
 *
 * Returns 0, also if some bytes are still unsent, or a negative errno. */
int hw__connection_send(struct hw__connection *connection, const struct hw__peer *peer);

/* Receives the bytes that have arrived. `flags` is MSG_DONTWAIT, or 0 to wait for at most
 * HW__TICK_NS. Without a request out, no bytes should have arrived.
 *
 * Returns 1 if the answer is complete now, 0 if bytes are still missing, or a negative errno:
 * -ECONNRESET at the end of the stream, -EPROTO if more bytes came than were missing. */
int hw__connection_receive(struct hw__connection *connection, const struct hw__peer *peer,
                           int flags);

#endif
