// SPDX-License-Identifier: MIT
/* What the memory of a traced process has besides what format.h describes: how the process and its
 * collector share the chunks. Files have zeros there.
 *
 * The memory is a memfd that cannot be made smaller (F_SEAL_SHRINK), so that nobody's access to it
 * can fail. The process maps it, sends it with a struct hw__hello to its collector's Unix socket,
 * and keeps no descriptor. */
#ifndef HEADWAY_TRACE_CONTROL_H
#define HEADWAY_TRACE_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

#include "headway/trace.h"
#include "trace/format.h"

/* Where the control stands in the page of the header. */
#define HW__CONTROL_OFFSET 3072
#define HW__FILE_BYTES 768

struct hw__control {
    uint64_t claims_offset; /* of chunk_count claims; written before the header's magic */
    /* So many chunks, from the first, may be taken: the collector shares its memory out among the
     * processes of a launch. Relaxed: an old value costs a few chunks. */
    _Atomic uint32_t limit;
    /* Children that could not reach the collector, and so are not recorded. Relaxed: a count. */
    _Atomic uint32_t lost_children;
    /* What was recorded before this moment is in the file; INT64_MAX: all, the recording is over.
     * Release by the collector, acquire. */
    _Atomic int64_t collected_ns;
    char file[HW__FILE_BYTES]; /* where the collector writes to; its last byte stays 0 */
    /* Where frames are, for who looks at the process from outside (src/headway/live/sampling.py);
     * zeros: there are no stacks. Written before the header's magic. */
    struct hw_stack_layout layout;
    /* The collector asks the system itself what CPU time threads get, so that the process need not
     * read its own: a system call for most hand-overs; or the process only counts, and has no place
     * for them. Written by either. Relaxed: an old value costs some readings.
     */
    _Atomic uint32_t no_cpu_times;
};

/* A claim is an _Atomic uint32_t. The process takes a chunk with a compare-and-swap (acquire). The
 * collector gives it back (release) when the chunk was closed, is copied, and is empty again:
 * `state` and `used` are 0. */
#define HW__CLAIM_FREE 0u
#define HW__CLAIM_TAKEN 1u

#define HW__HELLO_MAGIC UINT64_C(0x0A315448574F4C48)

/* What a process sends together with its memory's descriptor. */
struct hw__hello {
    uint64_t magic;
    uint64_t family; /* random: only who belongs to the launch knows it */
};

_Static_assert(sizeof(struct hw__header) <= HW__CONTROL_OFFSET &&
                   HW__CONTROL_OFFSET + sizeof(struct hw__control) <= HW__HEADER_BYTES,
               "header and control fit their page");

static inline struct hw__control *hw__control_of(struct hw__header *header) {
    return (struct hw__control *)((char *)header + HW__CONTROL_OFFSET);
}

#endif
