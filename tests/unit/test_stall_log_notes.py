"""The note beside a log of stalls: it keeps each kind of reason for which stalls may be missing."""

import os

import pytest

from headway.live.stall_log import Gaps, gap_in, note_gap


@pytest.fixture
def log(tmp_path):
    """Return the path of a log in a folder that is there."""
    return tmp_path / "app.stalls.jsonl"


def test_a_note_keeps_each_kind_of_reason_with_its_last_time(log):
    """Processes that could not be watched do not hide that a watcher was killed before; the newest reason comes first."""
    assert note_gap(log, "a watcher was killed between 2026-11-30 10:00:00 UTC and 2026-11-30 10:05:00 UTC")
    for pid in (7, 12, 399):
        assert note_gap(
            log, f"process {pid} is not watched:\nno file is left; last at 2026-12-01 09:00:0{pid % 10} UTC"
        )

    note, text = gap_in(log)

    assert note == log.with_name("app.stalls.jsonl.incomplete")
    assert text == (
        "stalls may be missing here, as process 399 is not watched: no file is left; last at 2026-12-01 09:00:09 UTC; and as "
        "a watcher was killed between 2026-11-30 10:00:00 UTC and 2026-11-30 10:05:00 UTC"
    )


def test_a_note_has_a_few_reasons(log):
    """Reasons without end, as paths of their own, do not fill the disk, and a long one is cut where it is shown."""
    for letter in "abcdef":
        assert note_gap(log, f"{letter} failed" + letter * 500)

    text = gap_in(log)[1]

    assert [text.find(f" {letter} failed") > 0 for letter in "abcdef"] == [False, False, True, True, True, True]
    assert len(text) < 4 * 420


def test_a_log_that_could_not_be_written_is_one_of_the_reasons(log):
    """Stalls are missing then for certain, and the other reason stays."""
    assert note_gap(log, "a watcher was killed")
    assert note_gap(log)

    text = gap_in(log)[1]

    assert text.startswith("stalls are missing here, as the log could not be written; last at 20")
    assert text.endswith("; and as a watcher was killed")


def test_a_full_disk_has_room_for_an_empty_note(log, room):
    """An empty note stands for a log that could not be written; any other reason is noted later, beside it."""
    gaps = Gaps(log)
    room(0)
    assert note_gap(log)
    assert log.with_name("app.stalls.jsonl.incomplete").read_bytes() == b""
    assert gap_in(log)[1].startswith("stalls are missing here, as the log could not be written; last at 20")
    for why in ("process 3 is not watched", "process 4 is not watched", "a recording could not be written"):
        gaps.note(why)
    assert "process" not in gap_in(log)[1]

    room()
    gaps.write()

    assert [one.partition("; last")[0] for one in gap_in(log)[1].partition(", as ")[2].split("; and as ")] == [
        "a recording could not be written",
        "process 4 is not watched",
        "the log could not be written",
    ]


def test_a_path_in_a_reason_may_be_no_text(log):
    """A folder's name may have any bytes."""
    assert note_gap(log, os.fsdecode(b"a stall could not be explained; /caf\xe9 has the recording"))
    assert "/caf? has the recording" in gap_in(log)[1]


def test_a_note_may_be_a_link_of_somebody_else(log, tmp_path):
    """In a folder that others may write to, a link does not lead the note into another file."""
    other = tmp_path / "other"
    other.write_text("theirs")
    log.with_name("app.stalls.jsonl.incomplete").symlink_to(other)

    assert not note_gap(log, "a watcher was killed")
    assert other.read_text() == "theirs"
