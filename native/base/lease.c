// SPDX-License-Identifier: MIT
#include "base/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/room.h"
#include "headway/clock.h"

static struct hw__lease_page none;
static struct hw__lease_page over = {.until_ns = INT64_MIN};

struct hw__lease hw__leases[HW__LEASES] = {{.page = &none}, {.page = &none}};

static void leave(struct hw__lease *lease, struct hw__lease_page *next, int64_t why) {
    struct hw__lease_page *page = atomic_exchange(&lease->page, next);
    int64_t live = HW__LEASE_LIVE;
    if (page == lease->mapped && page != NULL && !atomic_load(&lease->parents)) {
        (void)atomic_compare_exchange_strong(&page->ended, &live, why);
    }
}

int hw__lease_page(int64_t span_ns) {
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (!hw__room_in_file(bytes)) {
        return -EFBIG;
    }
    int fd = memfd_create("headway-lease", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return -errno;
    }
    int64_t now = hw_now_ns();
    struct hw__lease_page first = {.until_ns = now + span_ns, .now_ns = now};
    if (ftruncate(fd, (off_t)bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
        pwrite(fd, &first, sizeof first, 0) != (ssize_t)sizeof first) {
        int error = errno;
        (void)close(fd);
        return -error;
    }
    return fd;
}

int hw__lease_begin(struct hw__lease *lease, int fd) {
    hw__lease_end(lease);
    /* The new page takes the address of the last one: a hook that still reads there finds
     * either. */
    int fixed = lease->mapped != NULL ? MAP_FIXED : 0;
    void *memory = mmap(lease->mapped, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
                        MAP_SHARED | fixed, fd, 0);
    if (memory == MAP_FAILED) {
        return -errno;
    }
    lease->mapped = memory;
    atomic_store(&lease->parents, false);
    atomic_store(&lease->page, lease->mapped);
    return 0;
}

void hw__lease_renew(struct hw__lease *lease, int64_t span_ns) {
    struct hw__lease_page *page = atomic_load(&lease->page);
    if (page == lease->mapped) {
        int64_t now = hw_now_ns();
        atomic_store(&page->now_ns, now);
        atomic_store(&page->until_ns, now + span_ns);
    }
}

void hw__leases_after_fork_in_child(void) {
    for (int i = 0; i < HW__LEASES; i++) {
        atomic_store(&hw__leases[i].parents, true);
    }
}

void hw__lease_end(struct hw__lease *lease) { leave(lease, &none, HW__LEASE_ENDED); }

void hw__lease_expire(struct hw__lease *lease, int64_t why) { leave(lease, &over, why); }
