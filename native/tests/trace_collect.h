// SPDX-License-Identifier: MIT
/* The collector of the tests. It copies what was recorded into files when a test looks at them. */
#ifndef HEADWAY_TESTS_TRACE_COLLECT_H
#define HEADWAY_TESTS_TRACE_COLLECT_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "headway/collect.h"
#include "t.h"
#include "trace/control.h"

#define COLLECTED 64

/* A recorder's memory, and the file that it is copied into. */
struct collected {
    char path[160];
    struct hw_collection *collection;
    int memory, file; /* `file` is -1 for a memory that is copied as a whole each time */
};

static struct collected collected[COLLECTED];
static int collected_count;

static char collect_door[108]; /* the socket that was opened last */
static char collect_first[160];
static int collect_listener = -1;

static inline struct collected *collect_add(const char *path) {
    for (int i = 0; i < collected_count; i++) {
        if (strcmp(collected[i].path, path) == 0) { /* an earlier one of that name is replaced */
            if (collected[i].collection != NULL) {
                hw_collect_close(collected[i].collection);
                close(collected[i].file);
            }
            close(collected[i].memory);
            collected[i] = collected[--collected_count];
        }
    }
    T_TRUE(collected_count < COLLECTED);
    struct collected *one = &collected[collected_count++];
    *one = (struct collected){.memory = -1, .file = -1};
    strcpy(one->path, path);
    return one;
}

/* Adds the memory of a session that has no collector. */
static inline void collect_memory(const char *path, int memory) {
    struct collected *one = collect_add(path);
    one->memory = fcntl(memory, F_DUPFD_CLOEXEC, 0);
    T_TRUE(one->memory >= 0);
}

/* Opens a socket for a first process, whose file is `path`, and for its children. Returns the name
 * of the socket. */
static inline const char *collect_listen(const char *path) {
    if (collect_listener >= 0) {
        close(collect_listener);
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(collect_first, path);
    T_TRUE(snprintf(collect_door, sizeof collect_door, "%s.door", path) < (int)sizeof collect_door);
    memcpy(address.sun_path, collect_door, sizeof address.sun_path);
    unlink(collect_door);
    collect_listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    T_TRUE(collect_listener >= 0);
    T_EQ(0, bind(collect_listener, (struct sockaddr *)&address, sizeof address));
    T_EQ(0, listen(collect_listener, 64));
    return collect_door;
}

static inline int collect_receive(int caller) {
    struct hw__hello hello = {0};
    struct iovec text = {&hello, sizeof hello};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } rights;
    struct msghdr message = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights};
    T_EQ(sizeof hello, recvmsg(caller, &message, MSG_CMSG_CLOEXEC));
    T_EQ(HW__HELLO_MAGIC, hello.magic);
    int memory;
    T_TRUE(CMSG_FIRSTHDR(&message) != NULL);
    memcpy(&memory, CMSG_DATA(&rights.head), sizeof memory);
    return memory;
}

/* Receives the memories of the processes that have connected. */
static inline void collect_answer(void) {
    int caller;
    while (collect_listener >= 0 && (caller = accept(collect_listener, NULL, NULL)) >= 0) {
        int memory = collect_receive(caller);
        close(caller);
        struct hw__header header;
        T_EQ(sizeof header, pread(memory, &header, sizeof header, 0));
        char path[160];
        strcpy(path, collect_first);
        if (access(path, F_OK) == 0) {
            snprintf(path + strlen(path) - 4, 40, ".%d.hwt", (int)header.pid);
        }
        struct collected *one = collect_add(path);
        one->memory = memory;
        one->file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        T_TRUE(one->file >= 0);
        one->collection = hw_collect_open(memory, one->file, path);
        T_TRUE(one->collection != NULL);
    }
}

/* Copies everything that has been recorded so far into the files. */
static inline void collect(void) {
    struct hw_collect_state state;
    collect_answer();
    for (int i = 0; i < collected_count; i++) {
        struct collected *one = &collected[i];
        if (one->collection != NULL) {
            hw_collect_pass(one->collection, 1, &state);
            continue;
        }
        int file = open(one->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (file < 0) {
            continue; /* the test has removed its folder */
        }
        struct hw_collection *copy = hw_collect_open(one->memory, file, NULL);
        T_TRUE(copy != NULL);
        hw_collect_pass(copy, 1, &state);
        hw_collect_close(copy);
        close(file);
    }
}

/* Closes all collections, memories and the socket. */
static inline void collect_forget(void) {
    for (int i = 0; i < collected_count; i++) {
        if (collected[i].collection != NULL) {
            hw_collect_close(collected[i].collection);
            close(collected[i].file);
        }
        close(collected[i].memory);
    }
    collected_count = 0;
    if (collect_listener >= 0) {
        close(collect_listener);
    }
    collect_listener = -1;
}

/* Called in a forked child: the parent's collections are not the child's. */
static inline void collect_after_fork(void) { collect_forget(); }

#endif
