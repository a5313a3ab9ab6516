// SPDX-License-Identifier: MIT
/* A cheaper way to read the time of hw_now_ns(), for callers that read it hundreds of thousands of
 * times a second: the processor's own counter, tied to the clock again every millisecond.
 *
 * clock_gettime() has to wait until all earlier loads are done, and touches a page of the kernel;
 * reading the bare counter does neither. The result is mostly within some ten nanoseconds of the
 * clock. It is up to 0.5 us further off while the clock is being slewed (adjtimex(2): 500 ppm at
 * most), and as much if an interruption between the readings of the two went unnoticed. A thread to
 * which others hand over may also read the counter a little early: a caller that needs an order
 * must establish it.
 *
 * The counter is used only if the kernel itself trusts it as its clock on every core (x86-64 with
 * clocksource "tsc"); otherwise hw__ticks_now() is hw_now_ns(). Intel 64 and IA-32 Architectures
 * Software Developer's Manual, volume 3B, 18.17 "Time-Stamp Counter". */
#ifndef HEADWAY_BASE_TICKS_H
#define HEADWAY_BASE_TICKS_H

#include <stdint.h>

/* A tie of the counter to the clock. The time is ns + (counter - tick) * rate / 2^32, as long as
 * counter - tick < span. All zero: not tied yet. The owner of a tie must guard it. */
struct hw__ticks {
    /* The counter at the tie. */
    uint64_t tick;
    int64_t ns;    /* the clock at the tie */
    uint64_t rate; /* ns per tick, times 2^32 */
    uint64_t span; /* ticks for which the tie holds; 0: the rate is not known yet */
    /* The counter when the measurement of the rate began. */
    uint64_t base_tick;
    /* The clock when the measurement of the rate began; 0: it has not begun. */
    int64_t base_ns;
};

/* Finds out whether the counter can be used. No thread may read the time meanwhile, and all ties
 * must begin anew (all zero) afterwards. */
void hw__ticks_prepare(void);

/* Ties the counter to the clock again. Returns the clock's time. */
int64_t hw__ticks_renew(struct hw__ticks *ticks);

static inline uint64_t hw__ticks_counter(void) {
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* Returns CLOCK_MONOTONIC in nanoseconds, or nearly (see above). Async-signal-safe; can't fail. */
static inline int64_t hw__ticks_now(struct hw__ticks *ticks) {
    /* If the span is 0, the counter may not even be readable. */
    if (__builtin_expect(ticks->span != 0, 1)) {
        uint64_t since = hw__ticks_counter() - ticks->tick;
        if (__builtin_expect(since < ticks->span, 1)) {
            return ticks->ns + (int64_t)(since * ticks->rate >> 32);
        }
    }
    return hw__ticks_renew(ticks);
}

#endif
