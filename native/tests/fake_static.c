// SPDX-License-Identifier: MIT
/* An interpreter whose calls of the C library cannot be found: it makes none. */
extern char _PyRuntime[64];
char _PyRuntime[64];
