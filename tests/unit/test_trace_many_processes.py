"""The report of a launch with many processes: in full those that lost most time and the parent, a line for others."""

import io
import json
import re

import pytest
from made_traces import MS
from rich.console import Console
from told_traces import Script, convoy

from headway.cli import main
from headway.report.trace.summary import summary_lines
from headway.report.trace.terminal import render_traces
from headway.traces import writer
from headway.traces.analysis import analyse


def idle(pid):
    """Return the analysis of a process that waits for nothing."""
    return analyse(Script().hold(0, 0, 1, ran=1.0).trace(9, pid=pid))


@pytest.fixture(scope="module")
def launch():
    """Return a parent with 150 children: one that lost its core, one in a convoy, and the others idle."""
    lacking = analyse(Script().hold(0, 0, 3000, ran=0.5).trace(3000, pid=77))
    return [idle(1), *map(idle, range(100, 248)), lacking, analyse(convoy(pid=88))]


def shown(analyses, **options):
    """Return the report as lines."""
    console = Console(file=io.StringIO(), width=150)
    console.print(render_traces(analyses, **options))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def in_full(lines):
    """Return the ids of the processes that have a full report, in order."""
    return [int(found[1]) for line in lines if (found := re.match(r"Trace of .*\(pid (\d+)\)", line))]


def test_a_report_has_those_that_lost_most_and_the_parent(launch):
    """The process without a core and the one with waits come first; the parent, which lost nothing, is there."""
    lines = shown(launch)
    full = in_full(lines)

    assert full[:2] == [77, 88]
    assert 1 in full
    assert len(full) <= 6
    assert len(lines) < 250
    assert any(line.startswith("process 1 of 151 ") for line in lines)


def test_the_rest_has_a_line_each_and_one_for_all_further_ones(launch):
    """Ten of the others have a line, and the number of further ones is told, with the option that shows them."""
    lines = shown(launch)
    full = in_full(lines)
    at = next(number for number, line in enumerate(lines) if "`--all` shows them in full" in line)
    rest = lines[at + 1 :]

    assert lines[at].startswith(f"{151 - len(full)} more: ")
    assert rest[0] == "app.py (pid 102): 9 ms, waited 0 ns"
    assert len(rest) == 11
    assert rest[-1] == f"... and {151 - len(full) - 10} processes more, which waited 0 ns in total"


def test_a_line_tells_of_a_lack_of_cores_and_of_findings():
    """The line of a process without a report has the time that it lost."""
    worse = [analyse(Script().hold(0, 0, 3000, ran=0.2).trace(3000, pid=pid)) for pid in range(6)]
    lines = shown([*worse, analyse(Script().hold(0, 0, 3000, ran=0.5).trace(3000, pid=77))])

    assert lines[-1] == "app.py (pid 77): 3 s, waited 0 ns, 1.5 s without a core, 1 finding"


def test_all_and_json_have_every_process(launch, tmp_path, capsys):
    """`--all` leaves out no process, and JSON never does."""
    assert len(in_full(shown(launch, every=True))) == len(launch)

    for pid in range(8):
        name = "app" if pid == 0 else f"app.{pid}"
        writer.write(Script().hold(0, 0, 1).trace(9, pid=pid), tmp_path / f"{name}.hwt")
    for options, count in (([], 5), (["--all"], 8)):
        assert main(["report", str(tmp_path / "app.hwt"), *options]) == 0
        assert len(in_full(capsys.readouterr().out.splitlines())) == count
    assert main(["report", str(tmp_path / "app.hwt"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["processes"]) == 8


def test_the_summary_at_the_end_of_a_run_chooses_as_the_report_does(launch):
    """It has fewer processes, by the same rule: the parent is one of them."""
    heads = [line for line in summary_lines(launch) if line.startswith("app.py (pid ")]

    assert [line.split(":")[0] for line in heads[:2]] == ["app.py (pid 77)", "app.py (pid 88)"]
    assert any(line.startswith("app.py (pid 1):") for line in heads)
    assert len(heads) <= 4


def test_processes_stand_by_waits_and_time_without_a_core():
    """A process that lost its core for 1.5 s comes before one whose threads waited for 0.1 s."""
    lacking = analyse(Script().hold(0, 0, 3000, ran=0.5).trace(3000, pid=77))
    waiting = analyse(convoy(pid=88))

    assert waiting.wait_ns < lacking.gils[0].off_core_ns < 1600 * MS
    assert in_full(shown([waiting, lacking])) == [77, 88]
