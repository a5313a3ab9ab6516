// SPDX-License-Identifier: MIT
/* fork() with a policy on and no session: all of our locks are free in the child. */
#include "gil_world.h"
#include "headway/schedule.h"

static char problem[300];
static atomic_bool locked, over;
static pid_t forker;

/* Holds the registry's lock, as a thread that ends does, until the other thread sleeps: in fork()
 * for the lock, or in waitpid() if fork() does not wait for the lock. */
static void *hold_lock(void *unused) {
    hw__registry_lock();
    atomic_store(&locked, true);
    world_await_asleep(forker);
    hw__registry_unlock();
    atomic_store(&over, true);
    return unused;
}

static void in_child(void) {
    T_TRUE(hw__registry_trylock());
    hw__registry_unlock();
    world_yield();
    T_TRUE(hw_schedule_active()[0] != '\0');
    T_EQ(0, hw_schedule_stop());
}

static void test_registry(void) {
    pthread_t thread;
    forker = gettid();
    T_EQ(0, hw_schedule_start(hw_policy_at(0), "", problem, sizeof problem));
    T_EQ(0, pthread_create(&thread, NULL, hold_lock, NULL));
    T_EQ(0,
         /* the child does not have this thread: the thread sanitizer would miss it */
         pthread_detach(thread));
    while (!atomic_load(&locked)) {
        sched_yield();
    }
    world_wait(world_fork(in_child));
    while (!atomic_load(&over)) {
        sched_yield();
    }
    T_EQ(0, hw_schedule_stop());
}

/* The same with a session, whose own fork handlers take the lock, too. */
static void test_with_a_session(void) {
    world_start("fork.hwt");
    T_EQ(0, hw_schedule_start(hw_policy_at(0), "", problem, sizeof problem));
    world_wait(world_fork(in_child));
    T_TRUE(hw__registry_trylock());
    hw__registry_unlock();
    T_EQ(0, hw_schedule_stop());
    T_EQ(0, hw_trace_stop());
}

/* A process that has used up the first keys for thread-specific data is not scheduled, and gets an
 * error. */
static void without_a_key(void) {
    for (int i = 0; i < 40; i++) {
        pthread_key_t key;
        T_EQ(0, pthread_key_create(&key, NULL));
    }
    T_EQ(-EMFILE, hw_schedule_start(hw_policy_at(0), "", problem, sizeof problem));
    T_TRUE(strstr(problem, "keys for thread-specific data") != NULL);
    T_TRUE(!world_hooked());
    T_EQ(0, hw_schedule_active()[0]);
}

static void test_without_a_key(void) { world_wait(world_fork(without_a_key)); }

static rlim_t mapped_bytes(void) {
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    T_TRUE(file != NULL);
    T_EQ(1, fscanf(file, "%lu", &pages));
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* The address space that is left, beside all that is mapped; 0: none. */
static rlim_t room_left;

/* Without room for the queue, of which the program must keep some, the main GIL stays CPython's.
 * The policy starts there as soon as there is room. */
static void without_a_queue(void) {
    T_EQ(0, hw_schedule_hint(0, 0)); /* so that the records of the threads, and of the GIL, exist */
    world_start("");
    T_EQ(0, hw_trace_stop());
    world_limit_address_space(room_left == 0 ? 1 << 20 : mapped_bytes() + room_left);
    T_EQ(0, hw_schedule_start(hw_policy_at(0), "", problem, sizeof problem));
    struct hw__gil *gil = world_record(fake_main_gil());
    T_TRUE(!atomic_load(&gil->scheduled));
    world_yield();
    T_TRUE(!atomic_load(&gil->scheduled));
    world_limit_address_space(RLIM_INFINITY);
    world_yield();
    T_TRUE(atomic_load(&gil->scheduled));
    T_EQ(0, hw_schedule_stop());
}

static void test_without_a_queue(void) {
    if (WORLD_CAN_LIMIT) {
        room_left = 0;
        world_wait(world_fork(without_a_queue));
        room_left = 2 << 20; /* the queue takes 1 MiB */
        world_wait(world_fork(without_a_queue));
    }
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_without_a_key);   /* first, because the key is made once */
    T_RUN(test_without_a_queue); /* and so is the queue */
    T_RUN(test_registry);
    T_RUN(test_with_a_session);
    world_leave();
    return 0;
}
