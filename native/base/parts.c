// SPDX-License-Identifier: MIT
#include "base/parts.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/rare.h"
#include "base/room.h"

HW__RARE bool hw__parts_have(struct hw__parts *array, uint32_t i) {
    uint32_t part = hw__part_of(i, array->first);
    if (atomic_load_explicit(&array->parts[part], memory_order_acquire) != NULL) {
        return true;
    }
    uint32_t begin = hw__part_begin(part, array->first);
    uint32_t end = hw__part_begin(part + 1, array->first);
    if (!hw__room_for(end * array->item_bytes)) {
        return false;
    }
    int saved = errno;
    size_t bytes = (end - begin) * array->item_bytes;
    void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *none = NULL;
    if (mapping != MAP_FAILED &&
        !atomic_compare_exchange_strong(&array->parts[part], &none, (char *)mapping)) {
        munmap(mapping, bytes);
    }
    errno = saved;
    return atomic_load_explicit(&array->parts[part], memory_order_acquire) != NULL;
}
