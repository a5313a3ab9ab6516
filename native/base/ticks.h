// SPDX-License-Identifier: MIT
/* A cheaper way to tell the time of hw_now_ns(), for who asks hundreds of thousands of times a
 * second: the processor's own counter, tied to the clock anew every millisecond.
 *
 * clock_gettime() has to wait until all loads before it are done, and touches the kernel's page;
 * the bare counter does neither. What it tells is mostly some ten nanoseconds away from the clock;
 * at most 0.5 us more while the clock is being slewed (adjtimex(2): 500 ppm at most), and as much
 * where the two were read with an interruption between them that went unseen. And on a thread
 * that other ones hand over to, the counter may be read a little early: who needs an order makes
 * one.
 *
 * Only where the kernel itself trusts the counter as its clock on every core (x86-64 with
 * clocksource "tsc"); elsewhere hw__ticks_now() is hw_now_ns(). Intel 64 and IA-32 Architectures
 * Software Developer's Manual, volume 3B, 18.17 "Time-Stamp Counter". */
#ifndef HEADWAY_BASE_TICKS_H
#define HEADWAY_BASE_TICKS_H

#include <stdint.h>

/* All zero: not tied to the clock yet. Who owns one guards it. */
struct hw__ticks {
    /* ns + (counter - tick) * rate / 2^32, while counter - tick < span. */
    uint64_t tick;
    int64_t ns;
    uint64_t rate; /* ns per tick, times 2^32 */
    uint64_t span; /* 0: the rate is not known yet */
    /* From when on the rate is being measured. */
    uint64_t base_tick;
    int64_t base_ns;
};

/* Looks whether the counter will do. While nobody asks for the time; what was tied is to begin
 * anew. */
void hw__ticks_prepare(void);

/* Ties the counter to the clock. Returns the clock's time. */
int64_t hw__ticks_renew(struct hw__ticks *ticks);

static inline uint64_t hw__ticks_counter(void) {
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* CLOCK_MONOTONIC, in nanoseconds, or nearly. Async-signal-safe; can't fail. */
static inline int64_t hw__ticks_now(struct hw__ticks *ticks) {
    if (__builtin_expect(ticks->span != 0, 1)) { /* else the counter may not even be readable */
        uint64_t since = hw__ticks_counter() - ticks->tick;
        if (__builtin_expect(since < ticks->span, 1)) {
            return ticks->ns + (int64_t)(since * ticks->rate >> 32);
        }
    }
    return hw__ticks_renew(ticks);
}

#endif
