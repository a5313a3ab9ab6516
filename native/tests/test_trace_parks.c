// SPDX-License-Identifier: MIT
/* Waits for locks: spins, and the parks that follow them. */
#include "gil/parking.h"
#include "gil/spinning.h"
#include "gil_world.h"
#include "trace/parks.h"
#include "trace_file.h"

#define SPINS 40

static struct hw_stack_layout layout;

static void begin(const char *name) {
    world_start(name);
    T_EQ(0, hw__parking_install(fake_runtime(), &layout));
}

static struct trace end(const char *name) {
    T_EQ(0, hw__parking_remove());
    T_EQ(0, hw_trace_stop());
    return trace_open(world_path(name));
}

/* Returns the PARK of a trace that has one wait; the UNPARK follows it. */
static const struct hw__event *only_wait(const struct trace *trace) {
    T_EQ(1, trace->kinds[HW__PARK]);
    T_EQ(1, trace->kinds[HW__UNPARK]);
    size_t i = 0;
    while (trace->events[i].event.kind != HW__PARK) {
        i++;
    }
    const struct hw__event *park = &trace->events[i].event;
    const struct hw__event *unpark = &trace->events[i + 1].event;
    T_EQ(HW__UNPARK, unpark->kind);
    T_EQ(trace->events[i].serial, trace->events[i + 1].serial);
    T_EQ(HW__NO_GIL, park->gil);
    T_TRUE(park->time_ns <= unpark->time_ns);
    return park;
}

static void *spin(void *unused) {
    struct fake_state *me = fake_state_new(fake_main_gil());
    PyEval_RestoreThread(me);
    fake_spin(1);
    PyEval_SaveThread();
    fake_state_free(me);
    return unused;
}

/* Nothing marks the end of a spin that got its lock, so the thread's end records the spin. */
static void test_a_spin_before_the_threads_end(void) {
    pthread_t thread;
    begin("spin.hwt");
    T_EQ(0, pthread_create(&thread, NULL, spin, NULL));
    world_join(thread);
    struct trace trace = end("spin.hwt");
    const struct hw__event *park = only_wait(&trace);
    T_EQ(HW__PARK_MUTEX, park->flags);

    T_EQ(1, trace.kinds[HW__EXIT]);
    trace_close(&trace);
}

/* The session's end records the spin, too. The yields of one spin are one wait, from the call of
 * the first to the return of the last. */
static void check_spin(int64_t same_spin_ns, uint64_t waits) {
    int64_t usual_ns = hw__parks_same_spin_ns;
    hw__parks_same_spin_ns = same_spin_ns;
    begin("one.hwt");
    int64_t before_ns = hw_now_ns();
    fake_spin(SPINS);
    int64_t after_ns = hw_now_ns();
    struct trace trace = end("one.hwt");
    hw__parks_same_spin_ns = usual_ns;
    T_EQ(waits, trace.kinds[HW__PARK]);
    T_EQ(waits, trace.kinds[HW__UNPARK]);
    int64_t waited_ns = 0;
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        if (event->kind == HW__PARK) {
            T_TRUE(before_ns <= event->time_ns);
            waited_ns -= event->time_ns;
        } else if (event->kind == HW__UNPARK) {
            T_TRUE(event->time_ns <= after_ns);
            waited_ns += event->time_ns;
        }
    }
    T_TRUE(waited_ns > 0 && waited_ns <= after_ns - before_ns);
    trace_close(&trace);
}

static void test_a_spin_is_one_wait(void) {
    check_spin(INT64_MAX, 1);
    check_spin(0, SPINS);
}

/* os.sched_yield(): the thread has detached its state. */
static void test_a_yield_of_the_programs_own(void) {
    begin("own.hwt");
    void *me = PyEval_SaveThread();
    fake_spin(SPINS);
    PyEval_RestoreThread(me);
    struct trace trace = end("own.hwt");
    T_EQ(0, trace.kinds[HW__PARK]);
    trace_close(&trace);
}

/* One park teaches which register has the lock; another park that contradicts it makes the recorder
 * forget this for good. */
#ifdef __x86_64__
static uintptr_t told;

static int tell(uintptr_t lock) {
    told = lock;
    return 0;
}

/* Calls `function` with the lock's address in rbx, and zero in the other registers that a call
 * preserves. */
int spin_with(uintptr_t lock, uintptr_t function);
__asm__(".text\n"
        ".globl spin_with\n"
        ".type spin_with, @function\n"
        "spin_with:\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rdi, %rbx\n"
        "    xor %r12, %r12\n"
        "    xor %r13, %r13\n"
        "    xor %r14, %r14\n"
        "    xor %r15, %r15\n"
        "    call *%rsi\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    ret\n"
        ".size spin_with, .-spin_with\n");

static void test_the_lock_is_learnt(void) {
    uintptr_t yield = hw__spinning_replacement(tell);
    spin_with(0x1000, yield);
    T_EQ(0, told);
    hw__spinning_learn(0x2000); /* in no register */
    spin_with(0x1000, yield);
    hw__spinning_learn(0x1000);
    spin_with(0x3000, yield);
    T_EQ(0x3000, told);
    hw__spinning_learn(0x3000);
    /* Two wrong ones in a row, then a right one: the register is still believed. */
    for (int rounds = 0; rounds < 2; rounds++) {
        for (int i = 0; i < 2; i++) {
            spin_with(0x4000, yield);
            hw__spinning_learn(0x5000);
        }
        spin_with(0x4000, yield);
        T_EQ(0x4000, told);
        hw__spinning_learn(0x4000);
    }
    for (int i = 0; i < 3; i++) {
        spin_with(0x4000, yield);
        hw__spinning_learn(0x5000);
    }
    spin_with(0x4000, yield);
    T_EQ(0, told);
    hw__spinning_learn(0x4000);
    spin_with(0x4000, yield);
    T_EQ(0, told);
}
#endif

int main(void) {
    t_start();
    world_begin();
    world_enter();
    layout = fake_layout(false);
    T_RUN(test_a_spin_before_the_threads_end);
    T_RUN(test_a_spin_is_one_wait);
    T_RUN(test_a_yield_of_the_programs_own);
#ifdef __x86_64__
    T_RUN(test_the_lock_is_learnt);
#endif
    world_leave();
    return 0;
}
