// SPDX-License-Identifier: MIT
/* Patching the global offset table (GOT) of one image: its calls of a function go elsewhere, those
 * of all other images do not.
 *
 *     uintptr_t *slots[4], new[4], old[4];
 *     int count, error = hw__got_find(address, "getpid", slots, 4, &count);
 *     // all new[i] = (uintptr_t)mine
 *     error = hw__got_write_all(slots, count, new, old);
 *     error = hw__got_write_all(slots, count, old, new); // and back
 *
 * A slot belongs to its image, which the caller keeps loaded. Never call the old value: before the
 * first call it is the loader's stub, which writes the real address over ours. That is what
 * hw__next_function() is for. Writing the old value back is right in either case. */
#ifndef HEADWAY_ELF_GOT_H
#define HEADWAY_ELF_GOT_H

#include <stdbool.h>
#include <stdint.h>

/* Finds the slots of a function, by its name, in the image that has `address`; see
 * hw__image_slots().
 *
 * Any thread may call it; not async-signal-safe.
 *
 * Returns 0 with the slots and their *count, at least 1, or a negative errno with *count 0: -ENOENT
 * when no image has the address, -ENXIO when the image has no such slot, -ENOSPC when it has more
 * than `max`, -ENOEXEC when its tables are broken. */
int hw__got_find(const void *address, const char *name, uintptr_t **slots, int max, int *count);

/* Writes one slot, atomically, and leaves the protection of its page as it was.
 *
 * Any thread may call it, while others call through the slot: each call goes to the old function or
 * to the new one, which sees all that was written before. A call that has begun goes on in the old
 * function after this returns. One thing can undo it: a thread that is in the slot's very first
 * call, with lazy binding, writes the real address when the loader has found it. So let the image
 * have called the function before, or look at the slot again later (hw__got_read()).
 *
 * Not async-signal-safe: it takes a lock and allocates. Not for a child after fork() in a process
 * where another thread may have been in here.
 *
 * Returns 0 with *old the value it replaced, or a negative errno with the slot as it was: -EACCES
 * or -EPERM when the page may not be made writable, -EFAULT when nothing is mapped there, or what
 * reading /proc/self/maps gives. */
int hw__got_write(uintptr_t *slot, uintptr_t value, uintptr_t *old);

/* Writes `count` different slots, one after the other, as hw__got_write() does: all of them, or
 * none after an error. Not atomic as a whole: other threads may see the first ones written, and
 * after an error may have called through them.
 *
 * Returns 0 with the values it replaced in old[], or a negative errno with old[] undefined. */
int hw__got_write_all(uintptr_t *const *slots, int count, const uintptr_t *values, uintptr_t *old);

/* The value of a slot now.
 *
 * Any thread may call it; async-signal-safe. Returns it. This function can't fail. */
uintptr_t hw__got_read(const uintptr_t *slot);

/* The slot's page may be written as it is: the loader keeps it so to bind lazily. Asks the kernel.
 */
bool hw__got_is_open(const uintptr_t *slot);

/* The value leads into the image that has `address`: to the loader's stub for a function that was
 * not called yet. Not async-signal-safe. */
bool hw__got_is_stub(const void *address, uintptr_t value);

/* Keeps the image that has `address` loaded for the rest of the process, whoever closes it.
 *
 * Returns whether it is; an address in no image has nothing to keep. */
bool hw__got_keep(const void *address);

/* The function that a call of that name reaches from anywhere: that of a library that was loaded
 * before the C library to stand in for it (LD_PRELOAD: libfaketime, a sanitizer, a tracer), or of
 * the executable, or else the C library's. What a hook passes its calls on to; no slot is involved.
 *
 * Any thread may call it; not async-signal-safe. The address stays valid for the process.
 *
 * Returns the address, or NULL when there is no such function. */
void *hw__next_function(const char *name);

/* The C library's own function of that name, in its default version, whatever some other library
 * puts in its place. No slot is involved.
 *
 * Any thread may call it; not async-signal-safe. The address stays valid for the process.
 *
 * Returns the address, or NULL when there is no such function. */
void *hw__real_function(const char *name);

#endif
