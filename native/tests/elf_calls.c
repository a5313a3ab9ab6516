// SPDX-License-Identifier: MIT
/* A library that calls libc through its GOT; built in several ways for test_elf_got.c. */
#include <unistd.h>

int elf_calls_getpid(void);
int elf_calls_getppid(void);
int elf_calls_pointer(void);

int elf_calls_getpid(void) { return getpid(); }

int elf_calls_getppid(void) { return getppid(); }

/* Initialised data: R_X86_64_64 or R_AARCH64_ABS64, which is no slot. */
static pid_t (*volatile pointer)(void) = getpid;

int elf_calls_pointer(void) { return pointer(); }
