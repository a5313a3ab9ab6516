// SPDX-License-Identifier: MIT
/* Many connections watched at once. */
#ifndef HEADWAY_LOAD_EVENTS_H
#define HEADWAY_LOAD_EVENTS_H

#include <sys/epoll.h>

#include "load/phase.h"

/* How many connections one wait may return. */
#define HW__EVENTS 256

/* Makes an epoll that watches all connections of the phase, edge-triggered: a connection is asked
 * about once, and never again for what it has already told.
 *
 * Returns the descriptor or a negative errno. */
int hw__events_open(struct hw__phase *phase);

/* Watches a connection that was opened anew.
 *
 * Returns 0 or a negative errno. */
int hw__events_add(int epoll_fd, struct hw__connection *connection);

/* Does what an event asks for: sends the rest of a request, receives.
 *
 * Returns 1 when that completed the connection's answer, 0 when not, or a negative errno. */
int hw__events_take(struct hw__phase *phase, const struct epoll_event *event);

#endif
