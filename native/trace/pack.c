// SPDX-License-Identifier: MIT
/* DESIGN: one pass over the events fills the five parts of the result, each in a buffer of its own,
 * and the parts are then put together. The lengths stand apart from the bytes that they tell of, so
 * that a reader finds all places by sums, without going from event to event. */
#include "trace/pack.h"

#include <stdbool.h>
#include <string.h>

#include "trace/format.h"

#define MOST ((HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES) / sizeof(struct hw__event))

/* A number is stored by a store of eight bytes, of which the next number overwrites the rest. */
#define SLACK 8

struct part {
    char *next;
};

static void put(struct part *part, uint64_t value, uint32_t bytes) {
    memcpy(part->next, &value, sizeof value);
    part->next += bytes;
}

static uint32_t time_code(uint64_t delta) {
    return delta < 1u << 8 ? 0 : delta < 1u << 16 ? 1 : delta < 1u << 24 ? 2 : 3;
}

static uint32_t value_code(uint32_t value) {
    return value < 1u << 8 ? 1 : value < 1u << 16 ? 2 : 3;
}

static uint32_t flags_code(uint16_t flags) { return flags == 0 ? 0 : flags < 1u << 8 ? 1 : 2; }

uint32_t hw__pack(const char *content, uint32_t used, char *to, uint32_t room) {
    static const uint8_t time_bytes[] = {1, 2, 3, 8}, value_bytes[] = {0, 1, 2, 4};
    char controls[MOST], kinds[2 * MOST + SLACK], times[8 * MOST + SLACK], values[4 * MOST + SLACK],
        flags[2 * MOST + SLACK];
    struct part kind = {kinds}, time = {times}, value = {values}, flag = {flags};
    uint32_t count = used / (uint32_t)sizeof(struct hw__event);
    struct hw__event before = {0};
    uint64_t end_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct hw__event event;
        memcpy(&event, content + i * sizeof event, sizeof event);
        uint64_t time_ns = (uint64_t)event.time_ns;
        uint32_t of_time = time_code(time_ns - end_ns), of_flags = flags_code(event.flags);
        bool same_value = i > 0 && event.value == before.value;
        uint32_t of_value = same_value ? 0 : value_code(event.value);
        bool same_kind = i > 0 && event.kind == before.kind && event.gil == before.gil;
        put(&time, time_ns - end_ns, time_bytes[of_time]);
        put(&value, event.value, value_bytes[of_value]);
        put(&flag, event.flags, of_flags);
        put(&kind, event.kind | (uint64_t)event.gil << 8, same_kind ? 0 : 2);
        controls[i] = (char)(of_time << HW__PACKED_TIME | of_flags << HW__PACKED_FLAGS |
                             of_value << HW__PACKED_VALUE | (same_kind ? 0u : HW__PACKED_KIND));
        end_ns = time_ns + (event.kind == HW__HOLD ? event.flags : 0);
        before = event;
    }
    const struct {
        const char *from, *until;
    } parts[] = {{controls, controls + count},
                 {kinds, kind.next},
                 {times, time.next},
                 {values, value.next},
                 {flags, flag.next}};
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        uint32_t more = (uint32_t)(parts[i].until - parts[i].from);
        if (more > room - bytes) {
            return 0;
        }
        memcpy(to + bytes, parts[i].from, more);
        bytes += more;
    }
    return bytes;
}
