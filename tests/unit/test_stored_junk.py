"""Settings in a store that another program has changed: one run that cannot be read leaves the others."""

import contextlib
import json
import math
import sqlite3

import pytest
from synthetic import make_cell, make_settings

from headway.cli.main import main
from headway.host.doctor import Check
from headway.lab.design import Declared
from headway.lab.kept.launched import Launch
from headway.lab.kept.settings import Settings
from headway.lab.kept.store import Store
from headway.lab.plan import Skipped, cell_to_json

WHOLE = make_settings(
    launches=1,
    budget_s=60,
    experiments=("disk-baseline", "redis-set"),
    doctor=(Check("load", "warning", "load 1", "wait"),),
    skipped=(Skipped("sleep", "serial", "3.13.0", "why"),),
    models=("threads",),
    redis={"server": "Valkey 8", "whose": "the lab's"},
    volumes={"disk": {"folder": "/tmp", "type": "ext4"}},
    declared=(
        Declared(
            name="a",
            question="b",
            method="c",
            included="d",
            metric="work_s",
            baseline="",
            besides=(("x_s", "y"),),
            said=("said",),
        ),
    ),
    unprepared=("sleep",),
    passed_over=("an interpreter",),
)


def test_settings_are_read_as_they_were_written():
    """Values of every field are those that the fields declare, down to the items."""
    assert Settings.from_json(json.loads(json.dumps(WHOLE.to_json()))) == WHOLE


JUNK = [
    {"experiments": [1]},
    {"models": [None]},
    {"unprepared": ["sleep", 1]},
    {"passed_over": [{}]},
    {"budget_s": math.nan},
    {"limit_s": math.inf},
    {"redis": {"server": 5, "whose": "the lab's"}},
    {"redis": {"server": "Valkey"}},
    {"volumes": {"disk": 5}},
    {"volumes": {"disk": {}}},
    {"volumes": {"disk": {"folder": 1, "type": "ext4"}}},
    {"machine": {**WHOLE.machine.to_json(), "cores": ["a", None]}},
    {"machine": {**WHOLE.machine.to_json(), "split": [[0]]}},
    {"doctor": [{**WHOLE.doctor[0].to_json(), "status": "zap"}]},
    {"interpreters": [{**WHOLE.interpreters[0].to_json(), "models": [1]}]},
    {"interpreters": [{**WHOLE.interpreters[0].to_json(), "missing_models": {"asyncio": 1}}]},
]


@pytest.mark.parametrize(
    "junk", JUNK, ids=lambda junk: ", ".join(f"{name} {value}"[:40] for name, value in junk.items())
)
def test_one_run_that_cannot_be_read_leaves_the_others(tmp_path, junk, capsys):
    """The list names it with its reason, a report of it is an error with a hint, and the other run is there."""
    path = tmp_path / "r.sqlite"
    cell = make_cell("disk-baseline", "serial", "3.13.0", space={"disk": 1}, server="redis")
    with Store(path, create=True) as store:
        good, bad = (store.new_run(WHOLE, [cell]) for _ in range(2))
        for run in (good, bad):
            store.add_launch(run, cell.key, 0, Launch("ok", samples={"work_s": [1.0]}))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE runs SET settings = ? WHERE id = ?", (json.dumps({**WHOLE.to_json(), **junk}), bad))

    assert main(["runs", "--store", str(path), "--json"]) == 0
    told = capsys.readouterr()
    assert [one["id"] for one in json.loads(told.out)] == [good]
    assert f"run {bad} is left out" in told.err
    for more in ([], ["--json"]):
        assert main(["report", bad, "--store", str(path), *more]) == 4
        assert "hint:" in capsys.readouterr().err
        assert main(["report", good, "--store", str(path), *more]) == 0


CELLS_AND_FACTS = [
    ("cell", {"interpreter": "9.9"}),
    ("cell", {"placement": "moon"}),
    ("cell", {"variant": {**cell_to_json(make_cell("sleep", "serial", "3.13.0"))["variant"], "params": [1]}}),
    ("cell", {"variant": {**cell_to_json(make_cell("sleep", "serial", "3.13.0"))["variant"], "needs": [1]}}),
    ("facts", {"utilisation": "x"}),
    ("facts", {"utilisation": {"0": math.inf}}),
    ("facts", {"timed_s": "x"}),
    ("facts", {"own_busy_s": None}),
    ("facts", {"course": 5}),
    ("facts", {"course": [{"phase": "timed"}]}),
    ("facts", {"course": [{"phase": "timed", "until_s": "x", "busy_s": 1}]}),
    ("facts", {"involuntary_switches": [1]}),
]


@pytest.mark.parametrize(
    ("column", "junk"), CELLS_AND_FACTS, ids=[f"{name} {value}"[-60:] for name, value in CELLS_AND_FACTS]
)
def test_cells_and_facts_that_headway_did_not_write_are_an_error(tmp_path, column, junk, capsys):
    """The figures of a report come from them, and would end in a traceback."""
    path = tmp_path / "r.sqlite"
    cell = make_cell("sleep", "serial", "3.13.0")
    facts = {
        "timed_s": 2.0,
        "utilisation": {"0": 0.5},
        "course": [{"phase": "timed", "until_s": 2.0, "busy_s": 1.0}],
        "own_busy_s": 1.0,
        "voluntary_switches": 3,
        "involuntary_switches": 4,
    }
    with Store(path, create=True) as store:
        run = store.new_run(WHOLE, [cell])
        store.add_launch(run, cell.key, 0, Launch("ok", samples={"work_s": [1.0]}, facts=facts))
    assert main(["report", "--store", str(path)]) == 0
    values = cell_to_json(cell) if column == "cell" else facts
    table = "cells" if column == "cell" else "launches"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"UPDATE {table} SET {column} = ?", (json.dumps({**values, **junk}),))

    capsys.readouterr()
    assert main(["report", "--store", str(path)]) == 4
    assert "holds values that Headway did not write" in capsys.readouterr().err


def test_a_failed_launch_may_have_any_facts(tmp_path):
    """A launch failed because another writer used its descriptor, and the run stays readable."""
    cell = make_cell("sleep", "serial", "3.13.0")
    with Store(tmp_path / "r.sqlite", create=True) as store:
        run = store.new_run(WHOLE, [cell])
        store.add_launch(run, cell.key, 0, Launch("failed", "garbled", facts={"timed_s": "x", "course": 5}))

        assert store.launches(run)[0].launch.facts == {"timed_s": "x", "course": 5}
