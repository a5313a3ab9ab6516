// SPDX-License-Identifier: MIT
/* The open model: requests are sent when they are due, from a schedule that does not depend on the
 * answers. Only the next due time of the schedule is kept, even when many requests are overdue:
 * they are due one after the other, and are sent in that order.
 *
 * A timerfd tells when a request is due, because the time-outs of epoll and poll are late by the
 * timer slack (50 us, or 0.1 % of the wait). The time that a sleeping core takes to wake up
 * remains. It is part of the intended times and of slip_max_ns. The client does not spin to avoid
 * it, because a spinning client would take the core from a server that shares it. */
#include <errno.h>
#include <stddef.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "headway/clock.h"
#include "load/arrivals.h"
#include "load/events.h"

/* The state of the open model. */
struct open_model {
    struct hw__phase *phase;
    int epoll_fd;
    int timer_fd;
    int64_t armed_ns; /* the time that the timer was last set to */
    struct hw__arrivals arrivals;
    int64_t due_ns;        /* when the next request is due */
    struct hw__queue free; /* connections without a request out, the longest free one first */
    int64_t free_since_ns; /* when the queue `free` was last empty */
    bool sending;          /* false once no more requests are sent */
};

/* Sends the requests that are due, while there are free connections. Reads and updates *now_ns.
 *
 * Returns 0 or a negative errno. */
static int send_due(struct open_model *model, int64_t *now_ns) {
    struct hw__phase *phase = model->phase;
    while (model->free.oldest != NULL && model->due_ns <= *now_ns) {
        struct hw__connection *connection = model->free.oldest;
        hw__queue_remove(&model->free, connection);
        if (model->due_ns < model->free_since_ns) {
            phase->late++;
        } else if (*now_ns - model->due_ns > phase->slip_max_ns) {
            phase->slip_max_ns = *now_ns - model->due_ns;
        }
        int error = hw__phase_send(phase, connection, model->due_ns, *now_ns);
        if (error != 0) {
            return error;
        }
        model->due_ns = hw__arrivals_next(&model->arrivals);
        *now_ns = hw_now_ns();
    }
    return 0;
}

/* Stops sending, and counts the requests that are due and found no connection. This function can't
 * fail. */
static void stop_sending(struct open_model *model, int64_t now_ns) {
    model->sending = false;
    while (model->due_ns <= now_ns) {
        model->phase->unsent++;
        model->due_ns = hw__arrivals_next(&model->arrivals);
    }
}

/* Adds a connection to the free ones. This function can't fail. */
static void set_free(struct open_model *model, struct hw__connection *connection, int64_t now_ns) {
    if (model->free.oldest == NULL) {
        model->free_since_ns = now_ns;
    }
    hw__queue_add(&model->free, connection);
}

/* Gives up the requests that are out for longer than the time-out.
 *
 * Returns 0 or a negative errno. */
static int expire(struct open_model *model, int64_t now_ns) {
    struct hw__phase *phase = model->phase;
    int error = 0;
    while (error == 0 && phase->out.oldest != NULL &&
           now_ns - phase->out.oldest->sent_ns >= phase->peer->config->timeout_ns) {
        struct hw__connection *connection = phase->out.oldest;
        error = hw__phase_lose(phase, connection);
        if (error == 0) {
            error = hw__events_add(model->epoll_fd, connection);
        }
        set_free(model, connection, now_ns);
    }
    return error;
}

/* Sets the timer to the next time at which something must be done, except for taking answers.
 *
 * Returns 0 or a negative errno. */
static int arm(struct open_model *model) {
    const struct hw__phase *phase = model->phase;
    int64_t wake_ns = hw__phase_deadline_ns(phase);
    if (model->sending && model->free.oldest != NULL && model->due_ns < wake_ns) {
        wake_ns = model->due_ns;
    }
    if (model->sending && phase->answered >= phase->min_requests && phase->end_ns < wake_ns) {
        wake_ns = phase->end_ns;
    }
    if (wake_ns == model->armed_ns) {
        return 0;
    }
    model->armed_ns = wake_ns;
    struct itimerspec when = {.it_value = {wake_ns / 1000000000, wake_ns % 1000000000}};
    return timerfd_settime(model->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0 ? 0 : -errno;
}

/* Waits for answers and for the timer, and takes the answers.
 *
 * Returns 0 or a negative errno. */
static int take_answers(struct open_model *model) {
    struct epoll_event events[HW__EVENTS];
    int ready = epoll_wait(model->epoll_fd, events, HW__EVENTS, -1);
    if (ready < 0) {
        return errno == EINTR ? 0 : -errno;
    }
    for (int i = 0; i < ready; i++) {
        if (events[i].data.ptr == NULL) {
            continue; /* the timer; it is edge-triggered, so it need not be read */
        }
        int status = hw__events_take(model->phase, &events[i]);
        if (status > 0) {
            int64_t now_ns = hw_now_ns();
            hw__phase_answered(model->phase, events[i].data.ptr, now_ns);
            set_free(model, events[i].data.ptr, now_ns);
        }
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Runs the phase, with its epoll and timer open.
 *
 * Returns 0 or a negative errno. */
static int drive(struct open_model *model) {
    struct hw__phase *phase = model->phase;
    for (int64_t now_ns = hw_now_ns();; now_ns = hw_now_ns()) {
        int error = 0;
        if (model->sending) {
            error = send_due(model, &now_ns);
            if (!hw__phase_goes_on(phase, now_ns)) {
                stop_sending(model, now_ns);
            }
        }
        if (error == 0) {
            error = expire(model, now_ns);
        }
        if (error != 0) {
            return error;
        }
        if (now_ns >= phase->stop_ns || (!model->sending && phase->out.oldest == NULL)) {
            hw__phase_abandon(phase);
            return 0;
        }
        error = arm(model);
        if (error == 0) {
            error = take_answers(model);
        }
        if (error != 0) {
            return error;
        }
    }
}

/* Makes the timer, adds it to the epoll, and starts the schedule.
 *
 * Returns 0 or a negative errno. */
static int start(struct open_model *model) {
    const struct hw_load_config *config = model->phase->peer->config;
    model->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (model->timer_fd < 0) {
        return -errno;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    if (epoll_ctl(model->epoll_fd, EPOLL_CTL_ADD, model->timer_fd, &event) != 0) {
        return -errno;
    }
    for (int i = 0; i < config->connections; i++) {
        hw__queue_add(&model->free, &model->phase->connections[i]);
    }
    hw__arrivals_start(&model->arrivals, config->arrivals, config->rate_per_s, config->seed,
                       hw__phase_start(model->phase));
    model->due_ns = hw__arrivals_next(&model->arrivals);
    return 0;
}

int hw__open_model(struct hw__phase *phase) {
    struct open_model model = {.phase = phase, .timer_fd = -1, .sending = true};
    model.epoll_fd = hw__events_open(phase);
    if (model.epoll_fd < 0) {
        return model.epoll_fd;
    }
    int error = start(&model);
    if (error == 0) {
        error = drive(&model);
    }
    if (model.timer_fd >= 0) {
        close(model.timer_fd);
    }
    close(model.epoll_fd);
    return error;
}
