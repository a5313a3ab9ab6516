// SPDX-License-Identifier: MIT
#include "sim/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The largest time that is reckoned with; sums of a few stay within int64_t. */
#define FOREVER (INT64_MAX / 4)

/* A core that was idle for longer has gone into a deeper sleep. */
#define LONG_IDLE_NS 300000

/* Code is cold when its core has run other code for so long. */
#define COLD_AFTER_NS 4000000

/* A cost that is one figure varies by so much: without that, tasks would run in step. */
#define JITTER 0.05

/* ---------------------------------------------------------------- costs */
int64_t hw__cost(struct hw__machine *machine, enum hw_sim_cost cost) {
    const struct hw_sim_dist *dist = &machine->costs[cost];
    if (dist->count > 1) {
        return hw__random_of(&machine->random, dist);
    }
    double value = dist->quantiles[0];
    if (value == 0) {
        return 0;
    }
    return (int64_t)(value * (1 + JITTER * (2 * hw__random_unit(&machine->random) - 1)));
}

int64_t hw__core_busy_ns(const struct hw__machine *machine, const struct hw__core *core) {
    return core->busy_ns +
           (core->current == NULL ? 0 : machine->now_ns - core->current->counted_ns);
}

double hw__coldness(int64_t other_ns) {
    return other_ns >= COLD_AFTER_NS ? 1 : (double)other_ns / COLD_AFTER_NS;
}

int64_t hw__cold_ns(struct hw__task *task, enum hw__cold kind, enum hw_sim_cost cost) {
    struct hw__machine *machine = task->machine;
    int64_t busy_ns = hw__core_busy_ns(machine, task->core);
    int64_t other_ns = busy_ns - task->core->used_ns[kind];
    task->core->used_ns[kind] = busy_ns;
    const struct hw_sim_dist *dist = &machine->costs[cost];
    if (dist->count == 1 && dist->quantiles[0] == 0) {
        return 0;
    }
    return (int64_t)((double)hw__cost(machine, cost) * hw__coldness(other_ns));
}

/* ---------------------------------------------------------------- events */
static void plan(struct hw__machine *machine, struct hw__planned event) {
    if (!hw__events_push(&machine->events, event)) {
        machine->error = -ENOMEM;
    }
}

static void plan_core(struct hw__machine *machine, struct hw__core *core, enum hw__event_kind kind,
                      int64_t time_ns) {
    plan(machine, (struct hw__planned){.time_ns = time_ns, .kind = kind, .core = core});
}

/* ---------------------------------------------------------------- the run queue */
static bool counts(const struct hw__core *core) {
    return core->current != NULL && core->current->on_queue;
}

/* Runnable and delayed tasks, the current one included. */
static int32_t all_of(const struct hw__core *core) { return core->queued + counts(core); }

static int32_t runnable_of(const struct hw__core *core) { return core->runnable + counts(core); }

static bool is_idle(const struct hw__core *core) {
    return core->current == NULL && core->runnable == 0 && !core->waking;
}

/* avg_vruntime(): all weigh the same. */
static int64_t average(const struct hw__core *core) {
    int64_t base = core->least_vruntime, sum = 0;
    int32_t count = all_of(core);
    if (count == 0) {
        return base;
    }
    for (int32_t i = 0; i < core->queued; i++) {
        sum += core->queue[i]->vruntime - base;
    }
    sum += counts(core) ? core->current->vruntime - base : 0;
    int64_t mean = sum / count;
    return base + mean - (sum < 0 && sum % count != 0);
}

static void renew_least(struct hw__core *core) {
    int64_t least = FOREVER;
    for (int32_t i = 0; i < core->queued; i++) {
        least = core->queue[i]->vruntime < least ? core->queue[i]->vruntime : least;
    }
    if (counts(core) && core->current->vruntime < least) {
        least = core->current->vruntime;
    }
    if (least < FOREVER && least > core->least_vruntime) {
        core->least_vruntime = least;
    }
}

static void enqueue(struct hw__core *core, struct hw__task *task) {
    core->queue[core->queued++] = task;
    core->runnable += !task->delayed;
}

static void dequeue(struct hw__core *core, struct hw__task *task) {
    for (int32_t i = 0; i < core->queued; i++) {
        if (core->queue[i] == task) {
            memmove(&core->queue[i], &core->queue[i + 1],
                    (size_t)(core->queued - i - 1) * sizeof *core->queue);
            core->queued--;
            core->runnable -= !task->delayed;
            return;
        }
    }
}

static bool is_protected(const struct hw__task *task) {
    return task->protected_until > task->vruntime;
}

/* update_curr(): what the current task has run counts. */
static void count_current(struct hw__core *core, int64_t now_ns) {
    struct hw__task *task = core->current;
    int64_t ran_ns = task == NULL ? 0 : now_ns - task->counted_ns;
    if (ran_ns <= 0) {
        return;
    }
    task->counted_ns = now_ns;
    task->cpu_ns += ran_ns;
    core->busy_ns += ran_ns;
    task->vruntime += ran_ns;
    bool used_up = task->vruntime >= task->deadline;
    if (used_up) {
        task->deadline = task->vruntime + task->slice_ns;
    }
    renew_least(core);
    if (all_of(core) > 1 && (used_up || !is_protected(task))) {
        core->need_resched = true;
    }
}

/* update_entity_lag() */
static void keep_lag(const struct hw__core *core, struct hw__task *task) {
    int64_t limit = 2 * task->slice_ns, tick_ns = task->machine->tick_ns;
    limit = limit > tick_ns ? limit : tick_ns;
    int64_t lag = average(core) - task->vruntime;
    task->lag = lag > limit ? limit : lag < -limit ? -limit : lag;
}

/* place_entity() */
static void place(const struct hw__core *core, struct hw__task *task) {
    int64_t lag = 0, count = all_of(core);
    if (count > 0) {
        lag = task->lag * (count + 1) / count;
    }
    task->vruntime = average(core) - lag;
    task->deadline =
        task->relative_deadline ? task->deadline + task->vruntime : task->vruntime + task->slice_ns;
    task->relative_deadline = false;
}

/* pick_eevdf(): of the eligible ones that with the earliest deadline; the current one as long as
 * its slice is protected. */
static struct hw__task *pick(const struct hw__core *core) {
    struct hw__task *current = counts(core) ? core->current : NULL;
    if (all_of(core) == 1) {
        return current != NULL ? current : core->queue[0];
    }
    int64_t mean = average(core);
    if (current != NULL && current->vruntime > mean) {
        current = NULL;
    }
    if (current != NULL && is_protected(current)) {
        return current;
    }
    struct hw__task *best = NULL, *least = NULL;
    for (int32_t i = 0; i < core->queued; i++) {
        struct hw__task *task = core->queue[i];
        if (task->vruntime <= mean && (best == NULL || task->deadline < best->deadline)) {
            best = task;
        }
        if (least == NULL || task->vruntime < least->vruntime) {
            least = task;
        }
    }
    if (best == NULL || (current != NULL && current->deadline < best->deadline)) {
        best = current != NULL ? current : best;
    }
    return best != NULL ? best : least;
}

/* ---------------------------------------------------------------- a core's current task */
/* It does not go on for the moment: what it has spent counts. */
static void pause_step(struct hw__machine *machine, struct hw__task *task) {
    if (!task->running) {
        return;
    }
    int64_t passed_ns = machine->now_ns - task->started_ns;
    task->running = false;
    task->core->step_ns = INT64_MAX;
    if (passed_ns < task->extra_ns) {
        task->extra_ns -= passed_ns;
        return;
    }
    passed_ns -= task->extra_ns;
    task->extra_ns = 0;
    if (task->spends == HW__SPENDS_USER || task->spends == HW__SPENDS_UNTIL) {
        task->user_ns += passed_ns;
    }
    if (task->left_ns < FOREVER) {
        task->left_ns = passed_ns < task->left_ns ? task->left_ns - passed_ns : 0;
    }
}

static void go_on_step(struct hw__machine *machine, struct hw__core *core) {
    struct hw__task *task = core->current;
    task->running = true;
    task->started_ns = machine->now_ns;
    if (task->left_ns < FOREVER) {
        core->step_ns = machine->now_ns + task->extra_ns + task->left_ns;
    }
}

/* An interrupt takes time from the current task. */
static void steal(struct hw__machine *machine, struct hw__core *core, int64_t ns) {
    if (core->current != NULL && core->current->running) {
        pause_step(machine, core->current);
        core->current->extra_ns += ns;
        go_on_step(machine, core);
    }
}

static void plan_tick(struct hw__machine *machine, struct hw__core *core) {
    if (!core->ticks) {
        core->ticks = true;
        plan_core(machine, core, HW__EVENT_TICK,
                  (machine->now_ns / machine->tick_ns + 1) * machine->tick_ns);
    }
}

/* sched_balance_newidle(): a core that is about to idle takes a task that waits elsewhere and has
 * not run there just now. */
static bool pull(struct hw__machine *machine, struct hw__core *core) {
    for (int32_t i = 0; i < machine->core_count; i++) {
        struct hw__core *other = &machine->cores[i];
        if (other == core || runnable_of(other) < 2) {
            continue;
        }
        for (int32_t j = 0; j < other->queued; j++) {
            struct hw__task *task = other->queue[j];
            if (!task->delayed && (task->allowed >> core->id & 1) != 0 &&
                machine->now_ns - task->counted_ns >= machine->migration_ns) {
                count_current(other, machine->now_ns);
                keep_lag(other, task);
                task->deadline -= task->vruntime;
                task->relative_deadline = true;
                dequeue(other, task);
                task->core = core;
                place(core, task);
                enqueue(core, task);
                return true;
            }
        }
    }
    return false;
}

/* The next task; NULL: none. Those whose dequeue was delayed leave when they would be next. */
static struct hw__task *pick_runnable(struct hw__machine *machine, struct hw__core *core) {
    bool pulled = false;
    for (;;) {
        if (all_of(core) == 0) {
            if (pulled || !pull(machine, core)) {
                return NULL;
            }
            pulled = true;
        }
        struct hw__task *task = pick(core);
        if (!task->delayed) {
            return task;
        }
        keep_lag(core, task);
        task->lag = task->lag > 0 ? 0 : task->lag;
        dequeue(core, task);
        task->on_queue = task->delayed = false;
    }
}

/* schedule() */
static void schedule(struct hw__machine *machine, struct hw__core *core) {
    struct hw__task *previous = core->current;
    if (previous != NULL) {
        pause_step(machine, previous);
        count_current(core, machine->now_ns);
    }
    core->need_resched = false;
    struct hw__task *next = pick_runnable(machine, core);
    if (next != NULL && next == previous) {
        go_on_step(machine, core);
        return;
    }
    if (previous != NULL && previous->on_queue) {
        enqueue(core, previous);
    }
    core->current = NULL;
    if (next == NULL) {
        core->idle_since_ns = machine->now_ns;
        return;
    }
    dequeue(core, next);
    core->current = next;
    next->counted_ns = machine->now_ns;
    next->protected_until = next->deadline;
    next->extra_ns += hw__cost(machine, HW_SIM_COST_SWITCH);
    go_on_step(machine, core);
    plan_tick(machine, core);
}

static bool in_user_code(const struct hw__machine *machine, const struct hw__task *task) {
    return machine->now_ns - task->started_ns >= task->extra_ns &&
           (task->spends == HW__SPENDS_USER || task->spends == HW__SPENDS_UNTIL);
}

/* At the end of an interrupt: user code is preempted at once, the kernel's when it returns to it.
 */
static void end_interrupt(struct hw__machine *machine, struct hw__core *core) {
    struct hw__task *task = core->current;
    if (!core->need_resched) {
        return;
    }
    if (task == NULL) {
        if (!core->waking) {
            schedule(machine, core);
        }
    } else if (in_user_code(machine, task)) {
        schedule(machine, core);
    } else if (machine->now_ns - task->started_ns < task->extra_ns &&
               (task->spends == HW__SPENDS_USER || task->spends == HW__SPENDS_UNTIL)) {
        plan_core(machine, core, HW__EVENT_RESCHED, task->started_ns + task->extra_ns);
    }
}

/* ---------------------------------------------------------------- wake-ups */
static struct hw__core *any_idle(struct hw__machine *machine, const struct hw__task *task) {
    for (int32_t i = 0; i < machine->core_count; i++) {
        if ((task->allowed >> i & 1) != 0 && is_idle(&machine->cores[i])) {
            return &machine->cores[i];
        }
    }
    return NULL;
}

/* wake_affine() chooses between the waker's core and the task's last one. */
static struct hw__core *near_core(struct hw__task *task, struct hw__core *here, bool near) {
    struct hw__core *last = task->core;
    if (here == last || (task->allowed >> here->id & 1) == 0) {
        return last;
    }
    if (is_idle(here)) {
        return is_idle(last) ? last : here;
    }
    if (near && runnable_of(here) == 1) {
        return here;
    }
    if (is_idle(last)) {
        return last;
    }
    int32_t load = runnable_of(here) - (near ? 1 : 0);
    return (load + 1) * 100 < runnable_of(last) * 108 ? here : last;
}

/* select_task_rq_fair() */
static struct hw__core *choose_core(struct hw__machine *machine, struct hw__task *task,
                                    struct hw__core *here, bool near) {
    if ((task->allowed & (task->allowed - 1)) == 0) {
        return task->core;
    }
    struct hw__core *target = near_core(task, here == NULL ? task->core : here, near);
    if (is_idle(target)) {
        return target;
    }
    if (is_idle(task->core)) {
        return task->core;
    }
    struct hw__core *idle = any_idle(machine, task);
    return idle != NULL ? idle : target;
}

static int64_t wake_core_ns(struct hw__machine *machine, const struct hw__core *core) {
    bool is_long = machine->now_ns - core->idle_since_ns > LONG_IDLE_NS;
    return hw__cost(machine, is_long ? HW_SIM_COST_WAKE_IDLE_LONG : HW_SIM_COST_WAKE_IDLE);
}

/* check_preempt_wakeup_fair(), and the interrupt that tells another core, unless it was told before
 * (`was_told`). Returns whether one was sent. */
static bool preempt(struct hw__machine *machine, struct hw__core *core, struct hw__task *task,
                    const struct hw__core *here, bool in_interrupt, bool was_told) {
    count_current(core, machine->now_ns);
    if (!core->need_resched && pick(core) == task) {
        core->need_resched = true;
    }
    if (!core->need_resched || was_told) {
        return false;
    }
    if (here != core) {
        plan_core(machine, core, HW__EVENT_RESCHED,
                  machine->now_ns + hw__cost(machine, HW_SIM_COST_PREEMPT_OTHER));
        return true;
    }
    if (in_interrupt) {
        plan_core(machine, core, HW__EVENT_RESCHED, machine->now_ns);
    }
    return false;
}

static bool wake_core(struct hw__machine *machine, struct hw__core *core,
                      const struct hw__core *here, bool in_interrupt) {
    if (!core->waking) {
        core->waking = true;
        int64_t in_ns = in_interrupt && here == core ? 0 : wake_core_ns(machine, core);
        plan_core(machine, core, HW__EVENT_WAKE_CORE, machine->now_ns + in_ns);
    }
    return here != core;
}

/* A task whose dequeue was delayed is in its queue still. */
static void undelay(struct hw__core *core, struct hw__task *task) {
    dequeue(core, task);
    task->delayed = false;
    keep_lag(core, task);
    if (task->lag > 0) {
        task->lag = 0;
        place(core, task);
    }
    enqueue(core, task);
}

/* try_to_wake_up(). Returns whether another core had to be told. */
static bool wake_task(struct hw__machine *machine, struct hw__task *task, struct hw__core *here,
                      bool near, bool in_interrupt) {
    task->blocked = false;
    task->sleep++;
    struct hw__core *core = task->core;
    bool stays = task->on_queue && task->delayed;
    if (!stays) {
        core = choose_core(machine, task, here, near);
    }
    bool was_told = core->need_resched;
    if (stays) {
        count_current(core, machine->now_ns);
        undelay(core, task);
    } else {
        count_current(core, machine->now_ns);
        task->core = core;
        place(core, task);
        task->on_queue = true;
        task->delayed = false;
        enqueue(core, task);
    }
    if (core->current == NULL) {
        return wake_core(machine, core, here, in_interrupt);
    }
    return preempt(machine, core, task, here, in_interrupt, was_told);
}

static void leave_list(struct hw__task *task) {
    struct hw__sim_futex *futex = task->waits_for;
    if (futex == NULL) {
        return;
    }
    *(task->before == NULL ? &futex->first : &task->before->after) = task->after;
    *(task->after == NULL ? &futex->last : &task->after->before) = task->before;
    task->waits_for = NULL;
    task->before = task->after = NULL;
}

bool hw__machine_wake(struct hw__machine *machine, struct hw__task *waker,
                      struct hw__sim_futex *futex, bool near, bool *idle) {
    struct hw__task *task = futex->first;
    *idle = false;
    if (task == NULL) {
        return false;
    }
    leave_list(task);
    task->popped = true;
    if (task->blocked) {
        *idle = wake_task(machine, task, waker == NULL ? NULL : waker->core, near, waker == NULL);
    }
    return true;
}

void hw__task_interrupt(struct hw__task *task, int64_t delay_ns) {
    struct hw__machine *machine = task->machine;
    if (task->spends == HW__SPENDS_UNTIL) {
        bool runs = task->running && task->core->current == task;
        if (runs) {
            pause_step(machine, task);
        }
        task->left_ns = task->left_ns < delay_ns ? task->left_ns : delay_ns;
        if (runs) {
            go_on_step(machine, task->core);
        }
    }
}

/* ---------------------------------------------------------------- timers */
/* Those whose time has come wake their tasks. */
static void expire(struct hw__machine *machine, struct hw__core *core) {
    for (int32_t i = 0; i < core->timer_count;) {
        struct hw__timer timer = core->timers[i];
        bool is_void = timer.sleep != timer.task->sleep;
        if (!is_void && timer.soft_ns > machine->now_ns) {
            i++;
            continue;
        }
        core->timers[i] = core->timers[--core->timer_count];
        if (!is_void && timer.task->blocked) {
            leave_list(timer.task);
            timer.task->timed_out = true;
            wake_task(machine, timer.task, core, false, true);
        }
    }
}

/* Whether a timer at `hard_ns` is the core's next interrupt: then the hardware has to be set. */
static bool is_earliest(const struct hw__core *core, const struct hw__task *task, int64_t hard_ns) {
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

static void add_timer(struct hw__machine *machine, struct hw__core *core, struct hw__timer timer) {
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
    plan(machine,
         (struct hw__planned){.time_ns = timer.hard_ns + hw__cost(machine, HW_SIM_COST_TIMER_LATE),
                              .kind = HW__EVENT_TIMER,
                              .core = core,
                              .task = timer.task,
                              .serial = timer.sleep});
}

/* ---------------------------------------------------------------- from the task */
static void leave(struct hw__task *task, enum hw__spends spends, int64_t ns) {
    task->spends = spends;
    task->left_ns = ns;
    hw__fiber_leave(&task->fiber);
}

/* The core whose current task has spent its time first; NULL: none has an end. */
static struct hw__core *first_step(const struct hw__machine *machine) {
    struct hw__core *first = NULL;
    for (int32_t i = 0; i < machine->core_count; i++) {
        struct hw__core *core = &machine->cores[i];
        if (core->step_ns < (first == NULL ? INT64_MAX : first->step_ns)) {
            first = core;
        }
    }
    return first;
}

/* Nothing else happens meanwhile: time passes without a switch to the machine's loop. */
static bool spend_alone(struct hw__task *task, int64_t ns, bool in_user_code) {
    struct hw__machine *machine = task->machine;
    int64_t end_ns = machine->now_ns + task->extra_ns + ns;
    if ((task->core->need_resched && in_user_code) || end_ns > machine->stop_ns ||
        end_ns >= hw__events_next_ns(&machine->events)) {
        return false;
    }
    const struct hw__core *other = first_step(machine); /* its own core has none */
    if (other != NULL && end_ns >= other->step_ns) {
        return false;
    }
    machine->now_ns = end_ns;
    machine->steps++;
    task->extra_ns = 0;
    task->user_ns += in_user_code ? ns : 0;
    return true;
}

void hw__task_user(struct hw__task *task, int64_t ns) {
    if (!spend_alone(task, ns, true)) {
        leave(task, HW__SPENDS_USER, ns);
    }
}

void hw__task_kernel(struct hw__task *task, int64_t ns) {
    if (ns > 0 && !spend_alone(task, ns, false)) {
        leave(task, HW__SPENDS_KERNEL, ns);
    }
}

int64_t hw__task_until(struct hw__task *task, int64_t ns, const bool *flag) {
    if (*flag) {
        return 0;
    }
    int64_t before_ns = task->user_ns;
    if (!spend_alone(task, ns, true)) {
        leave(task, HW__SPENDS_UNTIL, ns < FOREVER ? ns : FOREVER);
    }
    return task->user_ns - before_ns;
}

static void enlist(struct hw__task *task, struct hw__sim_futex *futex) {
    task->before = futex->last;
    task->after = NULL;
    *(futex->last == NULL ? &futex->first : &futex->last->after) = task;
    futex->last = task;
    task->waits_for = futex;
    task->popped = task->timed_out = false;
    task->sleep++;
}

bool hw__task_sleep(struct hw__task *task, struct hw__sim_futex *futex, int64_t deadline_ns,
                    int64_t enter_ns) {
    struct hw__machine *machine = task->machine;
    enlist(task, futex);
    hw__task_kernel(task, enter_ns);
    struct hw__core *armed = NULL;
    int64_t hard_ns = 0;
    if (deadline_ns >= 0) { /* the timer is set when the task is in the list already */
        hard_ns = deadline_ns + hw__cost(machine, HW_SIM_COST_TIMER_SLACK);
        armed = task->core;
        if (is_earliest(armed, task, hard_ns)) {
            hw__task_kernel(task, hw__cost(machine, HW_SIM_COST_TIMER_ARM));
        }
        if (!task->popped && hard_ns <= machine->now_ns) {
            leave_list(task);
            return false;
        }
        if (!task->popped) {
            add_timer(machine, armed,
                      (struct hw__timer){.task = task,
                                         .sleep = task->sleep,
                                         .soft_ns = deadline_ns,
                                         .hard_ns = hard_ns});
        }
    }
    if (!task->popped) {
        leave(task, HW__BLOCKS, 0);
    }
    task->sleep++; /* the timer is void */
    if (armed != NULL && !task->timed_out && armed == task->core && hard_ns > machine->now_ns &&
        is_earliest(armed, task, hard_ns)) {
        hw__task_kernel(task, hw__cost(machine, HW_SIM_COST_TIMER_ARM));
    }
    return !task->timed_out;
}

void hw__task_block(struct hw__task *task, struct hw__sim_futex *futex, int64_t until_ns) {
    enlist(task, futex);
    plan(task->machine,
         (struct hw__planned){
             .time_ns = until_ns, .kind = HW__EVENT_OUTSIDE, .task = task, .serial = task->sleep});
    leave(task, HW__BLOCKS, 0);
}

int64_t hw__task_user_ns(const struct hw__task *task) {
    int64_t passed_ns = task->running ? task->machine->now_ns - task->started_ns : 0;
    bool counts_now = task->spends == HW__SPENDS_USER || task->spends == HW__SPENDS_UNTIL;
    return task->user_ns +
           (counts_now && passed_ns > task->extra_ns ? passed_ns - task->extra_ns : 0);
}

int64_t hw__task_cpu_ns(const struct hw__task *task) {
    bool is_current = task->core->current == task;
    return task->cpu_ns + (is_current ? task->machine->now_ns - task->counted_ns : 0);
}

void hw__task_yield(struct hw__task *task) { leave(task, HW__YIELDS, 0); }

void hw__task_end(struct hw__task *task) {
    leave(task, HW__ENDS, 0);
    abort();
}

/* ---------------------------------------------------------------- the loop */
/* The current task sleeps. */
static void block(struct hw__machine *machine, struct hw__core *core) {
    struct hw__task *task = core->current;
    task->blocked = true;
    task->spends = HW__SPENDS_KERNEL;
    task->left_ns = 0;
    count_current(core, machine->now_ns);
    bool eligible = average(core) >= task->vruntime;
    core->current = NULL;
    if (!eligible) {
        task->delayed = true;
        enqueue(core, task);
    } else {
        core->current = task;
        keep_lag(core, task);
        core->current = NULL;
        task->on_queue = false;
    }
    schedule(machine, core);
}

/* yield_task_fair(): what is left of the slice is given up. */
static void yield(struct hw__machine *machine, struct hw__core *core) {
    struct hw__task *task = core->current;
    task->spends = HW__SPENDS_KERNEL;
    task->left_ns = 0;
    count_current(core, machine->now_ns);
    if (all_of(core) > 1 && average(core) >= task->vruntime) {
        task->vruntime = task->deadline;
        task->deadline += task->slice_ns;
        renew_least(core);
    }
    task->protected_until = 0;
    schedule(machine, core);
}

/* Runs the current task's code until it spends time or blocks. */
static void run_code(struct hw__machine *machine, struct hw__core *core) {
    struct hw__task *task = core->current;
    for (;;) {
        task->spends = HW__SPENDS_NOTHING;
        hw__fiber_enter(&task->fiber);
        switch (task->spends) {
        case HW__SPENDS_USER:
        case HW__SPENDS_UNTIL:
            if (core->need_resched) { /* on the way back from the kernel */
                schedule(machine, core);
                return;
            }
            go_on_step(machine, core);
            return;
        case HW__SPENDS_KERNEL:
            go_on_step(machine, core);
            return;
        case HW__BLOCKS:
            block(machine, core);
            return;
        case HW__YIELDS:
            yield(machine, core);
            return;
        default:
            task->on_queue = false;
            count_current(core, machine->now_ns);
            core->current = NULL;
            schedule(machine, core);
            return;
        }
    }
}

static void timer(struct hw__machine *machine, struct hw__planned event) {
    struct hw__core *core = event.core;
    if (event.serial != event.task->sleep) {
        return;
    }
    if (core->current == NULL && !core->waking && !event.again) { /* the core must wake first */
        event.time_ns = machine->now_ns + hw__cost(machine, HW_SIM_COST_TIMER_LATE_IDLE);
        event.again = true;
        plan(machine, event);
        return;
    }
    steal(machine, core, hw__cost(machine, HW_SIM_COST_TIMER_INTERRUPT));
    expire(machine, core);
}

static void outside(struct hw__machine *machine, const struct hw__planned *event) {
    if (event->serial == event->task->sleep && event->task->blocked) {
        leave_list(event->task);
        wake_task(machine, event->task, NULL, false, true);
    }
}

static void tick(struct hw__machine *machine, struct hw__core *core) {
    core->ticks = false;
    if (core->current == NULL) {
        return; /* idle cores have none */
    }
    plan_tick(machine, core);
    steal(machine, core, hw__cost(machine, HW_SIM_COST_TICK_INTERRUPT));
    count_current(core, machine->now_ns);
    expire(machine, core);
    for (int32_t i = 0; i < machine->core_count && runnable_of(core) >= 2; i++) {
        struct hw__core *other = &machine->cores[i];
        if (is_idle(other)) { /* nohz_balancer_kick() */
            wake_core(machine, other, core, false);
        }
    }
    end_interrupt(machine, core);
}

static void happen(struct hw__machine *machine, const struct hw__planned *event) {
    switch (event->kind) {
    case HW__EVENT_TIMER:
        timer(machine, *event);
        break;
    case HW__EVENT_TICK:
        tick(machine, event->core);
        break;
    case HW__EVENT_RESCHED:
        end_interrupt(machine, event->core);
        break;
    case HW__EVENT_WAKE_CORE:
        event->core->waking = false;
        if (event->core->current == NULL) {
            schedule(machine, event->core);
        }
        break;
    case HW__EVENT_OUTSIDE:
        outside(machine, event);
        break;
    case HW__EVENT_BEGIN:
        wake_task(machine, event->task, NULL, false, false);
        break;
    }
}

/* What happens next, if that is until then. Of what happens at one time, steps come last. */
static bool happen_next(struct hw__machine *machine, int64_t until_ns) {
    struct hw__core *core = first_step(machine);
    int64_t event_ns = hw__events_next_ns(&machine->events);
    if (event_ns <= until_ns && (core == NULL || event_ns <= core->step_ns)) {
        struct hw__planned event = hw__events_pop(&machine->events);
        machine->now_ns = event.time_ns;
        happen(machine, &event);
        return true;
    }
    if (core == NULL || core->step_ns > until_ns) {
        return false;
    }
    machine->now_ns = core->step_ns;
    pause_step(machine, core->current);
    run_code(machine, core);
    return true;
}

int hw__machine_run(struct hw__machine *machine, int64_t until_ns) {
    machine->stop_ns = until_ns;
    while (machine->error == 0 && happen_next(machine, until_ns)) {
        machine->steps++;
    }
    if (machine->error == 0 && machine->events.count == 0 && first_step(machine) == NULL) {
        return -EDEADLK;
    }
    machine->now_ns = until_ns;
    return machine->error;
}

/* ---------------------------------------------------------------- making and freeing */
bool hw__machine_make(struct hw__machine *machine, const struct hw_sim_spec *spec) {
    memset(machine, 0, sizeof *machine);
    machine->tick_ns = spec->tick_ns;
    machine->slice_ns = spec->slice_ns;
    machine->migration_ns = spec->migration_ns;
    hw__random_seed(&machine->random, spec->seed);
    machine->cores = calloc((size_t)spec->core_count, sizeof *machine->cores);
    machine->core_count = machine->cores == NULL ? 0 : spec->core_count;
    for (int32_t i = 0; i < machine->core_count; i++) {
        struct hw__core *core = &machine->cores[i];
        core->id = i;
        core->step_ns = INT64_MAX;
    }
    return machine->cores != NULL;
}

/* A core's queue has room for all tasks. */
static bool make_room(struct hw__machine *machine) {
    size_t room = (size_t)machine->task_count + 1;
    struct hw__task **tasks = realloc(machine->tasks, room * sizeof *tasks);
    if (tasks == NULL) {
        return false;
    }
    machine->tasks = tasks;
    for (int32_t i = 0; i < machine->core_count; i++) {
        struct hw__task **queue = realloc(machine->cores[i].queue, room * sizeof *queue);
        if (queue == NULL) {
            return false;
        }
        machine->cores[i].queue = queue;
    }
    return true;
}

struct hw__task *hw__machine_add(struct hw__machine *machine, void (*entry)(void *task),
                                 void *owner, uint64_t cores, int64_t begin_ns) {
    struct hw__task *task = make_room(machine) ? calloc(1, sizeof *task) : NULL;
    if (task == NULL) {
        return NULL;
    }
    if (!hw__fiber_make(&task->fiber, entry, task)) {
        free(task);
        return NULL;
    }
    uint64_t all =
        machine->core_count == 64 ? UINT64_MAX : (UINT64_C(1) << machine->core_count) - 1;
    task->machine = machine;
    task->owner = owner;
    task->allowed = cores == 0 ? all : cores & all;
    /* At first they are spread, as fork() would have it. */
    int32_t nth = machine->task_count % machine->core_count;
    while ((task->allowed >> nth & 1) == 0) {
        nth = (nth + 1) % machine->core_count;
    }
    task->core = &machine->cores[nth];
    task->slice_ns = machine->slice_ns;
    task->spends = HW__SPENDS_KERNEL;
    task->blocked = true;
    machine->tasks[machine->task_count++] = task;
    plan(machine, (struct hw__planned){.time_ns = begin_ns, .kind = HW__EVENT_BEGIN, .task = task});
    return task;
}

void hw__machine_free(struct hw__machine *machine) {
    for (int32_t i = 0; i < machine->task_count; i++) {
        hw__fiber_free(&machine->tasks[i]->fiber);
        free(machine->tasks[i]);
    }
    for (int32_t i = 0; i < machine->core_count; i++) {
        free(machine->cores[i].queue);
        free(machine->cores[i].timers);
    }
    free(machine->tasks);
    free(machine->cores);
    hw__events_free(&machine->events);
}
