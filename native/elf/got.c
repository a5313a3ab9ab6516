// SPDX-License-Identifier: MIT
#include "elf/got.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/lock.h"
#include "elf/image.h"

/* Held while a page's protection is changed. Two slots are often in one page; without the lock, the
 * first writer to finish would take the right to write from the other. */
static pthread_mutex_t protection_lock = PTHREAD_MUTEX_INITIALIZER;

/* Reads a line of /proc/self/maps, if the mapping has the address.
 *
 * Returns whether it has, with *protection (PROT_*). This function can't fail. */
static bool parse_mapping(const char *line, uintptr_t address, int *protection) {
    uintptr_t start;
    uintptr_t end;
    char rights[5];
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &start, &end, rights) != 3 ||
        address < start || address >= end) {
        return false;
    }
    *protection = (rights[0] == 'r' ? PROT_READ : 0) | (rights[1] == 'w' ? PROT_WRITE : 0) |
                  (rights[2] == 'x' ? PROT_EXEC : 0);
    return true;
}

/* Finds out how an address is protected. The kernel is asked, since the image's file only tells how
 * it should be: RELRO's end is rounded to pages, and other tools patch slots and leave them
 * writable.
 *
 * Returns 0 with *protection, or a negative errno: -EFAULT when nothing is mapped there. */
static int read_protection(uintptr_t address, int *protection) {
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL) {
        return -errno;
    }
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (!found && getline(&line, &size, maps) >= 0) {
        found = parse_mapping(line, address, protection);
    }
    int error = found ? 0 : feof(maps) ? -EFAULT : -errno;
    free(line);
    fclose(maps);
    return error;
}

/* Writes a slot. The caller must hold the lock.
 *
 * Returns 0 with *old, or a negative errno with the slot as it was. */
static int write_locked(uintptr_t *slot, uintptr_t value, uintptr_t *old) {
    int protection;
    int error = read_protection((uintptr_t)slot, &protection);
    if (error != 0) {
        return error;
    }
    /* An aligned slot is in one page. A page of 4 KiB would be wrong on many aarch64 kernels. */
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = (char *)slot - (uintptr_t)slot % page_bytes;
    bool closed = (protection & PROT_WRITE) == 0;
    if (closed && mprotect(page, page_bytes, protection | PROT_READ | PROT_WRITE) != 0) {
        return -errno;
    }
    /* One store of the whole slot: a release for the threads that call through it. It is an
     * exchange, so that *old is the value that was replaced even when the loader binds the slot at
     * this moment. */
    *old = __atomic_exchange_n(slot, value, __ATOMIC_ACQ_REL);
    if (closed && mprotect(page, page_bytes, protection) != 0) {
        /* Hardly possible, since this mprotect() joins the mappings that the first one split.
         * Nothing more can be done about the page, but the slot gets its old value, as promised. */
        error = -errno;
        __atomic_store_n(slot, *old, __ATOMIC_RELEASE);
    }
    return error;
}

int hw__got_find(const void *address, const char *name, uintptr_t **slots, int max, int *count) {
    *count = 0;
    struct hw__image image;
    int error = hw__image_find(address, &image);
    return error != 0 ? error : hw__image_slots(&image, name, slots, max, count);
}

int hw__got_write(uintptr_t *slot, uintptr_t value, uintptr_t *old) {
    return hw__got_write_all(&slot, 1, &value, old);
}

int hw__got_write_all(uintptr_t *const *slots, int count, const uintptr_t *values, uintptr_t *old) {
    int written = 0;
    int error = 0;
    hw__mutex_lock(&protection_lock);
    while (error == 0 && written < count) {
        error = write_locked(slots[written], values[written], &old[written]);
        written += error == 0;
    }
    while (error != 0 && written > 0) {
        written--;
        uintptr_t ours;
        /* The same page was made writable a moment ago, so there is no reason for a failure, and
         * nothing to do after one. */
        (void)write_locked(slots[written], old[written], &ours);
    }
    hw__mutex_unlock(&protection_lock);
    return error;
}

void hw__got_after_fork(void) { protection_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }

uintptr_t hw__got_read(const uintptr_t *slot) { return __atomic_load_n(slot, __ATOMIC_ACQUIRE); }

bool hw__got_is_open(const uintptr_t *slot) {
    int protection;
    return read_protection((uintptr_t)slot, &protection) == 0 && (protection & PROT_WRITE) != 0;
}

bool hw__got_is_stub(const void *address, uintptr_t value) {
    struct hw__image image, other;
    return hw__image_find(address, &image) == 0 &&
           hw__image_find((const void *)value, &other) == 0 && image.headers == other.headers;
}

/* Takes the first image of dl_iterate_phdr(), which is the executable.
 *
 * Returns 1, which ends the iteration. This function can't fail. */
static int take_first(struct dl_phdr_info *info, size_t size, void *headers) {
    (void)size;
    *(const ElfW(Phdr) **)headers = info->dlpi_phdr;
    return 1;
}

bool hw__got_keep(const void *address) {
    const ElfW(Phdr) *executable = NULL;
    struct hw__image image;
    Dl_info info;
    dl_iterate_phdr(take_first, &executable);
    if (hw__image_find(address, &image) != 0 || image.headers == executable) {
        return true; /* nothing of it can be unloaded */
    }
    return dladdr(address, &info) != 0 &&
           dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
}

void *hw__real_function(const char *name) {
    /* The C library is asked, and not RTLD_DEFAULT. RTLD_DEFAULT would give the PLT entry of an
     * executable that is no PIE and takes the function's address: a way back into the slot that is
     * patched. dlsym() gives the default version. dlvsym() would need the version's name, which
     * differs between machines, and musl has no dlvsym(). */
    static const char *const libraries[] = {
        "libpthread.so.0", /* glibc before 2.34; first, since its libc.so.6 only forwards */
        "libc.so.6",       /* glibc */
        "libc.so",         /* musl, whatever its file is called */
    };
    void *function = NULL;
    for (size_t i = 0; function == NULL && i < sizeof libraries / sizeof *libraries; i++) {
        /* RTLD_NOLOAD: a library that is not loaded is not the process's C library. */
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL) {
            function = dlsym(library, name);
            dlclose(library); /* the library stays loaded: the process needs it */
        }
    }
    return function;
}

/* Returns the program headers of the image that has a function, or NULL. */
static const ElfW(Phdr) * image_of(const void *function) {
    struct hw__image image;
    return function != NULL && hw__image_find(function, &image) == 0 ? image.headers : NULL;
}

/* Returns the executable's own definition of a function, or NULL. An executable that is no PIE and
 * takes a function's address gives the function the address of its PLT entry, which is no
 * definition. */
static void *of_executable(const char *name) {
    const ElfW(Phdr) *executable = NULL;
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;
    void *function = dlsym(RTLD_DEFAULT, name);
    dl_iterate_phdr(take_first, &executable);
    bool defined = function != NULL && image_of(function) == executable &&
                   dladdr1(function, &info, (void **)(void *)&symbol, RTLD_DL_SYMENT) != 0 &&
                   symbol != NULL && symbol->st_shndx != SHN_UNDEF;
    return defined ? function : NULL;
}

void *hw__next_function(const char *name) {
    void *real = hw__real_function(name), *found = of_executable(name);
    void *program = dlopen(NULL, RTLD_LAZY);
    struct link_map *map = NULL;
    if (program != NULL && dlinfo(program, RTLD_DI_LINKMAP, (void *)&map) != 0) {
        map = NULL;
    }
    /* This is the order in which the loader searches the libraries that the program was started
     * with. It ends at the C library. */
    for (map = map == NULL ? NULL : map->l_next; found == NULL && map != NULL; map = map->l_next) {
        void *library = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
        void *function = library == NULL ? NULL : dlsym(library, name);
        struct hw__image image;
        if (function != NULL && hw__image_find(function, &image) == 0 &&
            image.bias == map->l_addr) { /* the function is not that of a library that `library`
                                          * needs */
            found = function;
        }
        if (library != NULL) {
            dlclose(library);
        }
    }
    if (program != NULL) {
        dlclose(program);
    }
    /* glibc before 2.34 has these functions in two libraries, and one of them forwards to the
     * other. */
    bool is_libc = found == NULL || image_of(found) == image_of(real) ||
                   image_of(found) == image_of(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
    return is_libc ? real : found;
}
