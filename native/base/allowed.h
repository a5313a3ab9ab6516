// SPDX-License-Identifier: MIT
/* System calls that a program would not make without us, and that it can do without. A seccomp
 * filter may refuse one, which the caller sees, or end the process for it, which nobody sees
 * coming. So where there is a filter (as in every container), each is tried once in a process that
 * is thrown away, with arguments that do nothing.
 *
 * A filter that comes later, from the program itself, is not seen. Where a hook runs, only calls
 * are made that CPython and the C library make themselves; hence the others are made when a session
 * or a policy begins or ends, with two exceptions: a free-threaded build's hooks read memory
 * through process_vm_readv(), and the options `os_slice_us` and `os_batch` use sched_setattr(). */
#ifndef HEADWAY_BASE_ALLOWED_H
#define HEADWAY_BASE_ALLOWED_H

#include <stdbool.h>

enum hw__call {
    HW__CALL_MEMBARRIER,
    HW__CALL_VM_READ,    /* process_vm_readv() */
    HW__CALL_SCHED_ATTR, /* sched_getattr(), sched_setattr(), sched_getscheduler() */
    HW__CALL_AFFINITY,   /* sched_getaffinity() */
    HW__CALL_YIELD,      /* sched_yield() */
    HW__CALL_MEMFD,      /* memfd_create() */
    HW__CALL_MREMAP,
    HW__CALL_TGKILL,
    HW__CALLS
};

/* Looks what may be called, once in a process and its forked children. Before any hook is in place.
 * errno stays. */
void hw__allowed_look(void);

/* No filter forbids it, as of hw__allowed_look(); true before it. Async-signal-safe. */
bool hw__allowed(enum hw__call call);

/* In a test: has hw__allowed_look() look anew. */
void hw__allowed_forget(void);

#endif
