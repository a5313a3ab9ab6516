// SPDX-License-Identifier: MIT
#include "trace/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "headway/clock.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* The page size that offsets in the file are multiples of: the largest of x86-64 and aarch64. */
#define ALIGNMENT 65536
#define MAX_CHUNKS (1 << 26) /* 1 TiB */
#define ATTEMPTS 1000        /* at a file name that nobody has */

struct hw__session hw__session = {.fd = -1};

/* What forked children's files are named after: the path that the session was started with. A
 * grandchild's is named after it, too. */
static char base[HW__PATH_MAX];

static int64_t realtime_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Opens the session's file by its name: no descriptor of ours stays in the user's process, where it
 * could be closed and its number given to another. Returns it, or -1 where another file has that
 * name now. */
static int open_own(void) {
    struct stat file;
    int fd = open(hw__session.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && (fstat(fd, &file) != 0 || file.st_dev != hw__session.device ||
                    file.st_ino != hw__session.inode)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Makes room where MADV_POPULATE_WRITE is not known. */
static bool allocate_by_name(off_t offset, size_t bytes) {
    int fd = open_own();
    if (fd < 0) {
        return false;
    }
    bool done = posix_fallocate(fd, offset, (off_t)bytes) == 0;
    close(fd);
    return done;
}

bool hw__session_room(void *start, size_t bytes) {
    long page = sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)start & ~((uintptr_t)page - 1);
    uintptr_t end = ((uintptr_t)start + bytes + (uintptr_t)page - 1) & ~((uintptr_t)page - 1);
    int saved = errno;
    bool done = madvise((void *)first, end - first, MADV_POPULATE_WRITE) == 0;
    if (!done && errno == EINVAL) {
        if (hw__session.path[0] == '\0') {
            done =
                true; /* memory: there is room, or the kernel would have to kill someone anyway */
        } else {
            done = allocate_by_name((off_t)(first - (uintptr_t)hw__session.header), end - first);
        }
    }
    errno = saved;
    return done;
}

static size_t round_up(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Maps the open file and fills in the header. Returns 0 or a negative errno. */
static int map(int fd, uint32_t chunk_count) {
    size_t slots_offset = ALIGNMENT;
    size_t chunks_offset = slots_offset + round_up(HW__MAX_THREADS * sizeof(struct hw__slot));
    size_t bytes = chunks_offset + (size_t)chunk_count * HW__CHUNK_BYTES;
    struct stat file;
    if (ftruncate(fd, (off_t)bytes) != 0 || fstat(fd, &file) != 0) {
        return -errno;
    }
    void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED) {
        return -errno;
    }
    hw__session.bytes = bytes;
    hw__session.device = file.st_dev;
    hw__session.inode = file.st_ino;
    hw__session.header = mapping;
    hw__session.slots = (struct hw__slot *)((char *)mapping + slots_offset);
    hw__session.chunks = (char *)mapping + chunks_offset;
    atomic_store(&hw__session.limit, chunk_count);
    if (!hw__session_room(mapping, HW__HEADER_BYTES)) {
        munmap(mapping, bytes);
        hw__session.header = NULL;
        return -ENOSPC;
    }
    struct hw__header *header = mapping;
    header->version = HW__FORMAT_VERSION;
    header->header_bytes = HW__HEADER_BYTES;
    header->pid = getpid();
    header->parent_pid = getppid();
    header->slot_count = HW__MAX_THREADS;
    header->slot_bytes = sizeof(struct hw__slot);
    header->slots_offset = slots_offset;
    header->chunk_bytes = HW__CHUNK_BYTES;
    header->chunk_count = chunk_count;
    header->chunks_offset = chunks_offset;
    header->start_ns = hw_now_ns();
    header->start_realtime_ns = realtime_ns();
    return 0;
}

/* The magic comes last: who finds it finds the rest. */
static void publish(void) {
    atomic_thread_fence(memory_order_release);
    memcpy(hw__session.header->magic, HW__MAGIC, sizeof hw__session.header->magic);
    hw__session.id++;
}

static void copy_text(char *to, size_t room, const char *from, size_t bytes) {
    if (bytes > room - 1) {
        bytes = room - 1;
    }
    memcpy(to, from, bytes);
}

int hw__session_open(const char *path, int64_t max_bytes, const struct hw__session_facts *facts) {
    if (strlen(path) + 32 >= sizeof hw__session.path) { /* a child's name is longer */
        return -ENAMETOOLONG;
    }
    bool in_memory = path[0] == '\0';
    hw__session.in_memory = in_memory;
    int fd = in_memory ? memfd_create("headway", MFD_CLOEXEC)
                       : open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    strcpy(hw__session.path, path);
    strcpy(base, path);
    int64_t chunks = in_memory ? 0 : max_bytes / HW__CHUNK_BYTES;
    if (chunks < 0 || chunks > MAX_CHUNKS) {
        chunks = chunks < 0 ? 0 : MAX_CHUNKS;
    }
    int error;
    /* Less will do where the limits of the process do not allow so much. */
    do {
        error = map(fd, (uint32_t)chunks);
    } while ((error == -ENOMEM || error == -EFBIG) && (chunks /= 2) >= 64);
    if (error != 0) {
        close(fd);
        if (!in_memory) {
            unlink(path);
        }
        return error;
    }
    if (in_memory) {
        hw__session.fd = fd;
    } else {
        close(fd);
    }
    struct hw__header *header = hw__session.header;
    header->family = facts->family;
    header->python_version = facts->python_version;
    header->flags = facts->flags | (in_memory ? HW__COUNTERS_ONLY : 0);
    header->interval_us = facts->interval_us;
    copy_text(header->command, sizeof header->command, facts->command, facts->command_bytes);
    copy_text(header->executable, sizeof header->executable, facts->executable,
              strlen(facts->executable));
    copy_text(header->program, sizeof header->program, facts->program, strlen(facts->program));
    publish();
    return 0;
}

void hw__session_close(void) {
    struct hw__header *header = hw__session.header;
    atomic_store(&header->end_ns, hw_now_ns());
    uint64_t taken = atomic_load(&header->chunks_taken);
    uint64_t used = taken < header->chunk_count ? taken : header->chunk_count;
    off_t bytes = (off_t)(header->chunks_offset + used * HW__CHUNK_BYTES);
    munmap(header, hw__session.bytes);
    hw__session.header = NULL;
    if (hw__session.fd >= 0) {
        close(hw__session.fd);
        hw__session.fd = -1;
    } else {
        /* By name, as no descriptor is kept. Where it was moved it keeps its (sparse) size. */
        int fd = open_own();
        if (fd >= 0) {
            (void)!ftruncate(fd, bytes);
            close(fd);
        }
    }
}

void hw__session_abandon(void) {
    munmap(hw__session.header, hw__session.bytes);
    hw__session.header = NULL;
    if (hw__session.fd >= 0) {
        close(hw__session.fd);
        hw__session.fd = -1;
    }
}

void hw__session_after_fork(void) {
    if (hw__session.header == NULL || !hw__session.active) {
        return;
    }
    atomic_store(&hw__session.inherited, HW__INHERITED);
}

/* Writes the name of a child's file: `app.hwt` -> `app.PID.hwt`, `app.PID-2.hwt`, ... where `stem`
 * is how much of the first file's name comes before `.hwt`. No stdio: after fork() in a process
 * with threads. */
static void child_path(char *path, size_t room, long pid, int attempt) {
    size_t length = strlen(base);
    bool suffix = length > 4 && strcmp(base + length - 4, ".hwt") == 0;
    path[0] = '\0';
    hw__text_append(path, room, base);
    if (suffix) {
        path[length - 4] = '\0';
    }
    hw__text_append(path, room, ".");
    hw__text_append_number(path, room, pid);
    if (attempt > 1) {
        hw__text_append(path, room, "-");
        hw__text_append_number(path, room, attempt);
    }
    hw__text_append(path, room, ".hwt");
}

bool hw__session_adopt(void) {
    static char path[HW__PATH_MAX];
    struct hw__header *parents = hw__session.header;
    size_t parents_bytes = hw__session.bytes;
    bool in_memory = hw__session.path[0] == '\0';
    int fd = -1, error = 0;
    int saved = errno;
    if (in_memory) {
        if (hw__session.fd >= 0) {
            close(hw__session.fd); /* the parent's */
        }
        fd = hw__session.fd = memfd_create("headway", MFD_CLOEXEC);
    } else {
        for (int attempt = 1; fd < 0 && attempt <= ATTEMPTS; attempt++) {
            child_path(path, sizeof path, getpid(), attempt);
            fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
            if (fd < 0 && errno != EEXIST) {
                break;
            }
        }
        strcpy(hw__session.path, path);
    }
    uint32_t chunk_count = parents->chunk_count;
    error = fd < 0 ? -errno : map(fd, chunk_count);
    if (error == 0) {
        struct hw__header *header = hw__session.header;
        header->family = parents->family;
        header->python_version = parents->python_version;
        header->flags = atomic_load(&parents->flags);
        header->interval_us = parents->interval_us;
        memcpy(header->command, parents->command, sizeof header->command);
        memcpy(header->executable, parents->executable, sizeof header->executable);
        memcpy(header->program, parents->program, sizeof header->program);
        publish();
    } else {
        hw__session.header = NULL;
        if (fd >= 0 && !in_memory) {
            unlink(path);
        }
    }
    if (fd >= 0 && !in_memory) {
        close(fd);
    }
    munmap(parents, parents_bytes);
    errno = saved;
    return error == 0;
}

/* Empties a chunk that is taken anew. */
static void count_overwritten(struct hw__header *header, struct hw__chunk *chunk) {
    uint32_t used = atomic_exchange(&chunk->used, 0) / (uint32_t)sizeof(struct hw__event);
    const struct hw__event *events =
        (const struct hw__event *)((char *)chunk + HW__CHUNK_HEADER_BYTES);
    uint64_t lost = used;
    int64_t last_ns = 0;
    for (uint32_t i = 0; i < used; i++) {
        bool two = events[i].kind == HW__HOLD;
        lost += two;
        last_ns = events[i].time_ns + (two ? events[i].flags : 0);
    }
    atomic_fetch_add_explicit(&header->overwritten_events, lost, memory_order_relaxed);
    int64_t until_ns = atomic_load(&header->overwritten_until_ns);
    while (until_ns < last_ns &&
           !atomic_compare_exchange_weak(&header->overwritten_until_ns, &until_ns, last_ns)) {
    }
}

struct hw__chunk *hw__session_chunk(uint32_t kind, uint32_t owner, int32_t tid) {
    struct hw__header *header = hw__session.header;
    uint32_t limit = atomic_load_explicit(&hw__session.limit, memory_order_relaxed);
    /* Twice round is enough to find one that is closed, if there is one. */
    for (uint64_t tries = 0; limit > 0 && tries < 2ULL * limit; tries++) {
        uint64_t n = atomic_fetch_add_explicit(&header->chunks_taken, 1, memory_order_relaxed);
        struct hw__chunk *chunk =
            (struct hw__chunk *)(hw__session.chunks + (n % limit) * HW__CHUNK_BYTES);
        if (n < header->chunk_count && n < limit) {
            if (!hw__session_room(chunk, HW__CHUNK_BYTES)) {
                /* The disk is full: go round in what there is. */
                uint32_t less = (uint32_t)n;
                while (less < limit &&
                       !atomic_compare_exchange_weak(&hw__session.limit, &limit, less)) {
                }
                limit = atomic_load(&hw__session.limit);
                tries = 0;
                continue;
            }
            atomic_store_explicit(&chunk->state, HW__CHUNK_OPEN, memory_order_relaxed);
        } else {
            uint32_t closed = HW__CHUNK_CLOSED; /* a meta chunk never is */
            if (!atomic_compare_exchange_strong(&chunk->state, &closed, HW__CHUNK_OPEN)) {
                continue;
            }
            count_overwritten(header, chunk);
        }
        chunk->kind = kind;
        chunk->owner = owner;
        chunk->sequence = n;
        chunk->tid = tid;
        chunk->thread_start_ns = 0;
        chunk->named = 0;
        memset(chunk->name, 0, sizeof chunk->name);
        return chunk;
    }
    return NULL;
}
