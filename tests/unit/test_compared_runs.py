"""Differences between two runs other than time, and the runs of which pyperf can have little or nothing."""

import json
from dataclasses import replace

import pytest
from synthetic import make_cell

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
