"""The kind of a call, read from the line that makes it."""

import os

import pytest

from headway.traces.frames import Frame
from headway.traces.loops import home_at, waits_for_a_lock
from headway.traces.sources import changed_since


@pytest.mark.parametrize(
    ("line", "is_lock"),
    [
        ("with self._lock:", True),
        ("    with cache_locks[key], other:", True),
        ("if not guard.acquire(timeout=1):", True),
        ("with self.rlock:", True),
        ("with lock_table(name):", False),
        ("with self.second:", False),
        ("with open(block):", False),
        ("with timer(clock):", False),
        ("with " + "a" * 1_000_000, False),
        ("with self.semantic_index:", False),
        ("answer = client.get(key)", False),
    ],
)
def test_a_lock_in_the_programs_own_line(tmp_path, line, is_lock):
    """A lock has no frame of its own, so the text of the line tells that a thread waits for one."""
    source = tmp_path / "app.py"
    source.write_text(f"def handler():\n{line}\n")

    assert waits_for_a_lock([Frame(str(source), 2, "handler", 1)]) is is_lock


def test_what_is_no_source_is_not_read(tmp_path):
    """A program chooses the names of its code, and a pipe or a device under such a name is left alone."""
    os.mkfifo(tmp_path / "app.py")

    assert not waits_for_a_lock([Frame(str(tmp_path / "app.py"), 1, "handler", 1)])
    assert not waits_for_a_lock([Frame("/dev/zero", 1, "handler", 1)])
    assert not waits_for_a_lock([Frame("/nowhere\0", 1, "handler", 1)])
    for name in (str(tmp_path / "app.py"), "/dev/zero", "/nowhere\0"):
        assert home_at([Frame(name, 1, "main", 1)]) is None
    assert changed_since(["/nowhere\0", __file__], 2**62) == {"/nowhere\0"}
