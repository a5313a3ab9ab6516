// SPDX-License-Identifier: MIT
#include "base/say.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allowed.h"
#include "base/pause.h"
#include "base/text.h"

#define LINES 8

/* How long exit() waits for a line that is being written, in rounds of hw__pause(): some 5 ms. */
#define EXIT_ROUNDS 112

/* How long a line waits for a stderr that accepts nothing. */
#define PATIENCE_MS 2000

/* More than the thread needs. The C library adds the thread-local storage of all libraries. */
#define STACK_BYTES (128 * 1024)

/* A thread claims a line before it fills or writes it. `state` orders the access to `text`. */
enum { FREE, CLAIMED, READY };
static struct {
    _Atomic int state;
    char text[HW__SAY_BYTES];
} lines[LINES];

static atomic_bool talking; /* a thread writes lines; set by the thread that starts it */

/* The process's stderr, as hw__say_look() found it. They are written before another thread says
 * something, so each may be read by itself. Sequentially consistent, as nothing here is hot. */
static atomic_bool has_stderr;
static _Atomic dev_t stderr_device;
static _Atomic ino_t stderr_inode;

/* Set by hw__say_mute(), and never cleared. Nothing else depends on its order (relaxed). */
static atomic_bool muted;

__attribute__((constructor)) void hw__say_look(void) {
    int saved = errno;
    struct stat file;
    has_stderr = fstat(STDERR_FILENO, &file) == 0;
    if (has_stderr) {
        stderr_device = file.st_dev;
        stderr_inode = file.st_ino;
    }
    errno = saved;
}

/* Returns whether descriptor 2 still is the stderr of then. Anything else is the program's own: it
 * may have closed descriptor 2, and have opened its database, a connection or a pipe. */
static bool is_stderr(void) {
    struct stat file;
    return fstat(STDERR_FILENO, &file) == 0 && file.st_dev == stderr_device &&
           file.st_ino == stderr_inode;
}

static bool claim_ready(int i) {
    int ready = READY;
    return atomic_compare_exchange_strong(&lines[i].state, &ready, CLAIMED);
}

static bool any_ready(void) {
    for (int i = 0; i < LINES; i++) {
        if (atomic_load(&lines[i].state) == READY) {
            return true;
        }
    }
    return false;
}

/* Writes the lines that are ready. The signals that write() sends must be blocked: they go to the
 * calling thread, and end with it. */
static void write_ready(int patience_ms) {
    for (int i = 0; i < LINES; i++) {
        if (!claim_ready(i)) {
            continue;
        }
        struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
        if (poll(&out, 1, patience_ms) == 1 && (out.revents & POLLOUT) != 0 && is_stderr()) {
            (void)!write(STDERR_FILENO, lines[i].text, strlen(lines[i].text));
        }
        atomic_store(&lines[i].state, FREE);
    }
}

static void *talk(void *unused) {
    do {
        write_ready(PATIENCE_MS);
        atomic_store(&talking, false);
        /* A line may have become ready after the last look, and its caller have seen `talking`
         * set. */
    } while (any_ready() && !atomic_exchange(&talking, true));
    return unused;
}

static bool start_talking(void) {
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread inherits the mask */
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int error = pthread_create(&thread, &attributes, talk, NULL);
    if (error == EINVAL) { /* the stack is too small: the program has much thread-local storage */
        pthread_attr_destroy(&attributes);
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        error = pthread_create(&thread, &attributes, talk, NULL);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error == 0;
}

void hw__say(const char *text) {
    int saved = errno, i = 0, none = FREE;
    while (i < LINES && !atomic_compare_exchange_strong(&lines[i].state, &none, CLAIMED)) {
        none = FREE;
        i++;
    }
    if (has_stderr && !atomic_load_explicit(&muted, memory_order_relaxed) &&
        hw__allowed(HW__CALL_SAY) && i < LINES) {
        char *line = lines[i].text;
        line[0] = '\0';
        hw__text_append(line, HW__SAY_BYTES - 1, "headway: process ");
        hw__text_append_number(line, HW__SAY_BYTES - 1, getpid());
        hw__text_append(line, HW__SAY_BYTES - 1, ": ");
        hw__text_append(line, HW__SAY_BYTES - 1, text);
        hw__text_append(line, HW__SAY_BYTES, "\n");
        atomic_store(&lines[i].state, READY);
        if (!atomic_exchange(&talking, true) && !start_talking()) {
            atomic_store(&talking, false);
        }
    } else if (i < LINES) {
        atomic_store(&lines[i].state, FREE);
    }
    errno = saved;
}

void hw__say_once(atomic_bool *said, const char *text) {
    if (!atomic_load_explicit(said, memory_order_relaxed) && !atomic_exchange(said, true)) {
        hw__say(text);
    }
}

void hw__say_mute(void) { atomic_store_explicit(&muted, true, memory_order_relaxed); }

void hw__say_after_fork(void) {
    for (int i = 0; i < LINES; i++) {
        atomic_store(&lines[i].state, FREE);
    }
    atomic_store(&talking, false);
}

/* Writes the lines that are left at exit: the program ends before the thread has come to them, or
 * there was no thread. SIGPIPE and SIGTTOU are blocked meanwhile, and a SIGPIPE from these writes
 * is taken back. */
__attribute__((destructor)) static void say_the_rest(void) {
    for (unsigned rounds = 0; atomic_load(&talking) && rounds < EXIT_ROUNDS;) {
        hw__pause(&rounds); /* the thread is writing */
    }
    if (!any_ready()) {
        return;
    }
    sigset_t ours, before, pending;
    const struct timespec at_once = {0, 0};
    sigemptyset(&ours);
    sigaddset(&ours, SIGPIPE);
    sigaddset(&ours, SIGTTOU);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    write_ready(0);
    if (!sigismember(&pending, SIGPIPE)) {
        sigset_t pipe;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        (void)sigtimedwait(&pipe, NULL, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
