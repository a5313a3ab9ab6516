// SPDX-License-Identifier: MIT
/* Lines on stderr: they go to a stderr, and to nothing else of the program's. */
#include "base/say.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/allowed.h"
#include "t.h"

/* In a child: makes `place` its descriptor 2, and has a line written. Returns the child's status.
 */
static int say_in_child(int place) {
    int pid = fork();
    T_TRUE(pid >= 0);
    if (pid == 0) {
        T_EQ(STDERR_FILENO, dup2(place, STDERR_FILENO));
        hw__say("it says something");
        exit(7); /* waits until the line is written */
    }
    int status;
    T_EQ(pid, waitpid(pid, &status, 0));
    return status;
}

static void check_line(const char *text) {
    T_EQ(0, strncmp(text, "headway: process ", strlen("headway: process ")));
    T_TRUE(strstr(text, ": it says something\n") != NULL);
}

/* Runs this program again with the pipe as its stderr, and an argument. Returns what it wrote. */
static void say_in_program(const char *how, char *text, size_t bytes) {
    int ends[2];
    T_EQ(0, pipe2(ends, O_NONBLOCK));
    int pid = fork();
    T_TRUE(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        execl("/proc/self/exe", "test_say", how, (char *)NULL);
        _exit(1);
    }
    int status;
    T_EQ(pid, waitpid(pid, &status, 0));
    T_EQ(7, WEXITSTATUS(status));
    memset(text, 0, bytes);
    (void)!read(ends[0], text, bytes - 1);
    close(ends[0]);
    close(ends[1]);
}

static void test_the_stderr_of_the_start_gets_lines(void) {
    char text[HW__SAY_BYTES];
    say_in_program("aloud", text, sizeof text);
    check_line(text);
}

/* Another program reads this stderr. */
static void test_a_muted_process_writes_no_line(void) {
    char text[HW__SAY_BYTES];
    say_in_program("muted", text, sizeof text);
    T_EQ(0, strlen(text));
}

/* The program has closed its stderr, and made a pipe, whose end got the descriptor. */
static void test_a_pipe_of_the_program_gets_no_line(void) {
    int ends[2];
    char text[HW__SAY_BYTES];
    T_EQ(0, pipe2(ends, O_NONBLOCK));
    T_EQ(7, WEXITSTATUS(say_in_child(ends[1])));
    T_EQ(-1, read(ends[0], text, sizeof text));
    T_EQ(EAGAIN, errno);
    close(ends[0]);
    close(ends[1]);
}

/* The program has closed its stderr, and opened a database, which got the descriptor. */
static void test_a_file_of_the_program_gets_no_line(void) {
    FILE *file = tmpfile();
    char text[HW__SAY_BYTES];
    T_TRUE(file != NULL);
    T_EQ(7, WEXITSTATUS(say_in_child(fileno(file))));
    T_EQ(0, pread(fileno(file), text, sizeof text, 0));
    fclose(file);
}

static void test_a_connection_of_the_program_gets_no_line(void) {
    int ends[2];
    char text[HW__SAY_BYTES];
    T_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    T_EQ(7, WEXITSTATUS(say_in_child(ends[1])));
    T_EQ(-1, recv(ends[0], text, sizeof text, MSG_DONTWAIT));
    T_EQ(EAGAIN, errno);
    close(ends[0]);
    close(ends[1]);
}

/* A filter ends the process for a new thread. The process goes on without the line. */
static void test_a_filter_that_forbids_threads(void) {
    int pid = fork();
    T_TRUE(pid >= 0);
    if (pid == 0) {
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 3, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
            BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
        T_EQ(0, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        T_EQ(0, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
        hw__allowed_look();
        T_TRUE(!hw__allowed(HW__CALL_SAY));
        T_TRUE(hw__allowed(HW__CALL_SEND)); /* the call after it */
        hw__say("nobody hears it");
        exit(7);
    }
    int status;
    T_EQ(pid, waitpid(pid, &status, 0));
    T_TRUE(WIFEXITED(status));
    T_EQ(7, WEXITSTATUS(status));
}

int main(int count, char **words) {
    if (count > 1) { /* in say_in_program() */
        if (strcmp(words[1], "muted") == 0) {
            hw__say_mute();
        }
        hw__say("it says something");
        exit(7); /* waits until the line is written */
    }
    t_start();
    T_RUN(test_the_stderr_of_the_start_gets_lines);
    T_RUN(test_a_muted_process_writes_no_line);
    T_RUN(test_a_pipe_of_the_program_gets_no_line);
    T_RUN(test_a_file_of_the_program_gets_no_line);
    T_RUN(test_a_connection_of_the_program_gets_no_line);
    T_RUN(test_a_filter_that_forbids_threads);
    return 0;
}
