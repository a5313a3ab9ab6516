// SPDX-License-Identifier: MIT
/* Chunks in the file: packed and unpacked again, events are the same bytes. The tests' own reader
 * unpacks them (trace_file.h). */
#include "trace/pack.h"

#include "trace_file.h"

#define ROOM (HW__CHUNK_BYTES - HW__CHUNK_HEADER_BYTES)

static uint64_t state = 88172645463325252u;

/* xorshift64 (Marsaglia, "Xorshift RNGs", 2003). */
static uint64_t any(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Returns a number with a random length, so that short and long ones come equally often. */
static uint64_t any_length(void) { return any() >> any() % 64; }

/* Packs events, unpacks them and compares; returns the packed bytes. */
static uint32_t there_and_back(const struct hw__event *events, uint32_t count) {
    static char packed[2 * ROOM];
    struct hw__event again[TRACE_CHUNK_EVENTS];
    uint32_t bytes =
        hw__pack((const char *)events, count * (uint32_t)sizeof *events, packed, sizeof packed);
    T_TRUE(bytes >= count);
    trace_unpack(packed, bytes, count, again);
    T_EQ(0, memcmp(events, again, count * sizeof *events));
    return bytes;
}

/* A loop that releases the GIL at two places: a round trip takes five or six bytes. */
static void test_round_trips(void) {
    struct hw__event events[TRACE_CHUNK_EVENTS];
    int64_t now_ns = 123456789012345;
    for (uint32_t i = 0; i < TRACE_CHUNK_EVENTS; i++) {
        uint16_t hold_ns = (uint16_t)(150 + any() % 300);
        events[i] = (struct hw__event){now_ns, 1 + i % 2, HW__HOLD, 0, hold_ns};
        now_ns += hold_ns + 200 + (int64_t)(any() % 2000);
    }
    uint32_t bytes = there_and_back(events, TRACE_CHUNK_EVENTS);
    T_TRUE(bytes <= 6 * TRACE_CHUNK_EVENTS + 16);
    T_TRUE(bytes >= 4 * TRACE_CHUNK_EVENTS);
}

/* All that a process may have written comes back: times that go back, kinds that do not exist. */
static void test_any_bytes(void) {
    struct hw__event events[TRACE_CHUNK_EVENTS];
    for (int round = 0; round < 200; round++) {
        uint32_t count = (uint32_t)(any() % (TRACE_CHUNK_EVENTS + 1));
        uint64_t before = any();
        for (uint32_t i = 0; i < count; i++) {
            before = any() % 4 == 0 ? any_length() : before + any_length();
            events[i] =
                (struct hw__event){(int64_t)before, (uint32_t)any_length(),
                                   (uint8_t)(any() % 4 == 0 ? any() : HW__HOLD),
                                   (uint8_t)(any() % 8 == 0 ? any() : 0), (uint16_t)any_length()};
        }
        there_and_back(events, count);
    }
}

/* Numbers at the bounds of each length. */
static void test_bounds(void) {
    static const uint64_t edges[] = {0,          1,         0xFF,       0x100,      0xFFFF,
                                     0x10000,    0xFFFFFF,  0x1000000,  0xFFFFFFFF, 0x100000000,
                                     1ull << 62, INT64_MAX, 1ull << 63, UINT64_MAX};
    struct hw__event events[TRACE_CHUNK_EVENTS];
    uint32_t count = 0;
    uint64_t time_ns = 0;
    for (uint32_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        for (uint32_t j = 0; j < sizeof edges / sizeof *edges; j++) {
            time_ns += edges[i];
            events[count++] =
                (struct hw__event){(int64_t)time_ns, (uint32_t)edges[j],
                                   j % 2 == 0 ? HW__HOLD : HW__WAIT, 0, (uint16_t)edges[j]};
        }
    }
    there_and_back(events, count);
}

/* Events that do not fit are not packed, to the byte; an incomplete one at the end is left out. */
static void test_room(void) {
    struct hw__event events[8];
    for (int i = 0; i < 8; i++) {
        events[i] =
            (struct hw__event){(int64_t)any(), (uint32_t)any(), HW__WAIT, 0, (uint16_t)any()};
    }
    char packed[256];
    uint32_t bytes = hw__pack((const char *)events, sizeof events, packed, sizeof packed);
    T_TRUE(bytes > 0);
    packed[bytes] = 77;
    T_EQ(bytes, hw__pack((const char *)events, sizeof events, packed, bytes));
    T_EQ(77, packed[bytes]);
    T_EQ(0, hw__pack((const char *)events, sizeof events, packed, bytes - 1));
    T_EQ(bytes, hw__pack((const char *)events, sizeof events, packed, sizeof packed));
    T_EQ(hw__pack((const char *)events, 7 * sizeof *events, packed, sizeof packed),
         hw__pack((const char *)events, sizeof events - 1, packed, sizeof packed));
    T_EQ(0, hw__pack((const char *)events, 0, packed, sizeof packed));
}

int main(void) {
    t_start();
    T_RUN(test_round_trips);
    T_RUN(test_any_bytes);
    T_RUN(test_bounds);
    T_RUN(test_room);
    return 0;
}
