// SPDX-License-Identifier: MIT
#include "sim/timers.h"

#include <errno.h>
#include <stdlib.h>

#include "sim/core.h"
#include "sim/wakeup.h"

void hw__timers_expire(struct hw__machine *machine, struct hw__core *core) {
    for (int32_t i = 0; i < core->timer_count;) {
        struct hw__timer timer = core->timers[i];
        bool is_void = timer.sleep != timer.task->sleep;
        if (!is_void && timer.soft_ns > machine->now_ns) {
            i++;
            continue;
        }
        core->timers[i] = core->timers[--core->timer_count];
        if (!is_void && timer.task->blocked) {
            hw__wakeup_leave_list(timer.task);
            timer.task->timed_out = true;
            hw__wakeup_task(machine, timer.task, core, false, true);
        }
    }
}

bool hw__timers_is_earliest(const struct hw__core *core, const struct hw__task *task,
                            int64_t hard_ns) {
    const struct hw__machine *machine = task->machine;
    if (core->ticks && (machine->now_ns / machine->tick_ns + 1) * machine->tick_ns <= hard_ns) {
        return false;
    }
    for (int32_t i = 0; i < core->timer_count; i++) {
        const struct hw__timer *timer = &core->timers[i];
        if (timer->task != task && timer->sleep == timer->task->sleep &&
            timer->hard_ns <= hard_ns) {
            return false;
        }
    }
    return true;
}

void hw__timers_add(struct hw__machine *machine, struct hw__core *core, struct hw__timer timer) {
    if (core->timer_count == core->timer_room) {
        int32_t room = core->timer_room == 0 ? 64 : core->timer_room * 2;
        struct hw__timer *timers = realloc(core->timers, (size_t)room * sizeof *timers);
        if (timers == NULL) {
            machine->error = -ENOMEM;
            return;
        }
        core->timers = timers;
        core->timer_room = room;
    }
    core->timers[core->timer_count++] = timer;
    hw__machine_plan(
        machine,
        (struct hw__planned){.time_ns = timer.hard_ns + hw__cost(machine, HW_SIM_COST_TIMER_LATE),
                             .kind = HW__EVENT_TIMER,
                             .core = core,
                             .task = timer.task,
                             .serial = timer.sleep});
}
