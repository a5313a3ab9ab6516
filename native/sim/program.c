// SPDX-License-Identifier: MIT
/* The code of a simulated thread: executes the operations of its role. */
#include <errno.h>

#include "sim/world.h"

/* The most operations that a program may execute without time passing. Beyond that, it would never
 * end. */
#define MOST_AT_ONCE 100000

static int64_t cost(const struct hw__worker *worker, enum hw_sim_cost which) {
    return hw__cost(worker->task->machine, which);
}

static void kernel(struct hw__worker *worker, enum hw_sim_cost which) {
    hw__task_kernel(worker->task, cost(worker, which));
}

static int64_t value_of(struct hw__worker *worker, const struct hw_sim_op *op) {
    if ((op->flags & HW_SIM_OF_DIST) == 0) {
        return op->value;
    }
    struct hw__world *world = worker->world;
    return hw__random_of(&world->machine.random, &world->spec.dists[op->index]);
}

/* ---------------------------------------------------------------- computing */
/* Returns the extra time of Python code that did not run on this core recently: of the first hold,
 * and a little of the second one. */
static int64_t cold_python_ns(struct hw__worker *worker) {
    struct hw__world *world = worker->world;
    struct hw__core *core = worker->task->core;
    int64_t *warm_at = &world->warm_at[worker->role_index * world->spec.core_count + core->id];
    double cold = hw_sim_coldness(hw__now(worker) - *warm_at);
    double first_ns = cold == 0 ? 0 : (double)cost(worker, HW_SIM_COST_COLD_PYTHON) * cold;
    double next_ns =
        worker->cold == 0 ? 0 : (double)cost(worker, HW_SIM_COST_COLD_PYTHON_NEXT) * worker->cold;
    worker->cold = cold;
    return (int64_t)(first_ns > next_ns ? first_ns : next_ns);
}

static void stay_warm(struct hw__worker *worker) {
    struct hw__world *world = worker->world;
    struct hw__core *core = worker->task->core;
    world->warm_at[worker->role_index * world->spec.core_count + core->id] = hw__now(worker);
}

/* Returns `ns` as lengthened by other threads that run Python code at the same time, with the GIL
 * off. No more threads run at the same time than there are cores. */
static int64_t slowed(const struct hw__worker *worker, int64_t ns) {
    const struct hw__gil_sim *gil = worker->gil;
    if (gil == NULL || gil->enabled || gil->slow_down == 0) {
        return ns;
    }
    int32_t cores = worker->world->spec.core_count;
    int32_t at_once = gil->in_python < cores ? gil->in_python : cores;
    return (int64_t)((double)ns * (1 + gil->slow_down * (at_once - 1)));
}

static void begin_computing(struct hw__worker *worker) { worker->user_at = worker->task->user_ns; }

static void end_computing(struct hw__worker *worker) {
    int64_t computed_ns = worker->task->user_ns - worker->user_at;
    worker->computed_ns += computed_ns;
    worker->ran_ns += worker->runs ? computed_ns : 0;
    worker->user_at = -1;
}

/* Runs Python code, which checks for requests to release the GIL. */
static void hold(struct hw__worker *worker, int64_t ns) {
    int64_t left_ns = slowed(worker, ns);
    while (left_ns > 0) {
        begin_computing(worker);
        left_ns -= hw__task_until(worker->task, left_ns, &worker->drop);
        end_computing(worker);
        hw__gil_check(worker);
    }
}

static void compute(struct hw__worker *worker, int64_t ns) {
    begin_computing(worker);
    hw__task_user(worker->task, ns);
    end_computing(worker);
}

/* ---------------------------------------------------------------- calls that release the GIL */
/* Begins a call. If the last operation continues in it, the GIL has been released already. */
static void let_go(struct hw__worker *worker) {
    if (!worker->away) {
        hw__gil_drop(worker);
    }
    worker->away = false;
}

static void run(struct hw__worker *worker, const struct hw_sim_op *op) {
    let_go(worker);
    worker->runs = true;
    compute(worker, value_of(worker, op));
    worker->runs = false;
    if ((op->flags & HW_SIM_GOES_ON) != 0) {
        worker->away = true;
    } else {
        hw__gil_take(worker);
    }
}

/* Returns when an operation that waits for a time ends. */
static int64_t end_of(struct hw__worker *worker, const struct hw_sim_op *op) {
    int64_t ns = value_of(worker, op);
    if ((op->flags & HW_SIM_OF_CLOCK) == 0) {
        return hw__now(worker) + ns;
    }
    int64_t *stroke_ns = &worker->strokes_ns[op->index];
    *stroke_ns = (*stroke_ns < 0 ? hw__now(worker) : *stroke_ns) + ns;
    return *stroke_ns;
}

static void nap(struct hw__worker *worker, int64_t until_ns) {
    let_go(worker);
    hw__task_sleep(worker->task, &worker->nap, until_ns,
                   cost(worker, HW_SIM_COST_FUTEX_SLEEP_TIMED));
    kernel(worker, HW_SIM_COST_FUTEX_WOKEN_TIMED);
    hw__gil_take(worker);
}

static void block(struct hw__worker *worker, int64_t until_ns) {
    let_go(worker);
    if (until_ns > hw__now(worker)) {
        hw__task_block(worker->task, &worker->nap, until_ns);
    }
    hw__gil_take(worker);
}

static struct hw__port *port_of(struct hw__worker *worker, const struct hw_sim_op *op) {
    return &worker->world->ports[op->index + worker->port_offset];
}

static void receive(struct hw__worker *worker, const struct hw_sim_op *op) {
    struct hw__port *port = port_of(worker, op);
    let_go(worker);
    if (port->arrived.count > 0) {
        int64_t cold_ns = hw__cold_ns(worker->task, HW__COLD_RECEIVE, HW_SIM_COST_COLD_RECEIVE);
        hw__task_kernel(worker->task, cost(worker, HW_SIM_COST_RECEIVE_READY) + cold_ns);
    } else {
        kernel(worker, HW_SIM_COST_RECEIVE_SLEEP);
    }
    while (port->arrived.count == 0) {
        hw__task_sleep(worker->task, &port->receivers, HW__NO_DEADLINE, 0);
        kernel(worker, HW_SIM_COST_RECEIVE_WOKEN);
    }
    struct hw__message message = hw__messages_take(&port->arrived);
    if ((op->flags & HW_SIM_OF_PORT) == 0) {
        worker->request = message;
    } else if (port->early > 0) {
        port->early--;
        hw__client_reply(&worker->world->clients[message.client], worker->task, message.connection);
    } else {
        hw__messages_add(&port->taken, message);
    }
    hw__gil_take(worker);
}

static void reply(struct hw__worker *worker, struct hw__message request) {
    let_go(worker);
    int64_t cold_ns = hw__cold_ns(worker->task, HW__COLD_SEND, HW_SIM_COST_COLD_SEND);
    hw__task_kernel(worker->task, cost(worker, HW_SIM_COST_SEND) + cold_ns);
    bool idle =
        hw__client_reply(&worker->world->clients[request.client], worker->task, request.connection);
    hw__task_kernel(worker->task, cost(worker, HW_SIM_COST_SEND_END) +
                                      (idle ? cost(worker, HW_SIM_COST_SEND_IDLE) : 0));
    hw__gil_take(worker);
}

static void send(struct hw__worker *worker) {
    let_go(worker);
    int64_t cold_ns = hw__cold_ns(worker->task, HW__COLD_SEND, HW_SIM_COST_COLD_SEND);
    hw__task_kernel(worker->task, cost(worker, HW_SIM_COST_SEND) + cold_ns);
    worker->sent_ns = hw__now(worker);
    kernel(worker, HW_SIM_COST_SEND_END);
    hw__gil_take(worker);
}

/* Replies to the client of the thread's own request, or of the oldest request of a port. */
static void reply_op(struct hw__worker *worker, const struct hw_sim_op *op) {
    if ((op->flags & HW_SIM_OF_PORT) == 0) {
        struct hw__message request = worker->request;
        worker->request.client = -1;
        if (request.client < 0) { /* there is no request to reply to */
            worker->world->machine.error = -EPROTO;
            hw__task_end(worker->task);
        }
        reply(worker, request);
        return;
    }
    struct hw__port *port = port_of(worker, op);
    if (port->taken.count > 0) {
        reply(worker, hw__messages_take(&port->taken));
    } else {
        port->early++;
        send(worker);
    }
}

static void answer(struct hw__worker *worker, int64_t after_ns) {
    let_go(worker);
    int64_t until_ns = worker->sent_ns + after_ns;
    if (until_ns <= hw__now(worker)) {
        int64_t cold_ns = hw__cold_ns(worker->task, HW__COLD_RECEIVE, HW_SIM_COST_COLD_RECEIVE);
        hw__task_kernel(worker->task, cost(worker, HW_SIM_COST_RECEIVE_READY) + cold_ns);
    } else {
        kernel(worker, HW_SIM_COST_RECEIVE_SLEEP);
        if (until_ns > hw__now(worker)) {
            hw__task_block(worker->task, &worker->nap, until_ns);
        }
        kernel(worker, HW_SIM_COST_RECEIVE_WOKEN);
    }
    hw__gil_take(worker);
}

static void take(struct hw__worker *worker, struct hw__sim_semaphore *semaphore) {
    if (!hw__sim_semaphore_try(worker->task, semaphore)) {
        hw__gil_drop(worker); /* never after HW_SIM_GOES_ON (check_goes_on()) */
        worker->taking_since = hw__now(worker);
        hw__sim_semaphore_wait(worker->task, semaphore);
        worker->taking_since = -1;
        worker->poster = semaphore->poster;
        hw__gil_take(worker);
    }
}

static void post(struct hw__worker *worker, const struct hw_sim_op *op) {
    struct hw__sim_semaphore *semaphore = &worker->world->semaphores[op->index];
    hw__task_user(worker->task, cost(worker, HW_SIM_COST_LOCK));
    if ((op->flags & HW_SIM_OF_LOCK) != 0 && semaphore->word.value > 0) { /* it is not locked */
        worker->world->machine.error = -EPERM;
        hw__task_end(worker->task);
    }
    semaphore->poster = worker;
    hw__sim_semaphore_post(worker->task, semaphore);
}

/* ---------------------------------------------------------------- loops */
static void begin_loop(struct hw__worker *worker, int64_t times) {
    worker->loops[worker->depth].begin = worker->at;
    worker->loops[worker->depth].left = times;
    worker->depth++;
}

static void end_loop(struct hw__worker *worker) {
    if (--worker->loops[worker->depth - 1].left > 0) {
        worker->at = worker->loops[worker->depth - 1].begin;
    } else {
        worker->depth--;
    }
}

/* ---------------------------------------------------------------- the program */
static void done(struct hw__worker *worker) {
    hw__world_done(worker->world, worker->role_index, hw__now(worker) - worker->begun_ns);
    worker->begun_ns = hw__now(worker);
}

/* Executes an operation that keeps the GIL. Returns whether it was one. */
static bool compute_op(struct hw__worker *worker, const struct hw_sim_op *op) {
    int64_t cold_ns;
    switch ((enum hw_sim_op_kind)op->kind) {
    case HW_SIM_HOLD:
        cold_ns = worker->gil == NULL ? 0 : cold_python_ns(worker);
        hold(worker, value_of(worker, op) + cold_ns);
        stay_warm(worker);
        return true;
    case HW_SIM_CALL:
        compute(worker, slowed(worker, value_of(worker, op)));
        stay_warm(worker);
        hw__gil_check(worker); /* as the evaluation loop does after a call */
        return true;
    case HW_SIM_COMPUTE:
        hold(worker, INT64_MAX / 8);
        return true;
    default:
        return false;
    }
}

/* Executes an operation that releases the GIL, or may. Returns whether it was one. */
static bool call_op(struct hw__worker *worker, const struct hw_sim_op *op) {
    switch ((enum hw_sim_op_kind)op->kind) {
    case HW_SIM_RUN:
        run(worker, op);
        return true;
    case HW_SIM_SLEEP:
        nap(worker, end_of(worker, op));
        return true;
    case HW_SIM_BLOCK:
        block(worker, end_of(worker, op));
        return true;
    case HW_SIM_RECEIVE:
        receive(worker, op);
        return true;
    case HW_SIM_REPLY:
        reply_op(worker, op);
        return true;
    case HW_SIM_SEND:
        send(worker);
        return true;
    case HW_SIM_ANSWER:
        answer(worker, value_of(worker, op));
        return true;
    case HW_SIM_TAKE:
        take(worker, &worker->world->semaphores[op->index]);
        return true;
    default:
        return false;
    }
}

static void run_op(struct hw__worker *worker, const struct hw_sim_op *op) {
    if (compute_op(worker, op) || call_op(worker, op)) {
        return;
    }
    switch ((enum hw_sim_op_kind)op->kind) {
    case HW_SIM_POST:
        post(worker, op);
        break;
    case HW_SIM_BEGIN:
        worker->begun_ns = hw__now(worker);
        break;
    case HW_SIM_DONE:
        done(worker);
        break;
    case HW_SIM_LOOP:
        begin_loop(worker, value_of(worker, op));
        break;
    case HW_SIM_END:
        end_loop(worker);
        break;
    default: /* HW_SIM_EXIT */
        worker->at = worker->role->op_count;
        break;
    }
}

/* Ends the run if the program loops without time passing. */
static void watch_time(struct hw__worker *worker) {
    if (worker->moved_ns != hw__now(worker)) {
        worker->moved_ns = hw__now(worker);
        worker->moved_ops = 0;
    } else if (++worker->moved_ops > MOST_AT_ONCE) {
        worker->world->machine.error = -EPROTO;
        hw__task_end(worker->task);
    }
}

static bool goes_on(struct hw__worker *worker, bool exits) {
    if (worker->at < worker->role->op_count) {
        return true;
    }
    worker->at = 0;
    worker->depth = 0;
    return !exits && worker->role->repeats != 0 && worker->role->op_count > 0;
}

void hw__program_run(void *argument) {
    struct hw__task *task = argument;
    struct hw__worker *worker = task->owner;
    worker->begun_ns = hw__now(worker);
    hw__gil_take(worker);
    bool exits = false;
    while (goes_on(worker, exits)) {
        const struct hw_sim_op *op = &worker->role->ops[worker->at++];
        worker->where = op->where;
        exits = op->kind == HW_SIM_EXIT;
        run_op(worker, op);
        watch_time(worker);
    }
    hw__gil_drop(worker);
    hw__world_tell(worker, HW_SIM_EVENT_EXIT, 0, 0);
    if (--worker->world->left == 0) {
        worker->world->ended_ns = hw__now(worker);
        worker->world->machine.stops = true;
    }
    hw__task_end(task);
}
