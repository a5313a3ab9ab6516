// SPDX-License-Identifier: MIT
#include "trace/leave.h"

#include <stddef.h>

#include "elf/got.h"
#include "elf/patch.h"
#include "headway/clock.h"
#include "trace/parks.h"
#include "trace/session.h"

static struct hw__patch patch;

/* Written while the patch is not installed. */
static void (*real_exit)(int status);

/* Async-signal-safe, and without a system call, like the function that it stands for.
 *
 * A child of vfork() that cannot run its program comes here, too, with the memory of its parent. So
 * this is a time at which the session may have ended: it has if no event follows (format.h). */
static void hook_exit(int status) {
    if (hw__telling_begin()) {
        if (atomic_load(&hw__session.inherited) == 0) {
            atomic_store_explicit(&hw__session.header->left_ns, hw_now_ns(), memory_order_relaxed);
        }
        hw__telling_end();
    }
    real_exit(status);
}

void hw__leave_watch(const void *runtime) {
    static const struct hw__patch_entry entry = {"_exit", (uintptr_t)hook_exit, true, false};
    if (patch.count == 0) {
        real_exit = (void (*)(int))(uintptr_t)hw__next_function("_exit");
    }
    if (real_exit != NULL) {
        (void)hw__patch_install(&patch, runtime, &entry, 1);
    }
}

void hw__leave_unwatch(void) { (void)hw__patch_remove(&patch); }
