// SPDX-License-Identifier: MIT
/* Waits for the GIL, and times each wait from the call that acquires the GIL to its return. This file knows nothing of
 * the recorder.
 *
 * Called through ctypes.PyDLL, so with the GIL held. */
#include "oracle.h"

extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);

#define LONG_NS 1000000 /* a thread that is away for so long sleeps, and another one can have the core */

/* Releases the GIL for `away_ns` and holds it for `hold_ns` in turn, until `until_ns` or until `turns` is full. */
void take_turns(int64_t hold_ns, int64_t away_ns, int64_t until_ns, struct turns *turns) {
    for (int room = 1; room && now_ns() < until_ns;) {
        void *state = PyEval_SaveThread();
        (away_ns < LONG_NS ? busy : rest)(away_ns);
        int64_t begin_ns = now_ns();
        PyEval_RestoreThread(state);
        room = hold(begin_ns, busy, hold_ns, turns);
    }
}
