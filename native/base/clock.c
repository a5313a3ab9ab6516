// SPDX-License-Identifier: MIT
#include "headway/clock.h"

#include <dlfcn.h>
#include <time.h>

/* clock_gettime() of the C library itself. A library that is loaded before the C library
 * (libfaketime) may stop the program's clock or make it jump; the waits that Headway measures must
 * not follow. Written when this library is loaded. */
static int (*clock_of_libc)(clockid_t, struct timespec *) = clock_gettime;

__attribute__((constructor)) static void look(void) {
    static const char *const libraries[] = {"libc.so.6", "libc.so"}; /* glibc, musl */
    for (int i = 0; i < 2; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL) {
            void *function = dlsym(library, "clock_gettime");
            if (function != NULL) {
                clock_of_libc = (int (*)(clockid_t, struct timespec *))(uintptr_t)function;
            }
            dlclose(library); /* it stays loaded: the process needs it */
            return;
        }
    }
}

int64_t hw_now_ns(void) {
    struct timespec now;
    /* Can't fail: the clock exists on every Linux, and the address is valid. */
    (void)clock_of_libc(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
