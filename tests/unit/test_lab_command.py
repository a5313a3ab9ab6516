"""The messages of `headway lab` and of commands about its runs."""

import contextlib
import sqlite3

import pytest
from synthetic import make_cell, make_settings

from headway import lab
from headway.cli.main import main
from headway.lab.kept.launched import Launch


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """Return the store of a run that was stopped after a failed launch; `headway lab` gives that run."""
    path = tmp_path / "my results" / "lab.sqlite"
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


def test_the_command_that_deletes_a_damaged_run_names_the_store(stopped, capsys):
    """The run is in the store that was given, not in the user's own."""
    path, run = stopped
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE runs SET settings = 'no JSON'")
    main(["runs", "--store", str(path)])

    assert f"`headway runs --delete {run} --store '{path}'` deletes it" in capsys.readouterr().err
