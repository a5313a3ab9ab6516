// SPDX-License-Identifier: MIT
/* The policy in a trace's header: its name, its options, and its end. */
#include "gil_world.h"
#include "headway/schedule.h"
#include "trace_file.h"

static const struct hw_policy *fair;

static void schedule(const char *options) {
    char problem[300];
    T_EQ(0, hw_schedule_start(fair, options, problem, sizeof problem));
}

static void check(const struct hw__header *header, const char *changed, bool ended) {
    T_TRUE(strcmp("fair", header->policy) == 0);
    size_t length = strlen(changed);
    T_TRUE(strncmp(changed, header->policy_options, length) == 0);
    T_EQ(';', header->policy_options[length]);
    T_EQ(ended, atomic_load(&header->policy_end_ns) != 0);
}

/* Options that differ from their presets come first, whichever way they were given. All others
 * follow, with the engine's. */
static void test_options(void) {
    schedule("watchdog_ms=9 compute_percent=90");
    world_start("on.hwt");
    check(hw__session.header, "compute_percent=90 watchdog_ms=9", false);
    const char *others = strchr(hw__session.header->policy_options, ';');
    T_TRUE(strstr(others, "latency_us=") != NULL && strstr(others, " spin_us=20 yield=1 ") != NULL);
    T_TRUE(strstr(others, "compute_percent") == NULL && strstr(others, "watchdog_ms") == NULL);
    T_EQ(0, hw_schedule_stop());
    check(hw__session.header, "compute_percent=90 watchdog_ms=9", true);
    T_EQ(0, hw_trace_stop());
}

/* The first policy of a recording is noted; the same one with other options is another one. */
static void test_options_change(void) {
    world_start("changes.hwt");
    T_EQ('\0', hw__session.header->policy[0]);
    T_EQ('\0', hw__session.header->policy_options[0]);
    const char *const options[] = {"compute_percent=90", "compute_percent=20",
                                   "compute_percent=90 watchdog_ms=3000", ""};
    const bool same[] = {true, false, true, false};
    for (int i = 0; i < 4; i++) {
        schedule(options[i]);
        check(hw__session.header, "compute_percent=90", !same[i]);
        T_EQ(0, hw_schedule_stop());
        check(hw__session.header, "compute_percent=90", true);
    }
    T_EQ(0, hw_trace_stop());
}

static void check_child(void) {
    world_yield();
    check(hw__session.header, "compute_percent=20", false);
    T_EQ(0, hw_trace_stop());
}

/* A forked child has the options under which it runs, whatever its parent had first. */
static void test_child(void) {
    world_collect("app.hwt");
    schedule("compute_percent=90");
    T_EQ(0, hw_schedule_stop());
    schedule("compute_percent=20");
    world_wait(world_fork(check_child));
    check(hw__session.header, "compute_percent=90", true);
    T_EQ(0, hw_schedule_stop());
    T_EQ(0, hw_trace_stop());
    struct trace trace = trace_open(world_path("app.hwt"));
    check(trace.header, "compute_percent=90", true);
    trace_close(&trace);
}

/* A policy whose options do not fit has none in the header: they are not known. */
static void test_no_room(void) {
    static char name[HW__OPTIONS_BYTES];
    memset(name, 'n', sizeof name - 1);
    static struct hw_policy_option options[2];
    options[0] = (struct hw_policy_option){.name = name, .most = 1};
    struct hw_policy own = *fair;
    own.name = "own";
    own.options = options;
    char problem[300];
    T_EQ(0, hw_schedule_start(&own, "", problem, sizeof problem));
    world_start("own.hwt");
    T_TRUE(strcmp("own", hw__session.header->policy) == 0);
    T_EQ('\0', hw__session.header->policy_options[0]);
    T_EQ(0, hw_trace_stop());
    T_EQ(0, hw_schedule_stop());
}

int main(void) {
    t_start();
    world_begin();
    world_enter();
    char problem[300];
    fair = hw_policy_find("fair", problem, sizeof problem);
    T_RUN(test_options);
    T_RUN(test_options_change);
    T_RUN(test_child);
    T_RUN(test_no_room);
    world_leave();
    return 0;
}
