// SPDX-License-Identifier: MIT
/* The part of a traced process's memory that format.h does not describe: how the process and its
 * collector share the chunks. In files this part is zero.
 *
 * The memory is a memfd that cannot be made smaller (F_SEAL_SHRINK). Where the kernel counts the
 * pages that it promises, all of them are promised at once (`filled`). So no access can fail, in
 * either process, but for want of a page: then the kernel, or a full cgroup's limit, ends some
 * process as for any other memory. The process maps the memory, sends its descriptor with a struct
 * hw__hello to the collector's Unix socket, and keeps no descriptor. */
#ifndef HEADWAY_TRACE_CONTROL_H
#define HEADWAY_TRACE_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

#include "headway/trace.h"
#include "trace/format.h"

/* The offset of struct hw__control in the page of the header. */
#define HW__CONTROL_OFFSET 3072
#define HW__FILE_BYTES 768

/* The most chunks that a process makes: 16 GiB. */
#define HW__MOST_CHUNKS (1u << 20)

struct hw__control {
    /* Offset of the claims, one for each of chunk_count chunks. Written before the header's
     * magic. */
    uint64_t claims_offset;
    /* Only the first `limit` chunks may be taken: the collector divides its memory among the
     * processes of a launch. 0: the collector has refused the process, which gets no file. Relaxed:
     * an old value costs a few chunks. */
    _Atomic uint32_t limit;
    /* The number of forked children that are not recorded, as they could not make a memory or reach
     * the collector. A session with chunks and without a collector (headway.trace()) records no
     * children, and does not count them here. Relaxed: a mere count. */
    _Atomic uint32_t lost_children;
    /* Everything recorded before this time is in the file; INT64_MAX: everything is, and the
     * recording is over. The collector stores it with release; readers load it with acquire. */
    _Atomic int64_t collected_ns;
    char file[HW__FILE_BYTES]; /* the path of the collector's file; its last byte stays 0 */
    /* Where frames are, for a process that looks from outside (src/headway/live/sampling.py); all
     * zero: there are no stacks. Written before the header's magic. */
    struct hw_stack_layout layout;
    /* Not 0: the process does not read its threads' CPU times, which would take a system call for
     * most hand-offs. Either the collector asks the operating system for them, or the process only
     * counts and has no place for them. Both processes may write it. Relaxed: an old value costs
     * some readings. */
    _Atomic uint32_t no_cpu_times;
    /* Not 0: names, code and stacks, which are never overwritten, have their share of the file (or
     * of a memory that is not collected). The process then records new stacks as unknown. Both
     * processes may write it. Relaxed: an old value costs some chunks. */
    _Atomic uint32_t stacks_full;
    /* Not 0: the kernel counts pages, and has promised all of this memory. The collector gives none
     * back: the process could not be sure to get it again. Written before the header's magic. */
    uint32_t filled;
    /* Signs of life of the collector, which adds 1 every half second; 0: there was none yet.
     * Without them the process takes no more chunks (hw__session_silence_ns()). A number, and no
     * time: the collector may be in another time namespace. Relaxed: an old value costs some
     * events. */
    _Atomic uint32_t beats;
};

/* A claim is an _Atomic uint32_t. The process takes a chunk by a compare-and-swap of its claim
 * (acquire). The collector gives the chunk back (release) when the chunk is closed, copied, and
 * empty again, with `state` and `used` 0. */
#define HW__CLAIM_FREE 0u
#define HW__CLAIM_TAKEN 1u

#define HW__HELLO_MAGIC UINT64_C(0x0A315448574F4C48)

/* The message that a process sends together with the descriptor of its memory. */
struct hw__hello {
    uint64_t magic;
    uint64_t family; /* random: only members of the launch know it */
};

_Static_assert(sizeof(struct hw__header) <= HW__CONTROL_OFFSET &&
                   HW__CONTROL_OFFSET + sizeof(struct hw__control) <= HW__HEADER_BYTES,
               "header and control fit their page");

static inline struct hw__control *hw__control_of(struct hw__header *header) {
    return (struct hw__control *)((char *)header + HW__CONTROL_OFFSET);
}

#endif
