// SPDX-License-Identifier: MIT
/* DESIGN. The barrier has two stages. The first one is the gate (a mutex and conditions). It keeps
 * members asleep until all have arrived, so that early members take no CPU time from those that
 * still prepare. Unlike a pthread_barrier_t, the gate can be abandoned. However, members leave a
 * gate tens of microseconds apart, as the kernel wakes them. In the second stage, each member
 * therefore counts itself as awake and yields until all are awake. Only then does the clock
 * start. */
#include "limits/team.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/lock.h"
#include "headway/clock.h"
#include "limits/place.h"

enum gate { GATE_SHUT, GATE_OPEN, GATE_ABANDONED };

struct team {
    const struct hw__job *job;
    int size; /* the number of members */

    /* Protects `arrived`, `error` and `gate`. A leaf: no other lock is taken while it is held.
     * Members and the thread in hw__team_run() wait for it, for a few instructions at most. */
    pthread_mutex_t mutex;
    pthread_cond_t all_arrived; /* with mutex: `arrived` has grown; the caller waits for it */
    pthread_cond_t decided;     /* with mutex: `gate` is no longer GATE_SHUT; members wait for it */
    int arrived;                /* members at the gate */
    int error;                  /* the first failure of a member, or 0 */
    enum gate gate;

    /* Members that are awake behind the gate. Members yield until it reaches `size`. Relaxed: it
     * orders no data. The gate's mutex orders what `prepare` wrote. */
    atomic_int awake;
};

struct member {
    struct team *team;
    struct hw__span *span;
    pthread_t thread;
    int index;
    int cpu;
};

/* Reports that this member is prepared or has failed, and sleeps until the caller has decided.
 *
 * Returns GATE_OPEN or GATE_ABANDONED. */
static enum gate pass_gate(struct team *team, int error) {
    hw__mutex_lock(&team->mutex);
    if (team->error == 0) {
        team->error = error;
    }
    team->arrived++;
    pthread_cond_signal(&team->all_arrived);
    while (team->gate == GATE_SHUT) {
        pthread_cond_wait(&team->decided, &team->mutex);
    }
    enum gate gate = team->gate;
    hw__mutex_unlock(&team->mutex);
    return gate;
}

/* The code of a member; the argument is its struct member. Returns NULL. */
static void *member_main(void *argument) {
    struct member *member = argument;
    struct team *team = member->team;
    const struct hw__job *job = team->job;

    hw__block_signals();
    int error = hw__pin_self(member->cpu);
    if (error == 0 && job->prepare != NULL) {
        error = job->prepare(job->context, member->index);
    }
    if (pass_gate(team, error) == GATE_ABANDONED) {
        return NULL;
    }
    atomic_fetch_add_explicit(&team->awake, 1, memory_order_relaxed);
    while (atomic_load_explicit(&team->awake, memory_order_relaxed) < team->size) {
        sched_yield();
    }
    member->span->start_ns = hw_now_ns();
    job->run(job->context, member->index);
    member->span->end_ns = hw_now_ns();
    return NULL;
}

/* Waits until the `made` members that exist have arrived. Then opens the gate, or abandons it if a
 * member failed or `error` is not 0.
 *
 * Returns 0 or the first error. */
static int decide(struct team *team, int made, int error) {
    hw__mutex_lock(&team->mutex);
    while (team->arrived < made) {
        pthread_cond_wait(&team->all_arrived, &team->mutex);
    }
    if (error == 0) {
        error = team->error;
    }
    team->gate = error == 0 ? GATE_OPEN : GATE_ABANDONED;
    pthread_cond_broadcast(&team->decided);
    hw__mutex_unlock(&team->mutex);
    return error;
}

int hw__team_run(const struct hw__job *job, int size, const int *cpus, struct hw__span *spans) {
    struct team team = {.job = job, .size = size, .gate = GATE_SHUT};
    struct member *members = calloc((size_t)size, sizeof *members);
    if (members == NULL) {
        return -ENOMEM;
    }
    int error = hw__mutex_init(&team.mutex);
    if (error != 0) {
        free(members);
        return error;
    }
    /* Without attributes, pthread_cond_init() can't fail in glibc or musl. */
    pthread_cond_init(&team.all_arrived, NULL);
    pthread_cond_init(&team.decided, NULL);

    int made = 0;
    for (; made < size; made++) {
        struct member *member = &members[made];
        *member = (struct member){.team = &team,
                                  .span = &spans[made],
                                  .index = made,
                                  .cpu = cpus == NULL ? HW__UNPINNED : cpus[made]};
        error = -pthread_create(&member->thread, NULL, member_main, member);
        if (error != 0) {
            break;
        }
    }
    error = decide(&team, made, error);
    for (int i = 0; i < made; i++) {
        pthread_join(members[i].thread, NULL);
    }

    pthread_cond_destroy(&team.decided);
    pthread_cond_destroy(&team.all_arrived);
    pthread_mutex_destroy(&team.mutex);
    free(members);
    return error;
}
