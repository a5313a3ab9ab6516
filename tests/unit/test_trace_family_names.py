"""Traces of one launch are found by their names; those that lost them by a copy or a rename are told of."""

import dataclasses

import pytest
from made_traces import made_process, made_trace

from headway.cli import main
from headway.traces import family
from headway.traces.family import read_family, under_other_names
from headway.traces.writer import write


@pytest.fixture
def launch(tmp_path):
    """Return the folder of a launch of three processes, and of another launch."""
    base = made_trace(events=20)
    for name, changes in {
        "app": {"pid": 1, "parent_pid": 0},
        "app.2": {"pid": 2, "parent_pid": 1},
        "app.3": {"pid": 3, "parent_pid": 1},
        "other": {"pid": 9, "family": 2},
    }.items():
        write(dataclasses.replace(base, process=made_process(**changes)), tmp_path / f"{name}.hwt")
    (tmp_path / "empty.hwt").write_bytes(b"")
    return tmp_path


def names(path):
    """Return the names of the files that the report of a trace leaves out."""
    return [one.name for one in under_other_names(path)]


def test_a_launch_with_its_names_is_whole(launch):
    """Neither the parent's report nor that of one child, nor one of another launch, lacks a trace."""
    for name in ("app", "app.2", "other"):
        assert names(launch / f"{name}.hwt") == []


def test_a_renamed_parent_lacks_its_children(launch, capsys):
    """The report says which traces it leaves out, on stderr."""
    renamed = (launch / "app.hwt").rename(launch / "slow.hwt")

    assert names(renamed) == ["app.2.hwt", "app.3.hwt"]
    assert main(["report", str(renamed)]) == 0
    said = capsys.readouterr().err
    assert said == (
        "note: 2 traces of the same launch in this folder are left out, by their names: app.2.hwt and app.3.hwt; "
        "a report has `slow.hwt` and `slow.*.hwt`\n"
    )


def test_a_copy_lacks_children_and_not_itself(launch):
    """The original is the same process, and is not missed; with copies of all of them nothing is."""
    for name in ("app", "app.2"):
        copy = launch / f"{name}.hwt".replace("app", "copy")
        copy.write_bytes((launch / f"{name}.hwt").read_bytes())

    assert names(launch / "copy.hwt") == ["app.3.hwt"]
    assert names(launch / "app.hwt") == []
    assert [one.process.pid for one in read_family(launch / "copy.hwt")] == [1, 2]


def test_a_renamed_child_is_missed(launch):
    """The parent's report says so, too."""
    (launch / "app.3.hwt").rename(launch / "worker.hwt")

    assert names(launch / "app.hwt") == ["worker.hwt"]


def test_the_work_in_a_folder_with_many_traces_is_bounded(launch, monkeypatch):
    """No more headers than a fixed number are read."""
    renamed = (launch / "app.hwt").rename(launch / "slow.hwt")
    monkeypatch.setattr(family, "_MOST_HEADERS", 1)

    assert names(renamed) == ["app.2.hwt"]
