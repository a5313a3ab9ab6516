// SPDX-License-Identifier: MIT
/* Watches many connections at once. */
#ifndef HEADWAY_LOAD_EVENTS_H
#define HEADWAY_LOAD_EVENTS_H

#include <sys/epoll.h>

#include "load/phase.h"

/* The most connections that one wait may return. */
#define HW__EVENTS 256

/* Makes an epoll that watches all connections of the phase. It is edge-triggered: each change is
 * reported once.
 *
 * Returns the descriptor or a negative errno. */
int hw__events_open(struct hw__phase *phase);

/* Watches a connection that was opened again.
 *
 * Returns 0 or a negative errno. */
int hw__events_add(int epoll_fd, struct hw__connection *connection);

/* Handles an event: sends the rest of a request, and receives.
 *
 * Returns 1 if the connection's answer is complete now, 0 if not, or a negative errno. */
int hw__events_take(struct hw__phase *phase, const struct epoll_event *event);

#endif
