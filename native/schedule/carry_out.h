// SPDX-License-Identifier: MIT
/* How decisions are carried out: the same by the engine with real threads and by the simulator. */
#ifndef HEADWAY_SCHEDULE_CARRY_OUT_H
#define HEADWAY_SCHEDULE_CARRY_OUT_H

/* The number of times that a thread tries to lock the GIL's mutex before it sleeps. */
#define HW__LOCK_TRIES 50

/* The longest wait for a hand-off. */
#define HW__HAND_OVER_NS 5000000

/* Yields in vain that are longer than HW__LONG_YIELD_NS may cost one part in HW__LONG_YIELD_SHARE
 * of the time. */
#define HW__LONG_YIELD_NS 300000
#define HW__LONG_YIELD_SHARE 8

/* A called thread that wakes later than this has waited for its core, for as long as Linux would
 * let it run on (a tick at 250 Hz). It does not yield the core then: among many busy threads it
 * would wait as long again. */
#define HW__GIVES_WAY_NS 4000000

#endif
