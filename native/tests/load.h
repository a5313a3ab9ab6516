// SPDX-License-Identifier: MIT
/* Loads for the tests: short, and still long enough for what the tests ask. */
#ifndef HEADWAY_TESTS_LOAD_H
#define HEADWAY_TESTS_LOAD_H

#include "headway/load.h"
#include "process.h"
#include "server.h"

#define REQUEST "0123456789abcdef"
#define MS INT64_C(1000000)
#define S (1000 * MS)

static struct hw_histogram intended;
static struct hw_histogram actual;

static inline struct hw_load_config closed_load(const struct server *server, int connections) {
    return (struct hw_load_config){
        .protocol = server->type == SOCK_STREAM ? HW_LOAD_TCP : HW_LOAD_UDP,
        .model = HW_LOAD_CLOSED,
        .connections = connections,
        .address = "127.0.0.1",
        .port = server->port,
        .request = REQUEST,
        .request_bytes = sizeof REQUEST - 1,
        .response_bytes = sizeof REQUEST - 1,
        .duration_ns = MS,
        .min_requests = 300,
        .max_duration_ns = 15 * S,
        .timeout_ns = 10 * S,
    };
}

static inline struct hw_load_config open_load(const struct server *server, int connections,
                                              int arrivals, double rate_per_s) {
    struct hw_load_config config = closed_load(server, connections);
    config.model = HW_LOAD_OPEN;
    config.arrivals = arrivals;
    config.rate_per_s = rate_per_s;
    config.seed = 7;
    return config;
}

/* Starts the server, runs the load against it, and stops the server. The histograms start empty.
 * Checks that nothing is left behind. Fills *result on success.
 *
 * Returns what hw_load_run() returns. */
static inline int run_load(struct server *server, struct hw_load_config config,
                           struct hw_load_result *result) {
    struct surroundings before = look_around();
    memset(&intended, 0, sizeof intended);
    memset(&actual, 0, sizeof actual);
    server_start(server);
    config.port = server->port;
    int error = hw_load_run(&config, result, &intended, &actual);
    server_stop(server);
    check_unchanged(&before);
    return error;
}

/* Returns how many values of a histogram are at or above `value_ns`. */
static inline int64_t count_from(const struct hw_histogram *histogram, int64_t value_ns) {
    int64_t count = 0;
    for (int i = hw_histogram_index(value_ns); i < HW_HISTOGRAM_LENGTH; i++) {
        count += histogram->counts[i];
    }
    return count;
}

#endif
