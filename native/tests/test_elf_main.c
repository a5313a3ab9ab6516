// SPDX-License-Identifier: MIT
/* The executable itself as the image. It is built as a PIE, and without PIE as test_elf_no_pie. */
#include "elf/got.h"
#include "elf/image.h"
#include "elf_maps.h"
#include "t.h"

#define FAKE_PPID (-8)

#define MAX_SLOTS 4

static int fake_getppid(void) { return FAKE_PPID; }

__attribute__((noinline)) static int call(void) { return getppid(); }

/* Without PIE, this makes the PLT's entry the function's address for the whole process, and dlsym()
 * with RTLD_DEFAULT returns that address. */
static pid_t (*volatile pointer)(void);

static void test_bias(void) {
    struct hw__image image;
    T_EQ(0, hw__image_find((void *)test_bias, &image));
#ifdef __PIE__
    T_TRUE(image.bias != 0);
#else
    T_EQ(0, image.bias);
#endif
    T_TRUE(image.header_count > 0);
}

static void test_patching(void) {
    pointer = getppid;
    int ppid = call();
    T_EQ(ppid, pointer());
    uintptr_t *slots[MAX_SLOTS];
    uintptr_t values[MAX_SLOTS];
    uintptr_t old[MAX_SLOTS];
    uintptr_t fakes[MAX_SLOTS];
    int writable[MAX_SLOTS];
    int count;
    T_EQ(0, hw__got_find((void *)test_patching, "getppid", slots, MAX_SLOTS, &count));
    for (int i = 0; i < count; i++) {
        values[i] = (uintptr_t)fake_getppid;
        writable[i] = maps_allow(slots[i], 'w');
    }
    int (*real)(void) = (int (*)(void))hw__real_function("getppid");
    T_TRUE(real != NULL);
    T_EQ(0, hw__got_write_all(slots, count, values, old));
    T_EQ(FAKE_PPID, call());
    T_EQ(ppid, real());
    real = (int (*)(void))hw__real_function("getppid"); /* also if it is asked for only now */
    T_EQ(ppid, real());
    for (int i = 0; i < count; i++) {
        T_EQ(writable[i], maps_allow(slots[i], 'w'));
    }
    T_EQ(0, hw__got_write_all(slots, count, old, fakes));
    T_EQ(ppid, call());
    T_EQ(ppid, pointer());
}

int main(void) {
    t_start();
    T_RUN(test_bias);
    T_RUN(test_patching);
    return 0;
}
