// SPDX-License-Identifier: MIT
/* A process that is thrown away finds out what a seccomp filter forbids. */
#include "base/allowed.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/version.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t.h"

static void say_and_exit(int signal) {
    (void)signal;
    _exit(9); /* The program's own handler: neither a trial nor this process may come here. */
}

/* Installs a filter that answers memfd_create() and membarrier() with `action`. */
static void forbid_two(uint32_t action) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    T_EQ(0, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    T_EQ(0, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

/* Runs in a process of its own, because a filter cannot be removed. */
static void look_under(uint32_t action, bool share) {
    int pid = fork();
    T_TRUE(pid >= 0);
    if (pid == 0) {
        T_TRUE(hw__allowed(HW__CALL_MEMFD));
        signal(SIGSYS, say_and_exit);
        forbid_two(action);
        for (int times = 0; times < 2; times++) {
            hw__allowed_try(share);
            T_TRUE(!hw__allowed(HW__CALL_MEMFD));
            T_TRUE(!hw__allowed(HW__CALL_MEMBARRIER));
            T_TRUE(hw__allowed(HW__CALL_LIMIT));
            T_TRUE(hw__allowed(HW__CALL_SEND));
            T_TRUE(hw__allowed(HW__CALL_SAY));
            T_TRUE(hw__allowed(HW__CALL_NAME));
            T_TRUE(hw__allowed(HW__CALL_CLOCK));
            T_TRUE(hw__allowed(HW__CALL_CLOCK_OF));
            T_TRUE(hw__allowed(HW__CALL_TGKILL)); /* the last calls but these, after two deaths */
        }
        _exit(7);
    }
    int status;
    T_EQ(pid, waitpid(pid, &status, 0));
    T_TRUE(WIFEXITED(status));
    T_EQ(7, WEXITSTATUS(status));
}

static void test_what_a_filter_forbids_is_found(void) {
    static const uint32_t actions[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD,
                                       SECCOMP_RET_TRAP, SECCOMP_RET_ERRNO | EPERM};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        look_under(actions[i], true);
        look_under(actions[i], false);
    }
}

/* Signals that sigpending() reports in the trial process, in place of the C library's function: the
 * process may get one at any time. */
static bool has_pending;

int sigpending(sigset_t *set) {
    if (!has_pending) {
        return (int)syscall(SYS_rt_sigpending, set, _NSIG / 8);
    }
    T_EQ(0, sigemptyset(set));
    return sigaddset(set, SIGUSR1);
}

/* Takes a signal that sigpending() reports. */
int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info,
                 const struct timespec *restrict span) {
    if (has_pending && sigismember(set, SIGUSR1)) {
        return SIGUSR1;
    }
    return (int)syscall(SYS_rt_sigtimedwait, set, info, span, _NSIG / 8);
}

/* A signal to the trial process neither is taken nor makes a call look forbidden. */
static void test_a_signal_is_pending(void) {
    has_pending = true;
    hw__allowed_forget();
    T_TRUE(hw__allowed_try(false));
    T_TRUE(hw__allowed(HW__CALL_SAY));
    has_pending = false;
    hw__allowed_forget();
}

/* A filter may allow the clocks with small numbers only. */
static void forbid_clocks_of_threads(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x80000000u, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    T_EQ(0, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    T_EQ(0, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static void test_a_filter_may_tell_clocks_apart(void) {
    int pid = fork();
    T_TRUE(pid >= 0);
    if (pid == 0) {
        forbid_clocks_of_threads();
        hw__allowed_try(true);
        T_TRUE(hw__allowed(HW__CALL_CLOCK));
        T_TRUE(!hw__allowed(HW__CALL_CLOCK_OF));
        _exit(7);
    }
    int status;
    T_EQ(pid, waitpid(pid, &status, 0));
    T_TRUE(WIFEXITED(status));
    T_EQ(7, WEXITSTATUS(status));
}

/* If no process can be made, a forked child makes no call that it does not know to be allowed. A
 * program's start makes these calls all the same. */
static void test_no_trial_can_be_made(void) {
    int pid = fork();
    T_TRUE(pid >= 0);
    if (pid == 0) {
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
        T_EQ(0, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        T_EQ(0, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
        hw__allowed_forget();
        hw__allowed_look();
        T_TRUE(hw__allowed(HW__CALL_SEND));
        hw__allowed_look_again();
        T_TRUE(!hw__allowed(HW__CALL_SEND));
        _exit(7);
    }
    int status;
    T_EQ(pid, waitpid(pid, &status, 0));
    T_TRUE(WIFEXITED(status));
    T_EQ(7, WEXITSTATUS(status));
}

static void test_without_a_filter_all_is_allowed(void) {
    errno = 77;
    hw__allowed_look_again();
    T_EQ(77, errno);
    for (int call = 0; call < HW__CALLS; call++) {
        T_TRUE(hw__allowed((enum hw__call)call));
    }
    T_EQ(-1, waitpid(-1, NULL, WNOHANG)); /* no child is left behind */
    T_EQ(ECHILD, errno);
}

/* A vDSO with one note. */
struct vdso {
    ElfW(Ehdr) file;
    ElfW(Phdr) part;
    ElfW(Nhdr) note;
    char name[8];
    uint32_t version;
};

static struct vdso vdso_of(uint32_t version) {
    struct vdso made = {
        .file = {.e_phoff = offsetof(struct vdso, part), .e_phnum = 1},
        .part = {.p_type = PT_NOTE,
                 .p_offset = offsetof(struct vdso, note),
                 .p_filesz = sizeof(struct vdso) - offsetof(struct vdso, note)},
        .note = {.n_namesz = sizeof "Linux", .n_descsz = sizeof version},
        .name = "Linux",
        .version = version,
    };
    memcpy(made.file.e_ident, ELFMAG, SELFMAG);
    return made;
}

static void test_an_old_kernel_s_trial_has_its_own_memory(void) {
    struct vdso old = vdso_of(KERNEL_VERSION(5, 15, 200)), new = vdso_of(KERNEL_VERSION(5, 16, 0));
    T_TRUE(!hw__trial_may_share(&old));
    T_TRUE(hw__trial_may_share(&new));
    new.note.n_type = 1; /* another note */
    T_TRUE(!hw__trial_may_share(&new));
    T_TRUE(!hw__trial_may_share(NULL));
    T_TRUE(!hw__trial_may_share("no ELF file at all, and long enough to look at its first bytes"));
    /* For this kernel's own vDSO, either answer is right. */
    (void)hw__trial_may_share((const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR));
}

int main(void) {
    t_start();
    T_RUN(test_without_a_filter_all_is_allowed);
    T_RUN(test_what_a_filter_forbids_is_found);
    T_RUN(test_a_signal_is_pending);
    T_RUN(test_a_filter_may_tell_clocks_apart);
    T_RUN(test_no_trial_can_be_made);
    T_RUN(test_an_old_kernel_s_trial_has_its_own_memory);
    return 0;
}
