// SPDX-License-Identifier: MIT
#include "sim/libc.h"

/* The part of a cold wake's extra time that comes before the wake-up: 1/2. It cannot be
 * measured. */
#define COLD_BEFORE 2

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void kernel(struct hw__task *task, enum hw_sim_cost cost) {
    hw__task_kernel(task, hw__cost(task->machine, cost));
}

/* ---------------------------------------------------------------- futex */
enum hw__waited hw__sim_futex_wait(struct hw__task *task, struct hw__sim_futex *futex,
                                   uint32_t value, int64_t deadline_ns) {
    struct hw__machine *machine = task->machine;
    bool timed = deadline_ns >= 0;
    int64_t enter_ns =
        hw__cost(machine, timed ? HW_SIM_COST_FUTEX_SLEEP_TIMED : HW_SIM_COST_FUTEX_SLEEP);
    int64_t check_ns = least(enter_ns, hw__cost(machine, HW_SIM_COST_FUTEX_CHECK));
    enum hw_sim_cost after = timed ? HW_SIM_COST_FUTEX_WOKEN_TIMED : HW_SIM_COST_FUTEX_WOKEN;
    hw__task_kernel(task, check_ns);
    if (futex->value != value) {
        hw__task_kernel(task, hw__cost(machine, HW_SIM_COST_FUTEX_WOKEN) / 2);
        return HW__VALUE_DIFFERS;
    }
    if (timed && deadline_ns <= machine->now_ns) {
        kernel(task, HW_SIM_COST_FUTEX_WOKEN);
        return HW__TIMED_OUT;
    }
    enter_ns += hw__cold_ns(task, HW__COLD_SLEEP, HW_SIM_COST_COLD_FUTEX_SLEEP);
    bool woken = hw__task_sleep(task, futex, deadline_ns, enter_ns - check_ns);
    kernel(task, after);
    return woken ? HW__WOKEN : HW__TIMED_OUT;
}

void hw__sim_futex_wake(struct hw__task *task, struct hw__sim_futex *futex, int32_t most) {
    struct hw__machine *machine = task->machine;
    int64_t cold_ns = 0;
    if (futex->first == NULL) {
        kernel(task, HW_SIM_COST_FUTEX_WAKE_NONE);
        if (futex->first == NULL) {
            return;
        }
    } else {
        cold_ns = hw__cold_ns(task, HW__COLD_WAKE, HW_SIM_COST_COLD_FUTEX_WAKE);
        hw__task_kernel(task, hw__cost(machine, HW_SIM_COST_FUTEX_WAKE) + cold_ns / COLD_BEFORE);
    }
    int64_t end_ns =
        hw__cost(machine, HW_SIM_COST_FUTEX_WAKE_END) + cold_ns - cold_ns / COLD_BEFORE;
    bool idle;
    for (int32_t i = 0; i < most && hw__machine_wake(machine, task, futex, false, &idle); i++) {
        end_ns += idle ? hw__cost(machine, HW_SIM_COST_FUTEX_WAKE_IDLE) : 0;
    }
    hw__task_kernel(task, end_ns);
}

/* ---------------------------------------------------------------- mutex */
void hw__sim_line_touch(struct hw__task *task, struct hw__sim_line *line) {
    if (line->owner != task->core) {
        bool first = line->owner == NULL;
        line->owner = task->core;
        if (!first) {
            hw__task_user(task, hw__cost(task->machine, HW_SIM_COST_CACHE_LINE));
        }
    }
}

static void lock_slowly(struct hw__task *task, struct hw__sim_mutex *mutex) {
    for (;;) {
        uint32_t was = mutex->word.value;
        mutex->word.value = 2;
        if (was == 0) {
            return;
        }
        hw__sim_futex_wait(task, &mutex->word, 2, HW__NO_DEADLINE);
    }
}

bool hw__sim_mutex_try(struct hw__task *task, struct hw__sim_mutex *mutex) {
    hw__sim_line_touch(task, &mutex->line);
    if (mutex->word.value != 0) {
        return false;
    }
    mutex->word.value = 1;
    return true;
}

void hw__sim_mutex_lock(struct hw__task *task, struct hw__sim_mutex *mutex) {
    if (!hw__sim_mutex_try(task, mutex)) {
        lock_slowly(task, mutex);
    }
}

/* Locks the mutex for a thread that has waited. Other threads may sleep for the mutex, too, so it
 * stays marked as contended. */
static void lock_again(struct hw__task *task, struct hw__sim_mutex *mutex) {
    hw__sim_line_touch(task, &mutex->line);
    lock_slowly(task, mutex);
}

void hw__sim_mutex_unlock(struct hw__task *task, struct hw__sim_mutex *mutex) {
    hw__sim_line_touch(task, &mutex->line);
    uint32_t was = mutex->word.value;
    mutex->word.value = 0;
    if (was == 2) {
        hw__sim_futex_wake(task, &mutex->word, 1);
    }
}

/* ---------------------------------------------------------------- condition variable */
/* __condvar_quiesce_and_switch_g1(): G2 becomes G1. Returns whether the new G1 has a waiter. */
static bool switch_groups(struct hw__task *task, struct hw__sim_cond *cond, int *first) {
    uint64_t sequence = cond->sequence >> 1;
    int g1 = *first;
    uint32_t newer = (uint32_t)(sequence - cond->first_start) - cond->first_size_before;
    if (newer + (uint32_t)cond->size[g1 ^ 1] == 0) {
        return false;
    }
    cond->signals[g1].value |= 1;
    while (cond->references[g1] > 0) { /* the old group's waiters are leaving */
        cond->quiescence.value = 1;
        hw__sim_futex_wait(task, &cond->quiescence, 1, HW__NO_DEADLINE);
    }
    cond->first_start += cond->first_size_before;
    cond->signals[g1].value = 0;
    cond->sequence ^= 1;
    sequence = cond->sequence >> 1;
    g1 ^= 1;
    cond->first_size_before = (uint32_t)(sequence - cond->first_start);
    cond->size[g1] += (int32_t)cond->first_size_before;
    *first = g1;
    return cond->size[g1] != 0;
}

void hw__sim_cond_signal(struct hw__task *task, struct hw__sim_cond *cond) {
    hw__sim_line_touch(task, &cond->line);
    if (cond->waiters == 0) {
        return;
    }
    hw__sim_mutex_lock(task, &cond->internal);
    int first = (int)(cond->sequence & 1) ^ 1;
    bool wakes = cond->size[first] != 0 || switch_groups(task, cond, &first);
    if (wakes) {
        cond->signals[first].value += 2;
        cond->size[first]--;
    }
    hw__sim_mutex_unlock(task, &cond->internal);
    if (wakes) {
        hw__sim_futex_wake(task, &cond->signals[first], 1);
    }
}

static void release_reference(struct hw__task *task, struct hw__sim_cond *cond, int group) {
    if (--cond->references[group] == 0 && cond->quiescence.value != 0) {
        cond->quiescence.value = 0;
        hw__sim_futex_wake(task, &cond->quiescence, INT32_MAX);
    }
}

/* __condvar_cancel_waiting(): removes a waiter from its group after a time-out. */
static void cancel(struct hw__task *task, struct hw__sim_cond *cond, uint64_t sequence, int group) {
    hw__sim_mutex_lock(task, &cond->internal);
    bool consumed = false;
    if (cond->first_start > sequence) {
        consumed = true;
    } else if (cond->first_start + cond->first_size_before <= sequence) {
        cond->size[group]--; /* in G2 */
    } else if (cond->size[group] == 0) {
        consumed = true;
    } else {
        cond->size[group]--;
    }
    hw__sim_mutex_unlock(task, &cond->internal);
    if (consumed) { /* the signal may have been another waiter's */
        hw__sim_cond_signal(task, cond);
    }
}

/* Waits in the waiter's group. Returns whether the waiter was signalled. */
static bool wait_in_group(struct hw__task *task, struct hw__sim_cond *cond, uint64_t sequence,
                          int group, int64_t deadline_ns) {
    struct hw__sim_futex *signals = &cond->signals[group];
    for (;;) {
        if ((signals->value & 1) != 0 || sequence < cond->first_start) {
            return true; /* the group is closed: all of its waiters were signalled */
        }
        if (signals->value >= 2) {
            signals->value -= 2;
            return true;
        }
        cond->references[group]++;
        enum hw__waited waited = hw__sim_futex_wait(task, signals, 0, deadline_ns);
        release_reference(task, cond, group);
        if (waited == HW__TIMED_OUT) {
            cancel(task, cond, sequence, group);
            return false;
        }
    }
}

bool hw__sim_cond_wait(struct hw__task *task, struct hw__sim_cond *cond,
                       struct hw__sim_mutex *mutex, int64_t deadline_ns) {
    hw__sim_line_touch(task, &cond->line);
    uint64_t at = cond->sequence;
    cond->sequence += 2;
    cond->waiters++;
    hw__sim_mutex_unlock(task, mutex);
    bool signalled = wait_in_group(task, cond, at >> 1, (int)(at & 1), deadline_ns);
    cond->waiters--;
    lock_again(task, mutex);
    return signalled;
}

/* ---------------------------------------------------------------- semaphore */
bool hw__sim_semaphore_try(struct hw__task *task, struct hw__sim_semaphore *semaphore) {
    hw__task_user(task, hw__cost(task->machine, HW_SIM_COST_LOCK));
    if (semaphore->word.value == 0) {
        return false;
    }
    semaphore->word.value--;
    return true;
}

void hw__sim_semaphore_wait(struct hw__task *task, struct hw__sim_semaphore *semaphore) {
    semaphore->sleepers++;
    while (semaphore->word.value == 0) {
        hw__sim_futex_wait(task, &semaphore->word, 0, HW__NO_DEADLINE);
    }
    semaphore->word.value--;
    semaphore->sleepers--;
}

void hw__sim_semaphore_post(struct hw__task *task, struct hw__sim_semaphore *semaphore) {
    semaphore->word.value++;
    if (semaphore->sleepers > 0) {
        hw__sim_futex_wake(task, &semaphore->word, 1);
    }
}
