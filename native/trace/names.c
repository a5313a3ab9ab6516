// SPDX-License-Identifier: MIT
#include "trace/names.h"

#include <stdatomic.h>
#include <string.h>

#define PLACES 1024
#define NOBODY 0
#define IN_USE (-1) /* a thread reads or writes the name */

/* The thread of each place, apart from the names: a search reads these only. Acquire and release:
 * the thread that replaces a value by IN_USE has the place's name to itself. Sequentially
 * consistent, because hw__thread_name() looks for a record after hw__names_keep(), and a thread
 * looks for its name after it has made its record: one of the two must see the other's store. */
static _Atomic int32_t tids[PLACES];
static char names[PLACES][HW__NAME_BYTES];

/* The number of names ever kept, and so the next place. Sequentially consistent, as above. */
static _Atomic uint32_t kept;

static bool claim(uint32_t place, int32_t tid) {
    return atomic_compare_exchange_strong(&tids[place], &tid, IN_USE);
}

static bool find(int32_t tid, uint32_t *place) {
    uint32_t used = atomic_load(&kept);
    used = used < PLACES ? used : PLACES;
    for (*place = 0; *place < used; ++*place) {
        if (atomic_load(&tids[*place]) == tid && claim(*place, tid)) {
            return true;
        }
    }
    return false;
}

void hw__names_keep(int32_t tid, const char text[HW__NAME_BYTES]) {
    uint32_t place;
    if (!find(tid, &place)) {
        int32_t there;
        do {
            place = atomic_fetch_add(&kept, 1) % PLACES;
            there = atomic_load(&tids[place]);
        } while (there == IN_USE || !claim(place, there));
    }
    memcpy(names[place], text, HW__NAME_BYTES);
    atomic_store(&tids[place], tid);
}

bool hw__names_take(int32_t tid, char text[HW__NAME_BYTES]) {
    uint32_t place;
    if (!find(tid, &place)) {
        return false;
    }
    memcpy(text, names[place], HW__NAME_BYTES);
    atomic_store(&tids[place], NOBODY);
    return true;
}

void hw__names_forget(void) {
    if (atomic_exchange(&kept, 0) == 0) {
        return;
    }
    for (int i = 0; i < PLACES; i++) {
        atomic_store(&tids[i], NOBODY);
    }
}
