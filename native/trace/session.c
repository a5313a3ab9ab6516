// SPDX-License-Identifier: MIT
#include "trace/session.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/allowed.h"
#include "base/rare.h"
#include "base/room.h"
#include "gil/scheduler.h"
#include "headway/clock.h"
#include "headway/schedule.h"
#include "trace/sums.h"

/* Offsets in the memory are multiples of this page size: the largest one of x86-64 and aarch64. */
#define ALIGNMENT 65536

/* Chunks that may be taken before the collector has divided its memory among the processes. No more
 * are mapped at first. */
#define FIRST_CHUNKS 256

/* A recording with fewer chunks is not worth while. */
#define LEAST_CHUNKS 64

struct hw__session hw__session = {.fd = -1};

static int64_t realtime_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static size_t round_up(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Returns the length of the mapping of a further part, which begins with the last page of the part
 * before. */
static size_t part_bytes(const struct hw__mapped *mapped, uint32_t part) {
    uint32_t begin = hw__part_begin(part, mapped->first_chunks);
    uint32_t end = smaller(hw__part_begin(part + 1, mapped->first_chunks), mapped->all_chunks);
    return (size_t)sysconf(_SC_PAGESIZE) + (size_t)(end - begin) * HW__CHUNK_BYTES;
}

/* The offsets of the parts of a memory, and how much of it is mapped at first. */
struct layout {
    size_t slots, claims, chunks, bytes, first_bytes;
    uint32_t chunk_count, first_chunks;
};

static struct layout lay_out(uint32_t chunk_count) {
    struct layout layout = {.slots = ALIGNMENT,
                            .chunk_count = chunk_count,
                            .first_chunks = smaller(chunk_count, FIRST_CHUNKS)};
    layout.claims = layout.slots + round_up(HW__MAX_THREADS * sizeof(struct hw__slot));
    layout.chunks = layout.claims + round_up(chunk_count * sizeof *hw__session.claims);
    layout.bytes = layout.chunks + (size_t)chunk_count * HW__CHUNK_BYTES;
    layout.first_bytes = layout.chunks + (size_t)layout.first_chunks * HW__CHUNK_BYTES;
    return layout;
}

/* Moves a file to a descriptor above those of the standard streams: where the program has closed
 * its stderr, a library of its own may still write to descriptor 2. Returns the descriptor, or a
 * negative errno, with the file closed. */
static int above_streams(int fd) {
    if (fd > STDERR_FILENO) {
        return fd;
    }
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int error = -errno;
    close(fd);
    return moved < 0 ? error : moved;
}

/* The kernel counts the pages that it promises. As of the last start of a session: a forked child
 * does not look again. */
static bool is_counted;

/* Has the kernel promise all pages of a memory file, where it counts them: else it might refuse one
 * when a hook first touches it, and end the program by SIGBUS. The file is written, as every
 * program writes: a filter of the program's may forbid fallocate(). Returns 0 or a negative errno.
 */
static int fill(int fd, size_t bytes) {
    static const char zeros[ALIGNMENT];
    if (!hw__room_to_promise(bytes)) {
        return -ENOMEM;
    }
    while (bytes > 0) {
        ssize_t written = write(fd, zeros, bytes < sizeof zeros ? bytes : sizeof zeros);
        if (written <= 0 && errno != EINTR) {
            return -ENOMEM;
        }
        bytes -= written > 0 ? (size_t)written : 0;
    }
    return 0;
}

/* Makes a memory file that keeps its size. Returns its descriptor, or a negative errno. */
static int make_file(size_t bytes) {
    if (!hw__allowed(HW__CALL_MEMFD)) {
        return -(HW_TRACE_NO_MEMFD + EPERM);
    }
    int fd = memfd_create("headway", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return -(HW_TRACE_NO_MEMFD + errno);
    }
    fd = above_streams(fd);
    if (fd < 0) {
        return fd;
    }
    if (ftruncate(fd, (off_t)bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    int error = is_counted ? fill(fd, bytes) : 0;
    if (error != 0) {
        close(fd);
        return error;
    }
    return fd;
}

/* Makes the memory that begins at `mapping` the session's. */
static void take_over(void *mapping, const struct layout *layout) {
    char *start = mapping;
    hw__session.bytes = layout->bytes;
    hw__session.header = mapping;
    hw__session.control = hw__control_of(mapping);
    hw__session.slots = (struct hw__slot *)(start + layout->slots);
    hw__session.claims = (_Atomic uint32_t *)(start + layout->claims);
    hw__session.mapped = (struct hw__mapped){.bytes = layout->first_bytes,
                                             .first_chunks = layout->first_chunks,
                                             .all_chunks = layout->chunk_count,
                                             .chunks = layout->first_chunks,
                                             .parts = {start + layout->chunks}};
    hw__session.chunk_count = layout->chunk_count;
    hw__session.meta_count = 0;
    hw__session.heard = 0;
    hw__session.looked_ns = hw__session.silence_ns = 0;
    hw__session.silent = false;
    hw__session.let_go = false;
}

/* Fills in what the header and the control of the session's memory say about the memory. */
static void describe(const struct layout *layout) {
    struct hw__control *control = hw__session.control;
    bool collected = hw__session.door[0] != '\0';
    control->claims_offset = layout->claims;
    control->filled = is_counted;
    atomic_store(&control->limit, collected ? layout->first_chunks : layout->chunk_count);
    /* A session that only counts has no place for CPU times. */
    atomic_store(&control->no_cpu_times, layout->chunk_count == 0);
    struct hw__header *header = hw__session.header;
    header->version = HW__FORMAT_VERSION;
    header->header_bytes = HW__HEADER_BYTES;
    header->pid = getpid();
    header->parent_pid = getppid();
    header->slot_count = HW__MAX_THREADS;
    header->slot_bytes = sizeof(struct hw__slot);
    header->slots_offset = layout->slots;
    header->chunk_bytes = HW__CHUNK_BYTES;
    header->chunk_count = layout->chunk_count;
    header->chunks_offset = layout->chunks;
    header->start_ns = hw_now_ns();
    header->start_realtime_ns = realtime_ns();
}

/* Makes the memory, maps its beginning and fills in its header. Returns the memory's descriptor, or
 * a negative errno. */
static int make(uint32_t chunk_count) {
    struct layout layout = lay_out(chunk_count);
    if (!hw__room_in_file(layout.bytes)) {
        return -EFBIG;
    }
    if (!hw__room_for(layout.first_bytes)) {
        return -ENOMEM;
    }
    int fd = make_file(layout.bytes);
    if (fd < 0) {
        return fd;
    }
    void *mapping = mmap(NULL, layout.first_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED) {
        int error = -errno;
        close(fd);
        return error;
    }
    take_over(mapping, &layout);
    describe(&layout);
    return fd;
}

/* Unmaps all that is mapped of a memory. */
static void unmap(struct hw__header *header, const struct hw__mapped *mapped) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (uint32_t part = 1; part < HW__PARTS; part++) {
        char *chunks = atomic_load(&mapped->parts[part]);
        if (chunks != NULL) {
            munmap(chunks - page, part_bytes(mapped, part));
        }
    }
    munmap(header, mapped->bytes);
}

/* The header is forgotten first: another thread may fork at any moment of a failing adoption, and
 * the child must not find the address of what is unmapped. */
static void drop(void) {
    struct hw__header *header = hw__session.header;
    hw__session.header = NULL;
    hw__session.control = NULL;
    if (header != NULL) {
        unmap(header, &hw__session.mapped);
    }
}

/* Writes the magic, as the last part of the header: a reader that finds it finds the rest. */
static void publish(void) {
    atomic_thread_fence(memory_order_release);
    memcpy(hw__session.header->magic, HW__MAGIC, sizeof hw__session.header->magic);
    hw__session.id++;
}

/* Sends the memory to the collector. Never waits: if the collector's queue is full, this process
 * has no collector. Returns 0 or a negative errno. */
static int hand_over(int memory) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, hw__session.door, sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    struct hw__hello hello = {.magic = HW__HELLO_MAGIC, .family = hw__session.header->family};
    struct iovec text = {&hello, sizeof hello};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } rights;
    memset(&rights, 0, sizeof rights);
    rights.head.cmsg_level = SOL_SOCKET;
    rights.head.cmsg_type = SCM_RIGHTS;
    rights.head.cmsg_len = CMSG_LEN(sizeof memory);
    memcpy(CMSG_DATA(&rights.head), &memory, sizeof memory);
    struct msghdr message = {.msg_iov = &text,
                             .msg_iovlen = 1,
                             .msg_control = &rights,
                             .msg_controllen = CMSG_LEN(sizeof memory)};
    int error = 0;
    struct ucred owner;
    socklen_t bytes = sizeof owner;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &owner, &bytes) != 0) {
        /* Without a socket there is no collector either. */
        error = errno == ENOENT ? -ECONNREFUSED : -errno;
    } else if (owner.uid != 0 && owner.uid != geteuid()) {
        error = -EACCES; /* a process that can read this memory can also write to it */
    } else if (sendmsg(fd, &message, MSG_NOSIGNAL) != (ssize_t)sizeof hello) {
        error = -errno;
    }
    close(fd);
    return error;
}

/* Finishes what make() has begun: hands the memory over, or keeps its descriptor. Returns 0; or a
 * negative errno, with nothing left. */
static int give(int fd) {
    int error = 0;
    publish();
    if (hw__session.door[0] == '\0') {
        struct stat found;
        bool known = fstat(fd, &found) == 0;
        hw__session.fd = fd;
        hw__session.fd_device = known ? found.st_dev : 0;
        hw__session.fd_inode = known ? found.st_ino : 0;
        return 0;
    }
    error = hand_over(fd);
    close(fd);
    if (error != 0) {
        drop();
    }
    return error;
}

int64_t hw__session_silence_ns(int64_t now_ns) {
    uint32_t beats = atomic_load_explicit(&hw__session.control->beats, memory_order_relaxed);
    if (beats == 0) {
        return 0;
    }
    /* Each stretch of time counts once, for whichever thread, and a long one little: both processes
     * may have been stopped, and this one goes on first. */
    int64_t gap_ns = now_ns - atomic_exchange(&hw__session.looked_ns, now_ns);
    gap_ns = gap_ns < 0 ? 0 : gap_ns > HW__GAP_NS ? HW__GAP_NS : gap_ns;
    int64_t silence_ns = 0;
    if (beats == atomic_load(&hw__session.heard)) {
        silence_ns = atomic_fetch_add(&hw__session.silence_ns, gap_ns) + gap_ns;
    } else {
        atomic_store(&hw__session.silence_ns, 0);
        atomic_store(&hw__session.heard, beats);
    }
    atomic_store_explicit(&hw__session.silent, silence_ns >= HW__SILENT_NS, memory_order_relaxed);
    return silence_ns;
}

/* Puts empty memory in place of a mapping. Shared, as the mapping was: it counts for the same
 * limits of the process. */
static bool replace(void *start, size_t bytes) {
    return mmap(start, bytes, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

void hw__session_let_go(void) {
    struct hw__header *header = hw__session.header;
    struct hw__mapped *mapped = &hw__session.mapped;
    if (hw__session.door[0] == '\0' || hw__session.inherited != 0 ||
        atomic_exchange(&hw__session.let_go, true)) {
        return;
    }
    int saved = errno;
    atomic_store(&hw__session.control->limit, 0);
    char page[HW__HEADER_BYTES];
    memcpy(page, header, sizeof page);
    size_t before = (size_t)sysconf(_SC_PAGESIZE);
    for (uint32_t part = 1; part < HW__PARTS; part++) {
        char *chunks = atomic_load(&mapped->parts[part]);
        if (chunks != NULL) {
            (void)replace(chunks - before, part_bytes(mapped, part));
        }
    }
    if (replace(header, mapped->bytes)) {
        memcpy(header, page, sizeof page); /* questions about the session go on */
    }
    errno = saved;
}

static void copy_text(char *to, size_t room, const char *from, size_t bytes) {
    if (bytes > room - 1) {
        bytes = room - 1;
    }
    memcpy(to, from, bytes);
}

void hw__session_note_cores(struct hw__header *header) {
    cpu_set_t cores;
    int saved = errno;
    if (hw__allowed(HW__CALL_AFFINITY) && sched_getaffinity(0, sizeof cores, &cores) == 0) {
        atomic_store(&header->core_count, (uint32_t)CPU_COUNT(&cores));
    }
    errno = saved;
}

void hw__session_note_policy(void) {
    struct hw__header *header = hw__session.header;
    const char *name = hw_schedule_active(), *options = hw__sched_options();
    if (name[0] == '\0') {
        return;
    }
    if (header->policy[0] == '\0') {
        copy_text(header->policy, sizeof header->policy, name, strlen(name));
        copy_text(header->policy_options, sizeof header->policy_options, options, strlen(options));
    }
    if (strncmp(header->policy, name, sizeof header->policy - 1) == 0 &&
        strncmp(header->policy_options, options, sizeof header->policy_options - 1) == 0) {
        atomic_store_explicit(&header->policy_end_ns, 0, memory_order_relaxed);
    }
}

void hw__session_note_policy_end(void) {
    struct hw__header *header = hw__session.header;
    if (header->policy[0] != '\0' && atomic_load(&header->policy_end_ns) == 0) {
        atomic_store_explicit(&header->policy_end_ns, hw_now_ns(), memory_order_relaxed);
    }
}

_Static_assert(HW__POLICY_OPTIONS_BYTES == HW__OPTIONS_BYTES, "a policy's options fit the header");

int hw__session_open(const char *door, int64_t bytes, const struct hw__session_facts *facts) {
    if (strlen(door) >= sizeof hw__session.door) {
        return -ENAMETOOLONG;
    }
    memset(hw__session.door, 0, sizeof hw__session.door);
    strcpy(hw__session.door, door);
    int64_t chunks = bytes / HW__CHUNK_BYTES;
    if (chunks < 0 || chunks > HW__MOST_CHUNKS) {
        chunks = chunks < 0 ? 0 : HW__MOST_CHUNKS;
    }
    is_counted = hw__room_is_counted();
    int fd;
    /* A smaller memory will do if the limits of the process do not allow this size. */
    do {
        fd = make((uint32_t)chunks);
    } while ((fd == -ENOMEM || fd == -EFBIG) && (chunks /= 2) >= LEAST_CHUNKS);
    if (fd < 0) {
        return fd;
    }
    struct hw__header *header = hw__session.header;
    header->family = facts->family;
    header->python_version = facts->python_version;
    header->flags = facts->flags | (chunks == 0 ? HW__COUNTERS_ONLY : 0);
    header->interval_us = facts->interval_us;
    hw__session_note_cores(header);
    copy_text(header->command, sizeof header->command, facts->command, facts->command_bytes);
    copy_text(header->executable, sizeof header->executable, facts->executable,
              strlen(facts->executable));
    copy_text(header->program, sizeof header->program, facts->program, strlen(facts->program));
    if (facts->layout != NULL) {
        hw__session.control->layout = *facts->layout;
    }
    return give(fd);
}

static void close_own(void) {
    struct stat found;
    if (hw__session.fd >= 0 && fstat(hw__session.fd, &found) == 0 &&
        found.st_dev == hw__session.fd_device && found.st_ino == hw__session.fd_inode) {
        close(hw__session.fd);
    }
    hw__session.fd = -1;
}

int hw__session_keep(struct hw_trace_kept *kept) {
    if (!hw__allowed(HW__CALL_MREMAP)) {
        return -EPERM;
    }
    /* With an old length of 0, a second mapping of the same memory is made (see map_more()). */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *mapping = mremap(hw__session.header, 0, page, MREMAP_MAYMOVE);
    if (mapping == MAP_FAILED) {
        return -errno;
    }
    *kept = (struct hw_trace_kept){mapping, hw__session.bytes, hw__session.id};
    return 0;
}

void hw__session_close(void) {
    hw__session_note_cores(hw__session.header);
    atomic_store(&hw__session.header->end_ns, hw_now_ns());
    drop();
    close_own();
}

void hw__session_abandon(void) {
    drop();
    close_own();
}

void hw__session_after_fork(void) {
    /* Without a header, another thread of the parent was failing to adopt a session. The attempt is
     * made again here, so that it ends. */
    if (hw__session.active) {
        atomic_store(&hw__session.inherited, HW__INHERITED);
    }
}

bool hw__session_adopt(void) {
    struct hw__header *parents = hw__session.header;
    struct hw__control *parents_control = hw__session.control;
    struct hw__mapped parents_mapped = hw__session.mapped;
    uint32_t chunk_count = hw__session.chunk_count; /* make() sets it anew */
    int saved = errno;
    close_own(); /* the parent's descriptor */
    if (parents == NULL) {
        errno = saved;
        return false;
    }
    int error = -ENOTSUP;
    if (hw__session.door[0] != '\0' || chunk_count == 0) {
        hw__allowed_look_again(); /* for a filter that the program has installed since */
        bool allowed = hw__allowed(HW__CALL_LIMIT) && hw__allowed(HW__CALL_SEND);
        int fd = allowed ? make(chunk_count) : -EPERM;
        error = fd < 0 ? fd : 0;
        if (error == 0) {
            struct hw__header *header = hw__session.header;
            header->family = parents->family;
            header->python_version = parents->python_version;
            header->flags = atomic_load(&parents->flags);
            header->interval_us = parents->interval_us;
            atomic_store(&header->core_count, atomic_load(&parents->core_count));
            memcpy(header->command, parents->command, sizeof header->command);
            memcpy(header->executable, parents->executable, sizeof header->executable);
            memcpy(header->program, parents->program, sizeof header->program);
            hw__session_note_policy(); /* the parent's may have ended before */
            hw__session.control->layout = parents_control->layout;
            error = give(fd);
        }
        if (error != 0) {
            atomic_fetch_add_explicit(&parents_control->lost_children, 1, memory_order_relaxed);
        }
    }
    if (error != 0) {
        hw__session.header = NULL; /* first: see drop() */
        hw__session.control = NULL;
    }
    unmap(parents, &parents_mapped);
    errno = saved;
    return error == 0;
}

/* Empties a chunk that is reused, and counts its events as overwritten. */
static void count_overwritten(struct hw__header *header, struct hw__chunk *chunk) {
    struct hw__sums lost =
        hw__sum_up((const char *)chunk + HW__CHUNK_HEADER_BYTES, atomic_exchange(&chunk->used, 0));
    if (lost.interval_ns != 0) {
        chunk->lost_interval_ns = lost.interval_ns;
        chunk->lost_interval_us = lost.interval_us;
    }
    atomic_fetch_add_explicit(&header->overwritten_events, lost.events, memory_order_relaxed);
    int64_t until_ns = atomic_load(&header->overwritten_until_ns);
    while (until_ns < lost.last_ns &&
           !atomic_compare_exchange_weak(&header->overwritten_until_ns, &until_ns, lost.last_ns)) {
    }
}

/* Returns the chunk `i`, which must be mapped. */
static struct hw__chunk *chunk_at(uint32_t i) {
    struct hw__mapped *mapped = &hw__session.mapped;
    uint32_t part = hw__part_of(i, mapped->first_chunks);
    char *chunks = atomic_load_explicit(&mapped->parts[part], memory_order_acquire);
    return (struct hw__chunk *)(chunks + (size_t)(i - hw__part_begin(part, mapped->first_chunks)) *
                                             HW__CHUNK_BYTES);
}

#ifdef __SANITIZE_THREAD__
static uint32_t index_of(const struct hw__chunk *chunk) {
    uint32_t count = atomic_load(&hw__session.mapped.chunks);
    for (uint32_t i = 0; i < count; i++) {
        if (chunk_at(i) == chunk) {
            return i;
        }
    }
    abort();
}
#endif

/* Maps the part that begins with chunk `begin`, if it is not mapped. The process has no descriptor
 * any more. So mremap(2), with an old length of 0, maps the last mapped page once more and with a
 * larger length: the mapping goes on in the same memory. The C library's realloc() calls mremap(),
 * too. Several threads may do so at the same time; one of their mappings stays. Returns whether
 * there is one. */
HW__RARE static bool map_more(uint32_t begin) {
    struct hw__mapped *mapped = &hw__session.mapped;
    if (begin >= mapped->all_chunks || !hw__allowed(HW__CALL_MREMAP)) {
        return false;
    }
    uint32_t part = hw__part_of(begin, mapped->first_chunks);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = part_bytes(mapped, part);
    uint32_t more = (uint32_t)((bytes - page) / HW__CHUNK_BYTES);
    if (!hw__room_for((size_t)(begin + more) * HW__CHUNK_BYTES)) {
        return false;
    }
    int saved = errno;
    char *last = (char *)chunk_at(begin - 1) + HW__CHUNK_BYTES - page;
    char *mapping = mremap(last, 0, bytes, MREMAP_MAYMOVE), *none = NULL;
    errno = saved;
    if (mapping == MAP_FAILED) {
        return atomic_load(&mapped->chunks) > begin;
    }
    if (!atomic_compare_exchange_strong(&mapped->parts[part], &none, mapping + page)) {
        munmap(mapping, bytes);
    }
    atomic_compare_exchange_strong(&mapped->chunks, &begin, begin + more);
    return true;
}

/* Takes the lowest free chunk, so that few pages are used again and again, and are in the cache.
 * Returns NULL if there is none. */
static struct hw__chunk *take_free(uint64_t *sequence) {
    struct hw__header *header = hw__session.header;
    if (atomic_load_explicit(&hw__session.silent, memory_order_relaxed)) {
        return NULL;
    }
    uint32_t limit =
        smaller(atomic_load_explicit(&hw__session.control->limit, memory_order_relaxed),
                hw__session.chunk_count);
    for (uint32_t i = 0; i < limit; i++) {
        uint32_t mapped = atomic_load_explicit(&hw__session.mapped.chunks, memory_order_acquire);
        if (i >= mapped && !map_more(mapped)) {
            return NULL;
        }
        uint32_t no = HW__CLAIM_FREE;
        _Atomic uint32_t *claim = &hw__session.claims[i];
        if (atomic_load_explicit(claim, memory_order_relaxed) == HW__CLAIM_FREE &&
            atomic_compare_exchange_strong_explicit(claim, &no, HW__CLAIM_TAKEN,
                                                    memory_order_acquire, memory_order_relaxed)) {
            *sequence = atomic_fetch_add_explicit(&header->chunks_taken, 1, memory_order_relaxed);
            return chunk_at(i);
        }
    }
    return NULL;
}

/* Takes the next chunk of the ring that was never taken or is closed. A chunk that is open when its
 * turn comes is passed over, and has its next turn a round later. Returns NULL if there is none. */
static struct hw__chunk *take_oldest(uint64_t *sequence) {
    struct hw__header *header = hw__session.header;
    /* Two rounds are enough to find a closed chunk, if there is one. */
    for (uint64_t tries = 0; tries < 2ULL * hw__session.chunk_count; tries++) {
        uint64_t n = atomic_fetch_add_explicit(&header->chunks_taken, 1, memory_order_relaxed);
        uint32_t count = hw__session.chunk_count;
        uint32_t i = (uint32_t)(n % count);
        uint32_t mapped = atomic_load_explicit(&hw__session.mapped.chunks, memory_order_acquire);
        while (i >= mapped && map_more(mapped)) {
            mapped = atomic_load_explicit(&hw__session.mapped.chunks, memory_order_acquire);
        }
        if (i >= mapped) { /* from now on the chunks that are mapped must do */
            atomic_compare_exchange_strong(&hw__session.chunk_count, &count, mapped);
            continue;
        }
        struct hw__chunk *chunk = chunk_at(i);
        *sequence = n;
        if (n < count) {
            return chunk;
        }
        uint32_t closed = HW__CHUNK_CLOSED; /* a meta chunk never is closed */
        if (atomic_compare_exchange_strong(&chunk->state, &closed, HW__CHUNK_OPEN)) {
            count_overwritten(header, chunk);
            return chunk;
        }
    }
    return NULL;
}

struct hw__chunk *hw__session_chunk(uint32_t kind, uint32_t owner, int32_t tid) {
    uint64_t sequence;
    struct hw__chunk *chunk =
        hw__session.door[0] != '\0' ? take_free(&sequence) : take_oldest(&sequence);
    if (chunk == NULL) {
        return NULL;
    }
    /* Where nobody collects, meta chunks are never used again, and events must keep their part. */
    if (kind == HW__CHUNK_META && hw__session.door[0] == '\0' &&
        atomic_fetch_add(&hw__session.meta_count, 1) >= hw__session.chunk_count / 2) {
        atomic_store_explicit(&hw__session.control->stacks_full, 1, memory_order_relaxed);
    }
    chunk->kind = kind;
    chunk->owner = owner;
    chunk->sequence = sequence;
    chunk->tid = tid;
    chunk->thread_start_ns = 0;
    chunk->named = 0;
    chunk->number = 0;
    memset(chunk->name, 0, sizeof chunk->name);
    /* A reader that finds the chunk open finds the other fields. */
    atomic_store_explicit(&chunk->state, HW__CHUNK_OPEN, memory_order_release);
    return chunk;
}

void hw__session_close_chunk(struct hw__chunk *chunk, uint32_t kind) {
    /* In a memory that nobody collects, a closed chunk is reused; a meta chunk must not be. */
    if (kind == HW__CHUNK_EVENTS || hw__session.door[0] != '\0') {
#ifdef __SANITIZE_THREAD__
        /* The collector orders the next owner after this one, but has the memory at another
         * address, where the sanitizer does not see it. */
        atomic_store_explicit(&hw__session.claims[index_of(chunk)], HW__CLAIM_TAKEN,
                              memory_order_release);
#endif
        atomic_store_explicit(&chunk->state, HW__CHUNK_CLOSED, memory_order_release);
    }
}
