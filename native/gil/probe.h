// SPDX-License-Identifier: MIT
#ifndef HEADWAY_GIL_PROBE_H
#define HEADWAY_GIL_PROBE_H

#include "gil/gil.h"

/* The functions of the interpreter that the probe needs, looked up by the caller. */
struct hw__probe_calls {
    int (*ensure)(void);          /* PyGILState_Ensure */
    void (*release)(int);         /* PyGILState_Release */
    void *(*save)(void);          /* PyEval_SaveThread */
    void (*restore)(void *state); /* PyEval_RestoreThread */
};

/* Finds the main interpreter's GIL: a helper thread asks for it while the caller holds it, and the
 * hooks tell what the helper waits for. Then the caller lets go, and the helper takes the GIL and
 * leaves: the address from which it signalled its acquire is learnt.
 *
 * The hooks must be installed and the caller must hold the main interpreter's GIL; it is released
 * for a moment.
 *
 * Returns 0 with *memory, or a negative errno: -EPROTO when what was waited for does not look like
 * a GIL, -ETIMEDOUT when no wait for a GIL was seen (the caller does not hold the main
 * interpreter's GIL, or it looks different), or what starting a thread gives. */
int hw__gil_probe(const struct hw__probe_calls *calls, struct hw__gil_memory **memory);

/* Probes with the interpreter's own functions, and makes the main GIL's record where there is none.
 *
 * Returns 0 or a negative errno: -ENOENT when the interpreter lacks a function, and those of
 * hw__gil_probe(). */
int hw__gil_find_main(void);

/* A function or variable of the interpreter in this process, or NULL. */
void *hw__interpreter_symbol(const char *name);

#endif
