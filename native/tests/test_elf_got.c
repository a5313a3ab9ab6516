// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "elf/got.h"
#include "elf_calls.h"
#include "elf_maps.h"
#include "t.h"

#define MAX_SLOTS 4

/* Finds the slots of both functions, and the value to write to each. Returns how many slots there
 * are. */
static int find_both(const struct calls *calls, uintptr_t **slots, uintptr_t *values) {
    int pids;
    int ppids;
    T_EQ(0, hw__got_find((void *)calls->pid, "getpid", slots, MAX_SLOTS, &pids));
    T_TRUE(pids >= 1);
    T_EQ(0, hw__got_find((void *)calls->pid, "getppid", slots + pids, MAX_SLOTS, &ppids));
    T_TRUE(ppids >= 1);
    for (int i = 0; i < pids + ppids; i++) {
        values[i] = i < pids ? (uintptr_t)fake_getpid : (uintptr_t)fake_getppid;
    }
    return pids + ppids;
}

/* Checks that the library calls the real functions. */
static void check_real(const struct calls *calls) {
    T_EQ(getpid(), calls->pid());
    T_EQ(getppid(), calls->ppid());
}

/* Patches a build that nothing has called yet, and removes the patch. The build `other_path` must
 * not be affected. */
static void check_patching(const char *path, const char *other_path, int writable) {
    struct calls calls = load(path);
    struct calls other = load(other_path);
    uintptr_t *slots[2 * MAX_SLOTS];
    uintptr_t values[2 * MAX_SLOTS];
    uintptr_t old[2 * MAX_SLOTS];
    uintptr_t fakes[2 * MAX_SLOTS];
    int count = find_both(&calls, slots, values);
    for (int round = 0; round < 2; round++) { /* first unbound, where binding is lazy; then bound */
        T_EQ(0, hw__got_write_all(slots, count, values, old));
        for (int i = 0; i < count; i++) {
            T_EQ(values[i], hw__got_read(slots[i]));
            T_EQ(writable, maps_allow(slots[i], 'w'));
            T_TRUE(maps_allow(slots[i], 'r'));
        }
        T_EQ(FAKE_PID, calls.pid());
        T_EQ(FAKE_PPID, calls.ppid());
        /* also the second time: the loader has not written over the slot */
        T_EQ(FAKE_PID, calls.pid());
        T_EQ(getpid(), calls.pointer());
        check_real(&other);
        T_TRUE(getpid() > 0);
        T_EQ(0, hw__got_write_all(slots, count, old, fakes));
        for (int i = 0; i < count; i++) {
            T_EQ(values[i], fakes[i]);
            T_EQ(old[i], hw__got_read(slots[i]));
            T_EQ(writable, maps_allow(slots[i], 'w'));
        }
        check_real(&calls);
    }
    T_EQ(0, dlclose(other.handle));
    T_EQ(0, dlclose(calls.handle));
}

static void test_lazy(void) { check_patching(ELF_CALLS_LAZY, ELF_CALLS_NOW, 1); }

static void test_now_and_relro(void) { check_patching(ELF_CALLS_NOW, ELF_CALLS_NO_PLT, 0); }

static void test_no_plt(void) { check_patching(ELF_CALLS_NO_PLT, ELF_CALLS_LAZY, 0); }

static void test_symbol_not_there(void) {
    struct calls calls = load(ELF_CALLS_LAZY);
    uintptr_t *slots[MAX_SLOTS];
    int count = -1;
    T_EQ(-ENXIO, hw__got_find((void *)calls.pid, "getpi", slots, MAX_SLOTS, &count));
    T_EQ(0, count);
    T_EQ(-ENXIO, hw__got_find((void *)calls.pid, "getpidd", slots, MAX_SLOTS, &count));
    T_EQ(-ENXIO, hw__got_find((void *)calls.pid, "", slots, MAX_SLOTS, &count));
    /* The library defines this function, but does not call it. */
    T_EQ(-ENXIO, hw__got_find((void *)calls.pid, "elf_calls_getpid", slots, MAX_SLOTS, &count));
    T_EQ(-ENOSPC, hw__got_find((void *)calls.pid, "getpid", slots, 0, &count));
    T_EQ(0, count);
    T_EQ(0, dlclose(calls.handle));
}

static void test_no_image(void) {
    uintptr_t *slots[MAX_SLOTS];
    int count = -1;
    int local = 0;
    char *heap = malloc(16);
    T_TRUE(heap != NULL);
    T_EQ(-ENOENT, hw__got_find(&local, "getpid", slots, MAX_SLOTS, &count));
    T_EQ(0, count);
    T_EQ(-ENOENT, hw__got_find(heap, "getpid", slots, MAX_SLOTS, &count));
    T_EQ(-ENOENT, hw__got_find(NULL, "getpid", slots, MAX_SLOTS, &count));
    T_EQ(-ENOENT, hw__got_find((void *)UINTPTR_MAX, "getpid", slots, MAX_SLOTS, &count));
    free(heap);
}

/* mprotect() refuses to open a slot's page, which is a file's, mapped shared and opened for
 * reading. The slot before it must be restored. */
static void test_refusal_undoes_all(void) {
    struct calls calls = load(ELF_CALLS_NOW);
    uintptr_t *slots[2 * MAX_SLOTS];
    uintptr_t values[2 * MAX_SLOTS];
    uintptr_t old[2 * MAX_SLOTS];
    int count = find_both(&calls, slots, values);
    int fd = open("/proc/self/exe", O_RDONLY);
    T_TRUE(fd >= 0);
    uintptr_t *closed = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    T_TRUE(closed != MAP_FAILED);
    uintptr_t before = *closed;
    slots[count] = closed;
    values[count] = 1;
    uintptr_t value = hw__got_read(slots[0]);
    T_EQ(-EACCES, hw__got_write_all(slots, count + 1, values, old));
    T_EQ(value, hw__got_read(slots[0]));
    T_EQ(before, *closed);
    T_EQ(0, maps_allow(slots[0], 'w'));
    T_EQ(0, maps_allow(closed, 'w'));
    check_real(&calls);
    T_EQ(-EACCES, hw__got_write(closed, 1, old));
    T_EQ(0, munmap(closed, 4096));
    T_EQ(-EFAULT, hw__got_write(closed, 1, old));
    close(fd);
    T_EQ(0, dlclose(calls.handle));
}

/* A thread that calls all the time. */
struct caller {
    struct calls calls;
    int pid;
    atomic_bool stop;
    atomic_long real;
    atomic_long fake;
    atomic_long wrong;
};

static void *run_caller(void *argument) {
    struct caller *caller = argument;
    while (!atomic_load(&caller->stop)) {
        int pid = caller->calls.pid();
        atomic_fetch_add(pid == caller->pid ? &caller->real
                         : pid == FAKE_PID  ? &caller->fake
                                            : &caller->wrong,
                         1);
    }
    return NULL;
}

/* Waits until a counter has grown by more than the one call that may have been under way. */
static void await_growth(atomic_long *counter) {
    long start = atomic_load(counter);
    while (atomic_load(counter) < start + 2) {
        usleep(10);
    }
}

static void check_while_called(const char *path) {
    struct caller caller = {.calls = load(path), .pid = getpid()};
    check_real(&caller.calls); /* binds the slot: see hw__got_write() */
    uintptr_t *slots[MAX_SLOTS];
    uintptr_t values[MAX_SLOTS] = {(uintptr_t)fake_getpid, (uintptr_t)fake_getpid};
    uintptr_t old[MAX_SLOTS];
    uintptr_t fakes[MAX_SLOTS];
    int count;
    T_EQ(0, hw__got_find((void *)caller.calls.pid, "getpid", slots, 2, &count));
    pthread_t thread;
    T_EQ(0, pthread_create(&thread, NULL, run_caller, &caller));
    for (int i = 0; i < 100; i++) {
        await_growth(&caller.real);
        T_EQ(0, hw__got_write_all(slots, count, values, old));
        await_growth(&caller.fake);
        T_EQ(0, hw__got_write_all(slots, count, old, fakes));
    }
    await_growth(&caller.real);
    atomic_store(&caller.stop, true);
    T_EQ(0, pthread_join(thread, NULL));
    T_EQ(0, atomic_load(&caller.wrong));
    check_real(&caller.calls);
    T_EQ(0, dlclose(caller.calls.handle));
}

static void test_while_another_thread_calls(void) {
    check_while_called(ELF_CALLS_LAZY);
    check_while_called(ELF_CALLS_NOW);
    check_while_called(ELF_CALLS_NO_PLT);
}

/* Two threads patch slots of one page: neither takes the right to write from the other. */
static void *run_patcher(void *argument) {
    uintptr_t *slot = argument;
    for (int i = 0; i < 300; i++) {
        uintptr_t old;
        uintptr_t ours;
        T_EQ(0, hw__got_write(slot, (uintptr_t)fake_getpid, &old));
        T_EQ(0, hw__got_write(slot, old, &ours));
        T_EQ((uintptr_t)fake_getpid, ours);
    }
    return NULL;
}

static void test_two_patchers_of_a_page(void) {
    struct calls calls = load(ELF_CALLS_NOW);
    uintptr_t *slots[2 * MAX_SLOTS];
    uintptr_t values[2 * MAX_SLOTS];
    int count = find_both(&calls, slots, values);
    pthread_t thread;
    T_EQ(0, pthread_create(&thread, NULL, run_patcher, slots[0]));
    run_patcher(slots[count - 1]);
    T_EQ(0, pthread_join(thread, NULL));
    T_EQ(0, maps_allow(slots[0], 'w'));
    check_real(&calls);
    T_EQ(0, dlclose(calls.handle));
}

static void test_real_function(void) {
    int (*real)(void) = (int (*)(void))hw__real_function("getpid");
    T_TRUE(real != NULL);
    T_EQ(getpid(), real());
    T_TRUE(hw__real_function("pthread_cond_timedwait") != NULL);
    T_TRUE(hw__real_function("headway_has_no_such_function") == NULL);
}

static uintptr_t *forked_slot;
static atomic_bool forked;

static void *keep_writing(void *unused) {
    (void)unused;
    while (!atomic_load(&forked)) {
        uintptr_t old;
        T_EQ(0, hw__got_write(forked_slot, hw__got_read(forked_slot), &old));
    }
    return NULL;
}

/* A child that is forked while another thread writes a slot can write slots itself. */
static void test_forked_while_another_thread_writes(void) {
    struct calls calls = load(ELF_CALLS_NOW);
    uintptr_t *slots[2 * MAX_SLOTS], values[2 * MAX_SLOTS], old;
    T_TRUE(find_both(&calls, slots, values) > 0);
    forked_slot = slots[0];
    pthread_t thread;
    T_EQ(0, pthread_create(&thread, NULL, keep_writing, NULL));
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20); /* ends a child that waits for the lock for ever */
            hw__got_after_fork();
            _exit(hw__got_write(forked_slot, values[0], &old) == 0 ? 0 : 1);
        }
        int status;
        T_EQ(child, waitpid(child, &status, 0));
        T_EQ(0, status);
    }
    atomic_store(&forked, true);
    T_EQ(0, pthread_join(thread, NULL));
    T_EQ(0, dlclose(calls.handle));
}

int main(void) {
    t_start();
    T_RUN(test_lazy);
    T_RUN(test_now_and_relro);
    T_RUN(test_no_plt);
    T_RUN(test_symbol_not_there);
    T_RUN(test_no_image);
    T_RUN(test_refusal_undoes_all);
    T_RUN(test_while_another_thread_calls);
    T_RUN(test_two_patchers_of_a_page);
    T_RUN(test_forked_while_another_thread_writes);
    T_RUN(test_real_function);
    return 0;
}
