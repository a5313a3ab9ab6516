// SPDX-License-Identifier: MIT
/* Everything of one simulation: the machine, its GILs, threads, sockets, clients and what is
 * counted. */
#ifndef HEADWAY_SIM_WORLD_H
#define HEADWAY_SIM_WORLD_H

#include "sim/gil.h"

/* Messages, the first one first: a ring with room for all connections of all clients. */
struct hw__messages {
    struct hw__message *all;
    int32_t first, count, room;
};

/* Where requests arrive. */
struct hw__port {
    struct hw__messages arrived;
    struct hw__messages taken; /* and not answered: those that any thread may answer */
    int32_t early;             /* answers that came before their requests were taken */
    struct hw__sim_futex receivers;
};

struct hw__latencies {
    float *ns;
    int64_t count, room;
};

/* A connection of a client. */
struct hw__connection {
    int64_t intended_ns; /* when the request was to be sent */
    int64_t due_ns;      /* closed: when the next one is; INT64_MAX: one is on its way */
};

struct hw__client {
    struct hw__world *world;
    const struct hw_sim_client *spec;
    int32_t index;
    struct hw__task *task;
    struct hw__connection *connections;
    int32_t *replies; /* connections whose reply is here */
    int32_t reply_count;
    struct hw__sim_futex inbox;
    int64_t next_arrival_ns; /* open */
    int64_t *backlog;        /* open: requests that no connection is free for: when they came */
    int64_t backlog_count, backlog_room;
};

struct hw__world {
    struct hw__machine machine;
    struct hw_sim_spec spec; /* a copy, with copies of all that it points to */
    struct hw__gil_sim *gils;
    struct hw__worker *workers;
    int32_t worker_count;
    struct hw__client *clients;
    struct hw__port *ports;
    struct hw__sim_semaphore *semaphores;
    int64_t *warm_at; /* by role and core: when code of the role last ran there */
    bool any_urgent;
    struct hw_sim_role_result *results; /* by role, then by client */
    struct hw__latencies *latencies;    /* likewise */
    struct hw_sim_event *events;
    int64_t event_count, event_room, dropped;
    bool is_warm;
    /* As of the end of the warm-up, by worker; cpu_before has the clients behind the workers. */
    int64_t *cpu_before, *computed_before, *ran_before;
};

static inline void hw__messages_add(struct hw__messages *messages, struct hw__message message) {
    messages->all[(messages->first + messages->count++) % messages->room] = message;
}

/* There must be one. */
static inline struct hw__message hw__messages_take(struct hw__messages *messages) {
    struct hw__message message = messages->all[messages->first];
    messages->first = (messages->first + 1) % messages->room;
    messages->count--;
    return message;
}

static inline int64_t hw__now(const struct hw__worker *worker) {
    return worker->task->machine->now_ns;
}

/* The run is past the warm-up: it counts. */
static inline bool hw__world_counts(const struct hw__world *world) {
    return world->machine.now_ns >= world->spec.warm_ns;
}

/* The part of [since, now] that counts, in ns. */
int64_t hw__world_part_ns(const struct hw__world *world, int64_t since_ns);

/* An event of the trace. */
void hw__world_tell(struct hw__worker *worker, uint8_t kind, uint16_t flags, uint32_t value);

/* A piece of work is done, by a role or client. */
void hw__world_done(struct hw__world *world, int32_t role, int64_t took_ns);

/* The code of a worker's task and of a client's (program.c, client.c). */
void hw__program_run(void *task);
void hw__client_run(void *task);

/* A client's connection has its reply. From the worker's task. Returns whether another core had to
 * be told. */
bool hw__client_reply(struct hw__client *client, struct hw__task *from, int32_t connection);

#endif
