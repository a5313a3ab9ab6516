"""The progress of `headway lab` while it measures, on a terminal that may go away."""

import contextlib
import os
import pty
import signal
import sys
import termios
from types import SimpleNamespace

import pytest
from synthetic import make_cell, make_interpreter, make_settings
from test_lab_command import heard, stopped

from headway import lab
from headway.cli import console
from headway.cli.lab_progress import ProgressLine
from headway.cli.main import main
from headway.lab.kept.launched import Launch
from headway.lab.kept.store import Store
from headway.lab.launching.session import Session
from headway.lab.plan import Plan

__all__ = ["heard", "stopped"]

GIL = make_interpreter()
CELL = make_cell("cpu-bound", "serial", GIL.id)


def step(**changes):
    values = {
        "run": "a-run",
        "done": 0,
        "planned": 24,
        "budget_s": 15.0,
        "cell": CELL,
        "block": 0,
        "failed": 0,
        "left_s": None,
    }
    return lab.Progress(**{**values, **changes})


@contextlib.contextmanager
def terminal():
    """Have stdout and stderr on a terminal for the block; yield a function that takes the terminal away."""
    master, slave = pty.openpty()
    there = [master]

    def take_away():
        while there:
            os.close(there.pop())

    streams = [os.fdopen(one, "w") for one in (slave, os.dup(slave))]
    with pytest.MonkeyPatch.context() as patch:
        for name, stream in zip(("stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
        yield take_away
    take_away()
    for stream in streams:
        with contextlib.suppress(OSError):
            stream.close()


def shown(columns, *lines):
    """Return what each line puts on a terminal of so many columns, without the code that replaces the one before."""
    with terminal() as take_away:
        termios.tcsetwinsize(sys.stderr.fileno(), (24, columns))
        with pytest.MonkeyPatch.context() as patch:
            told = []
            patch.setattr(console, "_tell", told.append)
            for line in lines:
                console.rewrite(line)
        take_away()
    return [one.removeprefix("\r\x1b[K") for one in told]


@pytest.mark.parametrize(("columns", "fits"), [(80, 79), (40, 39), (200, 150), (0, 79)])
def test_a_line_that_is_rewritten_fits_into_its_row(columns, fits):
    """The terminal wraps a longer line, of which only the last row is replaced. One that tells no size is a usual one."""
    wide, accents = shown(columns, "漢" * 75, "e\u0301" * 150)

    assert shown(columns, "x" * 150, "short") == ["x" * fits, "short"]
    assert wide == "漢" * min(75, fits // 2)
    assert accents == "e\u0301" * fits


@pytest.mark.parametrize(("name", "rewritten"), [("xterm", True), ("dumb", False)])
def test_a_terminal_that_cannot_rewrite_gets_whole_lines(monkeypatch, name, rewritten):
    """Escape sequences would be visible in it, and every step would be one more line."""
    monkeypatch.setenv("TERM", name)
    told = []
    monkeypatch.setattr(console, "_tell", told.append)
    with terminal():
        line = ProgressLine(brief=False)
        for done in range(3):
            line(step(done=done))
        line(step(done=3, cell=None))

    assert ["\x1b" in one for one in told[1:]] == ([True] * 4 if rewritten else [False])
    assert "3 launches" in told[-1]


def test_a_run_goes_on_without_its_terminal(monkeypatch):
    """Lines that are rewritten, their end, and results are lost with the terminal, and nothing goes elsewhere."""
    written = []
    with terminal() as take_away:
        line = ProgressLine(brief=True)
        line(step())
        take_away()
        line(step(done=1))
        line.end()
        console.print_plain("a result")
        console.print_json({"a": "result"})
        console.print_rendered("a result")
        console.say_rendered("a message")
        line(step(done=2))
        assert sys.stderr is None
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(write=written.append, flush=lambda: None))
        line.end()
    assert written == []


def test_an_error_of_a_disk_is_no_terminal_that_is_gone(monkeypatch, tmp_path):
    """Output that a file cannot take is an error: results would be lost in silence."""
    with (tmp_path / "out").open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)

        def fail(*_, **__):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr("builtins.print", fail)
        with pytest.raises(OSError, match="Input/output error"):
            console.print_plain("a result")


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_terminal_that_is_closed_is_in_the_exit_code(stopped, monkeypatch, options):
    """The hang-up stops the run, and the exit code is that of the signal, although nothing can be shown any more."""
    path, run = stopped

    def measure(*_, report, **__):
        report(step(run=run))
        take_away()
        signal.raise_signal(signal.SIGHUP)

    monkeypatch.setattr(lab, "run", measure)

    with terminal() as take_away:
        code = main(["lab", "sleep", "--store", str(path), *options])
    assert code == 128 + signal.SIGHUP


@pytest.mark.parametrize("columns", ["²", "9" * 5000])
def test_a_width_that_is_no_number_is_none(columns, monkeypatch, capsys):
    """Digits that are no decimal number, or more than any terminal has, leave the width as it would be."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", columns)
    console.print_rendered("a b " * 40)

    assert max(map(len, capsys.readouterr().out.splitlines())) <= 120


def test_what_is_planned_is_a_limit_with_a_budget(capsys):
    """An experiment that the budget does not reach has no launches, so the first line gives their number as a limit."""
    ProgressLine(brief=True)(step(budget_s=1.0))
    ProgressLine(brief=True)(step(budget_s=None))

    with_budget, fixed = capsys.readouterr().err.splitlines()
    assert with_budget.startswith("run a-run: up to 24 launches in first looks, and more")
    assert with_budget.endswith("with a budget of 1 s")
    assert fixed == "run a-run: 24 launches"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"left_s": 4.0, "due": 5}, "4 s of the budget left"),
        ({"left_s": 0.0, "due": 5}, "the time is up, 5 launches to come"),
        ({"left_s": 0.0, "due": 1}, "the time is up, 1 launch to come"),
        ({"left_s": 90.0, "budget_s": None}, "about 90 s left"),
    ],
)
def test_what_is_left_is_said_as_it_is(changes, said, monkeypatch):
    """A first look goes on when the budget is spent: then its launches are told, and no seconds."""
    lines = []
    monkeypatch.setattr(console, "rewrite", lines.append)
    with terminal():
        ProgressLine(brief=True)(step(**changes))

    (shown,) = lines
    assert f", {said}: cpu-bound serial" in shown
    assert "at most" not in shown


def test_launches_that_are_due_are_those_that_follow(tmp_path):
    """When the time is up, exactly as many launches follow as the report says, and no later experiment begins."""
    cells = tuple(
        make_cell(name, label, GIL.id, model=label)
        for name in ("cpu-bound", "sha256")
        for label in ("serial", "threads")
    )
    plan = Plan("quick", 3, 2.5, 1, 30.0, None, cells, ())
    told = []
    with Store(tmp_path / "results.sqlite", create=True) as store:
        settings = make_settings(launches=3, budget_s=2.5, interpreters=(GIL,), experiments=plan.experiments)
        session = Session(store, store.new_run(settings, cells), told.append)
        session.carry_out(plan, lambda cells, _: [Launch("ok", samples={"work_s": [1.0]}, wall_s=1.0) for _ in cells])

    begun = [one for one in told if one.cell is not None]
    over = [one for one in begun if one.left_s <= 0]
    assert [one.due for one in over] == list(range(len(over), 0, -1))
    assert len(over) > 1
    assert {one.cell.experiment for one in begun} == {"cpu-bound"}
    assert begun[0].due == len(begun) < begun[0].planned
