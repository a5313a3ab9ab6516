// SPDX-License-Identifier: MIT
/* A lease: how long another process wants this one recorded, or its GIL scheduled. The other
 * process renews the lease as long as it lives. When the other process is gone, for whatever
 * reason, the lease runs out, and this process goes back to CPython's own behaviour by itself.
 *
 * The end of the lease is a time in a page that both processes share: a sealed memfd, of which the
 * other process gets the descriptor. Without a lease there is no such time. */
#ifndef HEADWAY_BASE_LEASE_H
#define HEADWAY_BASE_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "headway/clock.h"

/* The purpose of a lease. */
enum { HW__LEASE_TRACE, HW__LEASE_SCHEDULE, HW__LEASES };

/* How a lease has ended; src/headway/live/lease.py has the same values. */
enum { HW__LEASE_LIVE, HW__LEASE_ENDED, HW__LEASE_EXPIRED, HW__LEASE_WATCHDOG };

/* The shared page. Both sides write it without ordering: each word is complete in itself. */
struct hw__lease_page {
    /* The end of the lease in CLOCK_MONOTONIC of this process; 0: no end. The other side writes it,
     * this process only the first value. */
    _Atomic int64_t until_ns;
    /* The time of this process when it last wrote: the other side may be in another time
     * namespace. */
    _Atomic int64_t now_ns;
    _Atomic int64_t ended; /* HW__LEASE_...; written once, by this process */
};

struct hw__lease {
    /* One of three pages: that of no lease, that of a lease that is over, or `mapped`. Any thread
     * reads the pointer. Begin and end of a lease write it, and so does the hook that finds the
     * lease over. Each page that it has pointed to stays mapped, as a hook may be about to read it.
     */
    _Atomic(struct hw__lease_page *) page;
    /* The shared page; NULL: there was no lease yet. Written by hw__lease_begin(). */
    struct hw__lease_page *mapped;
    /* The lease began in the parent of this process. It runs out here as well, but only the parent
     * says how it ended. Set in a forked child, cleared when a lease begins. */
    atomic_bool parents;
};

extern struct hw__lease hw__leases[HW__LEASES];

/* Returns the end of a lease in CLOCK_MONOTONIC; 0: there is no lease, or it has no end. */
static inline int64_t hw__lease_until_ns(const struct hw__lease *lease) {
    struct hw__lease_page *page = atomic_load_explicit(&lease->page, memory_order_relaxed);
    return atomic_load_explicit(&page->until_ns, memory_order_relaxed);
}

/* Returns whether a lease is over at that time. Async-signal-safe; can't fail. */
static inline bool hw__lease_over(const struct hw__lease *lease, int64_t now_ns) {
    int64_t until_ns = hw__lease_until_ns(lease);
    return until_ns != 0 && now_ns >= until_ns;
}

/* Returns whether a lease is over now. Reads the clock only if there is a lease. */
static inline bool hw__lease_over_now(const struct hw__lease *lease) {
    int64_t until_ns = hw__lease_until_ns(lease);
    return until_ns != 0 && hw_now_ns() >= until_ns;
}

/* Makes the page of a lease that lasts `span_ns` from now on. A caller that replaces something
 * gives that up only after this call, because the page may be refused.
 *
 * Returns a descriptor of the page, which the caller sends and closes; or a negative errno. */
int hw__lease_page(int64_t span_ns);

/* Begins a lease with such a page, in place of the present lease, which ends in any case. Only one
 * thread at a time may begin or end a lease. Returns 0 or a negative errno. */
int hw__lease_begin(struct hw__lease *lease, int fd);

/* Makes the lease last `span_ns` from now on; for use as long as the other side does not have the
 * page yet. This function can't fail. */
void hw__lease_renew(struct hw__lease *lease, int64_t span_ns);

/* Called in a forked child, by the handlers of fork(): a child's end of the lease is no end of its
 * parent's. Async-signal-safe; can't fail. */
void hw__leases_after_fork_in_child(void);

/* Ends the lease: its purpose has ended, or goes on without a lease. The other side can see that.
 * This function can't fail. */
void hw__lease_end(struct hw__lease *lease);

/* Makes the lease be over for good, whatever the other side writes, until a lease is ended or begun
 * again. `why` (HW__LEASE_...) tells the other side the reason. Async-signal-safe; can't fail. */
void hw__lease_expire(struct hw__lease *lease, int64_t why);

#endif
