// SPDX-License-Identifier: MIT
#ifndef HEADWAY_BASE_TLS_H
#define HEADWAY_BASE_TLS_H

/* Declares a variable that each thread has for itself. initial-exec: no allocation at the first use
 * in a thread, and no call, since hooks and handlers of signals use such variables. */
#define HW__TLS __thread __attribute__((tls_model("initial-exec")))

#endif
