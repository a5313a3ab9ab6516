// SPDX-License-Identifier: MIT
/* The load client against servers that fail: every fault has its error, nothing hangs, and nothing
 * is left open. */
#include "load.h"

/* Both models, each through one connection and through five. */
#define WAYS 4

static struct hw_load_config load_in(int way, const struct server *server) {
    struct hw_load_config config = open_load(server, way % 2 == 0 ? 1 : 5, HW_LOAD_POISSON, 20000);
    config.model = way < 2 ? HW_LOAD_CLOSED : HW_LOAD_OPEN;
    return config;
}

/* Checks that the load ends with one of the two errors, and does not change the result. */
static void check_fails(struct server *server, struct hw_load_config config, int error, int or) {
    struct hw_load_result result = {.requests = 42};
    int returned = run_load(server, config, &result);
    if (returned != or) {
        T_EQ(error, returned);
    }
    T_EQ(42, result.requests);
}

static void test_a_server_that_closes(void) {
    for (int way = 0; way < WAYS; way++) {
        for (int reset = 0; reset < 2; reset++) {
            struct server server = {.type = SOCK_STREAM, .close_at = 50, .reset = reset};
            check_fails(&server, load_in(way, &server), -ECONNRESET, -EPIPE);
        }
    }
}

static void test_a_server_that_closes_in_the_middle_of_an_answer(void) {
    for (int way = 0; way < WAYS; way++) {
        struct server server = {.type = SOCK_STREAM, .half_at = 50};
        check_fails(&server, load_in(way, &server), -ECONNRESET, -EPIPE);
    }
}

static void test_a_server_that_closes_at_the_first(void) {
    for (int way = 0; way < WAYS; way++) {
        struct server server = {.type = SOCK_STREAM, .close_at = 1};
        struct hw_load_config config = load_in(way, &server);
        config.warmup_ns = S;
        check_fails(&server, config, -ECONNRESET, -EPIPE);
    }
}

static void test_nobody_listens(void) {
    struct surroundings before = look_around();
    for (int way = 0; way < WAYS; way++) {
        /* The socket is bound, so that no one else gets the port, but does not listen. */
        struct server server = {.type = SOCK_STREAM};
        int fd = server_bind(SOCK_STREAM, &server.port);
        struct hw_load_config config = load_in(way, &server);
        struct hw_load_result result;
        T_EQ(-ECONNREFUSED, hw_load_run(&config, &result, &intended, NULL));
        T_EQ(0, close(fd));
        /* A UDP socket that is connected elsewhere does not receive our datagrams. */
        server.type = SOCK_DGRAM;
        fd = server_bind(SOCK_DGRAM, &server.port);
        struct sockaddr_in elsewhere = {
            .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        T_EQ(0, connect(fd, (struct sockaddr *)&elsewhere, sizeof elsewhere));
        config = load_in(way, &server);
        T_EQ(-ECONNREFUSED, hw_load_run(&config, &result, &intended, NULL));
        T_EQ(0, close(fd));
    }
    check_unchanged(&before);
}

static void test_a_silent_tcp_server_times_out(void) {
    for (int way = 0; way < WAYS; way++) {
        struct server server = {.type = SOCK_STREAM, .silent = true};
        struct hw_load_config config = load_in(way, &server);
        config.timeout_ns = 10 * MS;
        check_fails(&server, config, -ETIMEDOUT, -ETIMEDOUT);
    }
}

static void test_a_server_that_does_not_accept_times_out(void) {
    /* The kernel accepts as many connections as its queue holds; the next one waits for an answer
     * to its SYN. */
    struct surroundings before = look_around();
    struct server server = {.type = SOCK_STREAM};
    struct hw_load_result result;
    int fd = server_bind(SOCK_STREAM, &server.port);
    T_EQ(0, listen(fd, 0));
    struct hw_load_config config = closed_load(&server, 5);
    config.timeout_ns = 50 * MS;
    T_EQ(-ETIMEDOUT, hw_load_run(&config, &result, &intended, NULL));
    T_EQ(0, close(fd));
    check_unchanged(&before);
}

static void ignore(int signal) { (void)signal; }

static void test_signals_do_not_put_off_the_timeout(void) {
    /* A signal every 2 ms, as a sampling profiler sends them. */
    struct sigaction action = {.sa_handler = ignore};
    struct sigaction before;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec each = {.it_interval = {0, 2 * MS}, .it_value = {0, 2 * MS}};
    timer_t timer;
    T_EQ(0, sigaction(SIGUSR1, &action, &before));
    for (int way = 0; way < WAYS; way++) {
        struct surroundings around = look_around();
        struct server server = {.type = SOCK_STREAM};
        struct hw_load_result result;
        int fd = server_bind(SOCK_STREAM, &server.port);
        T_EQ(0, listen(fd, 8));
        struct hw_load_config config = load_in(way, &server);
        config.timeout_ns = 100 * MS;
        T_EQ(0, timer_create(CLOCK_MONOTONIC, &event, &timer));
        T_EQ(0, timer_settime(timer, 0, &each, NULL));
        T_EQ(-ETIMEDOUT, hw_load_run(&config, &result, &intended, NULL));
        T_EQ(0, timer_delete(timer));
        T_EQ(0, close(fd));
        check_unchanged(&around);
    }
    T_EQ(0, sigaction(SIGUSR1, &before, NULL));
}

static void test_half_an_answer_times_out(void) {
    /* The answers are shorter than they should be. */
    for (int way = 0; way < WAYS; way++) {
        struct server server = {.type = SOCK_STREAM};
        struct hw_load_config config = load_in(way, &server);
        config.response_bytes++;
        config.timeout_ns = 60 * MS;
        check_fails(&server, config, -ETIMEDOUT, -ETIMEDOUT);
    }
}

static void test_a_silent_udp_server_loses_all(void) {
    for (int way = 0; way < WAYS; way++) {
        struct server server = {.type = SOCK_DGRAM, .silent = true};
        struct hw_load_config config = load_in(way, &server);
        struct hw_load_result result;
        config.timeout_ns = 2 * MS;
        config.duration_ns = 20 * MS;
        config.min_requests = 0;
        T_EQ(0, run_load(&server, config, &result));
        T_EQ(0, result.requests);
        T_EQ(0, result.elapsed_ns);
        T_EQ(0, intended.total);
        T_TRUE(result.lost >= 1);
        T_TRUE(server.seen <= result.lost);
    }
}

static void test_a_lossy_udp_server(void) {
    for (int way = 0; way < WAYS; way++) {
        struct server server = {.type = SOCK_DGRAM, .lose_every = 10};
        struct hw_load_config config = load_in(way, &server);
        struct hw_load_result result;
        config.timeout_ns = 20 * MS;
        config.min_requests = 100;
        T_EQ(0, run_load(&server, config, &result));
        T_TRUE(result.requests >= 100);
        T_EQ(result.requests, intended.total);
        T_TRUE(result.lost >= server.dropped);
        T_TRUE(server.dropped >= 10);
    }
}

static void test_a_late_udp_answer_is_nobodys(void) {
    /* Every request is answered when the next one has come. The answer is too late, and must not
     * count as the answer to the next request. There is one connection only, because over several
     * the next request would come in time. A client that has no core for the whole of a load sends
     * one request only, so the load is made longer until there are two. */
    for (int way = 0; way < WAYS; way += 2) {
        struct hw_load_result result = {.lost = 0};
        for (int64_t duration_ns = 30 * MS; result.lost < 2; duration_ns *= 2) {
            struct server server = {.type = SOCK_DGRAM, .late = true};
            struct hw_load_config config = load_in(way, &server);
            config.timeout_ns = 2 * MS;
            config.duration_ns = duration_ns;
            config.min_requests = 0;
            T_EQ(0, run_load(&server, config, &result));
            T_EQ(0, result.requests);
        }
    }
}

static void test_too_long_an_answer(void) {
    for (int way = 0; way < WAYS; way++) {
        for (int udp = 0; udp < 2; udp++) {
            struct server server = {.type = udp ? SOCK_DGRAM : SOCK_STREAM, .extra_bytes = 1};
            check_fails(&server, load_in(way, &server), -EPROTO, -EPROTO);
        }
    }
}

static void test_an_answer_nobody_asked_for(void) {
    for (int way = 0; way < WAYS; way++) {
        struct server server = {.type = SOCK_STREAM, .twice = true};
        check_fails(&server, load_in(way, &server), -EPROTO, -EPROTO);
    }
}

static void test_too_short_a_datagram(void) {
    for (int way = 0; way < WAYS; way++) {
        struct server server = {.type = SOCK_DGRAM, .extra_bytes = -1};
        check_fails(&server, load_in(way, &server), -EPROTO, -EPROTO);
    }
}

static void test_the_longest_duration_ends_it_with_requests_out(void) {
    for (int way = 0; way < WAYS; way++) {
        struct server server = {.type = SOCK_STREAM, .silent = true};
        struct hw_load_config config = load_in(way, &server);
        struct hw_load_result result;
        config.max_duration_ns = 20 * MS;
        T_EQ(0, run_load(&server, config, &result));
        T_EQ(0, result.requests);
        T_TRUE(result.unanswered >= 1);
        T_TRUE(result.unanswered <= config.connections);
    }
}

/* Checks each field by itself with a value out of its range. */
static void test_bad_arguments_are_refused_and_change_nothing(void) {
    struct surroundings before = look_around();
    struct server nowhere = {.type = SOCK_STREAM, .port = 9};
    struct server unheard = {.type = SOCK_DGRAM, .port = 9};
    struct hw_load_config good = open_load(&nowhere, 1, HW_LOAD_UNIFORM, 1);
    struct hw_load_config bad[30];
    int count = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bad[i] = good;
    }
    bad[count++].protocol = 2;
    bad[count++].protocol = -1;
    bad[count++].model = 2;
    bad[count++].arrivals = 2;
    bad[count++].connections = 0;
    bad[count++].connections = HW_LOAD_MAX_CONNECTIONS + 1;
    bad[count++].address = NULL;
    bad[count++].address = "localhost";
    bad[count++].address = "::1";
    bad[count++].port = 0;
    bad[count++].port = 65536;
    bad[count++].request = NULL;
    bad[count++].request_bytes = 0;
    bad[count++].request_bytes = HW_LOAD_MAX_BYTES + 1;
    bad[count++].response_bytes = 0;
    bad[count++].response_bytes = HW_LOAD_MAX_BYTES + 1;
    bad[count++].rate_per_s = 0;
    bad[count++].rate_per_s = HW_LOAD_MIN_RATE_PER_S / 2;
    bad[count++].rate_per_s = 1e-300;
    bad[count++].rate_per_s = HW_LOAD_MAX_RATE_PER_S * 2;
    bad[count++].rate_per_s = (double)__builtin_nanf("");
    bad[count++].warmup_ns = -1;
    bad[count++].warmup_ns = HW_LOAD_MAX_NS + 1;
    bad[count++].duration_ns = 0;
    bad[count++].duration_ns = good.max_duration_ns + 1;
    bad[count++].max_duration_ns = HW_LOAD_MAX_NS + 1;
    bad[count++].min_requests = -1;
    bad[count++].timeout_ns = 0;
    bad[count++].timeout_ns = HW_LOAD_MAX_NS + 1;
    bad[count] = closed_load(&unheard, 1);
    bad[count++].request_bytes = HW_LOAD_MAX_DATAGRAM_BYTES + 1;
    struct hw_load_result result = {.requests = 42};
    for (int i = 0; i < count; i++) {
        T_EQ(-EINVAL, hw_load_run(&bad[i], &result, &intended, NULL));
    }
    T_EQ(-EINVAL, hw_load_run(NULL, &result, &intended, NULL));
    T_EQ(-EINVAL, hw_load_run(&good, NULL, &intended, NULL));
    T_EQ(-EINVAL, hw_load_run(&good, &result, NULL, NULL));
    T_EQ(42, result.requests);
    check_unchanged(&before);
}

int main(void) {
    t_start();
    T_RUN(test_a_server_that_closes);
    T_RUN(test_a_server_that_closes_in_the_middle_of_an_answer);
    T_RUN(test_a_server_that_closes_at_the_first);
    T_RUN(test_nobody_listens);
    T_RUN(test_a_silent_tcp_server_times_out);
    T_RUN(test_a_server_that_does_not_accept_times_out);
    T_RUN(test_signals_do_not_put_off_the_timeout);
    T_RUN(test_half_an_answer_times_out);
    T_RUN(test_a_silent_udp_server_loses_all);
    T_RUN(test_a_lossy_udp_server);
    T_RUN(test_a_late_udp_answer_is_nobodys);
    T_RUN(test_too_long_an_answer);
    T_RUN(test_an_answer_nobody_asked_for);
    T_RUN(test_too_short_a_datagram);
    T_RUN(test_the_longest_duration_ends_it_with_requests_out);
    T_RUN(test_bad_arguments_are_refused_and_change_nothing);
    return 0;
}
