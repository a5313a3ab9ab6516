// SPDX-License-Identifier: MIT
/* A library for disk_hooks.py: wraps the function that the interpreter calls as
 * pthread_cond_signal(), and counts how long each call takes. While Headway
 * records, this function is Headway's hook, which notes that the GIL is acquired
 * or released, and then calls the C library's function. Linux with 64-bit ELF. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BIN_NS = 16, BINS = 1 << 16 };

/* Counts of calls by duration. Threads that hold the GIL's mutex write them, and
 * so do threads that signal another condition. */
static _Atomic uint32_t counts[BINS];
static _Atomic uint64_t longest_ns;
static _Atomic(uintptr_t) original;
static uintptr_t *slot;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int timed_signal(pthread_cond_t *cond) {
    int (*call)(pthread_cond_t *) =
        (int (*)(pthread_cond_t *))atomic_load_explicit(&original, memory_order_relaxed);
    uint64_t begun_ns = now_ns();
    int result = call(cond);
    uint64_t took_ns = now_ns() - begun_ns;
    uint64_t bin = took_ns / BIN_NS;
    atomic_fetch_add_explicit(&counts[bin < BINS ? bin : BINS - 1], 1, memory_order_relaxed);
    uint64_t before = atomic_load_explicit(&longest_ns, memory_order_relaxed);
    while (took_ns > before &&
           !atomic_compare_exchange_weak_explicit(&longest_ns, &before, took_ns,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    return result;
}

/* Looks for the slot of pthread_cond_signal() in one table of relocations. */
static void look(const struct link_map *image, const ElfW(Rela) * table, size_t bytes,
                 const ElfW(Sym) * symbols, const char *names) {
    for (size_t i = 0; i < bytes / sizeof *table; i++) {
        const char *name = names + symbols[ELF64_R_SYM(table[i].r_info)].st_name;
        if (ELF64_R_SYM(table[i].r_info) != 0 && strcmp(name, "pthread_cond_signal") == 0) {
            slot = (uintptr_t *)(image->l_addr + table[i].r_offset);
        }
    }
}

/* Makes the slot point to the timer. Returns 0 or an errno; ENOENT: the
 * interpreter has no such slot. */
int hook_timer_install(void) {
    Dl_info info;
    struct link_map *image;
    void *runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
    if (runtime == NULL || dladdr1(runtime, &info, (void **)&image, RTLD_DL_LINKMAP) == 0) {
        return ENOENT;
    }
    const ElfW(Rela) *rela = NULL, *plt = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    size_t rela_bytes = 0, plt_bytes = 0;
    for (const ElfW(Dyn) *entry = image->l_ld; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_RELA:
            rela = (const void *)entry->d_un.d_ptr;
            break;
        case DT_RELASZ:
            rela_bytes = entry->d_un.d_val;
            break;
        case DT_JMPREL:
            plt = (const void *)entry->d_un.d_ptr;
            break;
        case DT_PLTRELSZ:
            plt_bytes = entry->d_un.d_val;
            break;
        case DT_SYMTAB:
            symbols = (const void *)entry->d_un.d_ptr;
            break;
        case DT_STRTAB:
            names = (const void *)entry->d_un.d_ptr;
            break;
        default:
            break;
        }
    }
    if (symbols == NULL || names == NULL) {
        return ENOENT;
    }
    look(image, rela, rela_bytes, symbols, names);
    look(image, plt, plt_bytes, symbols, names);
    if (slot == NULL) {
        return ENOENT;
    }
    uintptr_t page = (uintptr_t)slot & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    if (mprotect((void *)page, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE) != 0) {
        return errno;
    }
    atomic_store(&original, *slot);
    *slot = (uintptr_t)timed_signal;
    return 0;
}

/* Writes the counts of calls by duration into bins BIN_NS wide; the last bin
 * has all longer calls. Returns the longest duration in ns. */
uint64_t hook_timer_read(uint32_t into[BINS]) {
    for (int i = 0; i < BINS; i++) {
        into[i] = atomic_load_explicit(&counts[i], memory_order_relaxed);
    }
    return atomic_load_explicit(&longest_ns, memory_order_relaxed);
}

/* Restarts the counting: earlier calls no longer count. */
void hook_timer_reset(void) {
    for (int i = 0; i < BINS; i++) {
        atomic_store_explicit(&counts[i], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&longest_ns, 0, memory_order_relaxed);
}

/* Returns whether the slot still points to the timer, and the timer calls a
 * library whose path contains `name`. */
int hook_timer_is_before(const char *name) {
    Dl_info info;
    return *slot == (uintptr_t)timed_signal && dladdr((void *)atomic_load(&original), &info) != 0 &&
           info.dli_fname != NULL && strstr(info.dli_fname, name) != NULL;
}
