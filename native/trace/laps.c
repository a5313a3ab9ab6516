// SPDX-License-Identifier: MIT
#include "trace/laps.h"

#include <stdlib.h>
#include <string.h>

#include "trace/format.h"

#define MAIN_GIL 0
#define MOST_STACKS (1u << 20) /* the recorder numbers no more */
/* Stacks that wait for hw__laps_fresh(). A further one is added when it is seen again. */
#define MOST_FRESH 4096
/* Entries for threads, a power of two. If there are more threads, those that were seen last have
 * entries. */
#define THREADS 4096
#define PROBES 16
/* Yields of all threads at stacks that are not settled yet, in a process. The watcher settles
 * stacks some times a second; until then, an import alone yields some hundred times. */
#define PENDING (1u << 14)

/* Two yields at one stack in less than this time are kept as one: no lap is too long at this
 * length. */
#define MERGED_NS 1000000

/* The kinds of stacks in hw__laps.kinds, besides HW_HOME_*. home_of() returns UNSETTLED for UNSEEN
 * and for TOLD. */
#define UNSEEN 0
#define TOLD 255 /* passed to the caller, or about to be, and not settled yet */
#define UNSETTLED 0

/* A thread's record here; engine/runner.h has records of another kind. */
struct runner {
    uint32_t serial; /* 0: free */
    /* HW_HOME_*: where it is, or was before its lap; HW_HOME_NONE: never seen at a home; 0: it has
     * had no event. */
    uint8_t home;
    bool away;  /* in a lap */
    bool known; /* it has been at a home */
    bool ended; /* the thread has; laps that it was in before may still be found */
    /* Its yields at stacks that are not settled yet, as places in hw__laps.pending; 0: none. */
    uint32_t newest, oldest;
    int64_t begun_ns, last_ns;
    /* When and at which stack it yielded the GIL; since_ns is 0 if it has or wants the GIL. */
    int64_t since_ns;
    uint32_t stack;
    /* As in struct hw_lap, for times that are over. They may be those of an earlier lap. */
    uint32_t away_stack;
    int64_t away_since_ns, away_until_ns;
};

/* A yield of the GIL at a stack that is not settled yet. */
struct pending {
    uint32_t stack;
    uint32_t newer; /* the same thread's next one; of a free place: the next free one; 0: none */
    uint32_t older;
    int64_t came_ns; /* when the thread yielded */
    int64_t left_ns; /* when it went on from there; 0: it has not */
};

struct hw__laps {
    int64_t least_ns[HW_HOMES];
    uint8_t *kinds; /* by stack */
    uint32_t kind_room;
    uint32_t fresh[MOST_FRESH];
    int fresh_count;
    struct runner runners[THREADS];
    struct pending pending[PENDING]; /* the first one is never used */
    uint32_t free;                   /* the first free one; 0: none but those of used and above */
    uint32_t used;                   /* those below it have been used */
    bool swept;                      /* for all threads, and no stack was settled since */
    struct hw_laps told;
};

struct hw__laps *hw__laps_new(const int64_t *least_ns) {
    struct hw__laps *laps = calloc(1, sizeof *laps);
    if (laps != NULL) {
        memcpy(laps->least_ns, least_ns, sizeof laps->least_ns);
        laps->used = 1;
    }
    return laps;
}

void hw__laps_free(struct hw__laps *laps) {
    if (laps != NULL) {
        free(laps->kinds);
        free(laps);
    }
}

static uint32_t first_of(uint32_t serial) {
    return serial * UINT32_C(2654435761) % THREADS; /* Knuth 6.4 */
}

/* Removes a thread's yield. */
static void remove_pending(struct hw__laps *laps, struct runner *runner, uint32_t number) {
    struct pending *gone = &laps->pending[number];
    *(gone->newer != 0 ? &laps->pending[gone->newer].older : &runner->newest) = gone->older;
    *(gone->older != 0 ? &laps->pending[gone->older].newer : &runner->oldest) = gone->newer;
    *gone = (struct pending){.newer = laps->free};
    laps->free = number;
}

/* Removes a thread's yields from the oldest one to `last`. 0: none. */
static void remove_up_to(struct hw__laps *laps, struct runner *runner, uint32_t last) {
    for (bool is_last = last == 0; !is_last;) {
        is_last = runner->oldest == last;
        remove_pending(laps, runner, runner->oldest);
    }
}

/* Removes a thread's yields at stacks that were settled since. */
static void sweep(struct hw__laps *laps, struct runner *runner) {
    for (uint32_t number = runner->newest, older; number != 0; number = older) {
        older = laps->pending[number].older;
        uint8_t kind = laps->kinds[laps->pending[number].stack];
        if (kind != UNSEEN && kind != TOLD) {
            remove_pending(laps, runner, number);
        }
    }
}

/* Returns the place for a yield of a thread; 0: there is none. If all are used, the thread's oldest
 * yield makes room. */
static uint32_t free_pending(struct hw__laps *laps, struct runner *runner) {
    if (laps->free == 0 && laps->used < PENDING) {
        return laps->used++;
    }
    if (laps->free == 0 && !laps->swept) {
        for (uint32_t i = 0; i < THREADS; i++) {
            sweep(laps, &laps->runners[i]);
        }
        laps->swept = true;
    }
    if (laps->free == 0 && runner->oldest != 0) {
        remove_pending(laps, runner, runner->oldest);
    }
    uint32_t number = laps->free;
    laps->free = laps->pending[number].newer; /* that of the first one is 0 */
    return number;
}

/* The thread yields the GIL at a stack that is not settled yet. Yields at one stack after each
 * other become one yield if no lap between them could be too long: a thread that does nothing but
 * yield must not use up all places. */
static void yields(struct hw__laps *laps, struct runner *runner, uint32_t stack, int64_t time_ns) {
    struct pending *last = &laps->pending[runner->newest];
    if (runner->newest != 0 && last->stack == stack && last->left_ns != 0 &&
        time_ns - last->left_ns < MERGED_NS) {
        last->left_ns = 0;
        return;
    }
    uint32_t number = free_pending(laps, runner);
    if (number == 0) {
        return;
    }
    laps->pending[number] =
        (struct pending){.stack = stack, .older = runner->newest, .came_ns = time_ns};
    *(runner->newest != 0 ? &laps->pending[runner->newest].newer : &runner->oldest) = number;
    runner->newest = number;
}

/* Returns the thread's entry. If there is none, a new one takes a free place, or the place of the
 * thread that was not seen for longest. */
static struct runner *runner_of(struct hw__laps *laps, uint32_t serial) {
    uint32_t first = first_of(serial);
    struct runner *oldest = NULL;
    for (uint32_t i = 0; i < PROBES; i++) {
        struct runner *runner = &laps->runners[(first + i) % THREADS];
        if (runner->serial == serial) {
            return runner;
        }
        if (oldest == NULL || runner->serial == 0 || runner->last_ns < oldest->last_ns) {
            oldest = runner;
        }
        if (runner->serial == 0) {
            break;
        }
    }
    remove_up_to(laps, oldest, oldest->newest);
    *oldest = (struct runner){.serial = serial};
    return oldest;
}

static bool has_room(struct hw__laps *laps, uint32_t stack) {
    if (stack < laps->kind_room) {
        return true;
    }
    if (stack >= MOST_STACKS) {
        return false;
    }
    uint32_t room = laps->kind_room == 0 ? 4096 : laps->kind_room;
    while (room <= stack) {
        room *= 2;
    }
    uint8_t *kinds = realloc(laps->kinds, room);
    if (kinds == NULL) {
        return false;
    }
    memset(kinds + laps->kind_room, UNSEEN, room - laps->kind_room);
    laps->kinds = kinds;
    laps->kind_room = room;
    return true;
}

/* Returns the kind of home that a stack is, HW_HOME_NONE, or UNSETTLED. A new stack is noted for
 * the caller of hw__laps_fresh(). */
static int home_of(struct hw__laps *laps, uint32_t stack) {
    if (stack == 0 || !has_room(laps, stack)) {
        return HW_HOME_NONE;
    }
    uint8_t *kind = &laps->kinds[stack];
    if (*kind == UNSEEN && laps->fresh_count < MOST_FRESH) {
        *kind = TOLD;
        laps->fresh[laps->fresh_count++] = stack;
    }
    return *kind == UNSEEN || *kind == TOLD ? UNSETTLED : *kind;
}

/* The thread goes on from where it was, and may leave its home. A pool's thread that was at home
 * when the recording began is seen from its first task on. */
static void leaves(struct hw__laps *laps, struct runner *runner, int64_t time_ns) {
    if (runner->newest != 0 && laps->pending[runner->newest].left_ns == 0) {
        laps->pending[runner->newest].left_ns = time_ns;
    }
    if (runner->home == 0) {
        runner->home = HW_HOME_NONE;
        runner->begun_ns = time_ns;
    } else if (runner->home != HW_HOME_NONE && !runner->away) {
        runner->away = true;
        runner->begun_ns = time_ns;
    }
}

/* The thread has or wants the GIL again. Its time away counts if it is the longest one of its lap.
 */
static void is_back(struct runner *runner, int64_t time_ns) {
    int64_t longest_ns = runner->away_since_ns >= runner->begun_ns
                             ? runner->away_until_ns - runner->away_since_ns
                             : 0;
    if (runner->since_ns >= runner->begun_ns && time_ns - runner->since_ns > longest_ns) {
        runner->away_since_ns = runner->since_ns;
        runner->away_until_ns = time_ns;
        runner->away_stack = runner->stack;
    }
    runner->since_ns = 0;
}

/* Returns a thread's lap, which ended at a time (0: it goes on). */
static struct hw_lap lap_of(const struct runner *runner, int64_t ended_ns, int64_t now_ns) {
    struct hw_lap lap = {.serial = runner->serial,
                         .home = runner->home,
                         .begun_ns = runner->begun_ns,
                         .ended_ns = ended_ns};
    int64_t longest_ns = 0;
    if (runner->away_since_ns >= runner->begun_ns &&
        (ended_ns == 0 || runner->away_until_ns <= ended_ns)) {
        lap.away_since_ns = runner->away_since_ns;
        lap.away_until_ns = runner->away_until_ns;
        lap.away_stack = runner->away_stack;
        longest_ns = lap.away_until_ns - lap.away_since_ns;
    }
    if (ended_ns == 0 && runner->since_ns >= runner->begun_ns &&
        now_ns - runner->since_ns > longest_ns) {
        lap.away_since_ns = runner->since_ns;
        lap.away_until_ns = 0;
        lap.away_stack = runner->stack;
    }
    return lap;
}

/* The thread is outside of any event loop. If it was in one, the loop has ended. */
static void leaves_its_loop(struct runner *runner) {
    if (runner->home == HW_HOME_LOOP) {
        runner->home = HW_HOME_NONE;
        runner->away = false;
    }
}

/* The thread is in a request. If it has been at no home, it is new, and the request is its first:
 * it may never end. */
static void is_in_a_request(struct runner *runner) {
    leaves_its_loop(runner);
    if (runner->home == HW_HOME_NONE && !runner->known) {
        runner->home = HW_HOME_POOL;
        runner->away = true;
    }
}

/* The thread is at a home. If it was in a lap, the lap has ended, and is counted. */
static void comes_home(struct hw__laps *laps, struct runner *runner, int home, int64_t time_ns) {
    int64_t length_ns = time_ns - runner->begun_ns;
    if (runner->home == HW_HOME_NONE && home == HW_HOME_POOL) {
        laps->told.late[home] += length_ns >= laps->least_ns[home];
    }
    if (runner->away) {
        bool is_late = length_ns >= laps->least_ns[runner->home];
        if (is_late) {
            uint64_t number = laps->told.late[runner->home]++;
            laps->told.last[runner->home][number % HW_LAP_LAST] = lap_of(runner, time_ns, time_ns);
        }
        if (runner->home == HW_HOME_LOOP && length_ns >= 0) {
            int bits = length_ns == 0 ? 0 : 64 - __builtin_clzll((uint64_t)length_ns);
            laps->told.lengths[bits < HW_LAP_BUCKETS ? bits : HW_LAP_BUCKETS - 1]++;
            laps->told.lengths_ns += (uint64_t)length_ns;
        }
    }
    runner->home = (uint8_t)home;
    runner->away = false;
    runner->known = true;
}

void hw__laps_see(struct hw__laps *laps, uint32_t serial, const char *events, uint32_t bytes,
                  uint32_t *told) {
    struct runner *runner = runner_of(laps, serial);
    sweep(laps, runner); /* hw__laps_settle() looks at each yield that is left */
    uint32_t at = *told;
    for (; at + sizeof(struct hw__event) <= bytes; at += sizeof(struct hw__event)) {
        struct hw__event event;
        memcpy(&event, events + at, sizeof event);
        if (event.gil != MAIN_GIL || event.time_ns < 0) {
            continue;
        }
        bool begins = event.kind == HW__WAIT || event.kind == HW__ACQUIRE || event.kind == HW__HOLD;
        bool ends = event.kind == HW__HOLD ||
                    (event.kind == HW__RELEASE && (event.flags & HW__FORCED) == 0);
        runner->last_ns = event.time_ns;
        runner->ended = event.kind == HW__EXIT;
        if (begins) {
            leaves(laps, runner, event.time_ns);
            is_back(runner, event.time_ns);
        }
        int home = ends ? home_of(laps, event.value) : HW_HOME_NONE;
        int64_t yields_ns = event.time_ns + (event.kind == HW__HOLD ? event.flags : 0);
        if (home == UNSETTLED) {
            yields(laps, runner, event.value, yields_ns);
        } else if (home == HW_HOME_OUTSIDE) {
            leaves_its_loop(runner);
        } else if (home == HW_HOME_REQUEST) {
            is_in_a_request(runner);
        } else if (home != HW_HOME_NONE) {
            comes_home(laps, runner, home, yields_ns);
            remove_up_to(laps, runner, runner->newest);
        }
        if (event.kind == HW__RELEASE || event.kind == HW__HOLD) {
            runner->since_ns = yields_ns;
            runner->stack = event.value;
        }
        if (event.kind == HW__ACQUIRE && at + 2 * sizeof event > bytes) {
            break;
        }
    }
    *told = at;
}

bool hw__laps_loops(const struct hw__laps *laps, uint32_t serial, bool *at_home) {
    uint32_t first = first_of(serial);
    for (uint32_t i = 0; i < PROBES; i++) {
        const struct runner *runner = &laps->runners[(first + i) % THREADS];
        if (runner->serial == serial) {
            *at_home = !runner->away;
            return runner->home == HW_HOME_LOOP && !runner->ended;
        }
        if (runner->serial == 0) {
            break;
        }
    }
    return false;
}

int hw__laps_fresh(struct hw__laps *laps, uint32_t *stacks, int max) {
    int count = laps->fresh_count < max ? laps->fresh_count : max;
    laps->fresh_count -= count;
    memcpy(stacks, laps->fresh + laps->fresh_count, (size_t)count * sizeof *stacks);
    return count;
}

/* A stack is settled at which a thread may have yielded the GIL, even several times: the oldest
 * time comes first, so that the laps in between count. */
static void settles(struct hw__laps *laps, struct runner *runner, uint32_t stack, int home) {
    for (uint32_t number = runner->oldest, newer; number != 0; number = newer) {
        struct pending found = laps->pending[number];
        newer = found.newer;
        if (found.stack != stack) {
            continue;
        }
        if (home == HW_HOME_OUTSIDE) {
            leaves_its_loop(runner); /* it has been at no home since */
        } else if (home == HW_HOME_REQUEST) {
            is_in_a_request(runner);
        } else {
            comes_home(laps, runner, home, found.came_ns);
            runner->away = found.left_ns != 0;
            runner->begun_ns = found.left_ns;
            remove_up_to(laps, runner, number);
        }
    }
}

void hw__laps_settle(struct hw__laps *laps, uint32_t stack, int home) {
    if (stack >= laps->kind_room || home < HW_HOME_NONE || home > HW_HOME_REQUEST) {
        return;
    }
    laps->kinds[stack] = (uint8_t)home;
    laps->swept = false;
    for (uint32_t i = 0; home != HW_HOME_NONE && i < THREADS; i++) {
        settles(laps, &laps->runners[i], stack, home);
    }
}

void hw__laps_tell(struct hw__laps *laps, int64_t now_ns, struct hw_laps *told) {
    struct hw_laps *found = &laps->told;
    found->loop_count = found->under_way_count = 0;
    memset(found->open, 0, sizeof found->open);
    for (uint32_t i = 0; i < THREADS; i++) {
        const struct runner *runner = &laps->runners[i];
        if (runner->ended) {
            continue;
        }
        if (runner->home == HW_HOME_LOOP && found->loop_count < HW_LAP_LOOPS) {
            found->loops[found->loop_count++] = runner->serial;
        }
        if (runner->away && now_ns - runner->begun_ns >= laps->least_ns[runner->home]) {
            found->open[runner->home]++;
            if (found->under_way_count < HW_LAP_UNDER_WAY) {
                found->under_way[found->under_way_count++] = lap_of(runner, 0, now_ns);
            }
        }
    }
    *told = *found;
}
