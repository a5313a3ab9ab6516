// SPDX-License-Identifier: MIT
/* Biased counts: an object dies exactly once, with its last reference, in whatever order its owner
 * and others drop references. */
#include "limits/biased.h"
#include "limits/team.h"
#include "t.h"

static int drained_deaths;

static void count_drained(struct hw__biased *object) {
    (void)object;
    drained_deaths++;
}

static void drain(struct hw__biased_owner *owner) { hw__biased_drain(owner, count_drained); }

static void test_owner_alone(void) {
    struct hw__biased_owner owner = {NULL};
    struct hw__biased object;
    hw__biased_init(&object, &owner);
    hw__biased_incref(&object, &owner);
    T_EQ(2, hw__biased_count(&object));
    T_TRUE(!hw__biased_decref(&object, &owner));
    T_TRUE(hw__biased_decref(&object, &owner));
}

static void test_owner_first_then_other(void) {
    struct hw__biased_owner owner = {NULL};
    struct hw__biased_owner other = {NULL};
    struct hw__biased object;
    hw__biased_init(&object, &owner);
    hw__biased_incref(&object, &other);
    hw__biased_incref(&object, &other);
    T_TRUE(!hw__biased_decref(&object, &owner)); /* merges */
    T_TRUE(!hw__biased_owned(&object, &owner));
    T_EQ(2, hw__biased_count(&object));
    hw__biased_incref(&object, &owner); /* the former owner now counts as the others do */
    T_EQ(3, hw__biased_count(&object));
    T_TRUE(!hw__biased_decref(&object, &owner));
    T_TRUE(!hw__biased_decref(&object, &other));
    T_TRUE(hw__biased_decref(&object, &other));
}

static void test_other_first_then_owner(void) {
    struct hw__biased_owner owner = {NULL};
    struct hw__biased_owner other = {NULL};
    struct hw__biased object;
    hw__biased_init(&object, &owner);
    hw__biased_incref(&object, &other);
    T_TRUE(!hw__biased_decref(&object, &other));
    T_TRUE(hw__biased_decref(&object, &owner));
}

static void test_a_reference_given_away_dies_in_the_inbox(void) {
    struct hw__biased_owner owner = {NULL};
    struct hw__biased_owner other = {NULL};
    struct hw__biased object;
    hw__biased_init(&object, &owner);
    T_TRUE(!hw__biased_decref(&object, &other)); /* the owner's one reference, dropped by another */
    T_EQ(1, hw__biased_count(&object));          /* the inbox holds it */
    drained_deaths = 0;
    drain(&owner);
    T_EQ(1, drained_deaths);
    drain(&owner);
    T_EQ(1, drained_deaths);
}

static void test_a_queued_object_can_live_on(void) {
    struct hw__biased_owner owner = {NULL};
    struct hw__biased_owner other = {NULL};
    struct hw__biased object;
    hw__biased_init(&object, &owner);
    hw__biased_incref(&object, &owner);
    T_TRUE(!hw__biased_decref(&object, &other)); /* queued */
    hw__biased_incref(&object, &other);
    drained_deaths = 0;
    drain(&owner);
    T_EQ(0, drained_deaths);
    T_EQ(2, hw__biased_count(&object));
    T_TRUE(!hw__biased_decref(&object, &owner));
    T_TRUE(hw__biased_decref(&object, &other));
}

static void test_shared_count_below_zero_while_queued(void) {
    struct hw__biased_owner owner = {NULL};
    struct hw__biased_owner other = {NULL};
    struct hw__biased object;
    hw__biased_init(&object, &owner);
    for (int i = 0; i < 3; i++) {
        hw__biased_incref(&object, &owner);
    }
    for (int i = 0; i < 3; i++) {
        T_TRUE(!hw__biased_decref(&object, &other)); /* queues one, then goes to -2 */
    }
    T_EQ(2, hw__biased_count(&object)); /* the owner's own and the queued one */
    drained_deaths = 0;
    drain(&owner);
    T_EQ(0, drained_deaths);
    T_EQ(1, hw__biased_count(&object));
    T_TRUE(hw__biased_decref(&object, &owner));
}

static void test_owner_merges_while_another_is_about_to_queue(void) {
    struct hw__biased_owner owner = {NULL};
    struct hw__biased_owner other = {NULL};
    struct hw__biased object;
    hw__biased_init(&object, &owner);
    /* The other thread drops the first reference, whose count is in `local`. So far it has done
     * this: */
    atomic_store(&object.shared, HW__BIASED_QUEUED);
    /* Then the owner drops a second reference, which the other thread had taken: */
    hw__biased_incref(&object, &other);
    T_TRUE(!hw__biased_decref(&object, &owner)); /* merges */
    T_EQ(1, hw__biased_count(&object));
    /* there is no owner to hand it to, so it is dropped here, as the last */
    T_TRUE(hw__biased_queue(&object));
    drained_deaths = 0;
    drain(&owner);
    T_EQ(0, drained_deaths);
}

/* Many threads take, drop and pass on references to all objects at random; each thread owns some of
 * the objects. References change threads through pouches: a thread that puts a reference in gives
 * it up, and a thread that takes it out has it. */

#define THREADS 6
#define OBJECTS 24
#define STEPS 400
#define GAMES 40 /* many short ones: an object is queued once in a game at most */

static struct hw__biased_owner owners[THREADS];
static struct hw__biased objects[OBJECTS]; /* object i belongs to owners[i % THREADS] */
/* References in transit. Putting one in is a release operation, and taking one out an acquire
 * operation: this orders as any other way to pass a pointer would. No thread waits. */
static atomic_int pouches[OBJECTS];
/* How often each object was found dead. Relaxed: read after the threads are joined. No thread
 * waits. */
static atomic_int deaths[OBJECTS];

/* Uses of each object, by thread. A thread that has a reference writes them; the thread that finds
 * the object dead reads them. Not atomic, so that TSan checks the promise that all uses come before
 * the death. */
static int uses[OBJECTS][THREADS];

static void note_death(struct hw__biased *object) {
    for (int i = 0; i < THREADS; i++) {
        uses[object - objects][i] = 0;
    }
    atomic_fetch_add_explicit(&deaths[object - objects], 1, memory_order_relaxed);
}

static void drop(int i, struct hw__biased_owner *self) {
    if (hw__biased_decref(&objects[i], self)) {
        note_death(&objects[i]);
    }
}

static bool take_from_pouch(int i) {
    int held = atomic_load_explicit(&pouches[i], memory_order_relaxed);
    while (held > 0) {
        if (atomic_compare_exchange_weak_explicit(&pouches[i], &held, held - 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

static void play(void *context, int index) {
    struct hw__biased_owner *self = &owners[index];
    int held[OBJECTS] = {0};
    uint64_t random = *(const uint64_t *)context * THREADS + (uint64_t)index;
    for (int i = index; i < OBJECTS; i += THREADS) {
        held[i] = 1; /* the reference that the object was born with */
    }
    for (int step = 0; step < STEPS; step++) {
        uint64_t dice = t_random(&random);
        int i = (int)(dice % OBJECTS);
        switch (dice >> 32 & 7) {
        case 0:
        case 1:
            if (held[i] > 0) {
                hw__biased_incref(&objects[i], self);
                held[i]++;
            }
            break;
        case 2:
        case 3:
            if (held[i] > 0) {
                uses[i][index]++;
                held[i]--;
                drop(i, self);
            }
            break;
        case 4:
        case 5:
            if (held[i] > 0) {
                held[i]--;
                atomic_fetch_add_explicit(&pouches[i], 1, memory_order_release);
            }
            break;
        case 6:
            held[i] += take_from_pouch(i) ? 1 : 0;
            break;
        default:
            hw__biased_drain(self, note_death);
        }
    }
    for (int i = 0; i < OBJECTS; i++) {
        for (; held[i] > 0; held[i]--) {
            uses[i][index]++;
            drop(i, self);
        }
    }
}

static void play_one_game(uint64_t number) {
    const struct hw__job job = {.run = play, .context = &number};
    struct hw__span spans[THREADS];
    for (int i = 0; i < OBJECTS; i++) {
        atomic_store(&deaths[i], 0);
        hw__biased_init(&objects[i], &owners[i % THREADS]);
    }
    T_EQ(0, hw__team_run(&job, THREADS, NULL, spans));
    struct hw__biased_owner stranger = {NULL};
    for (int i = 0; i < OBJECTS; i++) {
        while (take_from_pouch(i)) {
            T_EQ(0, atomic_load(&deaths[i]));
            drop(i, &stranger);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        hw__biased_drain(&owners[i], note_death);
    }
    for (int i = 0; i < OBJECTS; i++) {
        T_EQ(1, atomic_load(&deaths[i]));
    }
}

static void test_every_object_dies_once_whoever_drops_it(void) {
    for (uint64_t number = 1; number <= GAMES; number++) {
        play_one_game(number);
    }
}

int main(void) {
    t_start();
    T_RUN(test_owner_alone);
    T_RUN(test_owner_first_then_other);
    T_RUN(test_other_first_then_owner);
    T_RUN(test_a_reference_given_away_dies_in_the_inbox);
    T_RUN(test_a_queued_object_can_live_on);
    T_RUN(test_shared_count_below_zero_while_queued);
    T_RUN(test_owner_merges_while_another_is_about_to_queue);
    T_RUN(test_every_object_dies_once_whoever_drops_it);
    return 0;
}
