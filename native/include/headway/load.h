// SPDX-License-Identifier: MIT
#ifndef HEADWAY_LOAD_H
#define HEADWAY_LOAD_H

#include <stdint.h>

#include "headway/api.h"
#include "headway/histogram.h"

/* The transport of requests. */
#define HW_LOAD_TCP 0 /* connections; a response is complete when all of its bytes have arrived */
#define HW_LOAD_UDP 1 /* connected sockets; each request and each response is one datagram */

/* When a request is sent. */
#define HW_LOAD_CLOSED 0 /* a connection sends its next request when its response has arrived */
#define HW_LOAD_OPEN 1   /* a request is sent when it is due, whatever became of those before it */

/* How the due times of the open model are spaced. */
#define HW_LOAD_UNIFORM 0 /* evenly */
#define HW_LOAD_POISSON 1 /* independently: exponential gaps, drawn from a seed */

#define HW_LOAD_MAX_CONNECTIONS 1000
#define HW_LOAD_MAX_BYTES (INT64_C(1) << 30) /* the largest TCP request or response */
#define HW_LOAD_MAX_DATAGRAM_BYTES 65507
#define HW_LOAD_MAX_RATE_PER_S 1e6
#define HW_LOAD_MIN_RATE_PER_S 1e-4                  /* below this, a gap outlasts any run */
#define HW_LOAD_MAX_NS (INT64_C(86400) * 1000000000) /* the limit of every time in the config */

/* The load: the server, the requests, and how long they are sent. */
struct hw_load_config {
    int protocol;           /* HW_LOAD_TCP or HW_LOAD_UDP */
    int model;              /* HW_LOAD_CLOSED or HW_LOAD_OPEN */
    int arrivals;           /* open model: HW_LOAD_UNIFORM or HW_LOAD_POISSON */
    int connections;        /* 1 to HW_LOAD_MAX_CONNECTIONS; all are open before time runs */
    const char *address;    /* the server's IPv4 address, "127.0.0.1" */
    int port;               /* the server's port, 1 to 65535 */
    const void *request;    /* the bytes of every request */
    int64_t request_bytes;  /* the size of a request, at least 1 */
    int64_t response_bytes; /* the size of every response, at least 1; its content is not checked */
    double rate_per_s; /* open model: over all connections; HW_LOAD_MIN_RATE_PER_S to the maximum */
    uint64_t seed;     /* open model, Poisson: the same seed gives the same gaps */
    int64_t warmup_ns; /* the warm-up, which is not counted; at least 0 */
    int64_t duration_ns;     /* how long counted requests are sent; at least 1 */
    int64_t min_requests;    /* after the duration, go on until so many requests are answered */
    int64_t max_duration_ns; /* the longest duration with min_requests; at least duration_ns */
    int64_t timeout_ns;      /* the time-out of connecting and of a response; at least 1 */
};

/* The result of a load, without the warm-up. */
struct hw_load_result {
    int64_t requests;    /* requests that were answered */
    int64_t elapsed_ns;  /* from the sending of the first request to the last answer */
    int64_t cpu_ns;      /* CPU time of the calling thread (CLOCK_THREAD_CPUTIME_ID) */
    int64_t lost;        /* UDP: requests without an answer within the time-out */
    int64_t late;        /* open model: requests due while no connection was free, and sent later */
    int64_t unsent;      /* open model: requests due while no connection was free, and never sent */
    int64_t slip_max_ns; /* open model: the longest delay of a request with a connection free */
    int64_t unanswered;  /* requests without an answer when max_duration_ns was over */
};

/* Puts a load on a server and times its answers.
 *
 * The warm-up is a run of its own. Its last requests are answered before the counted time begins,
 * so that no request is half in it. When the duration is over and min_requests are answered,
 * nothing more is sent; the requests under way are waited for and counted.
 *
 * In the closed model, requests / elapsed_ns therefore has no bias, even if a response takes half a
 * second. The open model does not send the requests that are due and unsent at the end; it counts
 * them in `unsent`. Its elapsed_ns goes from the first request to the last answer, so a throughput
 * must be divided by the longer of elapsed_ns and the duration.
 *
 * In the open model the time of a request starts when the request was due, even if all connections
 * were busy and it was sent later: a server that stalls also delays the requests that would have
 * come meanwhile ("coordinated omission", Gil Tene; wrk2 counts in the same way). The next request
 * goes to the connection that has been free for longest.
 *
 * UDP answers carry no number. A connection therefore has one request under way at a time, and a
 * connection that lost its request goes on from another port, so that a late answer reaches nobody.
 *
 * config:   not kept after the return.
 * out:      filled on success, unchanged otherwise.
 * intended: receives the times from when each request was due (closed model: sent) to its answer,
 * in addition to what it already holds. actual:   NULL, or receives the times from when each
 * request was sent to its answer. On failure both histograms have the times that were recorded
 * before it.
 *
 * The function runs in the calling thread, sends no signal, keeps no descriptor, and blocks until
 * it is done: at most the warm-up, max_duration_ns and 50 ms, plus a time-out for the warm-up and
 * one for each connection that opens. A signal does not end it early.
 *
 * Returns 0, or a negative errno: -EINVAL for an argument out of range; -ECONNREFUSED if nobody
 * listens; -ETIMEDOUT if a connection did not open, or a TCP response did not arrive, in time;
 * -ECONNRESET or -EPIPE if the server closed a connection; -EPROTO if more bytes arrived than one
 * response has, a datagram had another size, or an answer arrived without a request; -ENOMEM; else
 * the error of the system call that failed. */
HW_API int hw_load_run(const struct hw_load_config *config, struct hw_load_result *out,
                       struct hw_histogram *intended, struct hw_histogram *actual);

#endif
