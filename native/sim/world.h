// SPDX-License-Identifier: MIT
/* All state of one simulation: the machine, its GILs, threads, sockets and clients, and the
 * results. */
#ifndef HEADWAY_SIM_WORLD_H
#define HEADWAY_SIM_WORLD_H

#include "sim/gil.h"

/* A queue of messages, first in, first out: a ring with room for all connections of all clients. */
struct hw__messages {
    struct hw__message *all;
    int32_t first, count, room;
};

/* A port, where requests arrive. */
struct hw__port {
    struct hw__messages arrived;
    struct hw__messages taken; /* messages that were received and that any thread may answer */
    int32_t early;             /* replies that were sent before their requests were received */
    struct hw__sim_futex receivers;
};

struct hw__latencies {
    float *ns;
    int64_t count, room;
};

/* A connection of a client. */
struct hw__connection {
    int64_t intended_ns; /* when the present request should have been sent */
    /* Closed loop: when the next request is due; INT64_MAX: a request is under way. Open loop:
     * INT64_MAX - 1: the connection is free. */
    int64_t due_ns;
};

struct hw__client {
    struct hw__world *world;
    const struct hw_sim_client *spec;
    int32_t index;
    struct hw__task *task;
    struct hw__connection *connections;
    int32_t *replies; /* connections whose replies have arrived */
    int32_t reply_count;
    struct hw__sim_futex inbox;
    int64_t next_arrival_ns; /* open loop: when the next request arrives */
    int64_t *backlog; /* open loop: arrival times of requests that no connection was free for */
    int64_t backlog_count, backlog_room;
};

struct hw__world {
    struct hw__machine machine;
    struct hw_sim_spec spec; /* a copy, with copies of all that it points to */
    struct hw__gil_sim *gils;
    struct hw__worker *workers;
    int32_t worker_count;
    int32_t left;     /* the number of workers that have not ended */
    int64_t ended_ns; /* when the last worker ended; -1: some have not */
    int64_t stood_ns; /* when nothing could happen any more; -1: something can */
    struct hw__client *clients;
    struct hw__port *ports;
    struct hw__sim_semaphore *semaphores;
    int64_t *warm_at; /* by role and core: when code of the role last ran on the core */
    bool any_urgent;
    struct hw_sim_role_result *results; /* by role, then by client */
    struct hw__latencies *latencies;    /* by role, then by client */
    struct hw_sim_event *events;
    int64_t event_count, event_room, dropped;
    bool is_warm;
    /* The values at the end of the warm-up, by worker. In cpu_before, the clients follow. */
    int64_t *cpu_before, *computed_before, *ran_before;
};

static inline void hw__messages_add(struct hw__messages *messages, struct hw__message message) {
    messages->all[(messages->first + messages->count++) % messages->room] = message;
}

/* Removes and returns the first message. There must be one. */
static inline struct hw__message hw__messages_take(struct hw__messages *messages) {
    struct hw__message message = messages->all[messages->first];
    messages->first = (messages->first + 1) % messages->room;
    messages->count--;
    return message;
}

static inline int64_t hw__now(const struct hw__worker *worker) {
    return worker->task->machine->now_ns;
}

/* Tells whether the run is past the warm-up, so that results are counted. */
static inline bool hw__world_counts(const struct hw__world *world) {
    return world->machine.now_ns >= world->spec.warm_ns;
}

/* Returns the part of the time from `since_ns` until now that is after the warm-up, in ns. */
int64_t hw__world_part_ns(const struct hw__world *world, int64_t since_ns);

/* Adds an event to the trace. */
void hw__world_tell(struct hw__worker *worker, uint8_t kind, uint16_t flags, uint32_t value);

/* Counts a piece of work that a role or a client has done. */
void hw__world_done(struct hw__world *world, int32_t role, int64_t took_ns);

/* The code of a worker's task and of a client's task (program.c, client.c). */
void hw__program_run(void *task);
void hw__client_run(void *task);

/* Delivers a reply to a client's connection. Must be called from the worker's task. Returns whether
 * another core had to be told. */
bool hw__client_reply(struct hw__client *client, struct hw__task *from, int32_t connection);

#endif
