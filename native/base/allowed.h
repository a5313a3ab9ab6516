// SPDX-License-Identifier: MIT
/* System calls that a program would not make without us, and that it can do without. A seccomp
 * filter may refuse one, which the caller sees, or end the process for it, which nobody sees
 * coming. So where there is a filter (as in every container), each is tried once in a process that
 * is thrown away, with arguments that do nothing.
 *
 * A filter that comes later, from the program itself, is not seen: nothing tells of it but a system
 * call that it may forbid. Hence hooks of CPython's threads make none of these calls but
 * clock_gettime(), which is one for a thread's CPU time; a forked child, which needs some ten for a
 * memory of its own, has them tried anew. Exceptions: a free-threaded build's hooks read memory
 * through process_vm_readv(); a policy calls sched_yield(), and with the options `os_slice_us` and
 * `os_batch` sched_setattr(); the end of an interpreter with a GIL of its own, membarrier(); a
 * thread that Python has not named, prctl(). */
#ifndef HEADWAY_BASE_ALLOWED_H
#define HEADWAY_BASE_ALLOWED_H

#include <stdbool.h>

enum hw__call {
    HW__CALL_LIMIT, /* getrlimit(), setrlimit(). The first: a trial must not leave a core file */
    HW__CALL_MEMBARRIER,
    HW__CALL_VM_READ,    /* process_vm_readv() */
    HW__CALL_SCHED_ATTR, /* sched_getattr(), sched_setattr(), sched_getscheduler() */
    HW__CALL_AFFINITY,   /* sched_getaffinity() */
    HW__CALL_YIELD,      /* sched_yield() */
    HW__CALL_MEMFD,      /* memfd_create() */
    HW__CALL_MREMAP,
    HW__CALL_TGKILL,
    HW__CALL_NAME,  /* prctl(PR_GET_NAME) */
    HW__CALL_CLOCK, /* clock_gettime(CLOCK_THREAD_CPUTIME_ID) */
    HW__CALL_SEND,  /* what else session.c calls to make a memory and to hand it over */
    HW__CALLS
};

/* Looks what may be called, once in a process and its forked children. Before any hook is in place.
 * errno stays. */
void hw__allowed_look(void);

/* Looks again, in a forked child before its first event: the program may have a filter by now. It
 * takes a further process, whether there is a filter or not; where there can be none (a limit, or
 * the filter itself), HW__CALL_SEND counts as forbidden. errno stays. */
void hw__allowed_look_again(void);

/* No filter forbids it, as of the last look; true before the first. Async-signal-safe. */
bool hw__allowed(enum hw__call call);

/* In a test: has hw__allowed_look() look anew. */
void hw__allowed_forget(void);

/* Tries what is not known to be forbidden. share: in a process that shares our memory, which costs
 * no copy of it.
 *
 * Returns false where there can be no such process, or no memory for it. */
bool hw__allowed_try(bool share);

/* Whether a trial may share our memory. Where a kernel before 5.16 writes a core file of a process,
 * it ends all others that share its memory with it (fs/coredump.c, zap_threads()); which kernel it
 * is, its vDSO tells without a system call.
 *
 * vdso: where its ELF file stands; NULL: not known, and so it may not. */
bool hw__trial_may_share(const void *vdso);

#endif
