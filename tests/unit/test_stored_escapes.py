"""A stored run may come from another machine: none of its words command the terminal that shows it."""

from dataclasses import replace

import pytest
from synthetic import make_cell, make_interpreter, make_machine, make_settings

from headway.cli.main import main
from headway.host.doctor import Check
from headway.lab.kept.launched import Launch
from headway.lab.kept.store import Store
from headway.lab.plan import Skipped

RED = "\x1b[31m"


@pytest.fixture
def store(tmp_path):
    """Return a store with two runs in which each text that a machine or a user chooses begins with an escape sequence."""
    path = tmp_path / "s.db"
    cells = [
        make_cell("sleep", f"serial{RED}", "3.13.0"),
        make_cell("file-write", "serial", "3.13.0", space={"disk": 1}),
    ]
    for number in range(2):
        settings = make_settings(
            version=f"{RED}{number}",
            experiments=("sleep", "file-write"),
            machine=replace(make_machine(), cpu=f"{RED}cpu {number}", kernel=f"{RED}kernel", system=f"{RED}system"),
            doctor=tuple(Check(name, "warning", f"{RED}fact", f"{RED}advice") for name in ("load", f"{RED}check")),
            interpreters=(make_interpreter(compiler=f"{RED}cc {number}", executable=f"{RED}python {number}"),),
            skipped=(Skipped("sleep", f"threads{RED}", "3.13.0", f"{RED}why"),),
            redis={"server": f"{RED}server {number}", "whose": f"{RED}whose"},
            volumes={"disk": {"folder": f"{RED}folder {number}", "type": f"{RED}type"}},
            passed_over=(f"{RED}passed over",),
        )
        with Store(path, create=True) as opened:
            run = opened.new_run(settings, cells)
            for cell in cells:
                opened.add_launch(run, cell.key, 0, Launch(status="ok", samples={"work_s": [1.0]}))
                opened.add_launch(run, cell.key, 1, Launch(reason=f"{RED}reason"))
            opened.end_run(run)
    return path


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (
            ["report"],
            ["cpu 1", "kernel", "system", "fact", "check", "why", "server 1", "folder 1", "passed over", "reason"],
        ),
        (["compare", "last~1", "last"], ["cpu 0", "cc 1", "python 1", "server 1", "folder 0"]),
    ],
)
def test_no_text_of_a_stored_run_commands_the_terminal(store, capsys, monkeypatch, words, shown):
    """An escape sequence is shown as such, wherever it stands."""
    monkeypatch.setenv("COLUMNS", "200")  # no text is split
    assert main([*words, "--store", str(store)]) == 0

    said = capsys.readouterr().out
    assert RED not in said
    assert [one for one in shown if f"\\x1b[31m{one}" not in said] == []
