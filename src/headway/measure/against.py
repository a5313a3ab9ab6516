"""Measures another revision's functions in turns with this tree's, in pairs of processes that pass the turn to and fro.

The other revision is checked out in a folder of its own (`git worktree`). The tests are this tree's: a test's file,
the conftest.py files above it and the folder `tests` that it is in replace the other revision's. Folders of the import
path inside this tree are replaced by the same folders of the other tree. A process of the other tree in which code of
this one was imported all the same has failed (`trees`). Only one of the two processes runs at a time, from its start
on. From the first round on, the processes have one round each, in alternating order.
"""

import contextlib
import io
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

from headway.agent.headway_agent import turns
from headway.errors import UsageError
from headway.host.repository import git, without_gits_variables
from headway.lab import stats
from headway.measure.children import (
    ANSWER,
    LIMIT_S,
    Launched,
    Launching,
    Progress,
    kill,
    taken,
    undisturbed,
    without_coverage,
)
from headway.measure.copies import installed
from headway.measure.journal import Entry, Journal
from headway.measure.measured import name_of_turns
from headway.measure.result import Result
from headway.measure.trees import SCRATCH, folder_of_tests

__all__ = [
    "SIDE",
    "TURN_OPTION",
    "Revision",
    "Sides",
    "Worktree",
    "measure_against",
    "turn_taker",
    "worktree",
]

TURN_OPTION = "--headway-turn-files"
SIDE = "HEADWAY_SIDE"
"""The environment variable of the two processes: "0" in this tree, "1" in the other one."""


@final
@dataclass(frozen=True)
class Worktree:
    """Another revision, checked out.

    Attributes:
        here: The top folder of this tree.
        there: The top folder of the other tree.
    """

    here: Path
    there: Path

    def mapped(self, path: Path) -> Path | None:
        """Return the path in the other tree of a path in this one; None for a path outside this tree."""
        resolved = path.resolve()
        return self.there / resolved.relative_to(self.here) if resolved.is_relative_to(self.here) else None

    def import_path(self) -> list[str]:
        """Return the folders of the import path that are inside this tree, as paths in the other tree."""
        own = [Path(one or ".") for one in sys.path]
        # Editable installations map names to folders (setuptools), or to files (hatchling and others, by `editables`).
        for finder_name, module in list(sys.modules.items()):
            if finder_name.startswith("__editable__"):
                mapping: dict[str, str] = dict(getattr(module, "MAPPING", {}))
                # A package of a namespace has a name of several parts, with a folder for each.
                own += [_above(Path(one), levels=name.count(".") + 1) for name, one in mapping.items()]
        for finder in sys.meta_path:
            files = [Path(one) for one in dict(getattr(finder, "_redirections", {})).values()]
            own += [one.parent.parent if one.name == "__init__.py" else one.parent for one in files]
        inside = [self.mapped(one) for one in own if not installed(one)]
        return list(dict.fromkeys(str(one) for one in inside if one is not None))

    def _beside(self, test: Path) -> list[Path]:
        """Return the files of a test's folder of tests, such as `tests`, that are not the same in the other tree."""
        tests = folder_of_tests(test, self.here)
        if tests is None:
            return []
        folder = str(tests.relative_to(self.here))
        commit = git("rev-parse", "HEAD", where=self.there)
        changed = git("diff", "--name-only", "--no-renames", "-z", commit, "--", folder, where=self.here)
        new = git("ls-files", "--others", "--exclude-standard", "-z", "--", folder, where=self.here)
        return [self.here / name for name in f"{changed}\0{new}".split("\0") if name]

    def take_over(self, test: Path, top: Path) -> None:
        """Replace a test's file, the conftest.py files from `top` down to it, and its folder of tests, in the other tree.

        A helper module or data of another size would else be taken for a difference of the code. A file that this tree
        does not have any more is removed there.
        """
        file = test.resolve()
        folders = [one for one in file.parents if one.is_relative_to(top.resolve())]
        for path in (file, *(folder / "conftest.py" for folder in folders), *self._beside(file)):
            there = self.mapped(path.parent)
            if there is not None:
                self._replace(path, there / path.name)

    def _replace(self, path: Path, there: Path) -> None:
        """Make a file of the other tree the same as in this one. A link in that tree must not lead us out of it."""
        if not there.parent.resolve().is_relative_to(self.there):
            return
        if not path.is_file():
            if there.is_file() or there.is_symlink():
                there.unlink()
            return
        # A file here may be a folder there, and the other way round.
        for one in (there, *there.parents):
            if one == self.there:
                break
            if one.is_symlink() or one.is_file():
                one.unlink()
        if there.is_dir():
            shutil.rmtree(there)
        there.parent.mkdir(parents=True, exist_ok=True)
        # With its mode: a test may run it.
        shutil.copy(path, there)


def _above(path: Path, *, levels: int) -> Path:
    return path.parents[min(levels, len(path.parents)) - 1]


@contextlib.contextmanager
def worktree(revision: str, folder: Path) -> Iterator[Worktree]:
    """Check out a revision of the repository of `folder` for the time of the block.

    Raises:
        UsageError: The folder is in no repository, or there is no such revision.
    """
    here = Path(git("rev-parse", "--show-toplevel", where=folder)).resolve()
    try:
        commit = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", where=here)
    except UsageError:  # quiet: git itself says nothing about a name that it does not know
        raise UsageError(f"{revision!r} is not a revision of the repository {here}", hint=_missing(here)) from None
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH)).resolve()
    there = scratch / "tree"
    try:
        # A hook of the user's may install, build or ask, and it knows nothing of this tree.
        unhooked = ("-c", f"core.hooksPath={os.devnull}")
        git(*unhooked, "worktree", "add", "--detach", "--quiet", str(there), commit, where=here)
        yield Worktree(here, there)
    except BaseException:
        # The first error tells more, and the tree may not be there yet.
        with contextlib.suppress(UsageError):
            _remove(here, scratch)
        raise
    _remove(here, scratch)


def _remove(here: Path, scratch: Path) -> None:
    """Remove the other tree, and the folder that it is in. Signals wait for it."""
    with undisturbed():
        try:
            # Twice "--force": git locks a tree while it checks it out, and a signal may end that.
            git("worktree", "remove", "--force", "--force", str(scratch / "tree"), where=here, own_group=True)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _missing(here: Path) -> str:
    """Return a hint for a revision that the repository does not have; a shallow clone, as of a CI, lacks nearly all."""
    if git("rev-parse", "--is-shallow-repository", where=here) == "true":
        return (
            "this clone is shallow: fetch all branches (`fetch-depth: 0` of actions/checkout), and name `origin/main`"
        )
    return "name a commit, a branch or a tag; a branch that is only on the server is `origin/NAME`"


def turn_taker(files: str) -> Callable[[], None]:
    """Return a function that waits for this process's turn, with the two descriptors that the launcher passed."""
    # In a test's fake file system the functions of `os` know no descriptors, but these objects do.
    ended, begins = (
        io.FileIO(int(one), mode, closefd=False) for one, mode in zip(files.split(","), ("wb", "rb"), strict=False)
    )

    def wait() -> None:
        ended.write(b".")
        if not begins.read(1):
            # The launcher is gone, so nothing needs this process.
            os._exit(1)

    return wait


_LOOK_S = 0.5


@final
class _Side:
    """One of the two processes that take turns."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], scratch: Path, *, other: str = ""
    ) -> None:
        """Start the process; `other` is the other tree, whose code it must not import."""
        self._answer = scratch / ANSWER
        self._late = False
        mine_ended, its_ended = os.pipe()
        its_begins, mine_begins = os.pipe()
        self._ended, self._begins = mine_ended, mine_begins
        self._said = (scratch / "said").open("w+", encoding="utf-8", errors="replace")
        try:
            self.process = subprocess.Popen(
                [*command, f"{TURN_OPTION}={its_ended},{its_begins}" + (f",{other}" if other else "")],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=subprocess.STDOUT,
                pass_fds=(its_ended, its_begins),
                process_group=0,
            )
        finally:
            os.close(its_ended)
            os.close(its_begins)
        self.runs = True

    def until_it_waits(self) -> None:
        """Wait until the process waits for its next turn or has ended; kill it if it does neither for `LIMIT_S`."""
        deadline_s = time.monotonic() + LIMIT_S
        while not select.select([self._ended], [], [], _LOOK_S)[0]:
            # A child that the process forked may hold the pipe open, so the process's end does not close the pipe.
            ended = self.process.poll() is not None
            if ended or time.monotonic() > deadline_s:
                kill(self.process)
                self.runs, self._late = False, not ended
                return
        self.runs = bool(os.read(self._ended, 1))

    def have_a_turn(self) -> None:
        """Give the process a turn, and return when the turn is over."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._begins, b".")
        self.until_it_waits()

    def launched(self) -> Launched:
        """Wait for the process's end, kill it if that takes longer than `LIMIT_S`, and return its results."""
        if self._late:
            return Launched.failed(f"killed after {LIMIT_S} s in one turn")
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            kill(self.process)
            return Launched.failed(f"killed {LIMIT_S} s after its last turn")
        self._said.seek(0)
        return taken(self._answer, subprocess.CompletedProcess([], self.process.returncode, self._said.read(), ""))

    def close(self) -> None:
        """Kill the process if it still runs, and close the descriptors."""
        os.close(self._begins)
        os.close(self._ended)
        if self.process.poll() is None:
            kill(self.process)
            self.process.wait()
        self._said.close()


@final
@dataclass
class Sides:
    """The results of the launches of one test in this tree and in the other one.

    Attributes:
        here: Those in this tree.
        there: Those in the other tree.
        only_second: For each pair of which one process failed, whether that is the one that started second.
        shown: The names of the benchmarks that the session's own run of the test has made.
    """

    here: Launched = field(default_factory=Launched)
    there: Launched = field(default_factory=Launched)
    only_second: list[bool] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)

    def tell_of_both(self) -> None:
        """Add to the reasons of failures that two processes live at once, if that is what the failures look like.

        A port or a file can be taken once only: the process that started second fails, in whichever tree it is. An
        error of one tree's code fails in the process that started first as well. In a single pair, the process that
        started second is the other tree's, so its code may be the cause; the reason must tell that a thing was taken.
        """
        both_fail = self.here.failures and self.there.failures
        once = len(self.here.ends) == 1 and all(map(_TAKEN.search, self.there.failures))
        if self.only_second and all(self.only_second) and (both_fail or once):
            for one in (self.here, self.there):
                one.failures = [f"{why} ({_AT_ONCE})" for why in one.failures]
                one.ends = [replace(end, why=end.why and f"{end.why} ({_AT_ONCE})") for end in one.ends]


_TAKEN = re.compile(
    r"""(?:^|:[ ])(?:[\w.]+\.)?(?:OSError|BlockingIOError|FileExistsError|TimeoutError|Timeout|\w*Lock\w*)(?::|$)
        |(?<!')\b(?:in[ ]use|already|(?:is|are|was|been)[ ]locked|exists|timed[ ]out)\b""",
    re.VERBOSE,
)
"""The reason of a failure is an error of things that are taken, by its type (at the reason's begin), or by its words."""

_AT_ONCE = (
    "both trees' processes live at the same time: what a test takes for itself, such as a port, must depend on "
    f"`{SIDE}`"
)


@final
@dataclass
class Revision:
    """The results of the other tree's benchmarks, for comparison with this tree's.

    Attributes:
        name: The name by which the user asked for the revision.
        results: The results by the benchmark's key.
        failed: Launches that failed there, each with its reason, in one line.
    """

    name: str
    results: dict[str, Result] = field(default_factory=dict)
    failed: dict[str, None] = field(default_factory=dict)

    def take(self, journal: Journal, there: Launched) -> None:
        """Add the results of the other tree's launches of a test's benchmarks."""
        for name, entry in zip(journal.entries, journal.keyed(), strict=True):
            measured = there.measured.get(name, ())
            missing = [there.missing[name]] if name in there.missing else []
            self.results[entry.key] = replace(entry.result, launches=measured, failed=(*there.failures, *missing))
            self.failed |= dict.fromkeys(f"{name}: in {self.name}: {why}" for why in missing)
        self.failed |= dict.fromkeys(f"{journal.test}: in {self.name}: {why}" for why in there.failures)

    def ratio(self, now: Entry) -> stats.Interval | None:
        """Return a benchmark's time per call in this tree over that in the other one, from launches that took turns."""
        other = self.results.get(now.key)
        found = now.result.ratio_beside(other) if other is not None else None
        return found[0] if found is not None else None

    def has(self, now: Entry) -> bool:
        """Tell whether a launch of a benchmark was measured in the other tree."""
        other = self.results.get(now.key)
        return other is not None and other.measured


def measure_against(
    found: dict[str, Sides], tree: Worktree, how: Launching, tests: Sequence[str], launches: int, top: Path
) -> None:
    """Launch each test several times in this tree and in the other one, in turns.

    Args:
        found: Gets the results by test. An exception, such as that of Ctrl-C, leaves those of the finished launches.
        tree: The other tree.
        how: The way of launching tests.
        tests: pytest's names of the tests, with their files' paths.
        launches: The number of launches of each test.
        top: pytest's root folder.

    Raises:
        UsageError: A test is outside the repository.
    """
    found.update((test, Sides()) for test in tests)
    # Where a hook of git runs this session, its variables name this tree's repository and the index of the commit.
    shared = without_coverage(without_gits_variables())
    usual = {**shared, SIDE: "0"}
    elsewhere = {
        **shared,
        SIDE: "1",
        "PYTHONPATH": os.pathsep.join([*tree.import_path(), *_python_path()]),
    }
    for name in dict.fromkeys(test.partition("::")[0] for test in tests):
        tree.take_over(Path(name), top)
    lacking: set[str] = set()
    progress, left = Progress(how, len(tests), launches, trees=2), list(tests)
    for block in range(launches):
        for test in turns.in_order(left, block):
            progress.launch(test)
            file, _, name = test.partition("::")
            theirs, their_folder = tree.mapped(Path(file)), tree.mapped(how.folder)
            if theirs is None or their_folder is None:
                raise UsageError(
                    f"{file} is outside {tree.here}", hint="--headway-against is for tests of the repository"
                )
            # The session's folder may be new in this tree.
            their_folder.mkdir(parents=True, exist_ok=True)
            places: list[_Place] = [(how.folder, test, usual, str(tree.there))]
            if test not in lacking:
                places.append((their_folder, f"{theirs}::{name}", elsewhere, str(tree.here)))
            launched = _launched(places, how, block)
            mine, *others = turns.in_order(launched, block)
            failed = [bool(one.failures) for one in launched]
            if sum(failed) == 1 < len(failed):
                found[test].only_second.append(failed[1])
            _keep(found[test], mine, others[0] if others else Launched(), name_of_turns())
            if test not in lacking and (why := _cannot_import(found[test].there)):
                lacking.add(test)
                how.say(f"no more launches of it in the other tree: {why}")
            if found[test].here.is_idle and (test in lacking or found[test].there.is_idle):
                left.remove(test)
                progress.leave_out(launches - block - 1)
    for both in found.values():
        both.tell_of_both()


_Place = tuple[Path, str, Mapping[str, str], str]
"""Where a process runs, pytest's name of its test there, its environment, and the other tree."""


def _launched(places: Sequence[_Place], how: Launching, block: int) -> list[Launched]:
    """Launch a test in each place, let the processes take turns, and return their results in the order of their starts.

    The process that starts first may have the better core to its end, so each tree starts first equally often.
    """
    with how.scratch("headway-turns-") as scratch, contextlib.ExitStack() as stack:
        sides: list[_Side] = []
        for where, what, environment, other in turns.in_order(places, block):
            own = Path(scratch) / str(len(sides))
            own.mkdir()
            side = _Side(how.command(what, own), where, environment, own, other=other)
            stack.callback(side.close)
            side.until_it_waits()
            sides.append(side)
        _take_turns(sides, 0)
        return [side.launched() for side in sides]


def _cannot_import(there: Launched) -> str:
    """Return why a test's launches in the other tree have measured nothing, if that is an import; "" else.

    A module that cannot be imported once can never be: the revision lacks it, or nobody has built it there.
    """
    if there.measured:
        return ""
    return next((one for one in there.failures if "ImportError" in one or "ModuleNotFoundError" in one), "")


def _python_path() -> list[str]:
    return [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]


def _take_turns(sides: Sequence[_Side], first: int) -> None:
    turn = first
    while any(side.runs for side in sides):
        for side in turns.in_order(sides, turn):
            if side.runs:
                side.have_a_turn()
        turn += 1


def _keep(found: Sides, mine: Launched, other: Launched, name: str) -> None:
    """Add the results of one launch in each tree; the rounds that both have took turns."""
    for launched, more in ((found.here, mine), (found.there, other)):
        launched.failures += more.failures
        launched.ends += more.ends
        partner = other if more is mine else mine
        for benchmark, measured in more.measured.items():
            common = min(len(one.values_s) for one in (*measured, *partner.measured.get(benchmark, measured)))
            shared = tuple(
                replace(
                    one,
                    values_s=one.values_s[:common],
                    reference_s=one.reference_s[:common],
                    beside=f"{name} {benchmark}",
                )
                for one in measured
            )
            launched.measured[benchmark] = (*launched.measured.get(benchmark, ()), *shared)
