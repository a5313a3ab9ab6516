// SPDX-License-Identifier: MIT
/* An interpreter in which no calls of the C library can be found, because it makes none. */
extern char _PyRuntime[64];
char _PyRuntime[64];
