// SPDX-License-Identifier: MIT
/* A real thread waits in the queue: it spins, sleeps or yields, as the decisions say.
 *
 * The caller must hold the GIL's mutex, except for hw__doze_plainly(), and passes the record of the
 * calling thread. */
#ifndef HEADWAY_ENGINE_DOZE_H
#define HEADWAY_ENGINE_DOZE_H

#include "engine/sched.h"
#include "schedule/decide.h"

/* Returns the time, the core and the state of the GIL, as the calling thread sees them. */
struct hw__moment hw__doze_moment(struct hw__sched *sched);

/* Returns how long the thread spins: `spin_ns`, as decided, or 0 if no core is free for it. */
int64_t hw__doze_may_spin(struct hw__runner *runner, int64_t spin_ns);

/* Resets the futex word of a record that was just put into the queue. */
void hw__doze_prepare(struct hw__runner *runner);

/* Spins or sleeps in the queue until the thread is woken or its time is over. Releases the mutex
 * meanwhile, and holds it again at return. */
void hw__doze(struct hw__sched *sched, struct hw__runner *runner, int64_t spin_ns,
              int64_t longest_ns);

/* Waits for a hand-off as CPython does, but for 5 ms at most: up to 3.10 the signal may never come
 * (gh-96387). The caller must hold the mutex of the hand-off, and not the GIL's. */
void hw__doze_plainly(pthread_cond_t *cond, pthread_mutex_t *mutex);

#endif
