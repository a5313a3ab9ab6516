"""The ids and the fields of a process in /proc, whatever the program's name is."""

import os

import pytest

from headway.live.proc import BEGIN_TICKS, PARENT, STATE, ids_in, stat, status


@pytest.mark.parametrize(
    ("lines", "ids"),
    [
        ("Pid:\t77\nNSpid:\t77\n", [77]),
        ("Pid:\t77\nNSpid:\t77\t5\t1\n", [77, 5, 1]),
        pytest.param("Pid:\t77\n", [77], id="a kernel that knows no ids of namespaces"),
    ],
)
def test_the_ids_of_a_process(tmp_path, lines, ids):
    """The first id is ours, and the last one is that of the process's own namespace."""
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "status").write_text(f"Name:\tpython\n{lines}")

    assert ids_in(status(77, tmp_path)) == ids


def test_the_name_of_a_program_is_no_field(tmp_path):
    """A name may have parentheses and blanks."""
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "stat").write_text(f"77 (a) Z 1 (b) S 5 {' '.join(map(str, range(100, 117)))} 4711 0\n")

    fields = stat(77, tmp_path)
    assert (fields[STATE], fields[PARENT], fields[BEGIN_TICKS]) == ("S", "5", "4711")


def test_this_process_and_its_thread():
    """The first thread began with the process."""
    fields, first = stat("self"), stat(f"{os.getpid()}/task/{os.getpid()}")
    assert fields[PARENT] == str(os.getppid())
    assert fields[BEGIN_TICKS] == first[BEGIN_TICKS]
