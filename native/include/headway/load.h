// SPDX-License-Identifier: MIT
#ifndef HEADWAY_LOAD_H
#define HEADWAY_LOAD_H

#include <stdint.h>

#include "headway/api.h"
#include "headway/histogram.h"

/* How a request travels. */
#define HW_LOAD_TCP 0 /* connections; a response is complete when all its bytes came */
#define HW_LOAD_UDP 1 /* connected sockets; a request and a response are a datagram each */

/* When a request is sent. */
#define HW_LOAD_CLOSED 0 /* each connection sends its next one when its response has come */
#define HW_LOAD_OPEN 1   /* at its time, whatever became of those before it */

/* How the times of the open model lie. */
#define HW_LOAD_UNIFORM 0 /* evenly */
#define HW_LOAD_POISSON 1 /* independently: exponential gaps, from a seed */

#define HW_LOAD_MAX_CONNECTIONS 1000
#define HW_LOAD_MAX_BYTES (INT64_C(1) << 30) /* of a TCP request or response */
#define HW_LOAD_MAX_DATAGRAM_BYTES 65507
#define HW_LOAD_MAX_RATE_PER_S 1e6
#define HW_LOAD_MIN_RATE_PER_S 1e-4                  /* below it a gap outlasts any run */
#define HW_LOAD_MAX_NS (INT64_C(86400) * 1000000000) /* of every time in the config */

/* What to send where, and for how long. */
struct hw_load_config {
    int protocol;            /* HW_LOAD_TCP or HW_LOAD_UDP */
    int model;               /* HW_LOAD_CLOSED or HW_LOAD_OPEN */
    int arrivals;            /* open: HW_LOAD_UNIFORM or HW_LOAD_POISSON */
    int connections;         /* 1 ... HW_LOAD_MAX_CONNECTIONS; all are open before time runs */
    const char *address;     /* the server's IPv4 address, "127.0.0.1" */
    int port;                /* the server's, 1 ... 65535 */
    const void *request;     /* the same bytes each time */
    int64_t request_bytes;   /* at least 1 */
    int64_t response_bytes;  /* of every response, at least 1; what they are is not looked at */
    double rate_per_s;       /* open: over all connections; above 0, up to the maximum */
    uint64_t seed;           /* open, Poisson: same seed, same gaps */
    int64_t warmup_ns;       /* not counted, at least 0 */
    int64_t duration_ns;     /* counted, at least 1: how long requests are sent */
    int64_t min_requests;    /* goes on after the duration until so many were answered ... */
    int64_t max_duration_ns; /* ... at most until here, at least the duration */
    int64_t timeout_ns;      /* for a connection to open, and for a response; at least 1 */
};

/* What came of it, without the warm-up. */
struct hw_load_result {
    int64_t requests;    /* answered */
    int64_t elapsed_ns;  /* from the first one's sending to the last one's answer */
    int64_t cpu_ns;      /* of the calling thread (CLOCK_THREAD_CPUTIME_ID) */
    int64_t lost;        /* UDP: sent, and no answer within the timeout */
    int64_t late;        /* open: due while no connection was free, and sent later */
    int64_t unsent;      /* open: due while no connection was free, and never sent */
    int64_t slip_max_ns; /* open: the longest that one went out late with a connection free */
    int64_t unanswered;  /* sent, and no answer yet when max_duration_ns was over */
};

/* Puts a load on a server and times its answers.
 *
 * The warm-up is a run of its own: its last requests are answered before the counted time begins,
 * and so no request is half in it. When the duration is over (and min_requests are answered)
 * nothing more is sent, what is on its way is waited for and counted: in the closed model
 * requests / elapsed_ns has no bias, also where a response takes half a second. The open model does
 * not work off the requests that are due and unsent by then, it tells how many; its elapsed_ns
 * begins with the first request and ends with the last answer, so that for a rate the longer of it
 * and the duration is what to divide by.
 *
 * In the open model the time of a request starts when it was due, though the connections were busy
 * and it was sent later: a server that stalls delays those that would have come, too ("coordinated
 * omission", Gil Tene; wrk2 counts likewise). A free connection gets the next one; the longest free
 * goes first.
 *
 * UDP answers carry no number, so a connection has one request out at a time, and one that lost
 * its request goes on from another port: a late answer finds nobody.
 *
 * config:   not kept after the return.
 * out:      filled on success, untouched otherwise.
 * intended: gets the times from when each request was due (closed: sent) to its answer, on top of
 *           what it holds.
 * actual:   NULL, or gets the times from when each was sent. On failure both have those before it.
 *
 * Runs in the calling thread, sends no signal, keeps no descriptor, and blocks until done: at most
 * the warm-up and max_duration_ns and 50 ms, with a timeout on top of the warm-up and for each
 * opening connection. A signal does not cut it short.
 *
 * Returns 0, or a negative errno: -EINVAL for an argument out of range; -ECONNREFUSED when nobody
 * listens; -ETIMEDOUT when a connection did not open, or a TCP response did not come, in time;
 * -ECONNRESET or -EPIPE when the server closed a connection; -EPROTO when more bytes came than one
 * response has, or a datagram of another size, or an answer to no question; -ENOMEM; else what the
 * system call reported. */
HW_API int hw_load_run(const struct hw_load_config *config, struct hw_load_result *out,
                       struct hw_histogram *intended, struct hw_histogram *actual);

#endif
