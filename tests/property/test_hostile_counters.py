"""Counters of any values in a process's memory: `headway top` shows or refuses them, and allocates little."""

import json
import mmap
import os

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from live_image import SLOTS_OFFSET, image, make_header
from sample import examples

from headway.cli import top_view
from headway.errors import RecordingError
from headway.live.watch import Monitor, Watch
from headway.traces import format as hwt

u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
edges = st.sampled_from([0, 1, 2, 7, 8, 9, 512, SLOTS_OFFSET, 2**16, 2**31, 2**32 - 1])
header_fields = st.fixed_dictionaries(
    {},
    optional={
        "slot_count": edges | u32,
        "slots_offset": edges | st.sampled_from([2**63 - 1, 2**63, 2**64 - 1]) | u64,
        "thread_count": edges | u32,
        "flags": edges | u32,
        "start_ns": st.integers(-(2**63), 2**63 - 1),
        "program": st.binary(max_size=hwt.PATH_BYTES).map(lambda one: np.void(one.ljust(hwt.PATH_BYTES, b"\xff"))),
    },
)
SLOTS_BYTES = 8 * hwt.SLOT_DTYPE.itemsize
slots_of = st.one_of(
    st.just(b"\xff" * SLOTS_BYTES),
    st.integers(0, 2**32).map(lambda seed: np.random.default_rng(seed).bytes(SLOTS_BYTES)),
)


def refused():
    """Return whether there is nothing to watch; the error must then have a hint."""
    try:
        Watch(os.getpid()).close()
    except RecordingError as error:
        return bool(error.hint)
    return False


def put(fd, header, slots):
    os.pwrite(fd, header, 0)
    os.pwrite(fd, slots, SLOTS_OFFSET)


@given(
    header_fields,
    header_fields,
    st.tuples(slots_of, slots_of, slots_of),
)
@examples(150)
def test_any_counters_are_shown_or_refused(first, later, slots):
    """Headers and counters of any values, which change while they are read, are shown or refused."""
    fd = os.memfd_create("headway")
    try:
        os.write(fd, image({"serial": 1}))
        put(fd, make_header(**first).tobytes(), slots[0])
        with mmap.mmap(fd, 0):
            if refused():
                return
            monitor = Monitor(os.getpid())
            for header, bytes_ in ((first, slots[1]), (later, slots[2]), (later, slots[0])):
                samples = monitor.sample()
                assert all(line.isprintable() for line in top_view.block(samples, 80))
                json.dumps(top_view.to_json(samples), allow_nan=False)
                put(fd, make_header(**header).tobytes(), bytes_)
            monitor.close()
    finally:
        os.close(fd)


@given(st.binary(max_size=2 * hwt.HEADER_DTYPE.itemsize), st.booleans())
@examples(100)
def test_any_bytes_are_shown_or_refused(data, begins_like_one):
    """A memfd of our name with any contents is shown or refused."""
    fd = os.memfd_create("headway")
    try:
        if begins_like_one:
            data = make_header().tobytes()[: len(data)] + data[len(make_header().tobytes()) :]
        os.write(fd, data or b"\0")
        with mmap.mmap(fd, 0):
            if not refused():
                with Watch(os.getpid()) as one:
                    one.snapshot()
    finally:
        os.close(fd)
