// SPDX-License-Identifier: MIT
/* A phase of the load, the warm-up or the counted one, and the three ways to drive it. */
#ifndef HEADWAY_LOAD_PHASE_H
#define HEADWAY_LOAD_PHASE_H

#include "load/connection.h"

/* A phase: when it ends, and what is counted in it. Times are those of hw_now_ns(). */
struct hw__phase {
    const struct hw__peer *peer;
    struct hw__connection *connections; /* config->connections of them, all open, none out */
    int64_t duration_ns;                /* how long requests are sent */
    int64_t min_requests;               /* after duration_ns, go on until so many are answered */
    int64_t max_duration_ns;            /* when the phase ends, even with requests out */
    struct hw_histogram *intended;      /* NULL: not kept */
    struct hw_histogram *actual;        /* NULL: not kept */
    int64_t end_ns;                     /* the end of duration_ns, set by hw__phase_start() */
    int64_t stop_ns;                    /* the end of max_duration_ns, set by hw__phase_start() */
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

/* Starts the time of the phase. Preparations that take time must be done before.
 *
 * Returns hw_now_ns(). This function can't fail. */
int64_t hw__phase_start(struct hw__phase *phase);

/* Tells whether the phase sends more requests at `now_ns`. This function can't fail. */
bool hw__phase_goes_on(const struct hw__phase *phase, int64_t now_ns);

/* Sends the next request of a connection at `now_ns`; the request was due at `due_ns`.
 *
 * Returns 0 or a negative errno. */
int hw__phase_send(struct hw__phase *phase, struct hw__connection *connection, int64_t due_ns,
                   int64_t now_ns);

/* Counts an answer that became complete at `now_ns`, and takes the connection out of its queue.
 * This function can't fail. */
void hw__phase_answered(struct hw__phase *phase, struct hw__connection *connection, int64_t now_ns);

/* Gives up the oldest request that is out, because its time is over. Takes the connection out of
 * its queue and opens it again.
 *
 * Returns 0, or a negative errno: -ETIMEDOUT over TCP. */
int hw__phase_lose(struct hw__phase *phase, struct hw__connection *connection);

/* Counts the requests that are out as unanswered, when the phase stops. This function can't
 * fail. */
void hw__phase_abandon(struct hw__phase *phase);

/* Returns when a wait for answers must end: when the oldest request is lost, or when the phase
 * stops; stop_ns without a request out. This function can't fail. */
int64_t hw__phase_deadline_ns(const struct hw__phase *phase);

/* Drive the phase to its end, and fill what is counted: the closed model through one connection,
 * the closed model through many, and the open model.
 *
 * Return 0 or a negative errno, as hw_load_run() does. */
int hw__closed_one(struct hw__phase *phase);
int hw__closed_many(struct hw__phase *phase);
int hw__open_model(struct hw__phase *phase);

#endif
