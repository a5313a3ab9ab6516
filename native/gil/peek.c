// SPDX-License-Identifier: MIT
#include "gil/peek.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORD_BYTES sizeof(uint32_t) /* that the kernel compares */

enum comparison { SAME, DIFFERENT, UNREADABLE };

static enum comparison compare(uintptr_t address, uint32_t value) {
    if (syscall(SYS_futex, address, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, 0, NULL, address,
                value) == 0) {
        return SAME;
    }
    return errno == EAGAIN ? DIFFERENT : UNREADABLE;
}

bool hw__peek_is(uintptr_t address, uintptr_t word) {
    uint32_t halves[2];
    memcpy(halves, &word, sizeof halves);
    return compare(address, halves[0]) == SAME && compare(address + WORD_BYTES, halves[1]) == SAME;
}

/* The sanitizer does not know which memory of the interpreter is allocated. */
__attribute__((no_sanitize("address"))) bool hw__peek(uintptr_t address, uintptr_t *word) {
    if (address % sizeof *word != 0 || compare(address, 0) == UNREADABLE) {
        return false;
    }
    *word = __atomic_load_n((const uintptr_t *)address, __ATOMIC_RELAXED);
    return true;
}

__attribute__((no_sanitize("address"))) void hw__peek_text(uintptr_t address, char *to,
                                                           size_t bytes) {
    size_t i = 0;
    for (; i < bytes - 1; i++) {
        uintptr_t at = address + i;
        bool is_first = i == 0 || at % WORD_BYTES == 0; /* of a word, which is in one page */
        if (is_first && compare(at - at % WORD_BYTES, 0) == UNREADABLE) {
            break;
        }
        to[i] = __atomic_load_n((const char *)at, __ATOMIC_RELAXED);
        if (to[i] == '\0') {
            return;
        }
    }
    to[i] = '\0';
}
