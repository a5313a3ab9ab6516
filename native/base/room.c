// SPDX-License-Identifier: MIT
#include "base/room.h"

#include <sys/resource.h>

bool hw__room_for(size_t bytes) {
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           bytes <= limit.rlim_cur / 16;
}
