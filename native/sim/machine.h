// SPDX-License-Identifier: MIT
/* A machine in virtual time: cores, tasks (the operating system's threads), and Linux's fair
 * scheduler as of 6.12 and later (EEVDF), as far as it affects the figures. The model has:
 *
 *  - a run queue for each core, with virtual run times, deadlines, lag that is kept over sleep, and
 *    delayed dequeue;
 *  - wake-up preemption, and the protection of a slice from it (RUN_TO_PARITY);
 *  - periodic ticks, and the time that interrupts take;
 *  - placement of wake-ups, and pulling by a core that becomes idle;
 *  - timers with slack.
 *
 * docs/internals/simulator.md lists what is left out. The rules are those of kernel/sched/fair.c.
 *
 * The code of a task calls the functions below that are marked "from the task". They return when
 * the time has passed that the task needs for them. */
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

/* The activity that a task spends its time on. */
enum hw__spends {
    HW__SPENDS_NOTHING, /* the task's code runs, in no time */
    HW__SPENDS_USER,    /* user code; may be preempted at any time */
    HW__SPENDS_KERNEL,  /* a system call; preempted when it is over */
    HW__SPENDS_UNTIL,   /* as HW__SPENDS_USER, and ends early when it is interrupted */
    HW__BLOCKS,
    HW__YIELDS,
    HW__ENDS
};

/* Kinds of code that take longer when the core has not run them for a while. */
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
    struct hw__core *core; /* the core where the task runs, or ran last */
    uint64_t allowed;      /* a bit for each core that the task may run on */
    void *owner;           /* the worker or client whose code the task runs */
    struct hw__fiber fiber;

    enum hw__spends spends;
    int64_t left_ns;    /* the time that the task must still spend on `spends` */
    int64_t extra_ns;   /* time that it must spend first: switches, interrupts */
    int64_t started_ns; /* when the task last went on with `spends` */
    bool running;       /* the task spends time now */
    const bool *flag;   /* HW__SPENDS_UNTIL: the flag that ends it */

    /* The fair scheduler's state. Virtual times are in nanoseconds, as all tasks weigh the same. */
    int64_t vruntime, deadline, slice_ns, lag, protected_until, counted_ns;
    bool on_queue;          /* the task is runnable, or its dequeue is delayed */
    bool delayed;           /* the task sleeps, but stays in the queue until its lag is paid back */
    bool relative_deadline; /* `deadline` is relative to vruntime */

    bool blocked;
    struct hw__sim_futex *waits_for; /* the futex in whose list the task is; NULL: in none */
    struct hw__task *before, *after; /* the neighbours in that list */
    bool popped;                     /* the waker has removed the task from the list */
    bool timed_out;                  /* a timer woke the task */
    uint64_t sleep; /* serial number of the sleep; timers of other sleeps are void */

    int64_t cpu_ns, user_ns;
};

struct hw__timer {
    struct hw__task *task;
    uint64_t sleep;
    /* The timer may expire from `soft_ns` on, with any interrupt. It has an interrupt of its own at
     * `hard_ns`. */
    int64_t soft_ns, hard_ns;
};

struct hw__core {
    int32_t id;
    int32_t begun; /* the tasks that begin here */
    struct hw__task *current;
    int64_t step_ns;         /* when the current task has spent its time; INT64_MAX: never */
    struct hw__task **queue; /* runnable and delayed tasks, without the current one */
    int32_t queued, runnable;
    bool need_resched;
    bool waking; /* the core is leaving its idle state */
    bool ticks;
    int64_t least_vruntime, idle_since_ns;
    int64_t used_ns[HW__COLDS]; /* when each kind of code last ran on this core */
    struct hw__timer *timers;
    int32_t timer_count, timer_room;
};

/* The quantiles of a cost, in 1/256 ns. */
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
    /* Time last passed at `moved_ns`, when `moved_at` steps had been made. */
    int64_t moved_ns, moved_at;
    bool stops; /* all threads have ended, and so has the run */
    int error;  /* 0, or the error that ended the run: -ENOMEM, -EPROTO, -EPERM */
};

/* A place in memory that tasks sleep on. */
struct hw__sim_futex {
    struct hw__task *first, *last;
    uint32_t value;
};

/* Makes the cores. Returns false if there is no memory. */
bool hw__machine_make(struct hw__machine *machine, const struct hw_sim_spec *spec);

/* Adds a task that runs entry(task) from begin_ns on, with `owner`. Returns NULL if there is no
 * memory. */
struct hw__task *hw__machine_add(struct hw__machine *machine, void (*entry)(void *task),
                                 void *owner, uint64_t cores, int64_t begin_ns);

/* Runs the machine until `until_ns`. Returns 0, -EDEADLK if no event is planned any more, or the
 * machine's error. */
int hw__machine_run(struct hw__machine *machine, int64_t until_ns);

void hw__machine_free(struct hw__machine *machine);

/* Plans an event, and an event of a core. */
void hw__machine_plan(struct hw__machine *machine, struct hw__planned event);
void hw__machine_plan_core(struct hw__machine *machine, struct hw__core *core,
                           enum hw__event_kind kind, int64_t time_ns);

/* Copies the costs. Returns false if there is no memory. */
bool hw__costs_make(struct hw__machine *machine, const struct hw_sim_dist *costs);
void hw__costs_free(struct hw__machine *machine);

/* Draws a cost. */
int64_t hw__cost(struct hw__machine *machine, enum hw_sim_cost cost);

/* Returns how much longer a kind of code takes now because it did not run on the core recently.
 * Notes that this code runs now. */
int64_t hw__cold_ns(struct hw__task *task, enum hw__cold kind, enum hw_sim_cost cost);

/* ---- from the task */

/* Spends `ns` in user code, and in the kernel. */
void hw__task_user(struct hw__task *task, int64_t ns);
void hw__task_kernel(struct hw__task *task, int64_t ns);

/* Runs user code for `ns`, or until `*flag` is set and hw__task_interrupt() is called. Returns the
 * time that it ran. */
int64_t hw__task_until(struct hw__task *task, int64_t ns, const bool *flag);

/* Waits in the futex's list until a wake-up, or until deadline_ns (with the timer's slack); below
 * 0: no deadline. The task spends `enter_ns` in the system call after it has entered the list, so a
 * wake-up during that time is not lost. Returns whether the task was woken. */
bool hw__task_sleep(struct hw__task *task, struct hw__sim_futex *futex, int64_t deadline_ns,
                    int64_t enter_ns);

/* Waits in the futex's list until a wake-up from outside the machine, at `until_ns`. */
void hw__task_block(struct hw__task *task, struct hw__sim_futex *futex, int64_t until_ns);

/* Return how long the task has run user code, and how long it has been on a core, until now. */
int64_t hw__task_user_ns(const struct hw__task *task);
int64_t hw__task_cpu_ns(const struct hw__task *task);

/* sched_yield(2) */
void hw__task_yield(struct hw__task *task);

/* Ends the task. Does not return. */
void hw__task_end(struct hw__task *task);

/* Wakes the first task in the list. `waker` is the task that does so; NULL: an interrupt. `near`:
 * the waker is about to sleep, so the woken task may run on its core. `*idle` is set to whether
 * another core had to be told, as it idled or must reschedule.
 *
 * Returns whether a task was woken. */
bool hw__machine_wake(struct hw__machine *machine, struct hw__task *waker,
                      struct hw__sim_futex *futex, bool near, bool *idle);

/* Tells the task that the flag of its hw__task_until() was set. The task sees that after
 * `delay_ns`. */
void hw__task_interrupt(struct hw__task *task, int64_t delay_ns);

#endif
