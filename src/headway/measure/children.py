"""Launches in fresh processes: each benchmark alone in its own pytest, in blocks, in a new random order each time."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, final

from headway.host.endings import ended_by
from headway.measure.journal import Journal
from headway.measure.measured import Measured

__all__ = [
    "ANSWER",
    "CHILD_OPTION",
    "LIMIT_S",
    "TEST_OPTION",
    "End",
    "Launched",
    "Launching",
    "Progress",
    "expanded",
    "kill",
    "launch_all",
    "nothing_left_behind",
    "taken",
    "undisturbed",
    "without_coverage",
    "write_launch",
]

CHILD_OPTION = "--headway-launch-file"
TEST_OPTION = "--headway-launch-test"
_VALUED = {
    "-k",
    "-m",
    "-p",
    "-c",
    "-o",
    "-W",
    "-r",
    "--rootdir",
    "--confcutdir",
    "--import-mode",
    "--ignore",
}
"""Options of pytest whose value may look like a file."""
_NOT_OURS = {"-n", "--numprocesses", "--dist", "--maxfail", "--lfnf", "--pdbcls", "--durations", "--durations-min"}
_NOT_OURS |= {
    "--junitxml",
    "--junit-xml",
    "--junit-prefix",
    "--junitprefix",
    "--cov-report",
    "--cov-config",
    "--cov-fail-under",
}
_NOT_OURS |= {"--html", "--report-log", "--basetemp", "--log-file", "--alluredir", "--pastebin", "--durations-path"}
"""Options with a value that concern the session and not a launch: output files, folders, when to stop, distribution of
work."""
_ALONE = {
    "-x",
    "--exitfirst",
    "--pdb",
    "--trace",
    "--lf",
    "--last-failed",
    "--ff",
    "--failed-first",
    "--nf",
    "--new-first",
}
_ALONE |= {"--sw", "--stepwise", "--sw-skip", "--stepwise-skip", "--no-cov", "--cache-clear", "--clean-alluredir"}
_ALONE |= {"--store-durations", "--clean-durations"}
_FLAGS = {"--headway-disable", "--headway-trace", "--headway-no-store", "--headway-only", "--headway-skip"}
_FLAGS |= {"--headway-stalls", "--headway-with-reference"}
"""Our options that have no value."""
_PREFIXES = (
    "--headway-",
    "--junit",
    "--cov",
    "--html",
    "--report",
    "--durations",
    "--maxfail",
    "--numprocesses",
    "--dist",
    "--basetemp",
    "--log-file=",
    "--alluredir",
    "--pastebin",
)
LIMIT_S = 900
"""The most seconds that a launch may take; of two that take turns, the most from one turn to the next."""


@final
@dataclass(frozen=True)
class End:
    """The end of a launch.

    Attributes:
        measured: The names of its benchmarks; none if it is among the failed launches.
        why: Why its test failed; "" if the test did not fail.
    """

    measured: frozenset[str]
    why: str


@final
@dataclass
class Launched:
    """The results of the launches of one test.

    Attributes:
        measured: The measurements of its benchmarks, by name.
        failures: The reasons of failed launches, which have no results or no proper end.
        ends: The end of each launch.
    """

    measured: dict[str, tuple[Measured, ...]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)

    @classmethod
    def failed(cls, why: str) -> "Launched":
        """Return the results of one launch that has failed."""
        return cls(failures=[why], ends=[End(frozenset(), why)])

    def add(self, one: "Launched") -> None:
        """Add the results of one more launch."""
        self.failures += one.failures
        self.ends += one.ends
        for name, measured in one.measured.items():
            self.measured[name] = (*self.measured.get(name, ()), *measured)

    @property
    def is_idle(self) -> bool:
        """Whether all of its launches ended well and measured nothing, as those of a skipped test do."""
        return bool(self.ends) and not any(end.measured or end.why for end in self.ends)

    @property
    def missing(self) -> dict[str, str]:
        """Why a benchmark is missing from launches that measured others, by its name."""
        found = {}
        for name in self.measured:
            lost = [end.why for end in self.ends if end.measured and name not in end.measured]
            why = next(filter(None, lost), "")
            if lost:
                how = f"ended before it: {why}" if why else "had no benchmark of this name"
                found[name] = f"{len(lost)} of {len(self.ends)} launches {how}"
        return found

    @property
    def broken(self) -> str:
        """Why the test failed in its first launch, if it failed in every launch; "" otherwise."""
        return self.ends[0].why if self.ends and all(end.why for end in self.ends) else ""


def write_launch(path: Path, journal: Journal) -> None:
    """Write the results of this process for the process that launched it."""
    # A process that forked for its test has measured nothing.
    entries = {name: entry for name, entry in journal.entries.items() if entry.result.launches}
    found = {name: [one.to_json() for one in entry.result.launches] for name, entry in entries.items()}
    path.write_text(json.dumps(found), encoding="utf-8")


def expanded(arguments: Sequence[str], positional: Sequence[str], folder: Path) -> list[str]:
    """Return a session's arguments with those that its files of arguments contain (`@FILE`), as argparse reads them.

    Another tree may lack such a file, and the options in it that are not for a launch are left out like others.

    Args:
        arguments: The session's own arguments.
        positional: Those of the arguments that are files and folders; an older pytest has `@FILE` among them.
        folder: The folder in which the session was started.
    """
    found: list[str] = []
    for one in arguments:
        file = folder / one.removeprefix("@")
        # A pipe that was read once cannot be read again.
        if not one.startswith("@") or one in positional or not file.is_file():
            found.append(one)
            continue
        text = file.read_text(encoding=sys.getfilesystemencoding(), errors=sys.getfilesystemencodeerrors())
        found += expanded(text.splitlines(), positional, folder)
    return found


def _options(arguments: Sequence[str], positional: Sequence[str]) -> list[str]:
    """Return the session's own options, without its files and without options that are not for a launch."""
    kept: list[str] = []
    skip, value = False, False
    for one, following in zip(arguments, [*arguments, "-"][1:], strict=True):
        if skip:
            skip = False
        elif value or one in _VALUED:
            kept.append(one)
            value = not value and one in _VALUED
        elif one in _NOT_OURS:
            skip = True
        elif one == "--cov":
            # Its value may be left out.
            skip = not following.startswith("-")
        elif one.startswith("--headway-") and "=" not in one:
            skip = one not in _FLAGS
        elif one not in positional and one not in _ALONE and not one.startswith((*_PREFIXES, "-n")):
            kept.append(one)
    return kept


def _python() -> list[str]:
    """Return the command for a Python like this one: with its flags, and `-P` if the folder is not on its path."""
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001  (multiprocessing's own way)
    here = {"", str(Path.cwd())} & set(sys.path)
    return [sys.executable, *flags, *([] if here or "-P" in flags else ["-P"])]


@final
@dataclass(frozen=True, kw_only=True)
class Launching:
    """The way in which a session launches its tests.

    Attributes:
        arguments: The session's own arguments.
        positional: Those of the arguments that are files and folders.
        folder: The folder in which the session was started.
        trace: Measure the GIL in all launches.
        besides: More options of every launch.
        reference: Measure each benchmark beside the reference that sessions are compared by.
        say: Called with a line before each launch.
        least_s: The least time that one launch of each test takes, by the tests' options and the start of a process.
        beside: The folder in which the launches' temporary files are, for a disk that the user has chosen; None means
            the system's.
        caches: pytest has its cache, and so the option that moves it.
    """

    arguments: Sequence[str]
    positional: Sequence[str]
    folder: Path
    trace: bool
    besides: Sequence[str]
    reference: bool
    say: Callable[[str], None]
    least_s: float = 0.0
    beside: Path | None = None
    caches: bool = True

    def scratch(self, prefix: str) -> "tempfile.TemporaryDirectory[str]":
        """Return a folder for launches' files, which its end removes."""
        return tempfile.TemporaryDirectory(prefix=prefix, dir=self.beside)

    def command(self, test: str, scratch: Path) -> list[str]:
        """Return the command of a launch of one test, which writes its answer and temporary files into `scratch`."""
        options = _options(self.arguments, self.positional)
        command = [*_python(), "-m", "pytest", *options, test, f"{CHILD_OPTION}={scratch / ANSWER}"]
        # More than one name of a test may reach the launch: `addopts` has effect there, too.
        command += [f"{TEST_OPTION}={test}", f"--basetemp={scratch / 'tmp'}"]
        command += ["-o", f"cache_dir={scratch}/cache"] if self.caches else []
        command += ["--headway-trace"] * self.trace + ["--headway-with-reference"] * self.reference
        return [*command, *self.besides]


@final
class Progress:
    """Says how long the launches of a session will take: before the first one by the options, later by those before."""

    def __init__(self, how: Launching, tests: int, launches: int, *, trees: int = 1) -> None:
        """Begin; `tests` are launched `launches` times each, in each of the trees."""
        self._how, self._tests, self._every, self._done = how, tests, launches * tests, 0
        self._of_each = " of each tree" if trees > 1 else ""
        least = _about(launches * trees * how.least_s)
        how.say(
            f"{self._every} launches{self._of_each} in fresh processes ({launches} of each test) take {least} or more"
        )
        self._begun_s = time.monotonic()

    def launch(self, test: str) -> None:
        """Tell of the next launch."""
        left = ""
        # A block has every test once; before its end, those to come may take longer than those so far.
        if self._done >= self._tests:
            each_s = (time.monotonic() - self._begun_s) / self._done
            left = f"; about {_about(each_s * (self._every - self._done))} left"
        self._done += 1
        # The name of a parameter may contain a slash, too.
        file, _, name = test.partition("::")
        shown = f"{Path(file).name}::{name}"
        self._how.say(f"launch {self._done} of {self._every}{self._of_each}: {shown}{left}")

    def leave_out(self, launches: int) -> None:
        """Count so many launches less: those of a test that is launched no more."""
        self._every -= launches


def _about(time_s: float) -> str:
    return f"{time_s:.0f} s" if time_s < 120 else f"{time_s / 60:.0f} min"


class _EndedBySignal(BaseException):
    """A signal that ends this process has arrived."""


@contextlib.contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Let the block end its processes and remove its folders before SIGTERM or SIGHUP ends this process.

    The process still ends by the signal. A signal that has a handler, or is ignored, stays as it is.
    """

    def end(arrived: int) -> None:
        if arrived == 1:  # the block is cleaning up otherwise
            raise _EndedBySignal

    with _noted([one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL], end):
        yield


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Hold signals that end a process back until the block is over: a second Ctrl-C would end what the first one began."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    held = [one for one in numbers if signal.getsignal(one) not in (signal.SIG_IGN, None)]
    with _noted(held, lambda _: None):
        yield


@contextlib.contextmanager
def _noted(numbers: Sequence[signal.Signals], then: Callable[[int], None]) -> Iterator[None]:
    """At each of these signals, call `then` with the number of signals so far.

    The first signal takes its effect after the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # No handler can be set in this thread.
        return
    arrived: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        arrived.append(number)
        then(len(arrived))

    before = {one: signal.getsignal(one) for one in numbers}
    try:
        for one in numbers:
            signal.signal(one, note)
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        if arrived:
            signal.raise_signal(arrived[0])


def launch_all(
    found: dict[str, Launched], how: Launching, tests: Sequence[str], launches: int, *, seed: int = 0
) -> None:
    """Launch each test several times, each in a fresh process.

    Args:
        found: Gets the results by test. An exception, such as that of Ctrl-C, leaves those of the finished launches.
        how: The way of launching.
        tests: pytest's names of the tests, with their files' paths.
        launches: The number of launches of each test.
        seed: The seed of the order.
    """
    found.update((test, Launched()) for test in tests)
    shuffler = random.Random(seed)
    progress, left = Progress(how, len(tests), launches), list(tests)
    with how.scratch("headway-launches-") as scratch:
        for block in range(launches):
            for test in shuffler.sample(left, len(left)):
                progress.launch(test)
                answer = Path(scratch) / ANSWER
                answer.unlink(missing_ok=True)
                try:
                    done = _run(how.command(test, Path(scratch)), how.folder)
                except subprocess.TimeoutExpired:
                    found[test].add(Launched.failed(f"killed after {LIMIT_S} s"))
                    continue
                found[test].add(taken(answer, done))
                if found[test].is_idle:
                    left.remove(test)
                    progress.leave_out(launches - block - 1)


def _run(command: Sequence[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a launch to its end. If that does not come in time, or this process is to end, its processes are killed."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=without_coverage(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,
    ) as launch:
        try:
            out, said = launch.communicate(timeout=LIMIT_S)
        except BaseException:
            kill(launch)
            raise
    return subprocess.CompletedProcess(command, launch.returncode, out, said)


def without_coverage(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables by which coverage traces each process that a traced one starts.

    `--no-cov` is an option of pytest-cov, and leaves these as they are.
    """
    return {name: value for name, value in environment.items() if not name.startswith(_OF_COVERAGE)}


_OF_COVERAGE = ("COVERAGE_PROCESS_", "COV_CORE_")


def kill(launch: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    """Kill a launch that has a process group of its own, with the workers that its benchmark may have."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(launch.pid, signal.SIGKILL)


_ERROR = re.compile(r"\b(?:\w*(?:error|exception|interrupt)|fault|aborted|killed)\b", re.IGNORECASE)

_PROGRESS = re.compile(r"E +(\[ *\d+(%|/\d+)\]|[\d.]+\w+)")
"""The line of progress of a test with an error in its set-up, under `-q`: a percentage, a count or a time at its end."""

ANSWER = "launch.json"
"""The name of a launch's answer file in its folder."""


def taken(answer: Path, done: "subprocess.CompletedProcess[str]") -> Launched:
    """Return the results of one launch that has ended."""
    names: dict[str, list[dict[str, Any]]] = {}
    with contextlib.suppress(OSError, ValueError):
        names = json.loads(answer.read_text(encoding="utf-8"))
    try:
        measured = {name: tuple(map(Measured.from_json, values)) for name, values in names.items()}
    except (AttributeError, TypeError, ValueError) as error:
        return Launched.failed(f"its answer has no results of Headway: {error}")
    # A failed test (1) has measured all the same: its assertions are judged over all launches, not in one.
    if names and done.returncode in {0, 1}:
        return Launched(measured, ends=[End(frozenset(names), _reason(done) if done.returncode else "")])
    why = _reason(done) if done.returncode else "it measured nothing, and did not fail"
    return Launched(measured, [why], [End(frozenset(), why if done.returncode else "")])


def _reason(done: "subprocess.CompletedProcess[str]") -> str:
    """Return how a launch ended, and the first error that it printed."""
    said = [
        line[2:].strip() if line.startswith("E ") else line.strip()
        for line in done.stdout.splitlines()
        if line.startswith(("E ", "FAILED", "ERROR")) and not _PROGRESS.fullmatch(line.rstrip())
    ]
    # Warnings stand there, too, and say nothing about the end.
    said = said or [line.strip() for line in done.stderr.splitlines() if _ERROR.search(line)][-1:]
    return ": ".join([ended_by(done.returncode), *said[:1]])
