// SPDX-License-Identifier: MIT
/* The builds of elf_calls.c, loaded, and the functions that replace the C library's in them. */
#ifndef HEADWAY_TESTS_ELF_CALLS_H
#define HEADWAY_TESTS_ELF_CALLS_H

#include <dlfcn.h>

#include "t.h"

/* The values that the replacements return; no process has such ids. */
#define FAKE_PID (-7)
#define FAKE_PPID (-8)

/* A loaded build of elf_calls.c. */
struct calls {
    void *handle;
    int (*pid)(void);
    int (*ppid)(void);
    int (*pointer)(void);
};

static inline int fake_getpid(void) { return FAKE_PID; }

static inline int fake_getppid(void) { return FAKE_PPID; }

static inline void *symbol(void *handle, const char *name) {
    void *found = dlsym(handle, name);
    T_TRUE(found != NULL);
    return found;
}

static inline struct calls load(const char *path) {
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    T_TRUE(handle != NULL);
    return (struct calls){
        .handle = handle,
        .pid = (int (*)(void))symbol(handle, "elf_calls_getpid"),
        .ppid = (int (*)(void))symbol(handle, "elf_calls_getppid"),
        .pointer = (int (*)(void))symbol(handle, "elf_calls_pointer"),
    };
}

#endif
