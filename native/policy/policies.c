// SPDX-License-Identifier: MIT
#include "policy/policies.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "headway/schedule.h"

static const struct hw_policy *const built_in[] = {&hw__policy_fair, &hw__policy_priority,
                                                   &hw__policy_bfs, &hw__policy_stock};
#define BUILT_IN (int)(sizeof built_in / sizeof *built_in)

const struct hw_policy *hw_policy_at(int index) {
    return index >= 0 && index < BUILT_IN ? built_in[index] : NULL;
}

/* Returns the name of a required field that the policy has not set, or NULL if it has all. */
static const char *missing(const struct hw_policy *policy) {
    return policy->name == NULL       ? ".name"
           : policy->options == NULL  ? ".options, a list that an option without a name ends"
           : policy->ready == NULL    ? ".ready"
           : policy->patience == NULL ? ".patience"
                                      : NULL;
}

/* Tells whether the list of options is longer than a GIL has room for. */
static bool has_too_many(const struct hw_policy_option *options) {
    int count = 0;
    while (count <= HW_POLICY_MAX_OPTIONS && options[count].name != NULL) {
        count++;
    }
    return count > HW_POLICY_MAX_OPTIONS;
}

/* Returns an option whose preset is out of its own limits, or whose name is that of an earlier one;
 * NULL: there is none. */
static const struct hw_policy_option *wrong(const struct hw_policy_option *options) {
    for (int i = 0; options[i].name != NULL; i++) {
        if (options[i].preset < options[i].least || options[i].preset > options[i].most) {
            return &options[i];
        }
        for (int j = 0; j < i; j++) {
            if (strcmp(options[i].name, options[j].name) == 0) {
                return &options[i];
            }
        }
    }
    return NULL;
}

/* Loads a policy from a library. The library is never unloaded, since a thread may run its code at
 * any time. Returns NULL, with the reason in `problem`, if there is no usable policy. */
static const struct hw_policy *load(const char *path, char *problem, int room) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct hw_policy *policy = library == NULL ? NULL : dlsym(library, "headway_policy");
    if (policy == NULL) {
        snprintf(problem, (size_t)room, "%s", dlerror());
        return NULL;
    }
    if (policy->abi != HW_POLICY_ABI) {
        snprintf(problem, (size_t)room, "%s is for version %u of headway/policy.h, expected %u",
                 path, policy->abi, HW_POLICY_ABI);
        return NULL;
    }
    const char *field = missing(policy);
    if (field != NULL) {
        snprintf(problem, (size_t)room, "the headway_policy of %s lacks %s", path, field);
        return NULL;
    }
    if (has_too_many(policy->options)) {
        snprintf(problem, (size_t)room, "the headway_policy of %s has more than %d options", path,
                 HW_POLICY_MAX_OPTIONS);
        return NULL;
    }
    const struct hw_policy_option *option = wrong(policy->options);
    if (option != NULL) {
        snprintf(problem, (size_t)room,
                 "the option %s of %s has the name of another one, or a preset out of its limits",
                 option->name, path);
        return NULL;
    }
    return policy;
}

const struct hw_policy *hw_policy_find(const char *name, char *problem, int room) {
    if (strchr(name, '/') != NULL) {
        return load(name, problem, room);
    }
    for (int i = 0; i < BUILT_IN; i++) {
        if (strcmp(built_in[i]->name, name) == 0) {
            return built_in[i];
        }
    }
    snprintf(problem, (size_t)room, "there is no policy '%s'", name);
    return NULL;
}
