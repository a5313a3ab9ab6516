"""Launches in fresh processes: each benchmark alone in a pytest of its own, in blocks, in a new random order each time."""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from headway.measure.journal import Journal
from headway.measure.result import Measured

__all__ = ["CHILD_OPTION", "Launched", "launch_all", "write_launch"]

CHILD_OPTION = "--headway-launch-file"
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
    "--basetemp",
    "--import-mode",
    "--ignore",
}
"""Options of pytest's whose value may look like a file."""
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
_NOT_OURS |= {"--html", "--report-log"}
"""Options with a value that are the session's and not a launch's: where it writes, when it stops, who shares its work."""
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
_ALONE |= {"--sw", "--stepwise", "--sw-skip", "--stepwise-skip", "--cov", "--no-cov", "--cache-clear"}
_FLAGS = {"--headway-disable", "--headway-trace", "--headway-no-store"}
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
)
_LIMIT_S = 900


@final
@dataclass
class Launched:
    """What the launches of one test gave: its benchmarks by name, and why launches failed."""

    measured: dict[str, tuple[Measured, ...]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def tell_the_missing(self, launches: int) -> None:
        """Note as failures the launches that ended before a benchmark that others measured."""
        for name, measured in self.measured.items():
            lost = launches - len(self.failures) - len(measured)
            if lost > 0:
                self.failures.append(f"{lost} of {launches} launches ended before {name}")


def write_launch(path: Path, journal: Journal) -> None:
    """Write what this process measured, for the one that launched it."""
    found = {name: [one.to_json() for one in entry.result.launches] for name, entry in journal.entries.items()}
    path.write_text(json.dumps(found), encoding="utf-8")


def _options(arguments: Sequence[str], positional: Sequence[str]) -> list[str]:
    """Return the session's own options without its files and what is not for a launch."""
    kept: list[str] = []
    skip, value = False, False
    for one in arguments:
        if skip:
            skip = False
        elif value or one in _VALUED:
            kept.append(one)
            value = not value and one in _VALUED
        elif one in _NOT_OURS:
            skip = True
        elif one.startswith("--headway-") and "=" not in one:
            skip = one not in _FLAGS
        elif one not in positional and one not in _ALONE and not one.startswith((*_PREFIXES, "-n")):
            kept.append(one)
    return kept


def _python() -> list[str]:
    """Return how to start a Python like this one: with its flags, and with the folder on its path only where ours has it."""
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001  (multiprocessing's own way)
    here = {"", str(Path.cwd())} & set(sys.path)
    return [sys.executable, *flags, *([] if here or "-P" in flags else ["-P"])]


def launch_all(
    tests: Sequence[str],
    launches: int,
    arguments: Sequence[str],
    positional: Sequence[str],
    folder: Path,
    *,
    trace: bool,
    spread: bool,
    say: Callable[[str], None],
    seed: int = 0,
) -> dict[str, Launched]:
    """Launch each test so often in a fresh process, and return what they measured, by test.

    Args:
        tests: What pytest calls them, with their files' paths.
        launches: How often each.
        arguments: The session's own arguments.
        positional: Those of them that are files and folders.
        folder: Where the session was started.
        trace: Look at the GIL in all of them.
        spread: pytest-xdist is there: it must be told to stay away.
        say: Told before each launch.
        seed: For the order.
    """
    found = {test: Launched() for test in tests}
    options = _options(arguments, positional)
    shuffler = random.Random(seed)
    number, every = 0, launches * len(tests)
    with tempfile.TemporaryDirectory(prefix="headway-launches-") as scratch:
        answer = Path(scratch) / "launch.json"
        for _ in range(launches):
            for test in shuffler.sample(list(tests), len(tests)):
                number += 1
                say(f"launch {number} of {every}: {test.rpartition(os.sep)[2]}")
                answer.unlink(missing_ok=True)
                command = [
                    *_python(),
                    "-m",
                    "pytest",
                    *options,
                    test,
                    f"{CHILD_OPTION}={answer}",
                    "-o",
                    f"cache_dir={scratch}/cache",
                ]
                command += ["--headway-trace"] * trace + ["-n", "0"] * spread
                try:
                    done = subprocess.run(
                        command,
                        cwd=folder,
                        capture_output=True,
                        text=True,
                        errors="replace",
                        check=False,
                        timeout=_LIMIT_S,
                    )
                except subprocess.TimeoutExpired:
                    found[test].failures.append(f"killed after {_LIMIT_S} s")
                    continue
                _take(found[test], answer, done)
    for launched in found.values():
        launched.tell_the_missing(launches)
    return found


def _take(launched: Launched, answer: Path, done: "subprocess.CompletedProcess[str]") -> None:
    try:
        names = json.loads(answer.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        names = {}
    for name, values in names.items():
        launched.measured[name] = (*launched.measured.get(name, ()), *map(Measured.from_json, values))
    # A test that fails (1) has measured all the same: what it asserts is judged over all launches, not in one.
    if not names or done.returncode not in {0, 1}:
        said = [line.strip() for line in done.stdout.splitlines() if line.startswith(("E ", "FAILED", "ERROR"))]
        said = said or [line.strip() for line in done.stderr.splitlines() if line.strip()][-1:]
        launched.failures.append(": ".join([f"exit code {done.returncode}", *said[:1]]))
