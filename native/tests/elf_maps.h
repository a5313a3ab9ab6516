// SPDX-License-Identifier: MIT
/* Reads the rights of an address from /proc/self/maps, by other code than the module under test. */
#ifndef HEADWAY_TESTS_ELF_MAPS_H
#define HEADWAY_TESTS_ELF_MAPS_H

#include <string.h>

#include "t.h"

/* Returns whether the rights ("rw-p") of the mapping that contains `address` include `right`. */
static inline int maps_allow(const void *address, char right) {
    FILE *maps = fopen("/proc/self/maps", "r");
    T_TRUE(maps != NULL);
    char line[8192];
    char *rights = NULL;
    while (rights == NULL && fgets(line, sizeof line, maps) != NULL) {
        char *end;
        uintptr_t first = strtoul(line, &end, 16);
        uintptr_t past = strtoul(end + 1, &end, 16);
        if ((uintptr_t)address >= first && (uintptr_t)address < past) {
            rights = end + 1;
            rights[4] = '\0';
        }
    }
    fclose(maps);
    T_TRUE(rights != NULL);
    return strchr(rights, right) != NULL;
}

#endif
