// SPDX-License-Identifier: MIT
#include "sim/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#include "base/tls.h"

#define GUARD_BYTES 65536 /* at least one page, whatever the page size */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK_BYTES (256 * 1024)
#else
#define STACK_BYTES (32 * 1024)
#endif

static HW__TLS struct hw__fiber *starting;

/* ---------------------------------------------------------------- the switch */
/* hw__fiber_switch(from, to) saves the registers that a called function must preserve (by the
 * platform's ABI) on the present stack, stores the pointer to that stack in `*from`, and continues
 * on the stack `to`. swapcontext(3) would do the same, but makes two system calls each time. */
void hw__fiber_switch(void **from, void *to);
void hw__fiber_begin(void);

#if defined(__x86_64__)
#define RETURN_WORD 6
#define FRAME_WORDS 8
__asm__(".text\n"
        ".type hw__fiber_switch,@function\n"
        ".hidden hw__fiber_switch\n"
        ".globl hw__fiber_switch\n"
        "hw__fiber_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n"
        "    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n"
        "    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size hw__fiber_switch,.-hw__fiber_switch\n");
#elif defined(__aarch64__)
#define RETURN_WORD 11 /* x30 */
#define FRAME_WORDS 20
__asm__(".text\n"
        ".type hw__fiber_switch,%function\n"
        ".hidden hw__fiber_switch\n"
        ".globl hw__fiber_switch\n"
        "hw__fiber_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n    str x9, [x0]\n    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size hw__fiber_switch,.-hw__fiber_switch\n");
#else
#error "native/sim/fiber.c lacks a switch of stacks for this processor"
#endif

/* ---------------------------------------------------------------- what the sanitizers are told */
static void leave_for(void **fake, const void *stack, size_t bytes, void *track) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fake, stack, bytes);
#else
    (void)fake, (void)stack, (void)bytes;
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(track, 0);
#else
    (void)track;
#endif
}

static void arrive(void *fake, const void **stack, size_t *bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, stack, bytes);
#else
    (void)fake, (void)stack, (void)bytes;
#endif
}

/* ---------------------------------------------------------------- fibers */
void hw__fiber_begin(void) {
    struct hw__fiber *fiber = starting;
    arrive(NULL, &fiber->caller_stack, &fiber->caller_bytes);
    fiber->entry(fiber->argument);
    abort(); /* an entry must not return */
}

bool hw__fiber_make(struct hw__fiber *fiber, void (*entry)(void *argument), void *argument) {
    memset(fiber, 0, sizeof *fiber);
    size_t bytes = STACK_BYTES + GUARD_BYTES;
    void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
        return false;
    }
    if (mprotect(stack, GUARD_BYTES, PROT_NONE) != 0) {
        munmap(stack, bytes);
        return false;
    }
    fiber->stack = stack;
    fiber->bytes = bytes;
    fiber->entry = entry;
    fiber->argument = argument;
    uintptr_t *frame = (uintptr_t *)((char *)stack + bytes) - FRAME_WORDS;
    memset(frame, 0, FRAME_WORDS * sizeof *frame);
    frame[RETURN_WORD] = (uintptr_t)hw__fiber_begin;
    fiber->here = frame;
#if defined(__SANITIZE_THREAD__)
    fiber->track = __tsan_create_fiber(0);
#endif
    return true;
}

void hw__fiber_enter(struct hw__fiber *fiber) {
    void *fake = NULL;
#if defined(__SANITIZE_THREAD__)
    fiber->caller_track = __tsan_get_current_fiber();
#endif
    starting = fiber;
    leave_for(&fake, (char *)fiber->stack + GUARD_BYTES, fiber->bytes - GUARD_BYTES, fiber->track);
    hw__fiber_switch(&fiber->caller, fiber->here);
    arrive(fake, NULL, NULL);
}

void hw__fiber_leave(struct hw__fiber *fiber) {
    void *fake = NULL;
    leave_for(&fake, fiber->caller_stack, fiber->caller_bytes, fiber->caller_track);
    hw__fiber_switch(&fiber->here, fiber->caller);
    arrive(fake, &fiber->caller_stack, &fiber->caller_bytes);
}

void hw__fiber_free(struct hw__fiber *fiber) {
    if (fiber->stack != NULL) {
#if defined(__SANITIZE_THREAD__)
        __tsan_destroy_fiber(fiber->track);
#endif
#if defined(__SANITIZE_ADDRESS__)
        /* The fiber's functions have not returned. Without this, memory that is mapped here later
         * would look like their frames. */
        __asan_unpoison_memory_region((char *)fiber->stack + GUARD_BYTES,
                                      fiber->bytes - GUARD_BYTES);
#endif
        munmap(fiber->stack, fiber->bytes);
        fiber->stack = NULL;
    }
}
