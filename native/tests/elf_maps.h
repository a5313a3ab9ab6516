// SPDX-License-Identifier: MIT
/* What /proc/self/maps says of an address, read in another way than the module under test does. */
#ifndef HEADWAY_TESTS_ELF_MAPS_H
#define HEADWAY_TESTS_ELF_MAPS_H

#include <string.h>

#include "t.h"

/* Whether the rights ("rw-p") of the mapping that has the address include this letter. */
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
