// SPDX-License-Identifier: MIT
/* A lease: a recording or a policy lasts as long as the other side extends its lease, and no
 * longer, whatever the threads are doing when it ends. */
#include "base/lease.h"
#include "gil_world.h"
#include "headway/schedule.h"
#include "trace_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MS INT64_C(1000000)
#define WORKERS 4
#define SPINS 20000

static struct hw__lease *const trace_lease = &hw__leases[HW__LEASE_TRACE];
static struct hw__lease *const policy_lease = &hw__leases[HW__LEASE_SCHEDULE];

/* Maps the page, as the other side does with the descriptor that it gets. */
static struct hw__lease_page *taken(int fd) {
    T_TRUE(fd >= 0);
    void *page =
        mmap(NULL, sizeof(struct hw__lease_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    T_TRUE(page != MAP_FAILED);
    T_EQ(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, fcntl(fd, F_GET_SEALS));
    T_EQ(0, close(fd));
    return page;
}

/* Begins a lease, and maps its page as the other side does. */
static struct hw__lease_page *begun(struct hw__lease *lease, int64_t span_ns) {
    int fd = hw__lease_page(span_ns);
    T_TRUE(fd >= 0);
    T_EQ(0, hw__lease_begin(lease, fd));
    return taken(fd);
}

static void test_a_lease(void) {
    T_TRUE(!hw__lease_over(trace_lease, INT64_MAX)); /* there is no lease */
    struct hw__lease_page *page = begun(trace_lease, 1000 * MS);
    int64_t until = atomic_load(&page->until_ns);
    T_TRUE(until >= atomic_load(&page->now_ns) + 1000 * MS);
    T_TRUE(!hw__lease_over(trace_lease, until - 1));
    T_TRUE(hw__lease_over(trace_lease, until));
    atomic_store(&page->until_ns, until + 5 * MS); /* written by the other side */
    T_TRUE(!hw__lease_over(trace_lease, until));
    hw__lease_expire(trace_lease, HW__LEASE_EXPIRED);
    T_TRUE(hw__lease_over(trace_lease, 0)); /* for good */
    T_EQ(HW__LEASE_EXPIRED, atomic_load(&page->ended));
    hw__lease_renew(trace_lease, 1000 * MS);
    T_TRUE(hw__lease_over(trace_lease, 0));
    hw__lease_end(trace_lease);
    T_TRUE(!hw__lease_over(trace_lease, INT64_MAX));
    T_EQ(HW__LEASE_EXPIRED, atomic_load(&page->ended)); /* the first reason for its end */
}

/* The process's limit on the size of files applies to the page, too; to exceed it would raise a
 * signal. */
static void test_a_limit_of_files(void) {
    pid_t pid = fork();
    T_TRUE(pid >= 0);
    if (pid == 0) {
        struct rlimit none = {0, 0};
        T_EQ(0, setrlimit(RLIMIT_FSIZE, &none));
        _exit(hw__lease_page(1000 * MS) == -EFBIG ? 7 : 8);
    }
    int status;
    T_EQ(pid, waitpid(pid, &status, 0));
    T_TRUE(WIFEXITED(status));
    T_EQ(7, WEXITSTATUS(status));
}

/* The next lease replaces the last one, whose holder is told and has no say any more. */
static void test_one_after_the_other(void) {
    struct hw__lease_page *first = begun(trace_lease, 1000 * MS);
    struct hw__lease_page *second = begun(trace_lease, 1000 * MS);
    T_EQ(HW__LEASE_ENDED, atomic_load(&first->ended));
    T_EQ(HW__LEASE_LIVE, atomic_load(&second->ended));
    atomic_store(&first->until_ns, 1);
    T_TRUE(!hw__lease_over(trace_lease, hw_now_ns()));
    atomic_store(&second->until_ns, 1);
    T_TRUE(hw__lease_over(trace_lease, hw_now_ns()));
    hw__lease_end(trace_lease);
}

static struct world_worker workers[WORKERS];
static atomic_bool stop;

static void start_workers(void) {
    memset(workers, 0, sizeof workers);
    atomic_store(&stop, false);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct world_worker){.gil = fake_main_gil(), .spins = SPINS, .stop = &stop};
        world_go(&workers[i]);
    }
    world_await(&workers[0].taken, 10);
}

static void end_workers(void) {
    atomic_store(&stop, true);
    for (int i = 0; i < WORKERS; i++) {
        world_join(workers[i].thread);
    }
}

/* The lease ends while threads are in the hooks: nothing is recorded any more, the program goes on,
 * and the next recording begins as usual. */
static void test_a_recording_ends(void) {
    struct hw__lease_page *page = begun(trace_lease, 3600 * 1000 * MS);
    world_start("leased.hwt");
    start_workers();
    T_EQ(1, hw_trace_active());
    atomic_store(&page->until_ns, 1);
    T_EQ(0, hw_trace_active());
    while (atomic_load(&page->ended) == HW__LEASE_LIVE) {
        world_yield();
    }
    T_EQ(HW__LEASE_EXPIRED, atomic_load(&page->ended));
    T_TRUE(!atomic_load(&world_record(fake_main_gil())->recorded));
    atomic_store(&page->until_ns, INT64_MAX); /* too late */
    world_await(&workers[0].taken, 10);
    T_EQ(0, hw_trace_active());
    world_start("next.hwt");
    T_TRUE(!hw__lease_over(trace_lease, INT64_MAX));
    world_await(&workers[0].taken, 10);
    end_workers();
    T_EQ(0, hw_trace_stop());
    T_TRUE(!world_hooked());
    struct trace trace = trace_open(world_path("next.hwt"));
    T_TRUE(trace.event_count > 20);
    trace_close(&trace);
}

/* The same under a policy; all threads that sleep in its queue are woken. */
static void test_a_policy_ends(void) {
    char problem[300];
    for (int i = 0; hw_policy_at(i) != NULL; i++) {
        struct hw__lease_page *page = begun(policy_lease, 3600 * 1000 * MS);
        T_EQ(0, hw_schedule_start(hw_policy_at(i), "", problem, sizeof problem));
        start_workers();
        T_TRUE(hw_schedule_active()[0] != '\0');
        atomic_store(&page->until_ns, 1);
        T_EQ('\0', hw_schedule_active()[0]);
        while (atomic_load(&page->ended) == HW__LEASE_LIVE) {
            world_yield();
        }
        T_EQ(HW__LEASE_EXPIRED, atomic_load(&page->ended));
        for (int j = 0; j < WORKERS; j++) {
            world_await(&workers[j].taken, 3);
        }
        T_TRUE(!atomic_load(&world_record(fake_main_gil())->scheduled));
        /* The remains of the policy do not get in the way, and a policy without a lease has no
         * end. */
        T_EQ(0, hw_schedule_start(hw_policy_at(i), "", problem, sizeof problem));
        T_TRUE(!hw__lease_over(policy_lease, INT64_MAX));
        world_await(&workers[0].taken, 3);
        T_TRUE(hw_schedule_active()[0] != '\0');
        T_EQ(0, hw_schedule_stop());
        end_workers();
        T_TRUE(!world_hooked());
    }
}

static void end_both(void) {
    T_TRUE(hw__lease_over(trace_lease, INT64_MAX - 1)); /* the child has the lease, too */
    hw__lease_expire(trace_lease, HW__LEASE_EXPIRED);
    hw__lease_expire(policy_lease, HW__LEASE_WATCHDOG);
    hw__lease_end(trace_lease);
    hw__lease_end(policy_lease);
    struct hw__lease_page *own = begun(trace_lease, 3600 * 1000 * MS);
    hw__lease_end(trace_lease);
    T_EQ(HW__LEASE_ENDED, atomic_load(&own->ended));
}

/* A forked child ends its leases, and not those of its parent. */
static void test_a_forked_child(void) {
    struct hw__lease_page *trace = begun(trace_lease, 3600 * 1000 * MS);
    struct hw__lease_page *policy = begun(policy_lease, 3600 * 1000 * MS);
    world_start("parent.hwt");
    world_wait(world_raw_fork(end_both));
    T_EQ(HW__LEASE_LIVE, atomic_load(&trace->ended));
    T_EQ(HW__LEASE_LIVE, atomic_load(&policy->ended));
    T_EQ(0, hw_trace_stop());
    hw__lease_end(policy_lease);
    T_EQ(HW__LEASE_ENDED, atomic_load(&trace->ended));
    T_EQ(HW__LEASE_ENDED, atomic_load(&policy->ended));
}

static struct hw__lease_page *parents_page;

static void record_itself(void) {
    world_yield(); /* there is no collector for the child */
    T_EQ(0, hw_trace_active());
    atomic_store(&parents_page->until_ns, 1);
    world_start("child.hwt");
    world_yield();
    T_EQ(1, hw_trace_active());
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("child.hwt"));
    T_EQ(3, trace.event_count);
    trace_close(&trace);
}

/* A child that lost its parent's recording begins one of its own, which has no lease. */
static void test_a_lost_child_records_itself(void) {
    parents_page = begun(trace_lease, 3600 * 1000 * MS);
    world_start("parent.hwt");
    world_wait(world_fork(record_itself));
    T_EQ(0, hw_trace_stop());
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    T_RUN(test_a_lease);
    T_RUN(test_a_limit_of_files);
    T_RUN(test_one_after_the_other);
    T_RUN(test_a_recording_ends);
    T_RUN(test_a_policy_ends);
    T_RUN(test_a_forked_child);
    T_RUN(test_a_lost_child_records_itself);
    world_leave();
    return 0;
}
