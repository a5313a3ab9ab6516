// SPDX-License-Identifier: MIT
#ifndef HEADWAY_GIL_PROBE_H
#define HEADWAY_GIL_PROBE_H

#include <stdbool.h>

#include "gil/gil.h"

/* The functions of the interpreter that the probe calls. */
struct hw__probe_calls {
    int (*ensure)(void);          /* PyGILState_Ensure */
    void (*release)(int);         /* PyGILState_Release */
    void *(*save)(void);          /* PyEval_SaveThread */
    void (*restore)(void *state); /* PyEval_RestoreThread */
};

/* Finds the main interpreter's GIL. A helper thread wants the GIL while the caller holds it, and
 * the hooks tell which condition variable the helper waits for. Then the caller releases the GIL,
 * and the helper acquires and releases it twice, the second time with no other hold in between. The
 * return addresses of the calls that signalled these acquires, and the caller's next one, are
 * learnt (hw__gil_learn_site()).
 *
 * The hooks must be installed, and the caller must hold the main interpreter's GIL, which is
 * released for a moment.
 *
 * Returns 0 with *memory, or a negative errno: -EPROTO when the helper waited for what does not
 * look like a GIL; -ETIMEDOUT when no wait for a GIL was seen (the caller does not hold the main
 * interpreter's GIL, or the GIL's memory looks different); or the error of starting a thread. */
int hw__gil_probe(const struct hw__probe_calls *calls, struct hw__gil_memory **memory);

/* Probes with the interpreter's own functions, and makes the main GIL's record where there is none.
 * The caller must guarantee what hw__gil_probe() requires.
 *
 * Returns 0 or a negative errno: -ENOENT when the interpreter lacks a function, or an errno of
 * hw__gil_probe(). */
int hw__gil_find_main(void);

/* Tells whether the calling thread holds this GIL: it may be in an interpreter with a GIL of its
 * own. The caller must be attached to an interpreter, and must have this GIL's mutex. */
bool hw__gil_is_mine(const struct hw__gil_memory *memory);

/* Returns the address of a function or variable of the interpreter in this process, or NULL. */
void *hw__interpreter_symbol(const char *name);

#endif
