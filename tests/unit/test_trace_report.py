"""Traces on the terminal and on the command line."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from made_traces import MS, made_trace
from rich.cells import cell_len
from rich.console import Console
from told_traces import AT_RECV, RECV, Script, convoy

from headway.cli import main
from headway.report.figures import Table
from headway.report.trace.long import shown
from headway.report.trace.summary import short_summary, summary_lines
from headway.report.trace.terminal import render_traces
from headway.traces import writer
from headway.traces.analysis import analyse
from headway.traces.frames import CUT
from headway.traces.model import Frame, Kind, Loss, Park


def text_of(rendered, width=100):
    console = Console(file=io.StringIO(), width=width)
    console.print(rendered)
    return console.file.getvalue()  # type: ignore[attr-defined]


def words(text):
    """Return a text without its line breaks."""
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("width", [80, 200])
def test_a_trace_is_readable_at_every_width(width):
    """Every part is there at 80 and at 200 columns, no line is too wide, and no figure is cut off."""
    shown = text_of(render_traces([analyse(convoy())]), width)
    lines = shown.splitlines()

    assert max(map(cell_len, lines)) <= width
    assert "…" not in shown
    headings = ("Findings", "Threads", "GIL: held 100 % of the time, waited for 100 ms", "Where the GIL was held")
    at = [[line.rstrip() for line in lines].index(heading) for heading in headings]
    assert at == sorted(at)
    assert "reader waited 20 times (199/s) for the GIL behind cruncher" in words(shown)
    for figure in ("cruncher", "[101]", "[102]", "app.py:12 compute", "100 ms", "reader behind cruncher"):
        assert figure in words(shown)


def test_tables_hold_the_figures():
    """The rows of threads, blame and convoys have what the analysis found."""
    shown = text_of(render_traces([analyse(convoy())]), 200)
    rows = {line.split("  ")[0]: line.split() for line in (line.strip() for line in shown.splitlines()) if line}

    assert " ".join(rows["reader [102]"][2:12]) == "400 us 0.4 % 100 ms 100 % 20 -"
    assert " ".join(rows["reader"]) == "reader 100 ms - - 100 ms"
    assert " ".join(rows["reader behind cruncher"]).startswith(
        "reader behind cruncher 100 ms 20 20 199/s 5 ms 5 ms 100 %"
    )


def test_long_tables_are_cut_unless_all_is_asked_for():
    """A table of sixty rows shows ten, and how many more there are; with `every` all of them, within the width."""
    found = analyse(made_trace(threads=60, events=6000))
    found = replace(found, roles=())  # their names differ in numbers only
    few, every = (text_of(render_traces([found], every=one), 90) for one in (False, True))

    assert f"... and {len(found.threads) - 10} more: `--all` shows them" in few
    assert "--all" not in every
    assert all(f"{thread.label} [{thread.tid}]" in every for thread in found.threads)
    assert max(map(cell_len, every.splitlines())) <= 90


def test_a_pool_is_one_row_unless_all_is_asked_for():
    """Sixty threads of few roles are as many rows, with the number of threads in each."""
    found = analyse(made_trace(threads=60, events=6000))
    few, every = (text_of(render_traces([found], every=one), 200) for one in (False, True))

    assert [one.label for one in found.roles if one.threads > 1] == ["cpu-*", "io-*"]
    for one in found.roles:
        assert f"{one.label} x {one.threads}" in few or one.threads == 1
    assert "`--all` shows each" in few
    assert all(f"{thread.label} [{thread.tid}]" in every for thread in found.threads)


def test_shares_of_a_pool_are_of_the_time_for_which_its_threads_lived():
    """Ten threads that live one after the other, and wait for half of their lives, wait for 50 % of the time."""
    script = Script()
    for at in range(10):
        script.hold(10, at * 10, at * 10 + 5).wait(at, at * 10).hold(at, at * 10 + 5, at * 10 + 6)
    trace = script.trace(100, *(f"request-{at}" for at in range(10)), "cruncher")
    lives = [
        replace(one, start_ns=trace.start_ns + at * 10 * MS, end_ns=trace.start_ns + (at + 1) * 10 * MS)
        for at, one in enumerate(trace.threads[:10])
    ]
    shown = text_of(render_traces([analyse(replace(trace, threads=(*lives, trace.threads[10])))]), 200)

    row = next(line for line in shown.splitlines() if line.startswith("  request-* x 10 "))
    assert " ".join(row.split()[:11]) == "request-* x 10 10 ms 10 % 50 ms 50 %"


def test_an_idle_window_of_a_build_with_a_gil_says_that_no_thread_used_it():
    """The heading has the words of a build with a GIL, and a finding says that nothing waits in a window without events."""
    trace = Script().hold(0, 0, 1).hold(0, 90, 91).trace(100)
    found = analyse(trace, since_ns=trace.start_ns + 10 * MS, until_ns=trace.start_ns + 80 * MS)
    shown = words(text_of(render_traces([found])))

    assert "70 ms, 0 events, no use of the GIL, switch interval 5 ms" in shown
    assert "ok no thread held or wanted the GIL here" in shown
    assert "no GIL used" not in shown


@pytest.mark.parametrize(("until", "word"), [(15, "(goes on after the window)"), (20, "(still held)")])
def test_a_hold_that_goes_on_after_the_window_says_so(until, word):
    """The longest hold of a window may go on after it; only one without an end in the trace is still held."""
    trace = Script().add(10, 0, Kind.ACQUIRE).trace(20)
    shown = words(text_of(render_traces([analyse(trace, until_ns=trace.start_ns + until * MS)])))

    assert f"? {word}" in shown


def test_many_gils_are_cut_unless_all_is_asked_for():
    """Four of seven sub-interpreters are shown, and how many more there are."""
    found = analyse(made_trace(threads=7, gils=7, events=700))

    assert "... and 3 more GILs: `--all` shows them" in text_of(render_traces([found]))
    assert "more GILs" not in text_of(render_traces([found], every=True))


@pytest.mark.parametrize(("until_ms", "shown"), [(50, "1"), (0.123, "0.123"), (0.01, "< 0.1")])
def test_the_bars_of_waiting_threads_tell_their_highest_mean(until_ms, shown):
    """A bar is the mean of a stretch of the time, so one thread that waited for a part of it is less than one thread."""
    trace = Script().hold(0, 0, until_ms).wait(1, 0).hold(1, until_ms, 100).trace(100, "a", "b")
    (line,) = [line for line in text_of(render_traces([analyse(trace)])).splitlines() if line.startswith("  waiting ")]

    assert line.rstrip().endswith(f"max mean {shown}")


def test_long_names_in_long_tables_are_broken_over_lines():
    """A name that is wider than half the terminal has lines of its own, and figures stay in their columns."""
    rows = [("x" * 70, f"{number}") for number in range(50)]
    lines = text_of(shown(Table("caption", ("", "figure"), tuple(rows), 1)), 60).splitlines()

    assert max(map(cell_len, lines)) <= 60
    assert [line.split()[-1] for line in lines if re.search(r" \d+ *$", line)] == [str(number) for number in range(50)]


@pytest.mark.parametrize("width", [30, 80, 200])
def test_figures_below_long_headings_are_whole(width):
    """The heading of a column may be the name of a thread, which is broken over lines where it has no room."""
    heading = "/srv/app/workers/a-very-long-name-of-a-thread-pool_0"
    rows = [(f"waiter with a name of some length {number}", f"{number + 100} ms", "5 s") for number in range(50)]
    lines = text_of(shown(Table("caption", ("", heading, "total"), tuple(rows), 1)), width).splitlines()
    head = [line.strip() for line in lines[: [line.strip()[:1] for line in lines].index("─")]]

    assert max(map(cell_len, lines)) <= width
    assert heading in "".join(head).replace("total", "")
    assert re.findall(r" (\d{3}) ms", "\n".join(lines)) == [f"{number + 100}" for number in range(50)]
    assert len(re.findall(r" 5 s *$", "\n".join(lines), re.MULTILINE)) == 50


def test_only_the_threads_that_are_asked_for():
    """Threads that were not chosen have no row."""
    shown = text_of(render_traces([analyse(convoy(), threads={1})], threads=[{1}]), 200)

    assert "reader [102]" in shown
    assert "cruncher [101]" not in shown


def test_only_the_locks_of_the_threads_that_are_asked_for():
    """The locks are those of the chosen threads, and findings are of all threads."""
    script = Script().park(0, 0, 3, Park.OBJECT, of=1).park(1, 1, 5, Park.OBJECT, of=1, stack=AT_RECV)
    trace = script.trace(5, "a", "b", gils=0, types=("", "dict"), free_threaded=True, gil_enabled=False)
    found = analyse(trace, threads={1})

    assert [(one.frame, one.times.total_ns) for one in found.contention.places] == [(RECV, 4 * MS)]
    assert sum(one.kind == "contended-lock" for one in found.findings) == 2


def test_processes_stand_worst_first():
    """The process whose threads waited most comes first."""
    calm, busy = Script().hold(0, 0, 1).trace(9, pid=1, program="calm.py"), convoy(pid=2, program="busy.py")
    shown = text_of(render_traces([analyse(calm), analyse(busy)]))

    assert (
        shown.index("process 1 of 2") < shown.index("busy.py") < shown.index("process 2 of 2") < shown.index("calm.py")
    )


def test_a_stack_that_is_cut_says_that_more_callers_are_not_recorded():
    """The number of frames further out is then a least one, and does not count the frame that stands for the rest."""
    trace = convoy()
    deep = tuple(Frame("app.py", line, "descend", 1) for line in range(1, 17))
    outer = (CUT, *deep)
    made = replace(
        trace,
        frames=(*trace.frames[:1], *outer),
        stack_parent=np.arange(-1, len(outer)).clip(0),
        stack_frame=np.arange(len(outer) + 1),
        events=trace.events.copy(),
    )
    made.events["value"][made.events["kind"] == Kind.RELEASE] = len(outer)
    whole = replace(made, frames=(*made.frames[:1], deep[0], *made.frames[2:]))

    assert "... and at least 4 frames further out; the rest is not recorded" in words(
        text_of(render_traces([analyse(made)]))
    )
    assert "... and 5 frames further out" in words(text_of(render_traces([analyse(whole)])))


def test_locks_are_shown_where_there_is_no_gil():
    """A free-threaded trace has a table of locks with their kind and type, and none of threads."""
    script = Script().park(0, 0, 3, Park.OBJECT, of=1)
    shown = text_of(render_traces([analyse(script.trace(5, "a", types=("", "dict"), gils=0, free_threaded=True))]))

    assert "object (dict), app.py:30 serve" in shown
    assert "Threads" not in shown


def test_a_lock_in_a_library_is_shown_with_the_programs_own_line():
    """A wait in `queue.py` or `threading.py` is the program's: its line tells which of its queues that is."""
    trace = Script().park(0, 0, 3, Park.LOCK, stack=AT_RECV).trace(5, "a", gils=0, free_threaded=True)
    shown = text_of(render_traces([analyse(trace)], every=True))

    assert "SocketIO.readinto (from app.py:30 serve)" in words(shown)


def test_the_summary_is_short():
    """The summary has who waited, behind whom, the longest hold and what to try, in at most ten lines."""
    lines = summary_lines([analyse(convoy())])

    assert lines[:4] == [
        "app.py (pid 4242): 100 ms, 2 threads, 141 events",
        "  the GIL held 100 % of the time, waited for 100 ms in 40 waits (p50 20 us, p99 5 ms, max 5 ms)",
        "  waited most: reader, 100 ms, 100 ms of it behind cruncher",
        "  longest hold: cruncher, 5 ms, ended at app.py:12 compute",
    ]
    assert lines[4].startswith("  ! reader waited 20 times")
    assert lines[5].startswith("    try: move the work")
    assert len(lines) <= 10


def test_the_summary_of_many_processes_is_short_too():
    """The summary of five processes shows three, and how long the others waited."""
    lines = summary_lines([analyse(convoy(pid=number)) for number in range(5)])

    assert len(lines) <= 20
    assert lines[-1] == "... and 2 processes more, which waited 201 ms in total"
    assert summary_lines([]) == ["nothing was recorded"]


def test_processes_without_a_gil_are_ordered_by_their_waits_for_locks():
    """Waits for locks of objects count where there is no GIL; a wait for a lock of the program may be idle time."""
    scripts = [Script().park(0, 0, at, Park.OBJECT).park(1, 0, 50 - at, Park.LOCK) for at in range(1, 6)]
    found = [
        analyse(one.trace(50, "a", "b", gils=0, pid=pid, free_threaded=True, gil_enabled=False))
        for pid, one in enumerate(scripts, 1)
    ]
    lines = summary_lines(found)

    assert [line.split(":")[0] for line in lines if "pid" in line] == [
        f"app.py (pid {number})" for number in (5, 4, 3, 1)
    ]
    assert lines[-1] == "... and 1 process more, which waited 2 ms in total"


def test_losses_stand_in_the_summary():
    """Missing events are mentioned before what follows from the others."""
    lines = summary_lines([analyse(Script().hold(0, 0, 1).trace(9, loss=Loss(dropped_events=5)))])

    assert "  note this trace is incomplete: 5 events not recorded because there was no room" in lines
    assert "5 events not recorded" in text_of(short_summary([analyse(Script().trace(9, loss=Loss(dropped_events=5)))]))


@pytest.fixture
def recording(tmp_path):
    """Return the path of a recorded convoy."""
    return writer.write(convoy(), tmp_path / "app.hwt")


def test_report_shows_a_trace_file(recording, capsys):
    """`headway report FILE.hwt` prints the trace, and a window of it."""
    assert main(["report", str(recording)]) == 0
    assert "reader waited 20 times" in words(capsys.readouterr().out)

    assert main(["report", str(recording), "--since", "0.05", "--until", "0.06"]) == 0
    assert "only from 50 ms to 60 ms after the start" in capsys.readouterr().out


@pytest.fixture
def launch(tmp_path):
    """Return the path of the trace of a process that lives for 1 s, beside that of a child that begins after 20 s."""
    parent = Script().hold(0, 0, 1).trace(1_000, "MainThread")
    child = Script().hold(0, 0, 1).hold(0, 400, 500).trace(1_000, "worker", pid=4300, program="child.py")
    later = child.events.copy()
    later["time_ns"] += 20_000 * MS
    threads = tuple(replace(one, start_ns=one.start_ns + 20_000 * MS) for one in child.threads)
    times = {"start_ns": child.start_ns + 20_000 * MS, "end_ns": child.end_ns + 20_000 * MS}
    writer.write(replace(child, events=later, threads=threads, **times), tmp_path / "app.4300.hwt")
    return writer.write(parent, tmp_path / "app.hwt")


def test_all_times_of_a_launch_count_from_its_first_process(launch, tmp_path, capsys):
    """The times that a child's report and page show are those that `--since` and `--until` take."""
    assert main(["report", str(launch)]) == 0
    shown = words(capsys.readouterr().out)
    assert "began 20 s after the first process of the launch, from whose start all times here count" in shown
    assert re.search(r"compute worker 100 ms - 20\.4 s", shown)
    assert "20 s 21 s" in shown  # the bars

    assert main(["report", str(launch), "--since", "20.4", "--until", "20.6", "--html", f"{tmp_path}/x.html"]) == 0
    page = json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "x.html").read_text(), re.DOTALL)[1])
    (view,) = page["views"]
    assert (view["begin_ns"], view["span_ns"]) == (20_400_000_000, 200_000_000)
    assert "only from 20.4 s to 20.6 s after the start" in view["lines"]
    assert [mark["text"] for mark in view["marks"]] == ["worker held 100 ms at app.py:12 compute"]


def test_an_empty_window_tells_when_the_chosen_threads_were_recorded(launch, capsys):
    """The hint counts as the options do, also if only threads of a later process are chosen."""
    assert main(["report", str(launch), "--thread", "worker", "--since", "0", "--until", "10"]) == 2
    assert "the recording lasts from 20 s to 21 s" in capsys.readouterr().err


def test_report_knows_a_trace_by_its_first_bytes(recording, capsys):
    """A trace file may have any name."""
    assert main(["report", str(recording.rename(recording.with_suffix(".bin"))), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["processes"]) == 1


def test_report_prints_a_trace_as_json(recording, capsys):
    """`--json` prints one object with the processes, and nothing else."""
    assert main(["report", str(recording), "--json", "--thread", "read*"]) == 0
    (process,) = json.loads(capsys.readouterr().out)["processes"]

    assert process["findings"][0]["kind"] == "convoy"
    assert [one["frame"]["function"] for one in process["held"]] == ["SocketIO.readinto"]


@pytest.mark.parametrize(
    ("options", "name"),
    [(["--perfetto"], "x.pftrace"), (["--gecko"], "x.json"), (["--of", "wait", "--collapsed"], "x.txt")],
)
def test_report_exports_a_trace(recording, tmp_path, capsys, options, name):
    """Each format is written to its file, and a second time only with `--force`."""
    path = tmp_path / name
    arguments = ["report", str(recording), *options, str(path)]

    assert main(arguments) == 0
    assert path.stat().st_size > 0
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", f"wrote {path}\n")
    assert main(arguments) == 2
    assert "is there already" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0


def test_collapsed_stacks_of_a_trace_without_a_gil(tmp_path, capsys):
    """Without a GIL, the time waited is that for locks, and the time held is refused before anything is written."""
    script = Script().park(0, 0, 3, Park.LOCK).park(0, 4, 5, Park.OBJECT).park(1, 1, 2, Park.LOCK, stack=AT_RECV)
    trace = script.trace(5, "a", "b", gils=0, free_threaded=True, gil_enabled=False)
    recording, path = writer.write(trace, tmp_path / "free.hwt"), tmp_path / "out.txt"

    assert main(["report", str(recording), "--of", "wait", "--collapsed", str(path)]) == 0
    assert path.read_text().splitlines() == [
        "app.py 4242;a;serve (app.py:30) 4000000",
        "app.py 4242;b;serve (app.py:30);SocketIO.readinto (/usr/lib/python3.13/socket.py:700) 1000000",
    ]
    path.unlink()
    assert main(["report", str(recording), "--collapsed", str(path)]) == 2
    assert "the program ran without a GIL, so no stack held it" in capsys.readouterr().err
    assert not path.exists()


def test_report_writes_pages_of_one_trace_and_of_two(recording, tmp_path, capsys):
    """Two traces side by side are named after their files, and a window is that of both."""
    other = writer.write(convoy(rounds=5), tmp_path / "later.hwt")
    path = tmp_path / "page.html"
    command = ["report", str(recording), "--beside", str(other), "--html", str(path)]

    assert main(command) == 0
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", f"wrote {path}\n")
    page = json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])
    assert [view["label"] for view in page["views"]] == ["app", "later"]
    assert [sum(lane["waits"] for lane in view["lanes"]) for view in page["views"]] == [40, 10]

    assert main([*command, "--force", "--since", "0.01", "--until", "0.02"]) == 0
    page = json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])
    assert {(view["begin_ns"], view["span_ns"]) for view in page["views"]} == {(10_000_000, 10_000_000)}


def test_two_traces_of_one_name_are_both_there(recording, tmp_path):
    """Two files of one name, in different folders, are numbered on the page."""
    (tmp_path / "other").mkdir()
    other = writer.write(convoy(rounds=5), tmp_path / "other" / "app.hwt")
    path = tmp_path / "page.html"

    assert main(["report", str(recording), "--beside", str(other), "--html", str(path)]) == 0
    page = json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])
    assert [view["label"] for view in page["views"]] == ["app (1)", "app (2)"]


@pytest.mark.parametrize("option", ["--html", "--perfetto"])
def test_no_output_replaces_a_trace(recording, tmp_path, capsys, option):
    """A trace beside the shown one, or any other, is never overwritten, even by force."""
    other = writer.write(convoy(rounds=5), tmp_path / "later.hwt")
    before = other.read_bytes()

    assert main(["report", str(recording), option, str(other), "--force"]) == 2
    assert f"{other} is a trace" in capsys.readouterr().err
    assert other.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--thread", "nobody"], "no thread is called `nobody`"),
        (["--since", "5"], "nothing was recorded in this window"),
        (["--since", "2", "--until", "1"], "the window from 2 s to 1 s is empty"),
        (["--of", "hold"], "`--of hold` says what collapsed stacks count"),
        (["--since", "0.1", "--gecko", "x.json"], "`--gecko` always writes the whole trace"),
        (["--until", "9", "--perfetto", "x.pftrace"], "`--perfetto` always writes the whole trace"),
        (["--thread", "a", "--collapsed", "x.txt"], "`--collapsed` always writes the whole trace"),
        (["--verdicts"], "`--verdicts` is for runs of the lab"),
        (["--perfetto", "/nowhere/x"], "the folder /nowhere is not there"),
        (["--perfetto", "{folder}/x", "--gecko", "{folder}/x"], "`--perfetto` and `--gecko` name the same file"),
        (["--perfetto", "{folder}/app.hwt", "--force"], "is the trace itself"),
    ],
)
def test_bad_arguments_for_a_trace_are_told(recording, capsys, options, message):
    """A bad argument gives a sentence with a hint, before anything is written, and exit code 2."""
    assert main(["report", str(recording), *(one.format(folder=recording.parent) for one in options)]) == 2
    error = capsys.readouterr().err

    assert message in error
    assert "hint: " in error


@pytest.mark.parametrize("text", ["-1", "inf", "nan", "soon"])
def test_a_time_is_a_number_of_seconds(recording, capsys, text):
    """The option `--since` takes a number from 0 on."""
    with pytest.raises(SystemExit) as stopped:
        main(["report", str(recording), f"--since={text}"])

    assert stopped.value.code == 2
    assert f"'{text}' is not a number of seconds of at least 0" in capsys.readouterr().err


def test_options_of_a_trace_are_refused_for_a_run(capsys):
    """`headway report last --thread x` says that a trace is wanted."""
    assert main(["report", "last", "--thread", "x"]) == 2
    assert "`--thread` is for traces, and `last` is not a trace file" in capsys.readouterr().err


def test_files_that_are_no_traces_are_told(tmp_path, capsys):
    """A file that does not exist, or is no trace, is named; the exit code is 6."""
    (tmp_path / "text.hwt").write_text("not a trace")

    for name in ("text.hwt", "missing.hwt"):
        assert main(["report", str(tmp_path / name)]) == 6
        assert name in capsys.readouterr().err


@pytest.mark.parametrize(
    ("begin", "why", "hint"),
    [
        (b"\x1f\x8b\x08", "it is packed by gzip", "unpack it"),
        (b"plain", "it does not begin like one", "name a file that `headway trace` wrote"),
    ],
)
def test_a_file_that_is_no_trace_is_not_taken_for_a_run(tmp_path, capsys, monkeypatch, begin, why, hint):
    """The name of a file in the working directory may have no slash, as that of a run."""
    (tmp_path / "app.hwt.gz").write_bytes(begin)
    monkeypatch.chdir(tmp_path)

    for name in ("app.hwt.gz", "./app.hwt.gz"):
        assert main(["report", name, "--store", str(tmp_path / "results.sqlite")]) == 6
        err = capsys.readouterr().err
        assert f"{name} is not a trace: {why}" in err
        assert f"hint: {hint}" in err
