// SPDX-License-Identifier: MIT
#include "limits/pair.h"

#include "limits/team.h"

/* Runs one task of the pair as a member of the team. This function can't fail. */
static void run_task(void *context, int index) {
    struct hw__task *pair = context;
    hw__task_run(&pair[index]);
}

int hw__pair_run_threads(struct hw__task pair[2], const int cpus[2]) {
    struct hw__job job = {.run = run_task, .context = pair};
    struct hw__span spans[2]; /* the tasks time themselves */
    int error = hw__team_run(&job, 2, cpus, spans);
    hw__task_close(&pair[0]);
    hw__task_close(&pair[1]);
    return error;
}
