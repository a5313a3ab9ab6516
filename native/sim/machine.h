// SPDX-License-Identifier: MIT
/* A machine in virtual time: cores, tasks (the operating system's threads), and Linux's fair
 * scheduler as of 6.12 and later (EEVDF), as far as figures need it. What is modelled: a run queue
 * for each core, with virtual run times, deadlines, lag that is kept over sleep, delayed dequeue,
 * wake-up preemption and its protection of a slice (RUN_TO_PARITY), periodic ticks, placement of
 * wake-ups, pulling by a core that becomes idle, timers with slack, and what interrupts take. What
 * is left out is listed in docs/internals/simulator.md. The rules are those of kernel/sched/fair.c.
 *
 * A task's code calls the functions below that are marked "from the task"; they return when the
 * time has passed in which the task did what they say. */
#ifndef HEADWAY_SIM_MACHINE_H
#define HEADWAY_SIM_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "headway/simulate.h"
#include "sim/events.h"
#include "sim/fiber.h"
#include "sim/random.h"

struct hw__machine;
struct hw__sim_futex;

/* What a task spends its time on. */
enum hw__spends {
    HW__SPENDS_NOTHING, /* its code runs, in no time */
    HW__SPENDS_USER,    /* may be preempted at any time */
    HW__SPENDS_KERNEL,  /* in a system call: preempted when that is over */
    HW__SPENDS_UNTIL,   /* as USER, and ends early when it is interrupted */
    HW__BLOCKS,
    HW__YIELDS,
    HW__ENDS
};

/* Calls that take longer when the core did other work for long. */
enum hw__cold {
    HW__COLD_SEND,
    HW__COLD_RECEIVE,
    HW__COLD_WAKE,
    HW__COLD_SLEEP,
    HW__COLD_PENDING,
    HW__COLD_PYTHON,
    HW__COLDS
};

struct hw__task {
    struct hw__machine *machine;
    struct hw__core *core; /* where it runs, or ran last */
    uint64_t allowed;      /* a bit for each core that it may run on */
    void *owner;           /* whose code it runs */
    struct hw__fiber fiber;

    enum hw__spends spends;
    int64_t left_ns;    /* of what it spends */
    int64_t extra_ns;   /* before that: switches, interrupts */
    int64_t started_ns; /* when it last went on with that */
    bool running;       /* it does, now */
    const bool *flag;   /* of UNTIL: what ends it */

    /* What the fair scheduler knows of it. Virtual times are in nanoseconds, as all weigh the same.
     */
    int64_t vruntime, deadline, slice_ns, lag, protected_until, counted_ns;
    bool on_queue;          /* it is runnable, or its dequeue is delayed */
    bool delayed;           /* it sleeps, but keeps its place until its lag is paid back */
    bool relative_deadline; /* `deadline` is relative to vruntime */

    bool blocked;
    struct hw__sim_futex *waits_for; /* in whose list it stands; NULL: in none */
    struct hw__task *before, *after; /* in that list */
    bool popped;                     /* it was taken out by who wakes it */
    bool timed_out;                  /* it was woken by its timer */
    uint64_t sleep;                  /* serial number of its sleep: timers of others are void */

    int64_t cpu_ns, user_ns;
};

struct hw__timer {
    struct hw__task *task;
    uint64_t sleep;
    int64_t soft_ns, hard_ns; /* it may expire from `soft` on, and has an interrupt at `hard` */
};

struct hw__core {
    int32_t id;
    struct hw__task *current;
    int64_t step_ns;         /* when the current task has spent its time; INT64_MAX: no end */
    struct hw__task **queue; /* runnable and delayed ones, without the current one */
    int32_t queued, runnable;
    bool need_resched;
    bool waking; /* it comes out of idleness */
    bool ticks;
    int64_t least_vruntime, idle_since_ns;
    int64_t used_ns[HW__COLDS]; /* when code of that kind last ran here */
    struct hw__timer *timers;
    int32_t timer_count, timer_room;
};

/* A cost's quantiles, in 1/256 ns. */
struct hw__table {
    int64_t *values;
    uint32_t last;
};

struct hw__machine {
    int64_t now_ns, stop_ns;
    struct hw__events events;
    struct hw__random random;
    struct hw__table costs[HW_SIM_COSTS];
    int64_t tick_ns, slice_ns, migration_ns;
    struct hw__core *cores;
    int32_t core_count;
    struct hw__task **tasks;
    int32_t task_count;
    int64_t steps;
    int64_t moved_ns, moved_at; /* when time last passed, and how many steps had been made then */
    int error;                  /* 0, or what ended the run: -ENOMEM, -EPROTO */
};

/* A place in memory that tasks sleep on. */
struct hw__sim_futex {
    struct hw__task *first, *last;
    uint32_t value;
};

/* Makes the cores. Returns whether there was memory. */
bool hw__machine_make(struct hw__machine *machine, const struct hw_sim_spec *spec);

/* Adds a task that will run entry(task) from begin_ns on, with `owner`. Returns NULL where there
 * was no memory. */
struct hw__task *hw__machine_add(struct hw__machine *machine, void (*entry)(void *task),
                                 void *owner, uint64_t cores, int64_t begin_ns);

/* Lets time pass until then. Returns 0, -EDEADLK where nothing is planned any more, or the
 * machine's error. */
int hw__machine_run(struct hw__machine *machine, int64_t until_ns);

void hw__machine_free(struct hw__machine *machine);

/* An event that is to happen; of a core. */
void hw__machine_plan(struct hw__machine *machine, struct hw__planned event);
void hw__machine_plan_core(struct hw__machine *machine, struct hw__core *core,
                           enum hw__event_kind kind, int64_t time_ns);

/* Takes the costs over. Returns whether there was memory. */
bool hw__costs_make(struct hw__machine *machine, const struct hw_sim_dist *costs);
void hw__costs_free(struct hw__machine *machine);

/* A cost, drawn anew. */
int64_t hw__cost(struct hw__machine *machine, enum hw_sim_cost cost);

/* What a kind of code takes longer now, as it did not run on the core of late. Notes that it runs.
 */
int64_t hw__cold_ns(struct hw__task *task, enum hw__cold kind, enum hw_sim_cost cost);

/* ---- from the task */
void hw__task_user(struct hw__task *task, int64_t ns);
void hw__task_kernel(struct hw__task *task, int64_t ns);

/* Runs user code for `ns`, or until `*flag` is set and hw__task_interrupt() says so. Returns how
 * long it ran. */
int64_t hw__task_until(struct hw__task *task, int64_t ns, const bool *flag);

/* Stands in the futex's list until it is woken, or until deadline_ns (with the timer's slack);
 * below 0: no deadline. `enter_ns` is spent in the system call after the task is in the list: a
 * wake-up that comes meanwhile is not lost. Returns whether it was woken. */
bool hw__task_sleep(struct hw__task *task, struct hw__sim_futex *futex, int64_t deadline_ns,
                    int64_t enter_ns);

/* Stands in the futex's list until somebody outside the machine wakes it, then. */
void hw__task_block(struct hw__task *task, struct hw__sim_futex *futex, int64_t until_ns);

/* How long the task has run user code, or been on a core, until now. */
int64_t hw__task_user_ns(const struct hw__task *task);
int64_t hw__task_cpu_ns(const struct hw__task *task);

/* sched_yield(2). */
void hw__task_yield(struct hw__task *task);

/* The task is over. Does not return. */
void hw__task_end(struct hw__task *task);

/* Wakes the first in the list, from code of `waker` (NULL: an interrupt). Returns whether one was
 * woken; `*idle`: its core was idle, or has to be told. `near`: the waker is about to sleep, and
 * the woken one may as well run here. */
bool hw__machine_wake(struct hw__machine *machine, struct hw__task *waker,
                      struct hw__sim_futex *futex, bool near, bool *idle);

/* The flag that the task runs until has been set, `delay_ns` ago for it. */
void hw__task_interrupt(struct hw__task *task, int64_t delay_ns);

#endif
