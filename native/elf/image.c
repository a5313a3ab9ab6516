// SPDX-License-Identifier: MIT
#include "elf/image.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__) && defined(__LP64__)
#define TYPE_JUMP_SLOT R_X86_64_JUMP_SLOT
#define TYPE_GLOB_DAT R_X86_64_GLOB_DAT
#elif defined(__aarch64__) && defined(__LP64__)
#define TYPE_JUMP_SLOT R_AARCH64_JUMP_SLOT
#define TYPE_GLOB_DAT R_AARCH64_GLOB_DAT
#else
/* No relocation has these types. The rest of the library is still of use on such machines. */
#define TYPE_JUMP_SLOT UINT32_MAX
#define TYPE_GLOB_DAT UINT32_MAX
#endif

#if UINTPTR_MAX == UINT64_MAX
#define RELOCATION_TYPE(info) ((uint32_t)ELF64_R_TYPE(info))
#define RELOCATION_SYMBOL(info) ((size_t)ELF64_R_SYM(info))
#else
#define RELOCATION_TYPE(info) ((uint32_t)ELF32_R_TYPE(info))
#define RELOCATION_SYMBOL(info) ((size_t)ELF32_R_SYM(info))
#endif

/* A table of relocations. Elf_Rela begins as Elf_Rel does; its addend is not needed here. */
struct relocations {
    uintptr_t at;
    size_t bytes; /* 0 when there is no such table */
    size_t entry_bytes;
};

/* The entries of the dynamic section that are needed. DT_RELAENT, DT_RELENT and DT_SYMENT are not:
 * the loader accepts no other size than that of the type. */
struct dynamic {
    uintptr_t symbols;
    uintptr_t strings;
    size_t strings_bytes;
    struct relocations relocations[3]; /* DT_JMPREL, DT_RELA, DT_REL */
};

/* Tells whether the image has these bytes in one segment that allows all of `flags` (PF_*). RELRO
 * counts as writable: its segment is writable, and the loader has made it read-only later.
 *
 * This function can't fail. */
static bool has(const struct hw__image *image, uintptr_t at, size_t bytes, uint32_t flags) {
    for (size_t i = 0; i < image->header_count; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        /* Unsigned, so that an address before the segment is beyond its end. */
        uintptr_t offset = at - (image->bias + header->p_vaddr);
        if (header->p_type == PT_LOAD && (header->p_flags & flags) == flags &&
            offset < header->p_memsz && bytes <= header->p_memsz - offset) {
            return true;
        }
    }
    return false;
}

/* Returns the address that a d_ptr means. glibc has added the bias in place, except in the vDSO and
 * on some machines; musl never adds it. A pointer that already lies in the image is taken as it is:
 * an address in the file would have to be larger than the bias for that, and nothing is loaded at
 * such a low address.
 *
 * The caller must check the result as any other address. This function can't fail. */
static uintptr_t relocated(const struct hw__image *image, uintptr_t pointer) {
    return has(image, pointer, 1, PF_R) ? pointer : image->bias + pointer;
}

/* Tells whether the image has a readable table there, or the table is empty.
 *
 * This function can't fail. */
static bool has_table(const struct hw__image *image, uintptr_t at, size_t bytes, size_t alignment) {
    return bytes == 0 || (at % alignment == 0 && has(image, at, bytes, PF_R));
}

/* Reads the entries of a dynamic section.
 *
 * This function can't fail. */
static void read_entries(const struct hw__image *image, const ElfW(Dyn) * entries, size_t count,
                         struct dynamic *dynamic) {
    struct relocations *jump = &dynamic->relocations[0];
    struct relocations *rela = &dynamic->relocations[1];
    struct relocations *rel = &dynamic->relocations[2];
    jump->entry_bytes = rela->entry_bytes = sizeof(ElfW(Rela));
    rel->entry_bytes = sizeof(ElfW(Rel));
    /* The segment's end is a bound, too: DT_NULL should come before it, but is only data. */
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        uintptr_t pointer = entries[i].d_un.d_ptr;
        size_t value = entries[i].d_un.d_val;
        switch (entries[i].d_tag) {
        case DT_SYMTAB:
            dynamic->symbols = relocated(image, pointer);
            break;
        case DT_STRTAB:
            dynamic->strings = relocated(image, pointer);
            break;
        case DT_STRSZ:
            dynamic->strings_bytes = value;
            break;
        case DT_JMPREL:
            jump->at = relocated(image, pointer);
            break;
        case DT_PLTRELSZ:
            jump->bytes = value;
            break;
        case DT_PLTREL:
            jump->entry_bytes = value == DT_REL ? sizeof(ElfW(Rel)) : sizeof(ElfW(Rela));
            break;
        case DT_RELA:
            rela->at = relocated(image, pointer);
            break;
        case DT_RELASZ:
            rela->bytes = value;
            break;
        case DT_REL:
            rel->at = relocated(image, pointer);
            break;
        case DT_RELSZ:
            rel->bytes = value;
            break;
        default: /* among them DT_RELR: relative relocations, which have no symbol */
            break;
        }
    }
}

/* Reads the dynamic section and checks that its tables lie in the image.
 *
 * Returns 0, -ENXIO when there is none, or -ENOEXEC. */
static int read_dynamic(const struct hw__image *image, struct dynamic *dynamic) {
    const ElfW(Phdr) *header = image->headers;
    const ElfW(Phdr) *end = header + image->header_count;
    while (header < end && header->p_type != PT_DYNAMIC) {
        header++;
    }
    if (header == end) {
        return -ENXIO; /* linked statically */
    }
    uintptr_t at = image->bias + header->p_vaddr;
    if (!has_table(image, at, header->p_memsz, _Alignof(ElfW(Dyn)))) {
        return -ENOEXEC;
    }
    *dynamic = (struct dynamic){0};
    read_entries(image, (const ElfW(Dyn) *)at, header->p_memsz / sizeof(ElfW(Dyn)), dynamic);
    for (size_t i = 0; i < sizeof dynamic->relocations / sizeof *dynamic->relocations; i++) {
        const struct relocations *table = &dynamic->relocations[i];
        if (!has_table(image, table->at, table->bytes, _Alignof(ElfW(Rel)))) {
            return -ENOEXEC;
        }
    }
    return has_table(image, dynamic->strings, dynamic->strings_bytes, 1) ? 0 : -ENOEXEC;
}

/* Tells whether the symbol of that index has that name.
 *
 * Returns 1 when it has, 0 when not, or -ENOEXEC when the symbol lies outside of the image. */
static int symbol_is(const struct hw__image *image, const struct dynamic *dynamic, size_t index,
                     const char *name) {
    /* The length of the symbol table is stored nowhere; the segment is the bound. */
    uintptr_t at = dynamic->symbols + index * sizeof(ElfW(Sym));
    if (!has_table(image, at, sizeof(ElfW(Sym)), _Alignof(ElfW(Sym)))) {
        return -ENOEXEC;
    }
    size_t start = ((const ElfW(Sym) *)at)->st_name;
    if (start >= dynamic->strings_bytes) {
        return -ENOEXEC;
    }
    size_t bytes = strlen(name) + 1;
    return bytes <= dynamic->strings_bytes - start &&
           memcmp((const char *)dynamic->strings + start, name, bytes) == 0;
}

/* Adds a slot, if it is not in the list already: some linkers include the table of DT_JMPREL in
 * that of DT_RELA. A slot that is in the list twice would be fatal, as the second write would take
 * the replacement for the old value.
 *
 * Returns 0, -ENOSPC, or -ENOEXEC when the address can't be that of a slot. */
static int add_slot(const struct hw__image *image, uintptr_t at, uintptr_t **slots, int max,
                    int *count) {
    if (at % sizeof(uintptr_t) != 0 || !has(image, at, sizeof(uintptr_t), PF_R | PF_W)) {
        return -ENOEXEC;
    }
    for (int i = 0; i < *count; i++) {
        if ((uintptr_t)slots[i] == at) {
            return 0;
        }
    }
    if (*count == max) {
        return -ENOSPC;
    }
    slots[(*count)++] = (uintptr_t *)at;
    return 0;
}

/* Adds the slots of one table of relocations.
 *
 * Returns 0, -ENOSPC or -ENOEXEC. */
static int add_table(const struct hw__image *image, const struct dynamic *dynamic,
                     const struct relocations *table, const char *name, uintptr_t **slots, int max,
                     int *count) {
    for (size_t i = 0; i < table->bytes / table->entry_bytes; i++) {
        const ElfW(Rel) *entry = (const ElfW(Rel) *)(table->at + i * table->entry_bytes);
        uint32_t type = RELOCATION_TYPE(entry->r_info);
        size_t index = RELOCATION_SYMBOL(entry->r_info);
        if ((type != TYPE_JUMP_SLOT && type != TYPE_GLOB_DAT) || index == STN_UNDEF) {
            continue;
        }
        int is = symbol_is(image, dynamic, index, name);
        int error = is > 0 ? add_slot(image, image->bias + entry->r_offset, slots, max, count) : is;
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

/* The address that hw__image_find() looks for, and the image that it fills. */
struct search {
    uintptr_t address;
    struct hw__image *image;
};

/* Ends the iteration at the image that has the address.
 *
 * Returns 1 there, else 0. This function can't fail. */
static int search_one(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct search *search = data;
    struct hw__image image = {info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum};
    if (!has(&image, search->address, 1, 0)) {
        return 0;
    }
    *search->image = image;
    return 1;
}

int hw__image_find(const void *address, struct hw__image *image) {
    /* dladdr() does not do here: for an executable its base is the address where the file is
     * mapped, not the bias, and in glibc any address between two segments counts as the image's. */
    struct search search = {(uintptr_t)address, image};
    return dl_iterate_phdr(search_one, &search) == 1 ? 0 : -ENOENT;
}

int hw__image_slots(const struct hw__image *image, const char *name, uintptr_t **slots, int max,
                    int *count) {
    *count = 0;
    struct dynamic dynamic;
    int error = read_dynamic(image, &dynamic);
    for (size_t i = 0; error == 0 && i < sizeof dynamic.relocations / sizeof *dynamic.relocations;
         i++) {
        error = add_table(image, &dynamic, &dynamic.relocations[i], name, slots, max, count);
    }
    if (error == 0 && *count == 0) {
        error = -ENXIO;
    }
    if (error != 0) {
        *count = 0;
    }
    return error;
}
