"""The program that reads damaged traces: what counts as a failure of the reader."""

import fuzz_traces

from headway.errors import TraceError


def test_violations_count_also_if_a_part_is_refused(tmp_path, monkeypatch):
    """A violation of the whole trace is reported even if the reader then refuses to read a part of the file."""

    def refuse(*_, **__):
        raise TraceError("damaged", hint="record it again")

    monkeypatch.setattr(fuzz_traces, "read", lambda _: None)
    monkeypatch.setattr(fuzz_traces, "violations", lambda _: ["time goes back"])
    monkeypatch.setattr(fuzz_traces, "read_part", refuse)

    assert fuzz_traces.trouble(tmp_path / "x.hwt") == "time goes back"


def test_a_file_that_is_refused_is_no_failure(tmp_path):
    """The reader may refuse any bytes; any other exception than its own is a failure."""
    (tmp_path / "x.hwt").write_bytes(b"no trace")

    assert fuzz_traces.trouble(tmp_path / "x.hwt") == ""


def test_another_exception_is_a_failure(tmp_path, monkeypatch):
    """The failure has the traceback."""
    monkeypatch.setattr(fuzz_traces, "read", lambda _: 1 // 0)

    assert "ZeroDivisionError" in fuzz_traces.trouble(tmp_path / "x.hwt")
