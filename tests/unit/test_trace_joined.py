"""A file with two traces, as after `cat a.hwt b.hwt`, is refused: a report of the first one would look like one of both."""

import pytest
from made_traces import made_trace

from headway.cli.main import main
from headway.errors import TraceError
from headway.traces.reader import read, read_part
from headway.traces.writer import write


def joined(folder):
    """Return two traces, and a file that has one after the other."""
    parts = [write(made_trace(events=events), folder / f"{events}.hwt") for events in (500, 50)]
    whole = folder / "joined.hwt"
    whole.write_bytes(b"".join(one.read_bytes() for one in parts))
    return parts, whole


def test_a_second_trace_in_a_file_is_refused(tmp_path, capsys):
    """The error tells where the second trace begins; the report prints nothing."""
    (first, _), whole = joined(tmp_path)
    at = first.stat().st_size

    for reading in (read, lambda path: read_part(path, lambda _: (0, 1), most=0)):
        with pytest.raises(TraceError, match=rf"more than one trace: another one begins at byte {at:,}"):
            reading(whole)
    assert main(["report", str(whole)]) != 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "more than one trace" in err
    assert "hint: name the files themselves" in err


def test_the_hint_takes_the_traces_apart(tmp_path):
    """The bytes before the second trace, and those from it on, are the two files."""
    parts, whole = joined(tmp_path)
    with pytest.raises(TraceError) as error:
        read(whole)
    data = whole.read_bytes()
    first, rest = (int(word.strip("`").lstrip("+")) for word in error.value.hint.split() if word.strip("`+").isdigit())

    assert data[:first] == parts[0].read_bytes()
    assert data[rest - 1 :] == parts[1].read_bytes()


def test_other_bytes_after_a_trace_are_no_second_trace(tmp_path):
    """A trace with something else behind it is read as before."""
    whole = write(made_trace(events=50), tmp_path / "x.hwt")
    whole.write_bytes(whole.read_bytes() + b"\x89HWX" * 5000)

    assert len(read(whole).events) == 50
