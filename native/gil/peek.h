// SPDX-License-Identifier: MIT
/* Reads memory at addresses that may be wrong. There is no other memory to read from than the
 * process's own, so a wrong address must not be read: the kernel is asked first.
 *
 * The kernel is asked with futex(FUTEX_CMP_REQUEUE) for no waiter. It compares the word at an
 * address with a value, and fails with EFAULT where nothing can be read. It has no other effect.
 * CPython's threads wait in futex() themselves. So a seccomp filter, under which they can run at
 * all, lets the call through; process_vm_readv() would end a program whose own filter forbids it.
 *
 * All functions are async-signal-safe, allocate nothing and may change errno. */
#ifndef HEADWAY_GIL_PEEK_H
#define HEADWAY_GIL_PEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns whether the 8 bytes at an address, a multiple of 4, can be read and are `word`. Also true
 * to its word while another thread unmaps the memory. */
bool hw__peek_is(uintptr_t address, uintptr_t word);

/* Reads the 8 bytes at an address, a multiple of 8. Returns false, with *word as it was, if they
 * cannot be read. The caller must know that the memory stays mapped if it is mapped. */
bool hw__peek(uintptr_t address, uintptr_t *word);

/* Copies a text up to its NUL, or up to the last byte that can be read, and ends it with NUL.
 * `bytes` is the room of `to`, at least 1. The memory must stay mapped, as for hw__peek(). */
void hw__peek_text(uintptr_t address, char *to, size_t bytes);

#endif
