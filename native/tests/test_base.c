// SPDX-License-Identifier: MIT
/* The version, the clock, and what the built library shows to the outside. */
#include <dlfcn.h>

#include "headway/clock.h"
#include "headway/version.h"
#include "t.h"

static void test_version_is_the_headers(void) { T_EQ(HW_ABI_VERSION, hw_abi_version()); }

static void test_clock_never_goes_back(void) {
    int64_t last_ns = hw_now_ns();
    T_TRUE(last_ns > 0);
    for (int i = 0; i < 100000; i++) {
        int64_t now_ns = hw_now_ns();
        T_TRUE(now_ns >= last_ns);
        last_ns = now_ns;
    }
}

static void test_library_exports_the_interface_and_nothing_else(void) {
    const char *public[] = {"hw_abi_version",      "hw_now_ns",       "hw_pingpong",
                            "hw_pingpong_one_way", "hw_refcount",     "hw_load_run",
                            "hw_histogram_record", "hw_histogram_add"};
    const char *internal[] = {"hw__pin_self", "hw__team_run", "hw__walk_run", "hw__task_run",
                              "hw__open_model"};
    void *library = dlopen(getenv("HEADWAY_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    T_TRUE(library != NULL);
    for (size_t i = 0; i < sizeof public / sizeof *public; i++) {
        T_TRUE(dlsym(library, public[i]) != NULL);
    }
    for (size_t i = 0; i < sizeof internal / sizeof *internal; i++) {
        T_TRUE(dlsym(library, internal[i]) == NULL);
    }
    T_EQ(0, dlclose(library));
}

int main(void) {
    t_start();
    T_RUN(test_version_is_the_headers);
    T_RUN(test_clock_never_goes_back);
    T_RUN(test_library_exports_the_interface_and_nothing_else);
    return 0;
}
