// SPDX-License-Identifier: MIT
/* Waits for locks: spins, and the parks that follow them. */
#include "gil/parking.h"
#include "gil/spinning.h"
#include "gil_world.h"
#include "trace/parks.h"
#include "trace/slots.h"
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

static void stop_at_once(void) { T_EQ(0, hw_trace_stop()); }

/* A forked child has a copy of the spin, and the memory of its parent until it has made its own. */
static void test_a_child_leaves_its_parents_spin(void) {
    begin("parent.hwt");
    fake_spin(1);
    world_wait(world_raw_fork(stop_at_once));
    struct trace trace = end("parent.hwt");
    (void)only_wait(&trace);
    T_EQ(1, atomic_load(&trace.slots[0].waits));
    trace_close(&trace);
}

/* A thread may be off the core between two yields of one spin. */
static void test_a_spin_that_its_registers_tell_is_one_wait(void) {
    int64_t usual_ns = hw__parks_same_spin_ns;
    hw__parks_same_spin_ns = 0;
    begin("registers.hwt");
    struct hw__park park = {.kind = HW__LOCK_MUTEX, .lock = 0x1000};
    T_TRUE(!hw__spin_goes_on(park.lock, hw_now_ns(), true));
    hw__on_spin(&park, hw_now_ns());
    T_TRUE(hw__spin_goes_on(park.lock, hw_now_ns(), true));
    T_TRUE(!hw__spin_goes_on(park.lock, hw_now_ns(), false));
    T_TRUE(!hw__spin_goes_on(0x2000, hw_now_ns(), true));
    struct trace trace = end("registers.hwt");
    hw__parks_same_spin_ns = usual_ns;
    T_EQ(1, trace.kinds[HW__PARK]);
    trace_close(&trace);
}

/* Waits for `park`, without sleeping. */
static void wait_for(const struct hw__park *park) {
    T_TRUE(hw__on_park(park, hw_now_ns()));
    hw__on_unpark(park);
}

/* A class may be gone, and another one be where it was: each wait has the name that was there. */
static void test_a_type_at_the_address_of_another_one(void) {
    begin("types.hwt");
    struct hw__park first = {
        .kind = HW__LOCK_OBJECT, .lock = 0x1000, .type = 0x5000, .type_name = "First"};
    struct hw__park second = first;
    memcpy(second.type_name, "Second", sizeof "Second");
    const struct hw__park *parks[] = {&first, &first, &second, &second, &first};
    static const uint32_t ids[] = {1, 1, 2, 2, 1};
    size_t count = sizeof parks / sizeof *parks;
    for (size_t i = 0; i < count; i++) {
        wait_for(parks[i]);
    }
    struct trace trace = end("types.hwt");
    T_EQ(count, trace.kinds[HW__UNPARK]);
    size_t told = 0;
    for (size_t i = 0; i < trace.event_count; i++) {
        if (trace.events[i].event.kind == HW__UNPARK) {
            T_EQ(ids[told++], trace.events[i].event.value);
        }
    }
    trace_close(&trace);
}

/* A thread that is woken in vain waits again, in the same call. */
static void test_waits_of_one_call_are_told(void) {
    begin("again.hwt");
    struct hw__park first = {.kind = HW__LOCK_MUTEX, .lock = 0x1000, .call_ns = 7};
    struct hw__park bucket = {.kind = HW__LOCK_UNKNOWN, .lock = 0x3000};
    struct hw__park unknown = first, other_lock = first, next = first;
    unknown.call_ns = 0;
    other_lock.lock = 0x2000;
    next.call_ns = 8;
    const struct hw__park *parks[] = {&first,      &first, &bucket,  &first,
                                      &other_lock, &next,  &unknown, &unknown};
    static const bool again[] = {false, true, false, true, false, false, false, false};
    size_t count = sizeof again / sizeof *again;
    for (size_t i = 0; i < count; i++) {
        wait_for(parks[i]);
    }
    struct trace trace = end("again.hwt");
    T_EQ(count, trace.kinds[HW__PARK]);
    size_t told = 0;
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        if (event->kind == HW__PARK) {
            T_EQ(again[told++], (event->flags & HW__PARK_AGAIN) != 0);
        } else {
            T_EQ(0, event->flags & HW__PARK_AGAIN);
        }
    }
    trace_close(&trace);
}

/* A thread may be off the core between its spin and its park. When the call began tells whether
 * the spin belongs to it. */
static void check_spin_and_park(int64_t from_ns, int64_t call_ns, uint64_t waits) {
    begin("call.hwt");
    struct hw__park park = {.kind = HW__LOCK_MUTEX, .lock = 0x1000};
    hw__on_spin(&park, from_ns);
    park.call_ns = call_ns;
    struct timespec away = {0, 100000}; /* longer than a thread needs for the way by itself */
    T_EQ(0, nanosleep(&away, NULL));
    T_TRUE(hw__on_park(&park, hw_now_ns()));
    hw__on_unpark(&park);
    struct trace trace = end("call.hwt");
    T_EQ(waits, trace.kinds[HW__PARK]);
    trace_close(&trace);
}

static void test_a_spin_belongs_to_its_call(void) {
    int64_t from_ns = hw_now_ns();
    check_spin_and_park(from_ns, from_ns, 1);
    check_spin_and_park(from_ns, from_ns + 1, 2);
    check_spin_and_park(from_ns, 0, 2); /* not known: the time in between decides */
}

/* Threads spin for locks, and not for events: a join right after a spin is a wait of its own. */
static void test_a_wait_for_an_event_has_no_spin(void) {
    for (uint64_t is_event = 0; is_event < 2; is_event++) {
        begin("event.hwt");
        struct hw__park park = {.kind = HW__LOCK_MUTEX};
        int64_t now = hw_now_ns();
        hw__on_spin(&park, now);
        park.lock = 0x1000;
        park.kind = is_event ? HW__LOCK_EVENT : HW__LOCK_MUTEX;
        T_TRUE(hw__on_park(&park, now));
        hw__on_unpark(&park);
        struct trace trace = end("event.hwt");
        T_EQ(1 + is_event, trace.kinds[HW__PARK]);
        trace_close(&trace);
    }
}

/* A wait that begins while another thread makes a forked child's memory is missing, and counted. */
static void test_a_wait_of_a_child_without_a_memory_is_counted(void) {
    begin("missed.hwt");
    struct hw__park park = {.kind = HW__LOCK_MUTEX, .lock = 0x1000};
    for (int i = 0; i < 3; i++) {
        atomic_store(&hw__session.inherited, HW__ADOPTING);
        for (int round = 0; i == 1 && round < 40; round++) {
            T_TRUE(!hw__parks_wanted(true)); /* a spin, which the park belongs to */
        }
        T_TRUE(!hw__parks_wanted(false));
        atomic_store(&hw__session.inherited, 0);
        if (i == 0) {
            wait_for(&park);
            T_EQ(2, atomic_load(&hw__session.header->dropped_events));
        }
    }
    struct trace trace = end("missed.hwt");
    T_EQ(1, trace.kinds[HW__PARK]);
    T_EQ(6, trace.header->dropped_events);
    trace_close(&trace);
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

/* Waits for stop-the-world, and no others, are counted for themselves. */
static void test_stop_the_world_is_counted(void) {
    static const enum hw__lock_kind kinds[] = {HW__LOCK_WORLD, HW__LOCK_MUTEX, HW__LOCK_WORLD};
    begin("world.hwt");
    void *me = PyEval_SaveThread();
    for (int i = 0; i < 3; i++) {
        struct hw__park park = {.kind = kinds[i], .lock = 0x1000};
        T_TRUE(hw__on_park(&park, hw_now_ns()));
        hw__on_unpark(&park);
    }
    PyEval_RestoreThread(me);
    struct trace trace = end("world.hwt");
    int64_t world_ns = 0;
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct hw__event *event = &trace.events[i].event;
        int sign = event->kind == HW__UNPARK ? 1 : event->kind == HW__PARK ? -1 : 0;
        world_ns += event->flags == HW__PARK_WORLD ? sign * event->time_ns : 0;
    }
    uint32_t count = 0;
    for (int i = 0; i < HW__WORLD_BUCKETS; i++) {
        count += trace.slots[0].world_buckets[i];
    }
    T_EQ(3, trace.kinds[HW__PARK]);
    T_EQ(2, count);
    T_EQ(world_ns, (int64_t)trace.slots[0].world_ns);
    trace_close(&trace);
}

static void test_the_bounds_of_stop_the_world(void) {
    static const struct {
        uint64_t wait_ns;
        int bucket;
    } cases[] = {{0, 0},
                 {1023, 0},
                 {1024, 1},
                 {4095, 1},
                 {4096, 2},
                 {(UINT64_C(1) << 38) - 1, 14},
                 {UINT64_C(1) << 38, 15},
                 {UINT64_MAX, 15}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hw__slot slot = {0};
        hw__slot_count_world(&slot, cases[i].wait_ns);
        T_EQ(1, slot.world_buckets[cases[i].bucket]);
        T_EQ(cases[i].wait_ns, slot.world_ns);
    }
}

/* One park teaches which register has the lock; another park that contradicts it makes the recorder
 * forget this for good. */
#ifdef __x86_64__
static uintptr_t told;
static bool told_same;

static int tell(uintptr_t lock, bool same_spin) {
    told = lock;
    told_same = same_spin;
    return 0;
}

/* Calls `function` with the lock's address in rbx, the count in r12, and zero in the other
 * registers that a call preserves. */
int yield_with(uintptr_t lock, uintptr_t function, uintptr_t count);

static void spin_with(uintptr_t lock, uintptr_t function) { yield_with(lock, function, 0); }

__asm__(".text\n"
        ".globl yield_with\n"
        ".type yield_with, @function\n"
        "yield_with:\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rdi, %rbx\n"
        "    mov %rdx, %r12\n"
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
        ".size yield_with, .-yield_with\n");

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

/* Two yields are of one spin if the count in a register goes on by one, and nothing else changes.
 */
static void test_the_count_tells_one_spin_from_two(void) {
    static const struct {
        uintptr_t lock;
        uintptr_t count;
        bool same_spin;
    } yields[] = {
        {0x1000, 0, false}, {0x1000, 1, true}, {0x1000, 2, true},  {0x1000, 0, false},
        {0x1000, 0, false}, {0x1000, 1, true}, {0x1000, 3, false}, {0x2000, 4, false},
        {0x2001, 4, false}, {0x2001, 5, true}, {0x2002, 6, false},
    };
    uintptr_t yield = hw__spinning_replacement(tell);
    hw__spinning_learn(0); /* no yield of the test before */
    for (size_t i = 0; i < sizeof yields / sizeof *yields; i++) {
        yield_with(yields[i].lock, yield, yields[i].count);
        T_EQ(yields[i].same_spin, told_same);
    }
    hw__spinning_learn(0x2002); /* a park ends the spin */
    yield_with(0x2002, yield, 7);
    T_EQ(false, told_same);
}
#endif

int main(void) {
    t_start();
    world_begin();
    world_enter();
    hw__spinning_fresh_ns = INT64_MAX;
    layout = fake_layout(false);
    T_RUN(test_a_spin_before_the_threads_end);
    T_RUN(test_a_spin_is_one_wait);
    T_RUN(test_a_child_leaves_its_parents_spin);
    T_RUN(test_a_spin_that_its_registers_tell_is_one_wait);
    T_RUN(test_a_type_at_the_address_of_another_one);
    T_RUN(test_waits_of_one_call_are_told);
    T_RUN(test_a_spin_belongs_to_its_call);
    T_RUN(test_a_wait_for_an_event_has_no_spin);
    T_RUN(test_a_wait_of_a_child_without_a_memory_is_counted);
    T_RUN(test_a_yield_of_the_programs_own);
    T_RUN(test_stop_the_world_is_counted);
    T_RUN(test_the_bounds_of_stop_the_world);
#ifdef __x86_64__
    T_RUN(test_the_lock_is_learnt);
    T_RUN(test_the_count_tells_one_spin_from_two);
#endif
    world_leave();
    return 0;
}
