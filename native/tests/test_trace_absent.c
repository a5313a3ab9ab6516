// SPDX-License-Identifier: MIT
/* A process without an interpreter, and one with an interpreter that cannot be hooked. */
#include <dlfcn.h>
#include <errno.h>

#include "headway/trace.h"
#include "t.h"

static struct hw_trace_options options(void) {
    return (struct hw_trace_options){
        .door = "", .gil_enabled = 1, .command = "", .executable = "", .program = ""};
}

/* No symbol of the process is called _PyRuntime. */
static void test_no_interpreter(void) {
    struct hw_trace_options wanted = options();
    T_EQ(-ENOENT, hw_trace_start(&wanted));
    T_EQ(0, hw_trace_active());
    T_EQ(-ESRCH, hw_trace_stop());
}

/* An image has a _PyRuntime, but calls none of the functions. In the test's executable the hooks
 * cannot keep themselves loaded, and that error comes first; so the library is tested instead. */
static void test_nothing_to_hook(void) {
    T_TRUE(getenv("HEADWAY_LIBRARY") != NULL); /* set by CTest */
    void *library = dlopen(getenv("HEADWAY_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    T_TRUE(library != NULL);
    int (*start)(const struct hw_trace_options *) =
        (int (*)(const struct hw_trace_options *))(uintptr_t)dlsym(library, "hw_trace_start");
    T_TRUE(start != NULL);
    void *interpreter = dlopen(FAKE_STATIC, RTLD_NOW | RTLD_GLOBAL);
    T_TRUE(interpreter != NULL);
    struct hw_trace_options wanted = options();
    T_EQ(-ENXIO, start(&wanted));
}

int main(void) {
    t_start();
    T_RUN(test_no_interpreter);
    T_RUN(test_nothing_to_hook);
    return 0;
}
