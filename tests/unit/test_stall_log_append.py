"""Lines that are appended to a log of stalls on a disk that becomes full: none is glued to a part of another one."""

import json
import os

import pytest

from headway.live.stall_log import StallLog, append, here
from headway.traces.analysis.stall_sums import told_rows

ROWS = [{"number": number, "pad": "x" * 90} for number in range(3)]
LINES = [json.dumps(row) + "\n" for row in ROWS]


def numbers(path):
    """Return the numbers of a log's rows, None for a line that is no row."""
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line)["number"])
        except ValueError:
            found.append(None)
    return found


@pytest.mark.parametrize("fits", [1, len(LINES[0]) - 1, len(LINES[0]), len(LINES[0]) + 1, 2 * len(LINES[0]) + 7])
def test_the_line_after_one_that_was_cut_off_is_whole(tmp_path, room, fits):
    """The part that the disk took stays; the rest is an error, and the rows that are written once there is room are complete."""
    log = tmp_path / "it.stalls.jsonl"
    room(fits)
    with pytest.raises(OSError, match="File too large"):
        append(log, ROWS)
    assert log.read_text() == "".join(LINES)[:fits]
    assert log.stat().st_mode & 0o777 == 0o600
    room()
    append(log, [{"number": 7}])
    append(log, [{"number": 8}])

    whole = fits // len(LINES[0])
    cut = [None] if fits % len(LINES[0]) not in (0, len(LINES[0]) - 1) else []
    if fits == len(LINES[0]) - 1:
        whole = 1  # only its newline did not fit
    assert numbers(log) == [*range(whole), *cut, 7, 8]


def test_the_rest_of_a_line_is_written_anew(tmp_path, monkeypatch):
    """The disk has room again at once: another watcher may have written in between, so the whole line follows."""
    log = tmp_path / "it.stalls.jsonl"
    write = os.write
    taken = iter([len(LINES[0]) + 5])
    monkeypatch.setattr("os.write", lambda file, data: write(file, data[: next(taken, len(data))]))
    append(log, ROWS)

    assert numbers(log) == [0, None, 1, 2]


def test_a_stall_after_a_full_disk_is_counted(tmp_path, room):
    """The sums of a Dask worker's stalls have it."""
    log = tmp_path / "it.stalls.jsonl"
    counted = StallLog(log)
    row = {"pid": counted._ours["pid"], **here(), "goes_on": False, "kind": "event loop", "cause": "GIL"}
    room(40)
    with pytest.raises(OSError, match="File too large"):
        append(log, [row | {"parts": []}])
    counted.read()
    room()
    append(log, [row | {"parts": [{"cause": "GIL", "time_s": 0.5}], "line": "it"}])
    counted.read()

    assert (counted.by_cause, counted.last) == ({"GIL": [1, 0.5]}, "it")


def test_a_line_that_another_watcher_has_half_written_is_left_whole(tmp_path, monkeypatch):
    """It may be complete when the newline comes; the empty line behind it is no entry that is left out."""
    log = tmp_path / "it.stalls.jsonl"
    row = {"began": "2026-01-01T00:00:00+00:00", "length_s": 1, "parts": []}
    append(log, [row])
    monkeypatch.setattr("os.pread", lambda *_: b'"')
    append(log, [row])

    with log.open() as file:
        assert told_rows(file) == ([row, row], 0)


def test_stalls_after_a_log_was_emptied_are_counted(tmp_path):
    """With `copytruncate`, logrotate copies the file, and then makes it empty: it is still the same file."""
    log = tmp_path / "it.stalls.jsonl"
    counted = StallLog(log)
    row = {"pid": counted._ours["pid"], **here(), "goes_on": False, "kind": "event loop", "cause": "GIL", "parts": []}
    append(log, [row, row])
    counted.read()
    os.truncate(log, 0)
    append(log, [row])
    counted.read()

    assert counted.by_cause == {"GIL": [3, 0]}
