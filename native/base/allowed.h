// SPDX-License-Identifier: MIT
/* Finds out which system calls Headway may make in this process. The calls are those that the
 * program would not make without Headway, and that Headway can do without. A seccomp filter may
 * refuse such a call, which the caller sees as an error, or kill the process for it, which the
 * caller cannot foresee. So if there is a filter (as in every container), a trial process makes
 * each call once, with arguments that have no effect, and is thrown away.
 *
 * A filter that the program itself installs later goes unnoticed: finding it takes a system call,
 * which the filter may forbid. Hence a hook in a thread of CPython makes none of these calls except
 * clock_gettime(), which is a system call for a thread's CPU time. A forked child needs some ten of
 * them to make a memory of its own, and has them tried again first. Further exceptions:
 *
 * - A policy calls sched_yield() and, with the options `os_slice_us` and `os_batch`,
 *   sched_setattr().
 * - The end of an interpreter that has its own GIL calls membarrier().
 * - A thread that Python has not named calls prctl().
 * - A thread that needs more of the session's memory than is mapped calls mremap().
 * - If the ends of threads are not reported, a thread that needs a record calls tgkill() to find
 *   those that have ended.
 * - A line on stderr about what is not recorded or scheduled takes the calls of HW__CALL_SAY. */
#ifndef HEADWAY_BASE_ALLOWED_H
#define HEADWAY_BASE_ALLOWED_H

#include <stdbool.h>

enum hw__call {
    /* getrlimit(), setrlimit(). Comes first: a trial must not leave a core file. */
    HW__CALL_LIMIT,
    HW__CALL_MEMBARRIER,
    HW__CALL_SCHED_ATTR, /* sched_getattr(), sched_setattr(), sched_getscheduler() */
    HW__CALL_AFFINITY,   /* sched_getaffinity() */
    HW__CALL_YIELD,      /* sched_yield() */
    HW__CALL_MEMFD,      /* memfd_create() */
    HW__CALL_MREMAP,
    HW__CALL_TGKILL,
    HW__CALL_NAME,     /* prctl(PR_GET_NAME) */
    HW__CALL_CLOCK,    /* clock_gettime(CLOCK_THREAD_CPUTIME_ID) */
    HW__CALL_CLOCK_OF, /* clock_gettime() of another thread's CPU time (cpu.h) */
    HW__CALL_SAY,      /* a line on stderr (say.h): clone() of a thread, poll(), and sigpending() */
    HW__CALL_SEND,     /* the other calls with which session.c makes a memory and hands it over */
    HW__CALLS
};

/* Finds out which calls are allowed, once for a process and its forked children. Must be called
 * before any hook is in place. errno is preserved. */
void hw__allowed_look(void);

/* Finds out again, in a forked child before its first event: the program may have installed a
 * filter since. The function makes one more process, whether there is a filter or not. If it cannot
 * make one (because of a limit, or of the filter itself), HW__CALL_SEND counts as forbidden. errno
 * is preserved. */
void hw__allowed_look_again(void);

/* Returns whether no filter forbids the call, as of the last look; true before the first look.
 * Async-signal-safe. */
bool hw__allowed(enum hw__call call);

/* For tests: makes the next hw__allowed_look() look again. */
void hw__allowed_forget(void);

/* Tries each call that is not known to be forbidden. share: the trial process shares the memory of
 * this process, which saves a copy of it.
 *
 * Returns false if the trial process cannot be made, or if there is no memory for it. */
bool hw__allowed_try(bool share);

/* Returns whether a trial process may share the memory of this process. When a kernel before 5.16
 * writes a core file of a process, it kills all others that share its memory (fs/coredump.c,
 * zap_threads()). The vDSO tells the kernel's version without a system call.
 *
 * vdso: the address of the vDSO's ELF image. NULL: the address is not known, and the function
 * returns false. */
bool hw__trial_may_share(const void *vdso);

#endif
