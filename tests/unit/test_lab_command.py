"""The messages of `headway lab` and of commands about its runs."""

import contextlib
import errno
import signal
import sqlite3
from types import SimpleNamespace

import pytest
from synthetic import make_cell, make_settings

from headway import lab
from headway.cli import console
from headway.cli.main import main
from headway.errors import StoreError
from headway.lab.kept.launched import Launch


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """Return the store of a run that was stopped after a failed launch; `headway lab` gives that run."""
    path = tmp_path / "my results" / "lab.sqlite"
    path.parent.mkdir()
    cell = make_cell("sleep", "serial", "3.13.0")
    with lab.Store(path, create=True) as store:
        run = store.new_run(make_settings(launches=2, experiments=("sleep",)), [cell])
        store.add_launch(run, cell.key, 0, Launch("failed", "why", {}, {}, "", 1.0))
    monkeypatch.setattr(lab, "run", lambda *_, **__: lab.load_run(run, store=path))
    return path, run


def test_commands_name_the_store_as_a_shell_takes_it(stopped, capsys):
    """A command that is pasted finds the run, also in a folder whose name has a blank."""
    path, run = stopped
    code = main(["lab", "sleep", "--store", str(path)])
    told = capsys.readouterr()

    assert code == 130
    assert f"`headway report {run} --store '{path}'` shows the causes" in told.err
    assert f"`headway lab --resume {run} --store '{path}'` completes the run" in told.err
    assert f"headway report {run} --store '{path}': everything" in " ".join(told.out.split())


@pytest.fixture
def heard():
    """Have the signals that end a command their usual actions, also under nohup."""
    before = {one: signal.signal(one, signal.SIG_DFL) for one in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for one, action in before.items():
        signal.signal(one, action)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("begun", [True, False], ids=["in a launch", "before the first launch"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_stops_the_lab_is_in_its_exit_code(number, begun, stopped, monkeypatch, capsys):
    """The exit code is 128 plus the number of the first signal, as in shells, whether or not there is a run."""
    path, run = stopped

    def measure(*_, report, **__):
        if begun:
            report(SimpleNamespace(run=run, done=0, planned=2, budget_s=None, cell=None, finished=""))
        signal.raise_signal(number)

    monkeypatch.setattr(lab, "run", measure)
    try:
        code = main(["lab", "sleep", "--store", str(path)])
    except SystemExit as ended:
        code = ended.code

    assert code == 128 + number
    told = capsys.readouterr().err
    assert ("completes the run" if begun else "stopped") in told


def test_the_command_that_deletes_a_damaged_run_names_the_store(stopped, capsys):
    """The run is in the store that was given, not in the user's own."""
    path, run = stopped
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE runs SET settings = 'no JSON'")
    main(["runs", "--store", str(path)])

    assert f"`headway runs --delete {run} --store '{path}'` deletes it" in capsys.readouterr().err


def test_a_page_that_a_stopped_run_does_not_get_is_named(stopped, tmp_path, capsys):
    """Only a complete run has a page, and a user who asked for one is told that there is none."""
    path, _ = stopped
    page = tmp_path / "page.html"
    main(["lab", "sleep", "--store", str(path), "--html", str(page)])

    assert not page.exists()
    assert f"{page} was not written, because the run is not complete" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--in-turns"], "`--in-turns` is for the machines of a cluster"),
        (["--dask", "tcp://nowhere:1", "--full"], "--dask cannot be combined with --full"),
        (["--dask", "tcp://nowhere:1", "--open"], "--dask cannot be combined with --open"),
        (["--dask", "tcp://nowhere:1", "--redis-url", "redis://nowhere"], "--dask cannot be combined with --redis-url"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(words, message, capsys):
    """An option of the lab on one machine is no option on a cluster, and the other way round."""
    assert main(["lab", "sleep", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("command", "why"), [("", "names no command"), ("make 'it", "No closing quotation")])
def test_a_command_that_is_none_is_refused_before_anything_runs(command, why, monkeypatch, capsys):
    """The first look may take minutes, and the command comes after it."""
    monkeypatch.setattr(lab, "run", lambda *_, **__: pytest.fail("the lab runs"))

    assert main(["lab", "sleep", "--provide", command]) == 2
    told = capsys.readouterr().err
    assert why in told
    assert "hint: give a command as to a shell" in told


@pytest.mark.parametrize(
    "error", [StoreError("the disk is full", hint="free space"), OSError(errno.ENOSPC, "No space left on device")]
)
@pytest.mark.parametrize("known", [True, False])
def test_a_run_that_an_error_ends_can_be_completed(error, known, stopped, monkeypatch, capsys):
    """The command that completes it names the store, and is told only where the store has the run."""
    path, run = stopped

    def measure(*_, report, **__):
        name = run if known else "another"
        report(SimpleNamespace(run=name, done=0, planned=2, budget_s=None, cell=None, finished=""))
        raise error

    monkeypatch.setattr(lab, "run", measure)
    monkeypatch.setattr(console, "discard_output", lambda: None)

    assert main(["lab", "sleep", "--store", str(path)]) > 0
    told = capsys.readouterr().err
    assert (f"`headway lab --resume {run} --store '{path}'` completes the run" in told) == known
    assert (error.strerror if isinstance(error, OSError) else error.message) in told
