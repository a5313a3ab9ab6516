// SPDX-License-Identifier: MIT
#include "base/allowed.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/lib-names.h>
#include <link.h>
#include <linux/membarrier.h>
#include <linux/version.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cpu.h"

#define ROOM_BYTES (64 * 1024) /* for struct trial, and the stack of the trial process */
#define STATUS_BYTES 4096      /* of /proc/self/status; the line `Seccomp:` is in the first half */

/* The calls that a filter forbids, as of the last trial. Written before hooks are in place, or in a
 * forked child before its first event; any thread reads them. Relaxed: each stands for itself. */
static atomic_bool forbidden[HW__CALLS];

/* hw__allowed_look() has been called. The exchange decides which thread looks. */
static atomic_bool looked;

bool hw__allowed(enum hw__call call) {
    return !atomic_load_explicit(&forbidden[call], memory_order_relaxed);
}

/* The state of a trial, in memory that the trial process shares. The trial process writes to no
 * other memory of this process. */
struct trial {
    int next;              /* the call that is tried, which the trial process may not survive */
    int errors[HW__CALLS]; /* errno of each call; initially not 0 for calls that need no trial */
};

/* The kernel has carried out the call: the call succeeded, or failed because its descriptor does
 * not exist. */
static bool was_made(long result) { return result >= 0 || errno == EBADF; }

/* Makes each call of HW__CALL_SEND, most of them with a descriptor that does not exist. Returns
 * whether the kernel has carried out all of them. */
static bool can_send(void) {
    struct sockaddr nowhere = {.sa_family = AF_UNIX};
    struct msghdr nothing = {0};
    char byte;
    socklen_t bytes = sizeof byte;
    (void)getpid();
    (void)getppid();
    (void)geteuid();
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return (fd >= 0 || errno == EMFILE || errno == ENFILE) &&
           was_made(connect(-1, &nowhere, sizeof nowhere)) &&
           was_made(getsockopt(-1, SOL_SOCKET, SO_PEERCRED, &byte, &bytes)) &&
           was_made(sendmsg(-1, &nothing, MSG_NOSIGNAL)) && was_made(ftruncate(-1, 0)) &&
           was_made(fcntl(-1, F_ADD_SEALS, 0)) && was_made(close(fd));
}

/* Makes each call of HW__CALL_SAY. The kernel refuses these new threads because of their flags: the
 * calls are made and have no effect. Returns whether they are as without a filter. */
static bool can_say(void) {
    const struct timespec at_once = {0, 0};
    sigset_t none, pending;
    sigemptyset(&none);
#ifdef SYS_clone3 /* the C library tries it first, from 2.34 on */
    if (syscall(SYS_clone3, NULL, 0) != -1 || (errno != EINVAL && errno != ENOSYS)) {
        return false;
    }
#endif
    return syscall(SYS_clone, CLONE_THREAD, NULL, NULL, NULL, NULL) == -1 && errno == EINVAL &&
           poll(NULL, 0, 0) == 0 && sigpending(&pending) == 0 &&
           sigtimedwait(&none, NULL, &at_once) == -1 && errno == EAGAIN;
}

static long attempt(enum hw__call call) {
    switch (call) {
    case HW__CALL_LIMIT: {
        /* With a limit of 1 there is no core file, and no program that core files are piped to is
         * started (core(5)). A refusal does no harm here. */
        struct rlimit least = {1, 1};
        (void)setrlimit(RLIMIT_CORE, &least);
        return 0;
    }
    case HW__CALL_MEMBARRIER:
        return syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    case HW__CALL_SCHED_ATTR: {
        char attributes[48]; /* SCHED_ATTR_SIZE_VER0; the kernel itself refuses NULL */
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
    case HW__CALL_MEMFD: /* with flags that do not exist */
        return syscall(SYS_memfd_create, "", ~0u) == -1 && errno == EINVAL ? 0 : -1;
    case HW__CALL_MREMAP: /* with a new size of 0 */
        return syscall(SYS_mremap, NULL, 0, 0, 0, NULL) == -1 && errno == EINVAL ? 0 : -1;
    case HW__CALL_TGKILL:
        return syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0);
    case HW__CALL_NAME: {
        char name[16];
        return prctl(PR_GET_NAME, name);
    }
    case HW__CALL_CLOCK: {
        struct timespec now;
        return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    }
    case HW__CALL_CLOCK_OF: { /* a filter may tell clocks apart */
        struct timespec now;
        return clock_gettime(hw__cpu_clock((int32_t)syscall(SYS_gettid)), &now);
    }
    case HW__CALL_SAY:
        return can_say() ? 0 : -1;
    case HW__CALL_SEND:
        return can_send() ? 0 : -1;
    default:
        return 0;
    }
}

static int try_all(void *argument) {
    struct trial *trial = argument;
    if (trial->next > HW__CALL_LIMIT && trial->errors[HW__CALL_LIMIT] == 0) {
        /* The limit ended with the trial process that set it. */
        (void)attempt(HW__CALL_LIMIT);
    }
    for (; trial->next < HW__CALLS; trial->next++) {
        if (trial->errors[trial->next] == 0) {
            errno = 0;
            trial->errors[trial->next] = attempt((enum hw__call)trial->next) < 0 ? errno : 0;
        }
    }
    return 0;
}

/* Returns whether there may be a seccomp filter: also if the file cannot be read. */
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

bool hw__trial_may_share(const void *vdso) {
    const ElfW(Ehdr) *file = vdso;
    if (file == NULL || memcmp(file->e_ident, ELFMAG, SELFMAG) != 0) {
        return false;
    }
    const ElfW(Phdr) *parts = (const void *)((const char *)vdso + file->e_phoff);
    for (int i = 0; i < file->e_phnum; i++) {
        if (parts[i].p_type != PT_NOTE) {
            continue;
        }
        const char *at = (const char *)vdso + parts[i].p_offset, *end = at + parts[i].p_filesz;
        while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *note = (const void *)at;
            const char *name = at + sizeof *note, *text = name + (note->n_namesz + 3) / 4 * 4;
            uint32_t version;
            if (note->n_type == 0 && note->n_namesz == sizeof "Linux" &&
                note->n_descsz == sizeof version && memcmp(name, "Linux", sizeof "Linux") == 0) {
                memcpy(&version, text, sizeof version);
                return version >= KERNEL_VERSION(5, 16, 0);
            }
            at = text + (note->n_descsz + 3) / 4 * 4;
        }
    }
    return false;
}

typedef int (*clone_function)(int (*)(void *), void *, int, void *, ...);

/* The C library's clone(); NULL: not looked up yet. The thread sanitizer of GCC 13 and later has a
 * clone() of its own, which takes each call for a fork() and aborts. Our own sanitized build has
 * that function, and so does a Python that is built with the sanitizer. hw__allowed_look() looks
 * the C library's function up, because a forked child must not call the loader. */
static _Atomic(clone_function) real_clone;

static void find_clone(void) {
    void *library = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL) {
        atomic_store(&real_clone, (clone_function)(uintptr_t)dlsym(library, "clone"));
        dlclose(library);
    }
    if (atomic_load(&real_clone) == NULL) {
        atomic_store(&real_clone, clone);
    }
}

/* Continues the trial in a new process. As vfork(), but without SIGCHLD: the program must neither
 * learn of the process nor wait for it. Returns whether the process could be made. */
static bool try_in_child(struct trial *trial, char *stack_end, int flags) {
    /* The trial process must not get signals from the terminal or to the process group, nor run the
     * program's own handler for calls that a filter traps: a forced signal that is blocked kills
     * the process. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (atomic_load(&real_clone) == NULL) {
        find_clone();
    }
    int pid = atomic_load(&real_clone)(try_all, stack_end, CLONE_VFORK | flags, trial);
    if (pid >= 0) {
        int status;
        while (waitpid(pid, &status, (int)__WCLONE) < 0 && errno == EINTR) {
        }
        if (trial->next < HW__CALLS) {
            trial->errors[trial->next++] = EPERM; /* the call has killed the trial process */
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid >= 0;
}

bool hw__allowed_try(bool share) {
    void *room = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
        return false;
    }
    bool made = true;
    struct trial *trial = room;
    for (int i = 0; i < HW__CALLS; i++) {
        trial->errors[i] = atomic_load(&forbidden[i]) ? EPERM : 0;
    }
    while (made && trial->next < HW__CALLS) {
        made = try_in_child(trial, (char *)room + ROOM_BYTES, share ? CLONE_VM : 0);
    }
    for (int i = 0; i < HW__CALLS; i++) {
        atomic_store(&forbidden[i], trial->errors[i] != 0);
    }
    munmap(room, ROOM_BYTES);
    return made;
}

static bool try_calls(void) {
    int saved = errno;
    bool made =
        hw__allowed_try(hw__trial_may_share((const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR)));
    errno = saved;
    return made;
}

void hw__allowed_look(void) {
    if (atomic_exchange(&looked, true)) {
        return;
    }
    int saved = errno;
    find_clone();
    bool filtered = is_filtered();
    errno = saved;
    if (filtered) {
        (void)try_calls(); /* if no trial is possible, each caller sees the result of its call */
    }
}

void hw__allowed_look_again(void) {
    if (!try_calls()) {
        atomic_store(&forbidden[HW__CALL_SEND], true);
    }
}

void hw__allowed_forget(void) {
    for (int i = 0; i < HW__CALLS; i++) {
        atomic_store(&forbidden[i], false);
    }
    atomic_store(&looked, false);
}
