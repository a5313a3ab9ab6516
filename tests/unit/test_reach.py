"""The evidence that a running Python does not load Headway, and when a line tells it."""

import os

import pytest

from headway.agent import STARTUP_PATH
from headway.live import unreached
from headway.live.reach import cause_of
from headway.live.unreached import Unreached

NONE = (
    "the program has ended, and no Python process of it was traced: there is no trace, unless one begins after its end"
)

PYTHON = "/usr/bin/python3.13"
OURS = {"HEADWAY_NATIVE": "/lib/libheadway.so", "PYTHONPATH": str(STARTUP_PATH)}


@pytest.fixture
def proc(tmp_path):
    """Return a function that describes a process as /proc does, and returns the cause for it."""

    def cause(variables, *, executable=PYTHON, words=("python3.13", "app.py"), maps=""):
        process = tmp_path / "7"
        (process / "cwd").mkdir(parents=True)
        (process / "cwd" / "front").mkdir()
        (process / "cwd" / "front" / "sitecustomize.py").touch()
        (process / "cwd" / "lib").mkdir()
        os.symlink(executable, process / "exe")
        (process / "cmdline").write_text("".join(f"{word}\0" for word in words))
        (process / "environ").write_text("".join(f"{name}={value}\0" for name, value in variables.items()))
        (process / "maps").write_text(maps)
        return cause_of(7, tmp_path)

    return cause


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (OURS | {"PYTHONPATH": "/tmp"}, "its PYTHONPATH was replaced"),
        ({"HEADWAY_NATIVE": "x"}, "its PYTHONPATH was replaced"),
        ({"PATH": "/bin"}, "without the environment of its parent"),
        (OURS | {"PYTHONPATH": f"lib:front:{STARTUP_PATH}"}, "the sitecustomize in front is found first"),
    ],
)
def test_the_cause_is_in_the_environment(proc, variables, expected):
    """The environment of a Python shows that its PYTHONPATH does not lead to us, or leads to another hook first."""
    assert expected in proc(variables)


def test_a_folder_that_may_not_be_searched_has_no_hook(proc, monkeypatch):
    """Another user's folder may be on PYTHONPATH before ours; the collector goes on."""
    before = os.stat

    def refused(path, *arguments, **options):
        if str(path).endswith("sitecustomize.py"):
            raise PermissionError(path)
        return before(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", refused)
    assert proc(OURS | {"PYTHONPATH": f"front:{STARTUP_PATH}"}) == ""


def test_the_cause_is_in_the_command_line(proc):
    """A Python that a script has started with -I is out of reach, too."""
    assert "-I ignores PYTHONPATH" in proc(OURS, words=("python3.13", "-I", "app.py"))


def test_a_program_with_python_in_it_is_a_python(proc):
    """A program that has loaded libpython is a Python by another name."""
    assert "was replaced" in proc(
        OURS | {"PYTHONPATH": ""}, executable="/usr/bin/uwsgi", maps="... /usr/lib/libpython3.13.so.1.0"
    )


@pytest.mark.parametrize(
    "how",
    [
        {"variables": OURS},
        {"variables": OURS | {"PYTHONPATH": f"lib:{STARTUP_PATH}:front"}},
        {"variables": {"PATH": "/bin"}, "executable": "/bin/sh", "words": ("sh", "-c", "sleep 5")},
        {"variables": {"PATH": "/bin"}, "maps": "... /somewhere/libheadway.so"},
    ],
    ids=["a slow start", "ours first", "no Python", "loaded"],
)
def test_without_evidence_there_is_no_cause(proc, how):
    """A Python that may still load us, one that has done so, and a program that is no Python give no cause."""
    assert proc(**how) == ""


def test_a_process_that_is_gone_gives_no_cause(tmp_path):
    """A process that has ended gives no cause."""
    assert cause_of(7, tmp_path) == ""


@pytest.fixture
def looking(monkeypatch):
    """Return a function that looks at a program at some times, and returns the lines that were printed."""

    def lines(*times_s, cause="its PYTHONPATH was replaced", called_s=1e9, over=False, tells_none=True):
        now, said = [0.0], []
        monkeypatch.setattr(unreached.time, "monotonic", lambda: now[0])
        monkeypatch.setattr(unreached, "cause_of", lambda pid: cause if pid == 8 else "")
        monkeypatch.setattr(unreached, "descendants", lambda _: [8])
        monkeypatch.setattr(unreached, "_command", lambda _: b"sh" if now[0] else b"headway")
        looks = Unreached(7, "traced", said.append, tells_none=tells_none)
        for now[0] in times_s:
            looks.look(called=now[0] >= called_s)
        looks.look(called=now[0] >= called_s, over=over)
        return said

    return lines


def test_a_cause_is_told_once_it_is_a_second_old(looking):
    """A child that is out of reach is told of after a second, once."""
    assert looking(0.0, 0.1, 0.9) == []
    assert looking(0.0, 0.1, 1.2, 2.5, 4.0) == ["process 8 is not traced: its PYTHONPATH was replaced"]


def test_a_hook_that_is_found_first_has_more_time(looking):
    """Another sitecustomize may run ours after its own work."""
    cause = "the sitecustomize in front is found first"

    assert looking(0.1, 1.5, 2.9, cause=cause) == []
    assert len(looking(0.1, 1.5, 2.9, 4.0, cause=cause)) == 1


def test_the_end_tells_what_was_seen(looking):
    """A program that ends within the second is told of at its end."""
    assert looking(0.1, over=True) == ["process 8 is not traced: its PYTHONPATH was replaced"]


def test_nobody_looks_for_longer_than_a_minute(looking):
    """A pass over a large program's processes costs time; a Python that begins later gives no line before the end."""
    assert looking(0.1, 59.0, 60.5, 61.6, 90.0) == ["process 8 is not traced: its PYTHONPATH was replaced"]
    assert looking(61.0, 62.1, 90.0) == []


def test_the_end_tells_that_there_is_no_trace(looking):
    """A program without Python leaves no file, and a user who looks for it must know why."""
    assert looking(0.1, over=True, cause="") == [NONE]
    assert looking(0.1, over=True, cause="", called_s=0.1) == []
    assert looking(0.1, 70.0, over=True, cause="") == [NONE]
    assert looking(0.1, 70.0, over=True, cause="", called_s=70.0) == []
    assert looking(0.1, over=True, cause="", tells_none=False) == []


def test_a_process_that_calls_ends_the_look(looking):
    """Headway reaches the program, and a Python that it does not reach is no news."""
    assert looking(0.1, 0.5, 1.5, 3.0, called_s=0.5, over=True) == []


def test_the_launcher_is_not_the_program(looking):
    """The launcher is a Python out of reach until it becomes the program."""
    assert looking(0.0, over=True) == [NONE]
