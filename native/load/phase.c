// SPDX-License-Identifier: MIT
#include "load/phase.h"

#include <errno.h>

#include "headway/clock.h"

int64_t hw__phase_start(struct hw__phase *phase) {
    int64_t now_ns = hw_now_ns();
    phase->end_ns = now_ns + phase->duration_ns;
    phase->stop_ns = now_ns + phase->max_duration_ns;
    return now_ns;
}

bool hw__phase_goes_on(const struct hw__phase *phase, int64_t now_ns) {
    return now_ns < phase->end_ns ||
           (phase->answered < phase->min_requests && now_ns < phase->stop_ns);
}

int hw__phase_send(struct hw__phase *phase, struct hw__connection *connection, int64_t due_ns,
                   int64_t now_ns) {
    if (phase->first_sent_ns == 0) {
        phase->first_sent_ns = now_ns;
    }
    connection->due_ns = due_ns;
    connection->sent_ns = now_ns;
    hw__queue_add(&phase->out, connection);
    return hw__connection_begin(connection, phase->peer);
}

void hw__phase_answered(struct hw__phase *phase, struct hw__connection *connection,
                        int64_t now_ns) {
    hw__queue_remove(&phase->out, connection);
    phase->answered++;
    phase->last_answered_ns = now_ns;
    if (phase->intended != NULL) {
        hw_histogram_record(phase->intended, now_ns - connection->due_ns);
    }
    if (phase->actual != NULL) {
        hw_histogram_record(phase->actual, now_ns - connection->sent_ns);
    }
}

int hw__phase_lose(struct hw__phase *phase, struct hw__connection *connection) {
    if (phase->peer->config->protocol == HW_LOAD_TCP) {
        return -ETIMEDOUT;
    }
    phase->lost++;
    hw__queue_remove(&phase->out, connection);
    struct hw__connection lost = *connection;
    int error = hw__connection_open(connection, phase->peer);
    /* Not closed before: the new socket might get its port, and with it the late answer. */
    hw__connection_close(&lost);
    return error;
}

void hw__phase_abandon(struct hw__phase *phase) {
    for (const struct hw__connection *one = phase->out.oldest; one != NULL; one = one->newer) {
        phase->unanswered++;
    }
}

int64_t hw__phase_deadline_ns(const struct hw__phase *phase) {
    const struct hw__connection *oldest = phase->out.oldest;
    if (oldest == NULL || phase->stop_ns - oldest->sent_ns < phase->peer->config->timeout_ns) {
        return phase->stop_ns;
    }
    return oldest->sent_ns + phase->peer->config->timeout_ns;
}
