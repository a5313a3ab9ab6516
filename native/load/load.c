// SPDX-License-Identifier: MIT
#include "headway/load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "load/phase.h"

/* Room for a whole datagram and one byte more, or for much of a long stream. */
#define BUFFER_BYTES 65536

/* Tells whether a size is valid for a request or a response. This function can't fail. */
static bool valid_size(const struct hw_load_config *config, int64_t bytes) {
    int64_t most = config->protocol == HW_LOAD_TCP ? HW_LOAD_MAX_BYTES : HW_LOAD_MAX_DATAGRAM_BYTES;
    return bytes >= 1 && bytes <= most;
}

/* Tells whether the model and its parameters are in range. This function can't fail. */
static bool valid_model(const struct hw_load_config *config) {
    if (config->model == HW_LOAD_CLOSED) {
        return true;
    }
    return config->model == HW_LOAD_OPEN &&
           (config->arrivals == HW_LOAD_UNIFORM || config->arrivals == HW_LOAD_POISSON) &&
           config->rate_per_s >= HW_LOAD_MIN_RATE_PER_S &&
           config->rate_per_s <= HW_LOAD_MAX_RATE_PER_S;
}

/* Tells whether the times are in range. This function can't fail. */
static bool valid_times(const struct hw_load_config *config) {
    return config->warmup_ns >= 0 && config->warmup_ns <= HW_LOAD_MAX_NS &&
           config->duration_ns >= 1 && config->duration_ns <= config->max_duration_ns &&
           config->max_duration_ns <= HW_LOAD_MAX_NS && config->timeout_ns >= 1 &&
           config->timeout_ns <= HW_LOAD_MAX_NS && config->min_requests >= 0;
}

/* Tells whether the arguments are in range, and fills the server's address. This function can't
 * fail. */
static bool valid(const struct hw_load_config *config, struct sockaddr_in *address) {
    if ((config->protocol != HW_LOAD_TCP && config->protocol != HW_LOAD_UDP) ||
        config->address == NULL || config->request == NULL || config->port < 1 ||
        config->port > 65535 || config->connections < 1 ||
        config->connections > HW_LOAD_MAX_CONNECTIONS) {
        return false;
    }
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)config->port)};
    return inet_pton(AF_INET, config->address, &address->sin_addr) == 1 &&
           valid_size(config, config->request_bytes) &&
           valid_size(config, config->response_bytes) && valid_model(config) && valid_times(config);
}

/* Drives a phase in the way that suits the config.
 *
 * Returns 0 or a negative errno. */
static int drive(struct hw__phase *phase) {
    const struct hw_load_config *config = phase->peer->config;
    if (config->model == HW_LOAD_OPEN) {
        return hw__open_model(phase);
    }
    return config->connections == 1 ? hw__closed_one(phase) : hw__closed_many(phase);
}

/* Runs the warm-up to its end and to the last answer, without counting.
 *
 * Returns 0 or a negative errno. */
static int warm_up(const struct hw__peer *peer, struct hw__connection *connections) {
    if (peer->config->warmup_ns == 0) {
        return 0;
    }
    struct hw__phase phase = {
        .peer = peer,
        .connections = connections,
        .duration_ns = peer->config->warmup_ns,
        .max_duration_ns = INT64_MAX / 2, /* the timeout ends it */
    };
    return drive(&phase);
}

/* Returns the calling thread's CPU time so far, in ns. This function can't fail. */
static int64_t cpu_now_ns(void) {
    struct timespec now;
    /* Can't fail: every Linux has this clock, and the address is valid. */
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Runs the counted phase. All connections must be open.
 *
 * Returns 0 with *out filled, or a negative errno. */
static int count(const struct hw__peer *peer, struct hw__connection *connections,
                 struct hw_load_result *out, struct hw_histogram *intended,
                 struct hw_histogram *actual) {
    int64_t cpu_ns = cpu_now_ns();
    struct hw__phase phase = {
        .peer = peer,
        .connections = connections,
        .duration_ns = peer->config->duration_ns,
        .min_requests = peer->config->min_requests,
        .max_duration_ns = peer->config->max_duration_ns,
        .intended = intended,
        .actual = actual,
    };
    int error = drive(&phase);
    if (error != 0) {
        return error;
    }
    *out = (struct hw_load_result){
        .requests = phase.answered,
        .elapsed_ns = phase.answered == 0 ? 0 : phase.last_answered_ns - phase.first_sent_ns,
        .cpu_ns = cpu_now_ns() - cpu_ns,
        .lost = phase.lost,
        .late = phase.late,
        .unsent = phase.unsent,
        .slip_max_ns = phase.slip_max_ns,
        .unanswered = phase.unanswered,
    };
    return 0;
}

int hw_load_run(const struct hw_load_config *config, struct hw_load_result *out,
                struct hw_histogram *intended, struct hw_histogram *actual) {
    struct hw__peer peer = {.config = config, .buffer_bytes = BUFFER_BYTES};
    if (config == NULL || out == NULL || intended == NULL || !valid(config, &peer.address)) {
        return -EINVAL;
    }
    struct hw__connection *connections = calloc((size_t)config->connections, sizeof *connections);
    peer.buffer = malloc(BUFFER_BYTES);
    int error = connections == NULL || peer.buffer == NULL ? -ENOMEM : 0;
    int opened = 0;
    while (error == 0 && opened < config->connections) {
        error = hw__connection_open(&connections[opened], &peer);
        opened += error == 0;
    }
    if (error == 0) {
        error = warm_up(&peer, connections);
    }
    if (error == 0) {
        error = count(&peer, connections, out, intended, actual);
    }
    for (int i = 0; i < opened; i++) {
        hw__connection_close(&connections[i]);
    }
    free(connections);
    free(peer.buffer);
    return error;
}
