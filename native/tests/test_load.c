// SPDX-License-Identifier: MIT
/* The load client against servers that answer: everything is counted, once. */
#include "load.h"

static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
static const int connections[] = {1, 10, 100};

/* Checks what holds for every load in which nothing is lost. */
static void check_counts(const struct server *server, const struct hw_load_config *config,
                         const struct hw_load_result *result) {
    T_TRUE(result->requests >= 300);
    T_EQ(result->requests, intended.total);
    T_EQ(result->requests, actual.total);
    /* A connection has one request out at a time. So the times of its requests fit into the elapsed
     * time, apart from the histogram's rounding. */
    double sum_ns = hw_histogram_mean_ns(&actual) * (double)actual.total;
    T_TRUE(sum_ns <= (double)result->elapsed_ns * config->connections * 1.001);
    T_TRUE(result->elapsed_ns >= actual.max_ns);
    T_TRUE(result->cpu_ns > 0);
    T_EQ(0, result->lost);
    T_EQ(0, result->unanswered);
    T_TRUE(server->seen >= result->requests);
}

static void test_closed(void) {
    for (int t = 0; t < 2; t++) {
        for (int c = 0; c < 3; c++) {
            struct server server = {.type = types[t]};
            struct hw_load_config config = closed_load(&server, connections[c]);
            struct hw_load_result result;
            T_EQ(0, run_load(&server, config, &result));
            check_counts(&server, &config, &result);
            T_EQ(result.requests, server.seen);
            T_EQ(intended.min_ns, actual.min_ns);
            T_EQ(intended.max_ns, actual.max_ns);
            T_EQ(0, result.late + result.unsent + result.slip_max_ns);
        }
    }
}

static void test_open(void) {
    for (int t = 0; t < 2; t++) {
        for (int c = 0; c < 3; c++) {
            for (int arrivals = HW_LOAD_UNIFORM; arrivals <= HW_LOAD_POISSON; arrivals++) {
                struct server server = {.type = types[t]};
                struct hw_load_config config = open_load(&server, connections[c], arrivals, 20000);
                struct hw_load_result result;
                T_EQ(0, run_load(&server, config, &result));
                check_counts(&server, &config, &result);
                T_EQ(result.requests, server.seen);
                T_TRUE(intended.min_ns >= actual.min_ns);
                T_TRUE(intended.max_ns >= actual.max_ns);
            }
        }
    }
}

static void test_the_uniform_rate_is_kept(void) {
    /* However slow the machine is, each request that is due within the duration is sent, or is
     * counted as unsent. */
    struct server server = {.type = SOCK_STREAM};
    struct hw_load_config config = open_load(&server, 10, HW_LOAD_UNIFORM, 2000);
    struct hw_load_result result;
    config.duration_ns = 100 * MS;
    config.min_requests = 0;
    T_EQ(0, run_load(&server, config, &result));
    T_TRUE(result.requests + result.unsent >= 200);
}

static void test_a_rare_request_does_not_hold_up_the_end(void) {
    /* The second one would be due in an hour. */
    struct server server = {.type = SOCK_STREAM};
    struct hw_load_config config = open_load(&server, 1, HW_LOAD_UNIFORM, 1.0 / 3600);
    struct hw_load_result result;
    config.min_requests = 0;
    config.duration_ns = 5 * MS;
    config.max_duration_ns = 3600 * S;
    T_EQ(0, run_load(&server, config, &result));
    T_EQ(1, result.requests);
    T_EQ(0, result.unsent);
}

static void test_the_warm_up_is_not_counted(void) {
    for (int model = HW_LOAD_CLOSED; model <= HW_LOAD_OPEN; model++) {
        for (int c = 0; c < 2; c++) {
            struct server server = {.type = SOCK_STREAM};
            struct hw_load_config config =
                open_load(&server, connections[c], HW_LOAD_UNIFORM, 10000);
            struct hw_load_result result;
            config.model = model;
            config.warmup_ns = 5 * MS;
            T_EQ(0, run_load(&server, config, &result));
            check_counts(&server, &config, &result);
            T_TRUE(server.seen > result.requests);
        }
    }
}

static void test_what_is_out_at_the_end_is_waited_for(void) {
    for (int c = 0; c < 3; c++) {
        struct server server = {.type = SOCK_STREAM, .stall_at = 1, .stall_ns = 5 * MS};
        struct hw_load_config config = closed_load(&server, connections[c]);
        struct hw_load_result result;
        config.duration_ns = 1;
        config.min_requests = 0;
        T_EQ(0, run_load(&server, config, &result));
        T_EQ(connections[c], result.requests);
        T_TRUE(result.elapsed_ns >= server.stall_ns);
    }
}

static void test_a_stall_shows_from_the_intended_time(void) {
    /* The stalled request k holds the only connection for 100 ms. The requests that are due in the
     * first 50 ms of that time, 1 ms apart, are answered more than 50 ms after they were due.
     * Measured from the time of sending, only k took that long. */
    for (int arrivals = HW_LOAD_UNIFORM; arrivals <= HW_LOAD_POISSON; arrivals++) {
        struct server server = {.type = SOCK_STREAM, .stall_at = 20, .stall_ns = 100 * MS};
        struct hw_load_config config = open_load(&server, 1, arrivals, 1000);
        struct hw_load_result result;
        T_EQ(0, run_load(&server, config, &result));
        check_counts(&server, &config, &result);
        T_TRUE(actual.max_ns >= server.stall_ns);
        T_TRUE(count_from(&intended, 50 * MS) >= (arrivals == HW_LOAD_UNIFORM ? 49 : 20));
        T_TRUE(count_from(&actual, 50 * MS) < 10);
        T_TRUE(result.late >= 20);
    }
}

static void test_too_high_a_rate_leaves_a_queue(void) {
    struct server server = {.type = SOCK_STREAM, .stall_at = 5, .stall_ns = 20 * MS};
    struct hw_load_config config = open_load(&server, 1, HW_LOAD_UNIFORM, 1e6);
    struct hw_load_result result;
    config.min_requests = 0;
    config.duration_ns = 10 * MS;
    T_EQ(0, run_load(&server, config, &result));
    T_TRUE(result.requests >= 1);
    T_TRUE(result.unsent >= 1000);
    T_TRUE(result.requests + result.unsent >= 10000);
}

static void test_requests_larger_than_any_buffer(void) {
    /* The server echoes these requests while they are still being sent. */
    static char request[3000000];
    for (int c = 0; c < 2; c++) {
        struct server server = {.type = SOCK_STREAM};
        struct hw_load_config config = closed_load(&server, connections[c]);
        struct hw_load_result result;
        config.request = request;
        config.request_bytes = sizeof request;
        config.response_bytes = sizeof request;
        config.min_requests = 12;
        T_EQ(0, run_load(&server, config, &result));
        T_TRUE(result.requests >= 12);
    }
}

static void test_the_largest_datagram(void) {
    static char request[HW_LOAD_MAX_DATAGRAM_BYTES];
    for (int c = 0; c < 2; c++) {
        struct server server = {.type = SOCK_DGRAM};
        struct hw_load_config config = closed_load(&server, c == 0 ? 1 : 2);
        struct hw_load_result result;
        config.request = request;
        config.request_bytes = sizeof request;
        config.response_bytes = sizeof request;
        T_EQ(0, run_load(&server, config, &result));
        check_counts(&server, &config, &result);
    }
}

static void test_answers_that_come_in_pieces(void) {
    for (int model = HW_LOAD_CLOSED; model <= HW_LOAD_OPEN; model++) {
        for (int c = 0; c < 2; c++) {
            struct server server = {.type = SOCK_STREAM, .pieces = true};
            struct hw_load_config config =
                open_load(&server, connections[c], HW_LOAD_POISSON, 5000);
            struct hw_load_result result;
            config.model = model;
            T_EQ(0, run_load(&server, config, &result));
            check_counts(&server, &config, &result);
            T_EQ(result.requests, server.seen);
        }
    }
}

static void ignore(int signal) { (void)signal; }

static void test_signals_do_not_cut_it_short(void) {
    pthread_t self = pthread_self();
    struct sigaction action = {.sa_handler = ignore}; /* no SA_RESTART: calls end with EINTR */
    struct sigaction before;
    T_EQ(0, sigaction(SIGUSR1, &action, &before));
    for (int model = HW_LOAD_CLOSED; model <= HW_LOAD_OPEN; model++) {
        for (int c = 0; c < 2; c++) {
            struct server server = {.type = SOCK_STREAM, .hit = &self};
            struct hw_load_config config =
                open_load(&server, connections[c], HW_LOAD_POISSON, 10000);
            struct hw_load_result result;
            config.model = model;
            T_EQ(0, run_load(&server, config, &result));
            check_counts(&server, &config, &result);
        }
    }
    T_EQ(0, sigaction(SIGUSR1, &before, NULL));
}

static void test_histograms_go_on_from_what_they_hold(void) {
    struct server server = {.type = SOCK_STREAM};
    struct hw_load_config config = closed_load(&server, 1);
    struct hw_load_result result;
    T_EQ(0, run_load(&server, config, &result));
    int64_t first = intended.total;
    server = (struct server){.type = SOCK_STREAM};
    server_start(&server);
    config.port = server.port;
    T_EQ(0, hw_load_run(&config, &result, &intended, NULL));
    server_stop(&server);
    T_EQ(first + result.requests, intended.total);
    T_EQ(first, actual.total);
}

int main(void) {
    t_start();
    T_RUN(test_closed);
    T_RUN(test_open);
    T_RUN(test_the_uniform_rate_is_kept);
    T_RUN(test_a_rare_request_does_not_hold_up_the_end);
    T_RUN(test_the_warm_up_is_not_counted);
    T_RUN(test_what_is_out_at_the_end_is_waited_for);
    T_RUN(test_a_stall_shows_from_the_intended_time);
    T_RUN(test_too_high_a_rate_leaves_a_queue);
    T_RUN(test_requests_larger_than_any_buffer);
    T_RUN(test_the_largest_datagram);
    T_RUN(test_answers_that_come_in_pieces);
    T_RUN(test_signals_do_not_cut_it_short);
    T_RUN(test_histograms_go_on_from_what_they_hold);
    return 0;
}
