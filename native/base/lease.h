// SPDX-License-Identifier: MIT
/* How long somebody outside wants this process recorded, or its GIL scheduled: until a time that he
 * puts off while he is there. When he is gone, however that came, the time comes, and the process
 * goes back to CPython's own behaviour by itself.
 *
 * The time stands in a page that is shared with him (a sealed memfd, of which he gets the
 * descriptor). Without a lease there is no such time. */
#ifndef HEADWAY_BASE_LEASE_H
#define HEADWAY_BASE_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* For what. */
enum { HW__LEASE_TRACE, HW__LEASE_SCHEDULE, HW__LEASES };

/* Why one has ended; src/headway/live/lease.py has the same. */
enum { HW__LEASE_LIVE, HW__LEASE_ENDED, HW__LEASE_EXPIRED, HW__LEASE_WATCHDOG };

/* What is shared. Written by both sides without order: each word says all that is to be said. */
struct hw__lease_page {
    _Atomic int64_t until_ns; /* CLOCK_MONOTONIC of this process; 0: no end. Written by the other
                               * side, the first one by us */
    _Atomic int64_t now_ns;   /* what time it was here when we last wrote: the other side may be
                               * in another time namespace */
    _Atomic int64_t ended;    /* HW__LEASE_...; written by us, once */
};

struct hw__lease {
    /* One of three: of no lease, of one that is over, or `mapped`. Any thread reads it; written by
     * who begins and ends, and by the hook that finds it over. What it has pointed to stays mapped:
     * a hook may be about to read there. */
    _Atomic(struct hw__lease_page *) page;
    struct hw__lease_page *mapped; /* NULL: there never was one. Written by who begins */
};

extern struct hw__lease hw__leases[HW__LEASES];

/* Whether a lease is over at that time. Async-signal-safe; can't fail. */
static inline bool hw__lease_over(const struct hw__lease *lease, int64_t now_ns) {
    struct hw__lease_page *page = atomic_load_explicit(&lease->page, memory_order_relaxed);
    int64_t until_ns = atomic_load_explicit(&page->until_ns, memory_order_relaxed);
    return until_ns != 0 && now_ns >= until_ns;
}

/* Begins one that lasts so long if nobody puts its end off, in place of the one that is. Only one
 * thread at a time may begin and end.
 *
 * Returns a descriptor of the page, which the caller sends and closes, or a negative errno with no
 * lease. */
int hw__lease_begin(struct hw__lease *lease, int64_t span_ns);

/* It lasts so long from now on, if the other side has not had it yet. This function can't fail. */
void hw__lease_renew(struct hw__lease *lease, int64_t span_ns);

/* There is no lease any more: what it was for has ended, or goes on without. Says so to the other
 * side. This function can't fail. */
void hw__lease_end(struct hw__lease *lease);

/* It is over for good, whatever the other side writes, until it is ended or one begins anew; says
 * why. Async-signal-safe; can't fail. */
void hw__lease_expire(struct hw__lease *lease, int64_t why);

#endif
