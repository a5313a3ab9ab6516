"""Times of a report count from the begin of tracing, also where the oldest events were overwritten."""

import json
import re
from dataclasses import replace

import pytest
from made_traces import MS, START_NS
from told_traces import Script

from headway.cli import main
from headway.report.trace.heading import trace_lines
from headway.traces import writer
from headway.traces.analysis import analyse
from headway.traces.reader import read

CHILD_BEGAN_NS = 300 * MS


def words(text):
    """Return a text without its line breaks."""
    return re.sub(r"\s+", " ", text)


def many_holds():
    """Return the trace of a process of a second: a hold every millisecond, and a long one at its end."""
    script = Script()
    for number in range(900):
        script.hold(0, number, number + 0.5)
    return script.hold(0, 950, 990).trace(1_000, "MainThread")


@pytest.fixture
def launch(tmp_path):
    """Return the path of a trace of which the last 200 ms are left, beside that of a child that began after 300 ms."""
    child = Script().hold(0, 0, 1).hold(0, 400, 500).trace(600, "worker", pid=4300, program="child.py")
    events = child.events.copy()
    events["time_ns"] += CHILD_BEGAN_NS
    threads = tuple(replace(one, start_ns=one.start_ns + CHILD_BEGAN_NS) for one in child.threads)
    times = {"start_ns": child.start_ns + CHILD_BEGAN_NS, "end_ns": child.end_ns + CHILD_BEGAN_NS}
    writer.write(replace(child, events=events, threads=threads, **times), tmp_path / "app.4300.hwt")
    return writer.write(many_holds(), tmp_path / "app.hwt", events_per_chunk=20, room=12)


def test_a_trace_tells_how_long_tracing_had_gone_on_at_its_first_event(launch, tmp_path):
    """The overwritten time lies between the begin of tracing and that of the trace; a whole trace has none."""
    cut = read(launch)
    whole = read(writer.write(many_holds(), tmp_path / "whole.hwt"))

    assert cut.start_ns - cut.cut_ns == cut.origin_ns == START_NS < cut.start_ns
    assert (whole.cut_ns, whole.origin_ns) == (0, START_NS)


def test_the_first_process_stays_the_first_one_when_its_begin_was_overwritten(launch, capsys):
    """The child began after it, and times of both count from the begin of tracing, as those of `--since` do."""
    assert main(["report", str(launch), "--all"]) == 0
    reports = words(capsys.readouterr().out).split("Trace of ")[1:]
    first, second = sorted(reports, key=lambda text: text.startswith("child.py"))

    assert "first process of the launch" not in first
    assert re.search(r"its events before 8\d\d ms were overwritten .* times here count from the start", first)
    assert "MainThread 40 ms - 950 ms" in first
    assert "began 300 ms after the first process of the launch" in second
    assert "overwritten" not in second

    assert main(["report", str(launch), "--since", "0.94", "--until", "0.96", "--json"]) == 0
    processes = json.loads(capsys.readouterr().out)["processes"]
    assert [one["events"] > 0 for one in processes if one["process"]["pid"] != 4300] == [True]


def test_an_empty_window_tells_from_when_on_events_are_left(launch, capsys):
    """The hint counts from the begin of tracing, too."""
    launch.with_name("app.4300.hwt").unlink()

    assert main(["report", str(launch), "--since", "0", "--until", "0.5"]) == 2
    assert re.search(r"the recording lasts from 0\.8\d* s to 1 s", capsys.readouterr().err)


def test_a_watchers_recording_counts_from_its_own_begin(launch):
    """It has the last seconds of a process that may have run for months."""
    cut = read(launch)
    kept = replace(cut, evidence=replace(cut.evidence, watched=True))

    assert kept.origin_ns == kept.start_ns
    assert "overwritten" not in " ".join(trace_lines(analyse(kept)))
    assert "overwritten" in " ".join(trace_lines(analyse(cut)))
