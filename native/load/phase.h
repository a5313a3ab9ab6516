// SPDX-License-Identifier: MIT
/* One stretch of load, the warm-up or the counted one, and the three ways to drive it. */
#ifndef HEADWAY_LOAD_PHASE_H
#define HEADWAY_LOAD_PHASE_H

#include "load/connection.h"

/* The stretch: when it ends, and what was counted in it. Times are hw_now_ns()'s. */
struct hw__phase {
    const struct hw__peer *peer;
    struct hw__connection *connections; /* config->connections of them, all open, none out */
    int64_t duration_ns;                /* so long requests are sent, or ... */
    int64_t min_requests;               /* ... until so many are answered, or ... */
    int64_t max_duration_ns;            /* ... so long: then it ends, also with requests out */
    struct hw_histogram *intended;      /* NULL: not kept */
    struct hw_histogram *actual;        /* NULL: not kept */
    int64_t end_ns;                     /* the duration's, from hw__phase_start() */
    int64_t stop_ns;                    /* the longest duration's, likewise */
    struct hw__queue out;               /* connections with a request out, by sent_ns */
    int64_t answered;
    int64_t lost;
    int64_t late;
    int64_t unsent;
    int64_t slip_max_ns;
    int64_t unanswered;
    int64_t first_sent_ns;
    int64_t last_answered_ns;
};

/* Begins the time of the phase: what takes time before the first request is done.
 *
 * Returns hw_now_ns(). This function can't fail. */
int64_t hw__phase_start(struct hw__phase *phase);

/* Whether more requests are to be sent at `now_ns`.
 *
 * Returns true or false. This function can't fail. */
bool hw__phase_goes_on(const struct hw__phase *phase, int64_t now_ns);

/* Sends the next request of a connection, due at `due_ns`, at `now_ns`.
 *
 * Returns 0 or a negative errno. */
int hw__phase_send(struct hw__phase *phase, struct hw__connection *connection, int64_t due_ns,
                   int64_t now_ns);

/* Counts an answer that became complete at `now_ns`. The connection is in no queue after it.
 *
 * This function can't fail. */
void hw__phase_answered(struct hw__phase *phase, struct hw__connection *connection, int64_t now_ns);

/* Gives up the oldest request that is out: its time is over. The connection is in no queue after
 * it, and open anew.
 *
 * Returns 0, or a negative errno: -ETIMEDOUT over TCP. */
int hw__phase_lose(struct hw__phase *phase, struct hw__connection *connection);

/* Counts the requests that are out as unanswered: the phase stops.
 *
 * This function can't fail. */
void hw__phase_abandon(struct hw__phase *phase);

/* When waiting for answers has to end: the oldest request is lost, or the phase stops.
 *
 * Returns the time, stop_ns with none out. This function can't fail. */
int64_t hw__phase_deadline_ns(const struct hw__phase *phase);

/* Drive the phase to its end, filling what is counted: the closed model through one connection, and
 * through many; the open model.
 *
 * Return 0 or a negative errno, as hw_load_run() does. */
int hw__closed_one(struct hw__phase *phase);
int hw__closed_many(struct hw__phase *phase);
int hw__open_model(struct hw__phase *phase);

#endif
