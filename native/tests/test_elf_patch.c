// SPDX-License-Identifier: MIT
/* A patch that can be paused: only where the loader keeps the slots writable, and has bound
 * them. */
#include <dlfcn.h>
#include <stdbool.h>
#include <unistd.h>

#include "elf/got.h"
#include "elf/patch.h"
#include "elf_calls.h"
#include "t.h"

/* getpid() can be paused, getppid() cannot. */
static void install(struct hw__patch *patch, const struct calls *calls) {
    const struct hw__patch_entry entries[] = {{"getpid", (uintptr_t)fake_getpid, true, true},
                                              {"getppid", (uintptr_t)fake_getppid, true, false}};
    T_EQ(0, hw__patch_install(patch, (void *)calls->pid, entries, 2));
}

static void check(const struct calls *calls, bool paused) {
    T_EQ(paused ? getpid() : FAKE_PID, calls->pid());
    T_EQ(FAKE_PPID, calls->ppid());
}

static void check_pausing(const char *path, bool bound, bool expected) {
    struct calls calls = load(path);
    if (bound) {
        T_EQ(getpid(), calls.pid());
    }
    static struct hw__patch patch;
    install(&patch, &calls);
    check(&calls, false);
    for (int i = 0; i < 3; i++) {
        T_EQ(expected, hw__patch_pause(&patch));
        T_EQ(expected, hw__patch_is_paused(&patch));
        check(&calls, expected);
        hw__patch_resume(&patch);
        T_TRUE(!hw__patch_is_paused(&patch));
        check(&calls, false);
    }
    /* The patch is repaired, and then removed, while it is paused. */
    hw__patch_pause(&patch);
    T_EQ(0, hw__patch_repair(&patch));
    check(&calls, false);
    hw__patch_pause(&patch);
    T_EQ(0, hw__patch_remove(&patch));
    T_EQ(getpid(), calls.pid());
    T_EQ(getppid(), calls.ppid());
    hw__patch_resume(&patch); /* a resume that comes late changes nothing */
    T_TRUE(!hw__patch_is_paused(&patch));
    T_EQ(getpid(), calls.pid());
    T_EQ(0, dlclose(calls.handle));
}

static void test_lazy(void) { check_pausing(ELF_CALLS_LAZY, true, true); }

/* The first call of an unbound function, if it came during a pause, would bind the slot at any
 * later moment. */
static void test_not_bound_yet(void) { check_pausing(ELF_CALLS_LAZY, false, false); }

static void test_closed(void) { check_pausing(ELF_CALLS_NOW, true, false); }

/* Another tool has patched the slot since, and calls our replacement in its turn. That patch is not
 * undone. */
static int others_getpid(void) { return FAKE_PID - 1; }

static void test_patched_by_another(void) {
    struct calls calls = load(ELF_CALLS_LAZY);
    T_EQ(getpid(), calls.pid());
    static struct hw__patch patch;
    install(&patch, &calls);
    uintptr_t ours, theirs = (uintptr_t)others_getpid;
    T_EQ(0, hw__got_write(patch.slots[0], theirs, &ours));
    T_TRUE(!hw__patch_pause(&patch));
    T_EQ(FAKE_PID - 1, calls.pid());
    T_EQ(0, hw__patch_remove(&patch));
    T_EQ(FAKE_PID - 1, calls.pid());
    T_EQ(getppid(), calls.ppid());
    T_EQ(0, dlclose(calls.handle));
}

int main(void) {
    t_start();
    T_RUN(test_not_bound_yet);
    T_RUN(test_lazy);
    T_RUN(test_closed);
    T_RUN(test_patched_by_another);
    return 0;
}
