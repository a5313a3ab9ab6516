// SPDX-License-Identifier: MIT
#include "headway/schedule.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allowed.h"
#include "base/lease.h"
#include "base/say.h"
#include "base/ticks.h"
#include "base/tls.h"
#include "engine/help.h"
#include "engine/sched.h"
#include "engine/wake.h"
#include "gil/hooks.h"
#include "gil/probe.h"
#include "gil/recorder.h"
#include "gil/scheduler.h"
#include "headway/clock.h"

/* The options of the engine itself, which every policy has. */
static const struct hw_policy_option engine_options[] = {
    {"spin_us", 0, 1000, 20,
     "how long a waiter may spin for a GIL that another core has; without effect on stock"},
    {"watchdog_ms", 0, 3600000, 3000, "the wait after which the policy is removed; 0: never"},
    {"yield", 0, 1, 1,
     "1: a CPU-bound thread yields its core to a thread that calls it, or that has a short "
     "slice; without effect on stock"},
    {"os_slice_us", 0, 100000, 0,
     "the operating system's slice for threads that hardly hold the GIL (try 100); 0: unchanged"},
    {"os_batch", 0, 1, 0, "1: CPU-bound threads are SCHED_BATCH for the operating system"},
    {.name = NULL},
};

/* A thread is in hw_schedule_start(). Another thread may come there meanwhile, and must not wait:
 * see `starting` in trace.c. Only the thread that has set the flag clears it, and a forked child.
 * Sequentially consistent: the next thread to set it sees the policy. */
static atomic_bool starting;

static void after_fork_in_child(void) {
    hw__sched_after_fork_in_child();
    atomic_store(&starting, false);
}

static int init_once(void) {
    static bool done;
    if (done) {
        return 0;
    }
    int error = hw__runners_init();
    if (error == 0) {
        error = -pthread_atfork(hw__sched_before_fork, hw__sched_after_fork_in_parent,
                                after_fork_in_child);
    }
    done = error == 0;
    return error;
}

/* ---------------------------------------------------------------- options */
struct values {
    int64_t policy[HW_POLICY_MAX_OPTIONS];
    int64_t engine[HW_POLICY_MAX_OPTIONS];
};

static void preset(const struct hw_policy_option *options, int64_t *values) {
    for (int i = 0; i < HW_POLICY_MAX_OPTIONS && options[i].name != NULL; i++) {
        values[i] = options[i].preset;
    }
}

/* Sets the option `name` of one list to the number in `text`. Returns 0, -ENOENT if the list has no
 * such option, or -EINVAL with the reason in `problem`. */
static int set_in(const struct hw_policy_option *options, int64_t *values, const char *name,
                  size_t length, const char *text, char *problem, int room) {
    for (int i = 0; i < HW_POLICY_MAX_OPTIONS && options[i].name != NULL; i++) {
        if (strlen(options[i].name) != length || memcmp(options[i].name, name, length) != 0) {
            continue;
        }
        char *end;
        errno = 0;
        long long value = strtoll(text, &end, 10);
        if (end == text || (*end != '\0' && *end != ' ') || errno != 0 ||
            value < options[i].least || value > options[i].most) {
            snprintf(problem, (size_t)room, "%s is %.*s, expected a whole number from %lld to %lld",
                     options[i].name, (int)strcspn(text, " "), text, (long long)options[i].least,
                     (long long)options[i].most);
            return -EINVAL;
        }
        values[i] = value;
        return 0;
    }
    return -ENOENT;
}

static int read_options(const struct hw_policy *policy, const char *text, struct values *values,
                        char *problem, int room) {
    preset(policy->options, values->policy);
    preset(engine_options, values->engine);
    while (text != NULL && *text != '\0') {
        size_t length = strcspn(text, "= ");
        if (text[length] != '=') {
            snprintf(problem, (size_t)room, "%.*s is no option, expected NAME=VALUE", (int)length,
                     text);
            return -EINVAL;
        }
        const char *value = text + length + 1;
        int error = set_in(policy->options, values->policy, text, length, value, problem, room);
        if (error == -ENOENT) {
            error = set_in(engine_options, values->engine, text, length, value, problem, room);
        }
        if (error != 0) {
            if (error == -ENOENT) {
                snprintf(problem, (size_t)room, "the policy %s has no option %.*s", policy->name,
                         (int)length, text);
            }
            return -EINVAL;
        }
        text = value + strcspn(value, " ");
        text += *text == ' ';
    }
    return 0;
}

/* Appends the options of a list that have their presets, or those that have not, to a text of that
 * length. Returns the length then; HW__POLICY_OPTIONS_BYTES or more: there is no room for it. */
static size_t append_options(char *text, size_t length, const struct hw_policy_option *options,
                             const int64_t *values, bool is_preset) {
    for (int i = 0; i < HW_POLICY_MAX_OPTIONS && options[i].name != NULL; i++) {
        if ((values[i] == options[i].preset) == is_preset && length < HW__POLICY_OPTIONS_BYTES) {
            const char *gap = length == 0 || text[length - 1] == ';' ? "" : " ";
            length += (size_t)snprintf(text + length, HW__POLICY_OPTIONS_BYTES - length,
                                       "%s%s=%" PRId64, gap, options[i].name, values[i]);
        }
    }
    return length;
}

/* The options of the policy that began last: see hw__sched_options(). */
static char described[HW__POLICY_OPTIONS_BYTES];

static void describe_options(const struct hw_policy *policy, const struct values *values) {
    char text[HW__POLICY_OPTIONS_BYTES] = "";
    size_t length = append_options(text, 0, policy->options, values->policy, false);
    length = append_options(text, length, engine_options, values->engine, false);
    if (length + 1 < sizeof text) {
        text[length++] = ';';
        length = append_options(text, length, policy->options, values->policy, true);
        length = append_options(text, length, engine_options, values->engine, true);
    }
    memset(described, 0, sizeof described);
    if (length < sizeof text) {
        memcpy(described, text, length);
    }
}

const char *hw__sched_options(void) { return hw__sched_policy() == NULL ? "" : described; }

const struct hw_policy_option *hw_policy_engine_options(void) { return engine_options; }

int hw_schedule_check(const struct hw_policy *policy, const char *options, char *problem,
                      int room) {
    struct values values;
    problem[0] = '\0';
    return read_options(policy, options, &values, problem, room);
}

/* ---------------------------------------------------------------- start and stop */
/* Tells whether the lease of the policy is over: the process that started it from outside is gone.
 * A policy may still be on, if no hook has run since. */
static bool is_abandoned(void) { return hw__lease_over_now(&hw__leases[HW__LEASE_SCHEDULE]); }

/* Prepares the process for the hooks of a policy: records of threads, handlers of fork(), clock.
 * Returns 0, or a negative errno with the reason in `problem` for -EMFILE. */
static int make_ready(const void *runtime, char *problem, int room) {
    int error = runtime == NULL ? -ENOENT : init_once();
    if (error == -EMFILE) {
        snprintf(problem, (size_t)room,
                 "the process has used up the first 32 keys for thread-specific data");
    }
    if (error == 0 && !hw__hooks_wanted()) {
        hw__ticks_prepare();
    }
    return error;
}

/* Installs the hooks, and finds the main interpreter's GIL. Returns 0 or a negative errno. */
static int hook(const void *runtime) {
    hw__hooks_remove(HW__FOR_SCHEDULE); /* hooks stay when the watchdog removes a policy */
    int error = hw__hooks_install(runtime, HW__FOR_SCHEDULE);
    if (error == 0 && atomic_load(&hw__gils[0].memory) == NULL) {
        error = hw__gil_find_main();
        if (error != 0) {
            hw__hooks_remove(HW__FOR_SCHEDULE);
        }
    }
    return error;
}

/* Returns the engine's settings, without the help that a seccomp filter forbids. Prepares the help.
 */
static struct hw__settings settle(const int64_t *engine) {
    bool helps = hw__allowed(HW__CALL_SCHED_ATTR);
    static atomic_bool said;
    if (!helps && (engine[3] != 0 || engine[4] != 0)) {
        hw__say_once(&said, "a seccomp filter forbids sched_setattr(): os_slice_us and os_batch do "
                            "nothing");
    }
    hw__help_prepare(helps ? engine[3] * 1000 : 0, helps && engine[4] != 0);
    return (struct hw__settings){
        .spin_ns = engine[0] * 1000, .watchdog_ns = engine[1] * 1000000, .yields = engine[2] != 0};
}

/* Ends the policy, or what is left of one that the watchdog has removed. Returns 0, or -ESRCH if no
 * policy was on. */
static int stop(void) {
    if (!hw__hooks_wanted()) {
        return -ESRCH;
    }
    hw__registry_lock();
    bool was_on = hw__sched_policy() != NULL;
    if (was_on) {
        hw__on_policy_end();
    }
    hw__lease_end(&hw__leases[HW__LEASE_SCHEDULE]);
    hw__wake_unlocks(false); /* from now on wake-ups are not deferred to an unlock */
    hw__sched_set_policy(NULL, NULL, NULL);
    struct hw__gil *gil = &hw__gils[0];
    struct hw__gil_memory *memory = atomic_load(&gil->memory);
    if (memory != NULL && atomic_load(&gil->scheduled)) {
        pthread_mutex_lock(&memory->mutex);
        hw__sched_end(gil);
        pthread_mutex_unlock(&memory->mutex);
        hw__wake_unlocked(&memory->mutex);
    }
    hw__hooks_remove(HW__FOR_SCHEDULE);
    hw__help_end();
    hw__registry_unlock();
    return was_on ? 0 : -ESRCH;
}

/* hw_schedule_start(), in one thread at a time. */
static int start(const struct hw_policy *policy, const char *options, char *problem, int room) {
    struct values values = {{0}, {0}};
    if (is_abandoned()) {
        (void)stop();
    }
    if (hw__sched_policy() != NULL) {
        return -EALREADY;
    }
    int error = read_options(policy, options, &values, problem, room);
    const void *runtime = hw__interpreter_symbol("_PyRuntime");
    if (error == 0) {
        error = make_ready(runtime, problem, room);
    }
    if (error == 0) {
        error = hook(runtime);
    }
    if (error != 0) {
        return error;
    }
    struct hw__gil *gil = &hw__gils[0];
    hw__registry_lock();
    struct hw__settings settings = settle(values.engine);
    describe_options(policy, &values);
    hw__sched_set_policy(policy, values.policy, &settings);
    hw__on_policy();
    struct hw__gil_memory *memory = atomic_load(&gil->memory);
    pthread_mutex_lock(&memory->mutex);
    hw__sched_adopt(gil); /* the policy begins at other GILs when they are next acquired */
    if (hw__gil_is_mine(memory)) {
        hw__sched_found_holding(hw__sched_of(gil));
    }
    pthread_mutex_unlock(&memory->mutex);
    hw__registry_unlock();
    hw__hooks_repair();
    return 0;
}

int hw_schedule_start(const struct hw_policy *policy, const char *options, char *problem,
                      int room) {
    problem[0] = '\0';
    if (atomic_exchange(&starting, true)) {
        return -EALREADY;
    }
    int error = start(policy, options, problem, room);
    atomic_store(&starting, false);
    return error;
}

int hw_schedule_stop(void) {
    /* While another thread starts a policy, the hooks are those of that policy. */
    return hw__sched_policy() == NULL && atomic_load(&starting) ? -ESRCH : stop();
}

const char *hw_schedule_active(void) {
    const struct hw_policy *policy = hw__sched_policy();
    return policy == NULL || is_abandoned() ? "" : policy->name;
}

uint32_t hw_schedule_number(void) {
    return hw_schedule_active()[0] == '\0' ? 0 : hw__sched_generation();
}

uint32_t hw_schedule_counted(void) { return hw__sched_of(&hw__gils[0])->generation; }

int hw_schedule_counts(struct hw_schedule_counts *counts) {
    struct hw__gil *gil = &hw__gils[0];
    struct hw__gil_memory *memory = atomic_load(&gil->memory);
    const struct hw__sched *sched = hw__sched_of(gil);
    if (memory == NULL || sched->memory != memory) {
        return -ESRCH;
    }
    pthread_mutex_lock(&memory->mutex);
    *counts = sched->ledger.counts;
    pthread_mutex_unlock(&memory->mutex);
    counts->threads = hw__runners_count();
    counts->early_elsewhere = atomic_load(&hw__sched_early_elsewhere);
    return 0;
}

static HW__TLS struct hw__runner *gainer;

static void look_who_gained(struct hw__runner *runner) {
    if (gainer == NULL || runner->early > gainer->early) {
        gainer = runner;
    }
}

int hw_schedule_gainer(int64_t *early) {
    gainer = NULL;
    hw__runners_each(look_who_gained);
    *early = gainer == NULL ? 0 : gainer->early;
    return *early == 0 ? 0 : gainer->tid;
}

int hw_schedule_hint(int priority, int urgent) {
    if (priority < -20 || priority > 19) {
        return -EINVAL;
    }
    int error = init_once();
    if (error != 0) {
        return error;
    }
    struct hw__runner *runner = hw__runner_self();
    if (runner == NULL) {
        return -ENOSPC;
    }
    runner->priority = priority;
    runner->urgent = urgent != 0;
    if (urgent != 0) {
        atomic_store(&hw__sched_any_urgent, true);
    }
    return 0;
}
