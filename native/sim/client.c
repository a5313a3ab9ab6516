// SPDX-License-Identifier: MIT
/* A client of a simulated server: one event loop, in a process of its own, that drives all of its
 * connections. In a closed loop, the next request follows the reply. In an open loop, requests
 * arrive at random, and the time of a request counts from its arrival, even while no connection is
 * free. */
#include <errno.h>
#include <stdlib.h>

#include "sim/world.h"

#define NEVER INT64_MAX

static int64_t now_of(const struct hw__client *client) { return client->world->machine.now_ns; }

static int64_t cost(const struct hw__client *client, enum hw_sim_cost which) {
    return hw__cost(&client->world->machine, which);
}

static bool is_open(const struct hw__client *client) { return client->spec->rate_per_s > 0; }

/* ---------------------------------------------------------------- replies and requests */
bool hw__client_reply(struct hw__client *client, struct hw__task *from, int32_t connection) {
    bool idle;
    client->replies[client->reply_count++] = connection;
    hw__machine_wake(&client->world->machine, from, &client->inbox, true, &idle);
    return idle;
}

static void send(struct hw__client *client, int32_t connection, int64_t intended_ns) {
    struct hw__world *world = client->world;
    client->connections[connection].intended_ns = intended_ns;
    client->connections[connection].due_ns = NEVER;
    hw__task_user(client->task, client->spec->work_ns);
    hw__task_kernel(client->task, cost(client, HW_SIM_COST_SEND));
    struct hw__port *port =
        &world->ports[client->spec->port + connection * client->spec->port_step];
    hw__messages_add(&port->arrived, (struct hw__message){client->index, connection});
    bool idle;
    hw__machine_wake(&world->machine, client->task, &port->receivers, true, &idle);
    hw__task_kernel(client->task, cost(client, HW_SIM_COST_SEND_END) +
                                      (idle ? cost(client, HW_SIM_COST_SEND_IDLE) : 0));
}

static int64_t think_ns(struct hw__client *client) {
    int32_t think = client->spec->think;
    struct hw__world *world = client->world;
    return think < 0 ? 0 : hw__random_of(&world->machine.random, &world->spec.dists[think]);
}

/* Handles a reply: counts it, and decides when its connection sends the next request. */
static void take_reply(struct hw__client *client, int32_t connection) {
    struct hw__connection *one = &client->connections[connection];
    int32_t role = client->world->spec.role_count + client->index;
    hw__world_done(client->world, role, now_of(client) - one->intended_ns);
    if (is_open(client)) {
        one->due_ns = NEVER - 1; /* the connection is free */
        return;
    }
    int64_t next_ns = think_ns(client);
    if (next_ns > 0) {
        one->due_ns = now_of(client) + next_ns;
    } else {
        send(client, connection, now_of(client));
    }
}

/* ---------------------------------------------------------------- the open loop */
static void arrive(struct hw__client *client) {
    double mean_ns = 1e9 / client->spec->rate_per_s;
    while (client->next_arrival_ns <= now_of(client)) {
        if (client->backlog_count == client->backlog_room) {
            int64_t room = client->backlog_room == 0 ? 64 : client->backlog_room * 2;
            int64_t *backlog = realloc(client->backlog, (size_t)room * sizeof *backlog);
            if (backlog == NULL) {
                client->world->machine.error = -ENOMEM;
                return;
            }
            client->backlog = backlog;
            client->backlog_room = room;
        }
        client->backlog[client->backlog_count++] = client->next_arrival_ns;
        client->next_arrival_ns +=
            1 + (int64_t)hw__random_exponential(&client->world->machine.random, mean_ns);
    }
}

static void send_arrived(struct hw__client *client) {
    arrive(client);
    int64_t sent = 0;
    for (int32_t i = 0; i < client->spec->connections && sent < client->backlog_count; i++) {
        if (client->connections[i].due_ns == NEVER - 1) {
            send(client, i, client->backlog[sent++]);
        }
    }
    client->backlog_count -= sent;
    for (int64_t i = 0; i < client->backlog_count && sent > 0; i++) {
        client->backlog[i] = client->backlog[i + sent];
    }
}

/* ---------------------------------------------------------------- the loop */
/* Sends the requests that are due. Returns when the next request is due. */
static int64_t send_due(struct hw__client *client) {
    if (is_open(client)) {
        send_arrived(client);
        return client->next_arrival_ns;
    }
    int64_t next_ns = NEVER;
    for (int32_t i = 0; i < client->spec->connections; i++) {
        if (client->connections[i].due_ns <= now_of(client)) {
            send(client, i, client->connections[i].due_ns);
        }
        int64_t due_ns = client->connections[i].due_ns;
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    return next_ns;
}

static void take_replies(struct hw__client *client) {
    for (int32_t taken = 0; client->reply_count > 0; taken++) {
        int32_t connection = client->replies[0];
        client->reply_count--;
        for (int32_t i = 0; i < client->reply_count; i++) {
            client->replies[i] = client->replies[i + 1];
        }
        if (taken > 0) {
            hw__task_kernel(client->task, cost(client, HW_SIM_COST_RECEIVE_READY));
        }
        take_reply(client, connection);
    }
}

void hw__client_run(void *argument) {
    struct hw__task *task = argument;
    struct hw__client *client = task->owner;
    bool thinks = client->spec->think >= 0 || is_open(client);
    for (int32_t i = 0; i < client->spec->connections; i++) {
        client->connections[i].due_ns =
            is_open(client) ? NEVER - 1 : now_of(client) + think_ns(client);
    }
    client->next_arrival_ns = now_of(client);
    int64_t next_ns = send_due(client);
    for (;;) {
        if (client->reply_count == 0) {
            hw__task_kernel(task, cost(client, HW_SIM_COST_RECEIVE_SLEEP));
        }
        if (client->reply_count == 0) {
            hw__task_sleep(task, &client->inbox,
                           thinks && next_ns < NEVER - 1 ? next_ns : HW__NO_DEADLINE, 0);
            hw__task_kernel(task, cost(client, HW_SIM_COST_RECEIVE_WOKEN));
        } else {
            hw__task_kernel(task, cost(client, HW_SIM_COST_RECEIVE_READY));
        }
        take_replies(client);
        if (thinks) {
            next_ns = send_due(client);
        }
    }
}
