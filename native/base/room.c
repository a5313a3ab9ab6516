// SPDX-License-Identifier: MIT
#include "base/room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

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

const char *hw__room_overcommit = "/proc/sys/vm/overcommit_memory";
const char *hw__room_meminfo = "/proc/meminfo";

/* Reads the beginning of a file as a text; "" if that fails. */
static void read_text(const char *path, char *text, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? 0 : read(fd, text, room - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
    if (fd >= 0) {
        close(fd);
    }
}

bool hw__room_is_counted(void) {
    int saved = errno;
    char text[8];
    read_text(hw__room_overcommit, text, sizeof text);
    errno = saved;
    return text[0] == '2';
}

/* Returns the value of a line of /proc/meminfo in KiB; 0 if there is no such line. */
static uint64_t value_of(const char *text, const char *name) {
    const char *line = strstr(text, name);
    return line == NULL ? 0 : strtoull(line + strlen(name), NULL, 10);
}

bool hw__room_to_promise(size_t bytes) {
    int saved = errno;
    char text[4096];
    read_text(hw__room_meminfo, text, sizeof text);
    uint64_t limit = value_of(text, "\nCommitLimit:"), promised = value_of(text, "\nCommitted_AS:");
    errno = saved;
    return promised > 0 && limit > promised && (limit - promised) * 1024 / FREE >= bytes;
}
