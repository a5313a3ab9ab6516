// SPDX-License-Identifier: MIT
/* How a real thread waits in the queue: it spins, sleeps, or yields, as was decided. */
#ifndef HEADWAY_ENGINE_DOZE_H
#define HEADWAY_ENGINE_DOZE_H

#include "engine/sched.h"
#include "schedule/decide.h"

/* All with the GIL's mutex held, of the calling thread. */

/* What the thread sees. */
struct hw__moment hw__doze_moment(struct hw__sched *sched);

/* For how long the thread spins, of what was decided: 0 where no core is to be had for it. */
int64_t hw__doze_may_spin(struct hw__runner *runner, int64_t spin_ns);

/* Makes the record ready for the queue that it was just put into. */
void hw__doze_prepare(struct hw__runner *runner);

/* Spins, or sleeps, in the queue, with the mutex let go meanwhile. */
void hw__doze(struct hw__sched *sched, struct hw__runner *runner, int64_t spin_ns,
              int64_t longest_ns);

/* Waits for a hand-over, with the mutex of the hand-over held and not the GIL's: as CPython does,
 * but not for ever, for up to 3.10 nobody may come (gh-96387). */
void hw__doze_plainly(pthread_cond_t *cond, pthread_mutex_t *mutex);

#endif
