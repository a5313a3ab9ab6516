// SPDX-License-Identifier: MIT
#include "base/allowed.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES (64 * 1024)
#define STATUS_BYTES 4096 /* of /proc/self/status, of which the line is in the first half */

static atomic_bool forbidden[HW__CALLS];
static atomic_bool looked;

bool hw__allowed(enum hw__call call) {
    return !atomic_load_explicit(&forbidden[call], memory_order_relaxed);
}

/* What the process tries that is thrown away. It shares this memory, so it changes nothing else. */
struct trial {
    int next;              /* the call that it is at, which it may not survive */
    int errors[HW__CALLS]; /* errno of each */
};

static long attempt(enum hw__call call) {
    switch (call) {
    case HW__CALL_MEMBARRIER:
        return syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    case HW__CALL_VM_READ: {
        char from = 0, to;
        struct iovec local = {&to, 1}, remote = {&from, 1};
        return process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    }
    case HW__CALL_SCHED_ATTR: {
        char attributes[48]; /* SCHED_ATTR_SIZE_VER0; NULL is refused by the kernel itself */
        long read = syscall(SYS_sched_getattr, 0, attributes, sizeof attributes, 0);
        long written = syscall(SYS_sched_setattr, 0, NULL, 0);
        if (read != 0 || (written != 0 && errno != EINVAL)) {
            return -1;
        }
        return sched_getscheduler(0);
    }
    case HW__CALL_AFFINITY: {
        cpu_set_t set;
        return sched_getaffinity(0, sizeof set, &set);
    }
    case HW__CALL_YIELD:
        return sched_yield();
    case HW__CALL_MEMFD: /* flags that there are not */
        return syscall(SYS_memfd_create, "", ~0u) == -1 && errno == EINVAL ? 0 : -1;
    case HW__CALL_MREMAP: /* to no bytes */
        return syscall(SYS_mremap, NULL, 0, 0, 0, NULL) == -1 && errno == EINVAL ? 0 : -1;
    case HW__CALL_TGKILL:
        return syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0);
    default:
        return 0;
    }
}

static int try_all(void *argument) {
    struct trial *trial = argument;
    for (; trial->next < HW__CALLS; trial->next++) {
        errno = 0;
        trial->errors[trial->next] = attempt((enum hw__call)trial->next) < 0 ? errno : 0;
    }
    return 0;
}

/* A file that cannot be read says nothing: then there may be a filter. */
static bool is_filtered(void) {
    char text[STATUS_BYTES] = "";
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return true;
    }
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    const char *line = bytes > 0 ? strstr(text, "\nSeccomp:") : NULL;
    return line == NULL || line[sizeof "\nSeccomp:"] != '0';
}

/* As vfork(), but without SIGCHLD: the program is not to learn of it, nor to wait for it. */
static void try_in_child(struct trial *trial, char *stack) {
    /* Signals of the terminal or to the process group are not for it: it shares our memory. */
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSYS); /* of a filter that traps */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int pid = clone(try_all, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK, trial);
    if (pid < 0) {
        trial->next = HW__CALLS; /* not to be known: each caller sees what it gets */
        memset(trial->errors, 0, sizeof trial->errors);
    } else {
        int status;
        while (waitpid(pid, &status, (int)__WCLONE) < 0 && errno == EINTR) {
        }
        if (trial->next < HW__CALLS) {
            trial->errors[trial->next++] = EPERM; /* it did not survive that one */
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void hw__allowed_look(void) {
    if (atomic_exchange(&looked, true)) {
        return;
    }
    int saved = errno;
    char *stack = MAP_FAILED;
    if (is_filtered()) {
        stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (stack != MAP_FAILED) {
        struct trial trial = {.next = 0};
        while (trial.next < HW__CALLS) {
            try_in_child(&trial, stack);
        }
        for (int i = 0; i < HW__CALLS; i++) {
            atomic_store(&forbidden[i], trial.errors[i] != 0);
        }
        munmap(stack, STACK_BYTES);
    }
    errno = saved;
}

void hw__allowed_forget(void) {
    for (int i = 0; i < HW__CALLS; i++) {
        atomic_store(&forbidden[i], false);
    }
    atomic_store(&looked, false);
}
