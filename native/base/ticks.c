// SPDX-License-Identifier: MIT
#include "base/ticks.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/rare.h"
#include "headway/clock.h"

#define CLOCK_SOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

/* How long a tie to the clock holds. */
#define SPAN_NS 1000000

/* The time over which the rate is measured. The two readings at its ends are each some ten
 * nanoseconds off, so the rate is exact to 10 ppm at first and to 0.1 ppm later. The rate also
 * follows a clock that is being slewed. */
#define SHORTEST_BASE_NS 10000000
#define LONGEST_BASE_NS 1000000000

/* A reading of both counter and clock that took more ticks was interrupted. So many ticks are half
 * a microsecond or less. */
#define MOST_TICKS 1000

/* A change of the rate by more than 2^-STRANGE_SHIFT of it is no slewing: the process runs on
 * another machine now. */
#define STRANGE_SHIFT 10

/* The counter can be used. Written while no thread reads the time. */
static bool usable;

void hw__ticks_prepare(void) {
    usable = false;
#ifdef __x86_64__
    char name[8] = "";
    int fd = open(CLOCK_SOURCE, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        usable = read(fd, name, sizeof name - 1) >= 4 && memcmp(name, "tsc\n", 4) == 0;
        close(fd);
    }
#endif
}

/* Returns a * 2^32 / b. */
static uint64_t ratio(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)a << 32) / b);
}

HW__RARE int64_t hw__ticks_renew(struct hw__ticks *ticks) {
    if (!usable) {
        return hw_now_ns();
    }
    uint64_t before = hw__ticks_counter();
    int64_t ns = hw_now_ns();
    uint64_t tick = hw__ticks_counter();
    if (tick - before > MOST_TICKS) {
        return ns; /* the present tie holds for as long as before */
    }
    if (ticks->base_ns == 0 || tick <= ticks->base_tick || ns <= ticks->base_ns) {
        *ticks = (struct hw__ticks){.base_tick = tick, .base_ns = ns};
        return ns;
    }
    uint64_t base_ns = (uint64_t)(ns - ticks->base_ns);
    if (base_ns >= SHORTEST_BASE_NS) {
        uint64_t rate = ratio(base_ns, tick - ticks->base_tick);
        uint64_t change = rate > ticks->rate ? rate - ticks->rate : ticks->rate - rate;
        if (rate == 0 || (ticks->rate != 0 && change > rate >> STRANGE_SHIFT)) {
            *ticks = (struct hw__ticks){.base_tick = tick, .base_ns = ns};
            return ns;
        }
        ticks->rate = rate;
        ticks->span = ratio(SPAN_NS, rate);
    }
    ticks->tick = tick; /* without effect while `span` is 0 */
    ticks->ns = ns;
    if (base_ns >= LONGEST_BASE_NS) {
        ticks->base_tick = tick;
        ticks->base_ns = ns;
    }
    return ns;
}
