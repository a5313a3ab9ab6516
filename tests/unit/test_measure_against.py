"""Two processes that pass the turn to each other, and the paths of a tree that become the other one's."""

import contextlib
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from headway.errors import UsageError
from headway.measure import against
from headway.measure.against import Sides, Worktree
from headway.measure.children import End, Launched, Launching
from headway.measure.measured import Measured

CHILD = """
import sys
from headway.measure.against import turn_taker

name, rounds, place = sys.argv[1], int(sys.argv[2]), sys.argv[3].partition("=")[2]
wait = turn_taker(place)
for number in range(rounds):
    wait()
    print(name, end="", file=open("seen", "a"))
if name == "C":
    import os
    # It lives until its launcher closes the other pipe.
    os.fork() or os.read(int(place.split(",")[1]), 1)
if name == "D":
    import time
    open("hangs", "x").close()
    time.sleep(1000)
if name == "E":
    import os, signal
    os.closerange(3, 64)
    signal.pause()
"""
MEASURED_NOTHING = ["it measured nothing, and did not fail"]


def begun(folder, name, rounds):
    """Return a child that waits for its first turn."""
    scratch = folder / name
    scratch.mkdir()
    command = [sys.executable, "-c", CHILD, name, str(rounds)]
    side = against._Side(command, folder, {"PYTHONPATH": ":".join(sys.path)}, scratch)
    side.until_it_waits()
    return side


@pytest.fixture
def taken(tmp_path, monkeypatch):
    """Return a function that runs children and returns the order of their rounds and why their launches failed.

    It takes each child's name and number of rounds.
    """
    monkeypatch.chdir(tmp_path)

    def run(*children):
        with contextlib.ExitStack() as stack:
            sides = []
            for name, rounds in children:
                sides.append(begun(tmp_path, name, rounds))
                stack.callback(sides[-1].close)
            against._take_turns(sides, 0)
            failures = [side.launched().failures for side in sides]
        return (tmp_path / "seen").read_text(), failures

    return run


def test_two_processes_have_their_rounds_forth_and_back(taken):
    """Two processes take turns, one at a time, and the remaining rounds of one come last."""
    assert taken(("A", 4), ("B", 6)) == ("ABBAABBABB", [MEASURED_NOTHING] * 2)


def test_one_that_hangs_is_killed(taken, tmp_path, monkeypatch):
    """A child that hangs is killed and its launch says so, and the other one goes on."""
    asked = []

    def monotonic():
        """Return a time at which the limit is over when the child hangs, however long that takes.

        The child may hang before its turn's end is reckoned, so the time jumps twice. After that it stands still.
        """
        if (tmp_path / "hangs").exists() and len(asked) < 2:
            asked.append(None)
        return 2 * against.LIMIT_S * len(asked)

    monkeypatch.setattr(against, "time", types.SimpleNamespace(monotonic=monotonic))
    assert taken(("A", 3), ("D", 1)) == ("ADAA", [MEASURED_NOTHING, ["killed after 900 s in one turn"]])


def test_one_that_does_not_end_after_its_last_turn_is_killed(tmp_path, monkeypatch):
    """A child that lets go of its turn and goes on is a failed launch, and not an error of the session."""
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(begun(tmp_path, "E", 1)) as side:
        against._take_turns([side], 0)
        monkeypatch.setattr(against, "LIMIT_S", 0.01)
        assert side.launched().failures == ["killed 0.01 s after its last turn"]


def test_a_child_that_has_the_pipe_does_not_hold_up_the_end(taken, monkeypatch):
    """A child that has ended counts as ended, even if another process holds its descriptors."""
    monkeypatch.setattr(against, "_LOOK_S", 0.05)
    monkeypatch.setattr(against, "LIMIT_S", 20.0)
    seen, failures = taken(("C", 1), ("A", 2))
    assert sorted(seen) == ["A", "A", "C"]
    assert failures[1] == MEASURED_NOTHING


def test_paths_of_this_tree_are_the_other_ones(tmp_path, monkeypatch):
    """Paths of this tree become the other's, also of editable installations, but not an environment's inside it."""
    here, there = tmp_path / "here", tmp_path / "there"
    tree = Worktree(here, there)
    monkeypatch.setattr(
        sys, "path", [str(here / "src"), str(here / ".venv/lib/python3.11/site-packages"), "/usr/lib/python3"]
    )
    editable = types.ModuleType("__editable___thing_finder")
    inner = here / "mono" / "ours" / "inner" / "thing"
    editable.MAPPING = {"thing": str(here / "lib" / "thing"), "ours.inner.thing": str(inner)}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, editable.__name__, editable)
    files = {"one": str(here / "python" / "one" / "__init__.py"), "two": str(here / "two.py")}
    finder = types.SimpleNamespace(_redirections=files, find_spec=lambda *_: None)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])

    assert tree.import_path() == [str(there / one) for one in ("src", "lib", "mono", "python", "")]
    assert tree.mapped(Path("/elsewhere")) is None


def test_a_test_comes_along_with_its_conftests(tmp_path):
    """A test and its conftests are copied, whether or not the other tree has them, and nothing else is."""
    here, there = tmp_path / "here", tmp_path / "there"
    for name in ("conftest.py", "bench/conftest.py", "bench/test_it.py", "bench/helper.py"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(f"# {name}")
    (here / "bench/test_it.py").chmod(0o755)
    Worktree(here, there).take_over(here / "bench/test_it.py", here)

    found = sorted(str(one.relative_to(there)) for one in there.rglob("*.py"))
    assert found == ["bench/conftest.py", "bench/test_it.py", "conftest.py"]
    assert [os.access(there / name, os.X_OK) for name in found] == [False, True, False]


def test_a_test_replaces_the_other_trees_files_and_no_others(tmp_path):
    """A file that is gone here is removed there, a file may become a folder, and a link leads out of no tree."""
    here, there, outside = tmp_path / "here", tmp_path / "there", tmp_path / "outside"
    for name in ("bench/test_it.py", "bench/data/one.txt"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text("new")
    for name in ("conftest.py", "bench/data"):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_text("old")
    outside.write_text("outside")
    (there / "bench/test_it.py").symlink_to(outside)
    tree = Worktree(here, there)
    tree.take_over(here / "bench/test_it.py", here)
    tree._replace(here / "bench/data/one.txt", there / "bench/data/one.txt")
    (there / "linked").symlink_to(tmp_path)
    tree._replace(here / "bench/test_it.py", there / "linked/outside")

    found = {str(one.relative_to(there)): one.read_text() for one in there.rglob("*.*")}
    assert found == {"bench/test_it.py": "new", "bench/data/one.txt": "new"}
    assert outside.read_text() == "outside"


def test_data_beside_a_folder_of_benchmarks_come_along(tmp_path):
    """`tests/benchmarks/test_it.py` reads `tests/data`, which would otherwise be the other revision's."""
    git("init", "--quiet", ".", where=tmp_path)
    for text in ("old", "new"):
        for name in ("tests/benchmarks/test_it.py", "tests/data/in.txt", "product.py"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        git("add", ".", where=tmp_path)
        git("commit", "--quiet", "-m", text, where=tmp_path)
    with against.worktree("HEAD~1", tmp_path) as tree:
        tree.take_over(tmp_path / "tests/benchmarks/test_it.py", tmp_path)
        found = {name: (tree.there / name).read_text() for name in ("tests/data/in.txt", "product.py")}

    assert found == {"tests/data/in.txt": "new", "product.py": "old"}


def test_only_rounds_that_both_have_had_took_turns():
    """Rounds that one process ran alone do not count."""
    sides = Sides()
    mine, other = (Measured(values_s=(1.0,) * rounds, calls=1, turns=str(rounds)) for rounds in (5, 7))
    against._keep(sides, Launched({"a": (mine,), "b": (mine,)}), Launched({"a": (other,)}, ["exit code 3"]), "turns")

    (one,), (two,) = sides.here.measured["a"], sides.there.measured["a"]
    assert len(one.values_s) == len(two.values_s) == 5
    assert one.beside == two.beside != sides.here.measured["b"][0].beside
    # Alternatives that took turns within a process still have.
    assert sides.here.measured["a"][0].turns == sides.here.measured["b"][0].turns == "5"
    assert sides.there.failures == ["exit code 3"]


@pytest.mark.parametrize(
    ("here", "there", "only_second", "told"),
    [
        (1, 2, [True, True, True], True),
        (1, 2, [True, True, False], False),  # an error that does not depend on the other process
        (3, 0, [True, False, True], False),
        (1, 0, [True], False),  # once in three launches
        (0, 0, [], False),
    ],
)
def test_failures_of_the_second_process_alone_tell_that_both_live_at_once(here, there, only_second, told):
    """A port is taken once only: the second process of each pair fails, whichever tree it is of."""
    sides = Sides(only_second=only_second)
    for one, failed in ((sides.here, here), (sides.there, there)):
        for place in range(3):
            one.add(
                Launched.failed("exit code 1: OSError") if place < failed else Launched(ends=[End(frozenset("a"), "")])
            )
    sides.tell_of_both()

    reasons = {*sides.here.failures, *sides.there.failures}
    assert all(("at the same time" in one and "HEADWAY_SIDE" in one) == told for one in reasons)
    assert reasons == {end.why for end in (*sides.here.ends, *sides.there.ends) if end.why}


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("OSError: [Errno 98] Address already in use", True),
        ("OSError: [Errno 98] error while attempting to bind on address ('127.0.0.1', 80)", True),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", True),
        ("sqlite3.OperationalError: database is locked", True),
        ("filelock._error.Timeout: The file lock 'x' could not be acquired.", True),
        ("portalocker.exceptions.LockException: [Errno 11] Resource temporarily unavailable", True),
        ("TimeoutError", True),
        ('psycopg.errors.DuplicateDatabase: database "x" already exists', True),
        ("ImportError: x", False),
        ("AttributeError: module 'product' has no attribute 'new'", False),
        ("AttributeError: module 'product' has no attribute 'Lock'", False),
        ("AttributeError: module 'product' has no attribute 'exists'", False),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'lock'", False),
        ("fixture 'in_use' not found", False),
        ("TypeError: Lock() takes no arguments", False),
        ("", False),
    ],
)
def test_a_single_pair_tells_as_much_if_the_reason_is_a_thing_that_was_taken(why, told):
    """One pair does not show whether the failure depends on the order, so its reason must look like it."""
    why = f"exit code 1: {why}" if why else "exit code 3"
    sides = Sides(Launched(ends=[End(frozenset("a"), "")]), Launched.failed(why), [True])
    sides.tell_of_both()

    assert ("at the same time" in sides.there.failures[0]) == told


def git(*arguments, where):
    identity = ("-c", "user.name=me", "-c", "user.email=me@localhost")
    return subprocess.run(["git", *identity, *arguments], cwd=where, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_waits_for_the_removal_of_the_tree(tmp_path, monkeypatch, number):
    """Ctrl-C, and while the tree is removed Ctrl-C or SIGTERM: nothing is left, and the second signal still arrives."""
    arrived = []

    def removed(*arguments, **options):
        if "remove" in arguments:
            signal.raise_signal(number)
            assert arrived == []
        return of_the_product(*arguments, **options)

    git("init", "--quiet", ".", where=tmp_path)
    git("commit", "--allow-empty", "--quiet", "-m", "one", where=tmp_path)
    of_the_product = against.git
    monkeypatch.setattr(against, "git", removed)
    before = signal.signal(number, lambda *_: arrived.append(number))
    try:
        with pytest.raises(KeyboardInterrupt), against.worktree("HEAD", tmp_path) as tree:
            raise KeyboardInterrupt
    finally:
        signal.signal(number, before)
    assert arrived == [number]
    assert not tree.there.parent.exists()
    assert len(git("worktree", "list", where=tmp_path).splitlines()) == 1


def test_no_hook_of_the_users_runs_in_the_other_tree(tmp_path):
    """A hook after a checkout may build, install or ask, and the checkout of the other tree is not the user's."""
    git("init", "--quiet", ".", where=tmp_path)
    git("commit", "--allow-empty", "--quiet", "-m", "one", where=tmp_path)
    hook = tmp_path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\npwd >> {tmp_path}/ran\n")
    hook.chmod(0o755)
    with against.worktree("HEAD", tmp_path) as tree:
        assert tree.there.is_dir()

    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("there", "launches"), [((), 1), (("test",), 3)])
def test_a_skipped_test_is_launched_once_in_each_tree(tmp_path, monkeypatch, there, launches):
    """A test that ended well and measured nothing in both trees is launched no more; one of a single tree is."""
    idle = Launched(ends=[End(frozenset(), "")])
    other = Launched(ends=[End(frozenset(there), "")])
    blocks = []

    def launched(_, __, block):
        blocks.append(block)
        return [idle, other][:: -1 if block % 2 else 1]

    monkeypatch.setattr(against, "_launched", launched)
    tree = Worktree(tmp_path / "here", tmp_path / "there")
    test = tmp_path / "here" / "test_it.py"
    test.parent.mkdir()
    test.touch()
    how = Launching(
        arguments=[], positional=[], folder=test.parent, trace=False, besides=[], reference=False, say=lambda _: None
    )
    found = {}
    against.measure_against(found, tree, how, [f"{test}::test"], 3, test.parent)

    assert len(blocks) == launches


def test_a_shallow_clone_is_told(tmp_path):
    """A revision that a shallow clone lacks is reported with the remedy of a CI."""
    git("init", "--quiet", "whole", where=tmp_path)
    for _ in range(2):
        git("commit", "--allow-empty", "--quiet", "-m", "one", where=tmp_path / "whole")
    git("clone", "--quiet", "--depth", "1", f"file://{tmp_path}/whole", "shallow", where=tmp_path)
    hints = []
    for folder in ("whole", "shallow"):
        with pytest.raises(UsageError) as error, against.worktree("HEAD~5", tmp_path / folder):
            pass
        hints.append(error.value.hint)
    assert "fetch-depth" not in hints[0]
    assert "fetch-depth: 0" in hints[1]
