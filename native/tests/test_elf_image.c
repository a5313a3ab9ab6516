// SPDX-License-Identifier: MIT
/* Images that are made by hand, in memory from malloc(), where the address sanitizer sees each read
 * outside of them; and the vDSO. Relocations are the loader's job, so none is applied here. */
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#include "elf/image.h"
#include "t.h"

#ifdef __aarch64__
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#define GLOB_DAT R_AARCH64_GLOB_DAT
#define ABSOLUTE R_AARCH64_ABS64
#else
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#define GLOB_DAT R_X86_64_GLOB_DAT
#define ABSOLUTE R_X86_64_64
#endif

#define MAX_SLOTS 8

/* The image's address in the file. The bias is the memory's address minus this one. */
#define FILE_ADDRESS 0x1000

/* The image's contents. The string table is last, so that its end is the end of the segment. */
struct contents {
    ElfW(Dyn) dynamic[12];
    ElfW(Sym) symbols[3]; /* none, "one", "two" */
    ElfW(Rela) jumps[2];  /* "one", "two" */
    ElfW(Rela) others[4]; /* jumps[0] again, GLOB_DAT of "one", an absolute "one", no symbol */
    ElfW(Rel) rels[1];    /* GLOB_DAT of "two" */
    uintptr_t slots[6];
    char strings[16]; /* "", "one", "two"; no padding behind it */
};

struct made {
    struct contents *contents;
    ElfW(Phdr) headers[2];
    struct hw__image image;
};

#define AT(member) (FILE_ADDRESS + offsetof(struct contents, member))

/* Makes an image. With `relocated`, the bias is added to its d_ptrs, as glibc does. */
static struct made make(int relocated) {
    struct made made = {.contents = calloc(1, sizeof(struct contents))};
    struct contents *contents = made.contents;
    T_TRUE(contents != NULL);
    uintptr_t bias = (uintptr_t)contents - FILE_ADDRESS;
    uintptr_t added = relocated ? bias : 0;
    const ElfW(Dyn) dynamic[] = {
        {DT_STRTAB, {.d_ptr = AT(strings) + added}},
        {DT_STRSZ, {.d_val = sizeof contents->strings}},
        {DT_SYMTAB, {.d_ptr = AT(symbols) + added}},
        {DT_JMPREL, {.d_ptr = AT(jumps) + added}},
        {DT_PLTRELSZ, {.d_val = sizeof contents->jumps}},
        {DT_PLTREL, {.d_val = DT_RELA}},
        {DT_RELA, {.d_ptr = AT(others) + added}},
        {DT_RELASZ, {.d_val = sizeof contents->others}},
        {DT_REL, {.d_ptr = AT(rels) + added}},
        {DT_RELSZ, {.d_val = sizeof contents->rels}},
        {DT_NULL, {0}},
        {DT_STRSZ, {.d_val = 1}}, /* after the end */
    };
    memcpy(contents->dynamic, dynamic, sizeof dynamic);
    memcpy(contents->strings, "\0one\0two", sizeof "\0one\0two");
    contents->symbols[1].st_name = 1;
    contents->symbols[2].st_name = 5;
    contents->jumps[0] = (ElfW(Rela)){AT(slots[0]), ELF64_R_INFO(1ul, JUMP_SLOT), 0};
    contents->jumps[1] = (ElfW(Rela)){AT(slots[1]), ELF64_R_INFO(2ul, JUMP_SLOT), 0};
    contents->others[0] = contents->jumps[0];
    contents->others[1] = (ElfW(Rela)){AT(slots[2]), ELF64_R_INFO(1ul, GLOB_DAT), 0};
    contents->others[2] = (ElfW(Rela)){AT(slots[3]), ELF64_R_INFO(1ul, ABSOLUTE), 0};
    contents->others[3] = (ElfW(Rela)){AT(slots[4]), ELF64_R_INFO(0ul, GLOB_DAT), 0};
    contents->rels[0] = (ElfW(Rel)){AT(slots[5]), ELF64_R_INFO(2ul, GLOB_DAT)};
    made.headers[0] = (ElfW(Phdr)){.p_type = PT_LOAD,
                                   .p_flags = PF_R | PF_W,
                                   .p_vaddr = FILE_ADDRESS,
                                   .p_memsz = sizeof *contents};
    made.headers[1] = (ElfW(Phdr)){
        .p_type = PT_DYNAMIC, .p_vaddr = AT(dynamic), .p_memsz = sizeof contents->dynamic};
    made.image.bias = bias;
    made.image.header_count = 2;
    return made;
}

static int find(struct made *made, const char *name, uintptr_t **slots, int max, int *count) {
    made->image.headers = made->headers; /* only now: make() returns a copy */
    return hw__image_slots(&made->image, name, slots, max, count);
}

static void check_found(int relocated) {
    struct made made = make(relocated);
    uintptr_t *slots[MAX_SLOTS];
    int count;
    T_EQ(0, find(&made, "one", slots, MAX_SLOTS, &count));
    T_EQ(2, count);
    T_TRUE(slots[0] == &made.contents->slots[0]);
    T_TRUE(slots[1] == &made.contents->slots[2]);
    T_EQ(0, find(&made, "two", slots, MAX_SLOTS, &count));
    T_EQ(2, count);
    T_TRUE(slots[0] == &made.contents->slots[1]);
    T_TRUE(slots[1] == &made.contents->slots[5]);
    T_EQ(-ENOSPC, find(&made, "one", slots, 1, &count));
    T_EQ(0, count);
    T_EQ(-ENXIO, find(&made, "on", slots, MAX_SLOTS, &count));
    T_EQ(-ENXIO, find(&made, "", slots, MAX_SLOTS, &count));
    T_EQ(-ENXIO, find(&made, "two and what is not in the table", slots, MAX_SLOTS, &count));
    free(made.contents);
}

static void test_relocated_pointers(void) { check_found(1); }

static void test_unrelocated_pointers(void) { check_found(0); }

static void test_no_dynamic_section(void) {
    struct made made = make(1);
    made.image.header_count = 1;
    uintptr_t *slots[MAX_SLOTS];
    int count;
    T_EQ(-ENXIO, find(&made, "one", slots, MAX_SLOTS, &count));
    free(made.contents);
}

/* Checks tables with one damage at a time, each of which points out of the image. */
static void test_broken_tables(void) {
    for (int broken = 0; broken < 10; broken++) {
        struct made made = make(1);
        struct contents *contents = made.contents;
        switch (broken) {
        case 0:
            contents->dynamic[1].d_un.d_val++; /* DT_STRSZ */
            break;
        case 1:
            contents->dynamic[4].d_un.d_val = SIZE_MAX; /* DT_PLTRELSZ */
            break;
        case 2:
            contents->dynamic[6].d_un.d_ptr = 0; /* DT_RELA */
            break;
        case 3:
            contents->dynamic[8].d_un.d_ptr++; /* DT_REL */
            break;
        case 4:
            contents->dynamic[2].d_un.d_ptr = UINTPTR_MAX - 7; /* DT_SYMTAB */
            break;
        case 5:
            contents->symbols[1].st_name = sizeof contents->strings;
            break;
        case 6:
            contents->jumps[0].r_info = ELF64_R_INFO(UINT64_C(0xffffffff), JUMP_SLOT);
            break;
        case 7:
            contents->jumps[0].r_offset = FILE_ADDRESS + sizeof *contents;
            break;
        case 8:
            contents->jumps[0].r_offset++;
            break;
        default:
            made.headers[0].p_flags = PF_R; /* slots that were never writable */
            break;
        }
        uintptr_t *slots[MAX_SLOTS];
        int count = -1;
        T_EQ(-ENOEXEC, find(&made, "one", slots, MAX_SLOTS, &count));
        T_EQ(0, count);
        free(contents);
    }
}

/* Checks that no bytes, however wrong, cause a read outside the image. */
static void test_random_damage(void) {
    uint64_t random = 1;
    for (int i = 0; i < 100000; i++) {
        struct made made = make(i % 2);
        unsigned char *bytes = (unsigned char *)made.contents;
        for (uint64_t n = t_random(&random) % 4; n-- > 0;) {
            bytes[t_random(&random) % sizeof *made.contents] = (unsigned char)t_random(&random);
        }
        uintptr_t *slots[MAX_SLOTS];
        int count = -1;
        int error = find(&made, "two", slots, MAX_SLOTS, &count);
        T_TRUE(error == 0 ? count >= 1 : count == 0);
        for (int slot = 0; slot < count; slot++) {
            T_TRUE((uintptr_t)slots[slot] - (uintptr_t)bytes <= sizeof *made.contents - 8);
        }
        free(made.contents);
    }
}

static void test_vdso(void) {
    /* getauxval() returns an address as an integer. */
    const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
    struct hw__image image;
    if (vdso == NULL || hw__image_find(vdso, &image) != 0) {
        return; /* a kernel without a vDSO, or a C library that does not list it */
    }
    uintptr_t *slots[MAX_SLOTS];
    int count;
    T_EQ(-ENXIO, hw__image_slots(&image, "clock_gettime", slots, MAX_SLOTS, &count));
}

int main(void) {
    t_start();
    T_RUN(test_relocated_pointers);
    T_RUN(test_unrelocated_pointers);
    T_RUN(test_no_dynamic_section);
    T_RUN(test_broken_tables);
    T_RUN(test_random_damage);
    T_RUN(test_vdso);
    return 0;
}
