// SPDX-License-Identifier: MIT
#include "base/room.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define SHARE 16 /* of the limit of the address space, for one mapping */
#define FREE 4   /* times the mapping, itself included */

/* The largest mapping allowed. Written when the library is loaded. */
static size_t most = SIZE_MAX;

__attribute__((constructor)) static void look(void) {
    int saved = errno;
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        most = limit.rlim_cur / SHARE;
    }
    errno = saved;
}

bool hw__room_for(size_t bytes) {
    if (bytes > most) {
        return false;
    }
    int saved = errno;
    void *room =
        mmap(NULL, FREE * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED) {
        munmap(room, FREE * bytes);
    }
    errno = saved;
    return room != MAP_FAILED;
}

bool hw__room_in_file(size_t bytes) {
    int saved = errno;
    struct rlimit limit;
    bool room = getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur;
    errno = saved;
    return room;
}
