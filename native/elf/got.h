// SPDX-License-Identifier: MIT
/* Patching of the global offset table (GOT) of one image: the image's calls of a function reach
 * another function; the calls of all other images do not.
 *
 *     uintptr_t *slots[4], new[4], old[4];
 *     int count, error = hw__got_find(address, "getpid", slots, 4, &count);
 *     // all new[i] = (uintptr_t)mine
 *     error = hw__got_write_all(slots, count, new, old);
 *     error = hw__got_write_all(slots, count, old, new); // and back
 *
 * A slot belongs to its image, which the caller must keep loaded. Never call the old value: before
 * the function's first call it is the loader's stub, which writes the real address over the
 * replacement. Call the address that hw__next_function() returns. Writing the old value back is
 * right in either case. */
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

/* Writes one slot atomically, and leaves the protection of its page as it was.
 *
 * Any thread may call it, while other threads call through the slot. Each call reaches the old
 * function or the new one, which sees all that was written before. A call that has begun goes on in
 * the old function after this function returns. One thing can undo the write: with lazy binding, a
 * thread in the slot's very first call writes the real address once the loader has found it. So the
 * image must have called the function before, or the caller must read the slot again later
 * (hw__got_read()).
 *
 * Not async-signal-safe: it takes a lock and allocates. It must not be called in a child after
 * fork() of a process in which another thread may have been in this function.
 *
 * Returns 0 with *old the value that was replaced, or a negative errno with the slot as it was:
 * -EACCES or -EPERM when the page may not be made writable, -EFAULT when nothing is mapped there,
 * or the error of reading /proc/self/maps. */
int hw__got_write(uintptr_t *slot, uintptr_t value, uintptr_t *old);

/* Writes `count` different slots, one after the other, as hw__got_write() does: all of them, or
 * none after an error. The slots are not written atomically as a whole: other threads may see the
 * first ones written, and after an error may have called through them.
 *
 * Returns 0 with the values that were replaced in old[], or a negative errno with old[] undefined.
 */
int hw__got_write_all(uintptr_t *const *slots, int count, const uintptr_t *values, uintptr_t *old);

/* To be called in a forked child before it writes a slot: a thread that was writing one does not
 * exist there, and would never have finished. */
void hw__got_after_fork(void);

/* Returns the present value of a slot.
 *
 * Any thread may call it; async-signal-safe. This function can't fail. */
uintptr_t hw__got_read(const uintptr_t *slot);

/* Tells whether the slot's page is writable as it is: the loader keeps it writable to bind
 * functions lazily. Asks the kernel. */
bool hw__got_is_open(const uintptr_t *slot);

/* Tells whether the value points into the image that has `address`: to the loader's stub for a
 * function that was not called yet. Not async-signal-safe. */
bool hw__got_is_stub(const void *address, uintptr_t value);

/* Keeps the image that has `address` loaded for the rest of the process, even if it is closed.
 *
 * Returns whether the image stays loaded; true for an address in no image, which has nothing to
 * keep. */
bool hw__got_keep(const void *address);

/* Finds the function that a call of that name reaches from anywhere. This is the function of a
 * library that was loaded before the C library to replace it (LD_PRELOAD: libfaketime, a sanitizer,
 * a tracer), or of the executable, or else the C library's. A hook passes its calls on to this
 * function. No slot is involved.
 *
 * Any thread may call it; not async-signal-safe. The address stays valid for the process.
 *
 * Returns the address, or NULL when there is no such function. */
void *hw__next_function(const char *name);

/* Finds the C library's own function of that name, in its default version, even if another library
 * replaces it. No slot is involved.
 *
 * Any thread may call it; not async-signal-safe. The address stays valid for the process.
 *
 * Returns the address, or NULL when there is no such function. */
void *hw__real_function(const char *name);

#endif
