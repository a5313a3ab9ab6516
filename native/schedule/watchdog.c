// SPDX-License-Identifier: MIT
#include "schedule/watchdog.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000

/* So often in a row, a waiter that finds the GIL free by itself is no accident. */
#define MISSED_MOST 200

/* A thread starves when others have let the GIL go so often while it waited. */
#define STARVED_RELEASES 20

const char *hw__watchdog_finds(struct hw__sched *sched, const struct hw__runner *runner,
                               int64_t now_ns) {
    int64_t limit_ns = hw__sched_options.watchdog_ns;
    if (limit_ns > 0 && now_ns - runner->seen.ready_ns > limit_ns) {
        /* Neither is so where one thread is in a long call of C that cannot let go. */
        if (sched->releases - runner->releases > STARVED_RELEASES) {
            return "it let a thread starve";
        }
        const struct hw__runner *holder = sched->holder;
        if (holder != NULL && !sched->asked && now_ns - holder->seen.acquired_ns > limit_ns) {
            return "it lets nobody ask for the GIL";
        }
    }
    if (HW__READ(sched->memory->locked) == 0 && sched->called == NULL && !sched->graced &&
        ++sched->missed > MISSED_MOST) {
        return "it does not wake who waits";
    }
    return NULL;
}

static void say(const char *text) {
    int saved = errno;
    (void)!write(STDERR_FILENO, text, strlen(text));
    errno = saved;
}

static size_t add_text(char *line, size_t at, size_t room, const char *text) {
    while (*text != '\0' && at + 1 < room) {
        line[at++] = *text++;
    }
    line[at] = '\0';
    return at;
}

static size_t add_number(char *line, size_t at, size_t room, int64_t number) {
    char digits[24] = "";
    int i = (int)sizeof digits - 1;
    do {
        digits[--i] = (char)('0' + number % 10);
    } while ((number /= 10) > 0);
    return add_text(line, at, room, digits + i);
}

void hw__watchdog_say(const struct hw__sched *sched, const struct hw__runner *runner,
                      const char *why) {
    char line[300];
    size_t at = add_text(line, 0, sizeof line, "headway: the policy ");
    at = add_text(line, at, sizeof line, sched->policy->name);
    at = add_text(line, at, sizeof line, " is removed, CPython schedules again: ");
    at = add_text(line, at, sizeof line, why);
    at = add_text(line, at, sizeof line, " (thread ");
    at = add_number(line, at, sizeof line, runner->tid);
    at = add_text(line, at, sizeof line, ", ");
    at = add_number(line, at, sizeof line, (sched->view.now_ns - runner->seen.ready_ns) / MS);
    add_text(line, at, sizeof line, " ms)\n");
    say(line);
}
