"""Run test programs in isolation, with and without Headway, and compare the outcomes of their cases.

cpython_tests.py (CPython's own tests) and library_suites.py (tests of libraries) use it. Each program has a process, a
session and a folder of its own. A recorder inside the program writes a line of JSON for each case: [case, "started"] or
[case, outcome, reason].
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

# The time that a process gets to write its threads' stacks after SIGABRT.
DUMP_S = 10.0
# The name under which the process itself is listed beside its cases: it can crash, hang, or fail outside of any case.
PROCESS = "(process)"
# Result -> rank; a worse result has a greater rank. Cases that did not end, or never started, rank like failed ones.
_RANKS = {"passed": 0, "skipped": 1}
_WORST = 2

WORSE = "only with Headway"
SOMETIMES_WORSE = "sometimes, only with Headway"
BETTER = "only without Headway"
FLAKY = "flaky in both ways"


@dataclass(frozen=True)
class Outcome:
    """How a case ended, and the reason if it did not pass."""

    result: str
    reason: str = ""

    @property
    def rank(self) -> int:
        """0 passed, 1 skipped, 2 anything else."""
        return _RANKS.get(self.result, _WORST)

    @property
    def is_bad(self) -> bool:
        """Whether the case neither passed nor was skipped."""
        return self.rank == _WORST


ABSENT = Outcome("absent")


@dataclass
class Run:
    """One run of a test module: the outcomes of its cases and of PROCESS, its time, and its trace files."""

    outcomes: dict[str, Outcome]
    seconds: float
    trace_files: int

    def count(self, result: str) -> int:
        """Return how many cases have this result."""
        return sum(outcome.result == result for case, outcome in self.outcomes.items() if case != PROCESS)


@dataclass(frozen=True)
class ExitCodes:
    """The exit statuses of a test program for these ends: all passed, some case failed, nothing ran."""

    ok: int
    failed: int
    nothing_ran: int


@dataclass(frozen=True)
class Difference:
    """A case that did not end alike with and without Headway: all its outcomes, plain and traced."""

    case: str
    verdict: str
    plain: tuple[Outcome, ...]
    traced: tuple[Outcome, ...]


# Session -> folder, of the runs in progress; an interruption of this process ends them. Only a run's own thread changes
# its entry.
_sessions: dict[int, Path] = {}


def plain_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a run: no variable of this process or of the user reaches the tests."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
    }


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Yield a new folder with the parts that a run needs; it is removed afterwards."""
    # The path is short because the names of sockets are limited to 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="hw-"))
    try:
        for part in ("home", "tmp", "traces"):
            (folder / part).mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_session(
    command: Sequence[str],
    env: dict[str, str],
    folder: Path,
    output: int,
    timeout_s: float,
    *,
    settling_s: float = 0.0,
) -> int | None:
    """Run `command` in a session of its own; return its exit status, or None if it did not end in time.

    No process that it started is alive afterwards. After it has ended, processes that are left get `settling_s` to end
    by themselves: the collector, which writes the trace, outlives the program.
    """
    process = subprocess.Popen(
        command, env=env, cwd=folder / "tmp", stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        start_new_session=True,
    )  # fmt: skip
    _sessions[process.pid] = folder
    try:
        status = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        # At this signal, faulthandler writes the stack of each thread; regrtest has enabled it.
        process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(DUMP_S)
        return None
    else:
        settled_s = time.monotonic() + settling_s
        while time.monotonic() < settled_s and left_of(process.pid, folder):
            time.sleep(0.05)
        return status
    finally:
        kill_session(process.pid, folder)
        process.wait()
        del _sessions[process.pid]


def kill_session(session: int, folder: Path) -> None:
    """Kill the processes that a run left: those of its session, and others that have its TMPDIR or work in it."""
    for _ in range(3):  # a process that is about to fork may have a child that the first look does not see
        left = left_of(session, folder)
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.05)


def left_of(session: int, folder: Path) -> list[int]:
    """Return the processes of a run that are alive."""
    mark = f"TMPDIR={folder}/".encode()
    return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if belongs(pid, session, mark, folder)]


def belongs(pid: int, session: int, mark: bytes, folder: Path) -> bool:
    """Return whether the run started this process, and the process is not dead."""
    proc = Path("/proc", str(pid))
    try:
        # The fields after the name, which may hold any character: state, parent, group, session.
        fields = (proc / "stat").read_text(errors="replace").rpartition(")")[2].split()
        if fields[0] in "ZX":
            return False
        return (
            int(fields[3]) == session
            or mark in (proc / "environ").read_bytes()
            or Path(os.readlink(proc / "cwd")).is_relative_to(folder)
        )
    except OSError:  # the process has ended meanwhile, or belongs to another user
        return False


def read_outcomes(file: Path) -> dict[str, Outcome]:
    """Return the outcomes that the recorder wrote: for each case the worst one, since its subtests may differ."""
    found: dict[str, Outcome] = {}
    with contextlib.suppress(FileNotFoundError):
        for line in file.read_text("utf-8", errors="replace").splitlines():
            try:
                case, result, reason = json.loads(line)
            except ValueError:  # the process was killed in the middle of the line
                continue
            new = Outcome("did not end" if result == "started" else result, reason)
            old = found.get(case)
            if old is None or old.result == "did not end" or new.rank > old.rank:
                # A case may run twice under one name; its second start says nothing.
                found[case] = old if old is not None and result == "started" else new
    return found


def process_outcome(
    ending: int | None, outcomes: dict[str, Outcome], timeout_s: float, codes: ExitCodes, *, is_skipped: bool = False
) -> Outcome:
    """Return how the process ended, beyond what its cases tell; `is_skipped`: it said that all of them are skipped."""
    if ending is None:
        return Outcome("failed", f"did not end within {timeout_s:.0f} s")
    if ending < 0:
        return Outcome("failed", f"killed by {signal.Signals(-ending).name}")
    if not outcomes and ending in (codes.ok, codes.nothing_ran):
        return Outcome("skipped", "skipped") if is_skipped else Outcome("failed", "no outcome was recorded")
    unended = sum(outcome.result == "did not end" for outcome in outcomes.values())
    if unended:
        return Outcome("failed", f"{unended} cases did not end, exit status {ending}")
    has_failed = any(outcome.is_bad for outcome in outcomes.values())
    if ending in (codes.ok, codes.nothing_ran) or (ending == codes.failed and has_failed):
        return Outcome("passed")
    return Outcome("failed", f"exit status {ending}")


def differing(plain: Run, traced: Run) -> list[str]:
    """Return the cases that did not end alike."""
    cases = dict.fromkeys([*plain.outcomes, *traced.outcomes])
    return [case for case in cases if outcome_of(plain, case).rank != outcome_of(traced, case).rank]


def outcome_of(done: Run, case: str) -> Outcome:
    """Return how the case ended in that run."""
    return done.outcomes.get(case, ABSENT)


def verdict(plain: Sequence[Outcome], traced: Sequence[Outcome]) -> str:
    """Return the verdict on a case that differed in the first two runs, from the outcomes of all its runs.

    WORSE: every traced run ended worse than any plain one. BETTER: the reverse. SOMETIMES_WORSE: the plain runs agree,
    and some traced run ended worse. FLAKY: anything else. The plain runs differ among themselves, or the case fails
    plainly and only sometimes under tracing.
    """
    plain_ranks = [outcome.rank for outcome in plain]
    traced_ranks = [outcome.rank for outcome in traced]
    if min(traced_ranks) > max(plain_ranks):
        return WORSE
    if min(plain_ranks) > max(traced_ranks):
        return BETTER
    if len(set(plain_ranks)) == 1 and max(traced_ranks) > plain_ranks[0]:
        return SOMETIMES_WORSE
    return FLAKY


def shown(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes of a case's runs, in order, and the first reason."""
    reason = next((first_line(outcome.reason) for outcome in outcomes if outcome.reason), "")
    return ", ".join(outcome.result for outcome in outcomes) + (f" ({reason})" if reason else "")


def first_line(text: str) -> str:
    """Return the first line of a reason."""
    return text.partition("\n")[0]


Result = TypeVar("Result")


def all_of(jobs: Sequence[Callable[[], Result]], *, at_once: int = 1) -> list[Result]:
    """Call each of `jobs`, `at_once` at a time, and return their results; an interruption also ends their runs."""
    pool = concurrent.futures.ThreadPoolExecutor(at_once)
    pending = [pool.submit(job) for job in jobs]
    try:
        return [one.result() for one in pending]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        # After the last result, no job is left. After an interruption, each kill ends a run; the job's thread may then
        # start another run, which is killed, too.
        while any(one.running() for one in pending):
            for session, folder in list(_sessions.items()):
                kill_session(session, folder)
            time.sleep(0.05)


def prepare_process() -> None:
    """Set up this process so that it starts tests as a terminal would."""
    # A shell that starts this process in the background has SIGINT and SIGQUIT ignored; the tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    # Some tests crash children on purpose.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    signal.signal(signal.SIGTERM, end_on_signal)


def end_on_signal(number: int, _frame: object) -> NoReturn:
    """Turn SIGTERM into an exception, so that no process that this one started stays alive."""
    raise SystemExit(128 + number)
