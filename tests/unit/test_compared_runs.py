"""Differences between two runs other than time, and the runs of which pyperf can have little or nothing."""

import json
from dataclasses import replace

import pytest
from synthetic import make_cell, make_interpreter

from headway.cli.main import main
from headway.errors import UsageError
from headway.lab.judging.compare import compare
from headway.report import comparison_to_json, run_to_pyperf
from headway.report.lab.comparison import compared

DISK, MEMORY = {"folder": "/var/tmp", "type": "ext4"}, {"folder": "/dev/shm", "type": "tmpfs"}


def on(run, **volumes):
    """Return a run whose files were on these volumes."""
    return replace(run, header=replace(run.header, settings=replace(run.settings, volumes=volumes)))


@pytest.mark.parametrize(
    ("volumes", "changed"),
    [
        ({"disk": MEMORY}, ["the files (disk) differed: ext4 at /var/tmp, then tmpfs at /dev/shm"]),
        ({"disk": DISK, "tmpfs": MEMORY}, []),
        ({"disk": DISK, "second": MEMORY}, []),
        ({}, []),
    ],
)
def test_files_on_another_volume_are_told(make_run, volumes, changed):
    """The figures of the two runs are about different disks; a volume that no cell uses makes no difference."""
    cells = [(make_cell("file-write", "serial", "3.13.0", space={"disk": 1}), {"work_s": [[1.0], [1.1], [1.2]]})]
    before, after = make_run(cells), make_run(cells)
    before, after = on(before, disk=DISK, second=DISK), on(after, **volumes)
    differences = compare(before, after)

    assert list(compared(before, after, differences).changed) == changed
    assert comparison_to_json(before, after, differences)["changed"] == changed


WORK = {"work_s": [[1.0], [1.1], [1.2]]}


def measured(make_run, *interpreters):
    """Return a run with one cell of each of these interpreters."""
    return make_run([(make_cell("sleep", "serial", one.id), WORK) for one in interpreters], interpreters)


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        (["3.11.7"], ["3.11.7", "3.11.2"], [("3.11.7", "3.11.7")]),
        (["3.11.7", "3.11.2"], ["3.11.2"], [("3.11.2", "3.11.2")]),
        (["3.11.7", "3.11.2"], ["3.11.2", "3.11.7"], [("3.11.7", "3.11.7"), ("3.11.2", "3.11.2")]),
        (["3.11.2", "3.13.0"], ["3.11.7", "3.13.0"], [("3.11.2", "3.11.7"), ("3.13.0", "3.13.0")]),
        (["3.11.4", "3.13.0"], ["3.11.7", "3.11.2", "3.13.0"], [("3.13.0", "3.13.0")]),
    ],
)
def test_interpreters_match_by_id_then_by_a_name_that_one_has(make_run, before, after, pairs):
    """A second 3.11 in one of the runs takes nothing from the first; of which one a third differs is open."""
    runs = [measured(make_run, *map(make_interpreter, versions)) for versions in (before, after)]

    found = compare(*runs)

    assert [(one.before.cell.interpreter, one.after.cell.interpreter) for one in found] == pairs


def test_what_no_interpreter_runs_matches(make_run):
    """The cells in C are the same in each run."""
    cells = [(make_cell("refcount", "C", "native"), WORK)]

    assert len(compare(make_run(cells), make_run(cells))) == 1


@pytest.mark.parametrize(
    ("was", "now", "changed"),
    [
        (
            {"optimised": ("pgo", "lto")},
            {},
            ["the optimisations of CPython 3.13 differed: pgo and lto, then none"],
        ),
        (
            {"compiler": "GCC 12"},
            {"compiler": "Clang \x1b[31m"},
            ["the compiler of CPython 3.13 differed: GCC 12, then Clang \\x1b[31m"],
        ),
        ({"jit_enabled": True}, {}, ["the JIT of CPython 3.13 differed: on, then off"]),
        ({}, {"gil_enabled": False}, ["the GIL at the start of CPython 3.13 differed: on, then off"]),
        (
            {},
            {"executable": "/b/python"},
            ["the executable of CPython 3.13 differed: /nowhere/python3.13.0, then /b/python"],
        ),
        ({}, {"id": "3.13.0@/a"}, []),
        (
            {"version": "3.13.5", "id": "3.13.5"},
            {"executable": "/b/python", "jit_enabled": True},
            ["CPython 3.13 differed: 3.13.5, then 3.13.0", "the JIT of CPython 3.13 differed: off, then on"],
        ),
    ],
)
def test_builds_that_differ_are_told(make_run, was, now, changed):
    """A build without optimisations has other figures, and the reader would look for the reason in the code."""
    before, after = (measured(make_run, make_interpreter(**changes)) for changes in (was, now))
    differences = compare(before, after)

    assert list(compared(before, after, differences).changed) == changed
    assert comparison_to_json(before, after, differences)["changed"] == changed


def test_runs_are_listed_with_names_that_tell_interpreters_apart(make_run, tmp_path, capsys):
    """Two 3.11s are listed by their versions."""
    measured(make_run, *map(make_interpreter, ("3.11.7", "3.11.2", "3.13.0")))

    assert main(["runs", "--store", str(tmp_path / "synthetic.sqlite")]) == 0

    assert "3.11.7, 3.11.2, 3.13" in capsys.readouterr().out


def test_the_json_of_a_comparison_says_what_else_changed(make_run, tmp_path, capsys):
    """A program that reads it learns, as a reader of the table does, that the two are one run."""
    make_run([(make_cell("sleep", "serial", "3.13.0"), {"work_s": [[1.0], [1.1], [1.2]]})])
    assert main(["compare", "last", "last", "--store", str(tmp_path / "synthetic.sqlite"), "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["changed"] == ["both sides are the same run"]


def test_a_run_without_times_has_no_suite_for_pyperf(make_run, tmp_path, capsys):
    """A suite without a benchmark is one that pyperf does not load, so no file is written."""
    run = make_run([(make_cell("race", "lock", "3.13.0"), {"lost": [[0.0], [0.0]]})])
    with pytest.raises(UsageError, match="nothing for pyperf"):
        run_to_pyperf(run)
    target = tmp_path / "suite.json"

    assert main(["report", "--store", str(tmp_path / "synthetic.sqlite"), "--pyperf", str(target)]) == 2
    assert "--json" in capsys.readouterr().err
    assert not target.exists()


def test_cells_that_pyperf_cannot_have_are_counted(make_run, tmp_path, capsys):
    """A suite with fewer benchmarks than the run has cells says so."""
    times = [(make_cell("sleep", "serial", "3.13.0"), {"work_s": [[1.0], [1.1]]})]
    for counts, told in ((("lock",), "! 1 cell is left out"), (("lock", "list"), "! 2 cells are left out"), ((), "")):
        make_run([*times, *((make_cell("race", label, "3.13.0"), {"lost": [[0.0], [0.0]]}) for label in counts)])
        target = tmp_path / f"{len(counts)}.json"
        assert main(["report", "--store", str(tmp_path / "synthetic.sqlite"), "--pyperf", str(target)]) == 0

        said = capsys.readouterr().err
        assert told in said
        assert ("left out" in said) == bool(told)
