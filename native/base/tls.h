// SPDX-License-Identifier: MIT
#ifndef HEADWAY_BASE_TLS_H
#define HEADWAY_BASE_TLS_H

/* Declares a variable that each thread has for itself. initial-exec: no allocation at the first use
 * in a thread, and no call, since hooks and handlers of signals use such variables. */
#define HW__TLS __thread __attribute__((tls_model("initial-exec")))

/* glibc keeps the values of this many keys (pthread_key_create()) in the thread itself; setting the
 * value of a later key allocates memory. */
#define HW__KEYS_WITHOUT_ALLOCATION 32

#endif
