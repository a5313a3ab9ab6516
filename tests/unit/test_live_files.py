"""Which trace files belong together, and what is done to them."""

import os
from dataclasses import replace

import pytest
from hwt_writer import write
from made_traces import made_trace

from headway.errors import UsageError
from headway.live.files import check_new, family_files, finish


def traced(path, family, pid):
    """Write a small trace of a process."""
    trace = made_trace(events=100)
    return write(replace(trace, process=replace(trace.process, family=family, pid=pid)), path)


def test_only_traces_of_the_same_launch_belong_together(tmp_path):
    """A file of a like name that is of another launch is no child's, and is not removed with --force."""
    mine = traced(tmp_path / "app.hwt", 1, 10)
    child = traced(tmp_path / "app.11.hwt", 1, 11)
    kept = traced(tmp_path / "app.before.hwt", 2, 12)
    assert family_files(mine) == [mine, child]

    with pytest.raises(UsageError, match="exists"):
        check_new(mine)
    check_new(mine, force=True)

    assert list(tmp_path.iterdir()) == [kept]


def test_only_the_file_of_a_process_that_is_gone_is_cut(tmp_path):
    """What a living process may be about to write to is not cut off; the unused rest of a dead one's file is."""
    gone = os.fork()
    if not gone:
        os._exit(0)
    os.waitpid(gone, 0)
    for pid, is_cut in ((os.getpid(), False), (gone, True)):
        path = traced(tmp_path / f"{pid}.hwt", 1, pid)
        size = path.stat().st_size
        os.truncate(path, size + 1_000_000)

        finish(path)

        assert (path.stat().st_size == size) is is_cut
