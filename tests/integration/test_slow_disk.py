"""The bench's slow disk is slow for writes, and leaves nothing behind."""

import os
import time
from pathlib import Path

import pytest
from slow_disk import Impossible, slow_disk

pytestmark = pytest.mark.slow

DELAY_S = 0.3


def test_a_write_takes_as_long_as_was_told_and_nothing_is_left(tmp_path):
    """A sync takes at least the delay, written data can be read, and mounts and loop devices are gone afterwards."""
    try:
        with slow_disk(tmp_path, 64 << 20) as disk:
            file = disk.path / "file"
            descriptor = os.open(file, os.O_CREAT | os.O_RDWR)
            try:
                disk.delay(DELAY_S)
                os.write(descriptor, b"text")
                begun_s = time.monotonic()
                os.fsync(descriptor)
                took_s = time.monotonic() - begun_s
            finally:
                os.close(descriptor)
            assert took_s >= DELAY_S
            assert file.read_bytes() == b"text"
            assert str(disk.path) in Path("/proc/mounts").read_text()
    except Impossible as reason:
        pytest.skip(f"no slow disk here: {reason}")

    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    # The kernel names the file from the root of its own file system, so others' files have other names.
    backing = [one.read_text().strip() for one in Path("/sys/block").glob("loop*/loop/backing_file")]
    assert "/disk.img" not in backing
