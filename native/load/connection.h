// SPDX-License-Identifier: MIT
/* One connection of the load: opened, and one request at a time through it, without blocking. */
#ifndef HEADWAY_LOAD_CONNECTION_H
#define HEADWAY_LOAD_CONNECTION_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headway/load.h"

/* How long a blocking recv() waits before its caller looks at the clock. */
#define HW__TICK_NS INT64_C(50000000)

/* What all connections of a run share. */
struct hw__peer {
    const struct hw_load_config *config;
    struct sockaddr_in address;
    void *buffer; /* where answers go; nobody reads it */
    size_t buffer_bytes;
};

/* A connection. The times are hw_now_ns()'s. */
struct hw__connection {
    int fd;                       /* -1 when there is none */
    bool out;                     /* a request is out: begun, and its answer not complete */
    int64_t unsent_bytes;         /* of the request */
    int64_t missing_bytes;        /* of the answer */
    int64_t due_ns;               /* when the request should have gone out */
    int64_t sent_ns;              /* when it did */
    struct hw__connection *older; /* its neighbours in the one queue it is in (hw__queue) */
    struct hw__connection *newer;
};

/* Connections in the order they came. */
struct hw__queue {
    struct hw__connection *oldest;
    struct hw__connection *newest;
};

/* Adds a connection that is in no queue.
 *
 * This function can't fail. */
void hw__queue_add(struct hw__queue *queue, struct hw__connection *connection);

/* Takes out a connection that is in the queue.
 *
 * This function can't fail. */
void hw__queue_remove(struct hw__queue *queue, struct hw__connection *connection);

/* Opens a socket and connects it, within the config's timeout; TCP_NODELAY, closed on exec.
 *
 * Returns 0, or a negative errno with connection->fd -1. */
int hw__connection_open(struct hw__connection *connection, const struct hw__peer *peer);

/* Closes it, if it is open.
 *
 * This function can't fail. */
void hw__connection_close(struct hw__connection *connection);

/* Sends the next request, or as much as fits at once; no request may be out. Of the caller's are
 * due_ns and sent_ns.
 *
 * Returns 0 or a negative errno. */
int hw__connection_begin(struct hw__connection *connection, const struct hw__peer *peer);

/* Goes on sending a request that did not fit.
 *
 * Returns 0, also when there still is a rest, or a negative errno. */
int hw__connection_send(struct hw__connection *connection, const struct hw__peer *peer);

/* Receives what has come; `flags` is MSG_DONTWAIT, or 0 to wait at most HW__TICK_NS. With no
 * request out nothing should have come.
 *
 * Returns 1 when that completed the answer, 0 when bytes are still missing, or a negative errno:
 * -ECONNRESET at the end of the stream, -EPROTO when more came than is missing. */
int hw__connection_receive(struct hw__connection *connection, const struct hw__peer *peer,
                           int flags);

#endif
