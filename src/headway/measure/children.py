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
_WITH_VALUE = {"-n", "--numprocesses", "--dist", "--maxfail", "--lfnf", "--pdbcls", "--durations", "--durations-min"}
_WITH_VALUE |= {"--junitxml", "--junit-xml", "--cov", "--cov-report", "--cov-config", "--html", "--report-log"}
_ALONE = {"-x", "--exitfirst", "--pdb", "--trace", "--lf", "--last-failed", "--ff", "--failed-first", "--nf", "--sw"}
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
"""What of the command line is the session's and not a launch's."""


@final
@dataclass
class Launched:
    """What the launches of one test gave: its benchmarks by name, and why launches failed."""

    measured: dict[str, tuple[Measured, ...]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def write_launch(path: Path, journal: Journal) -> None:
    """Write what this process measured, for the one that launched it."""
    found = {name: [one.to_json() for one in entry.result.launches] for name, entry in journal.entries.items()}
    path.write_text(json.dumps(found), encoding="utf-8")


def _options(arguments: Sequence[str], positional: Sequence[str]) -> list[str]:
    """Return the session's own options without what is not for a launch: its files, where it writes, when it stops."""
    kept, skip = [], False
    for one in arguments:
        if skip:
            skip = False
        elif one in _WITH_VALUE:
            skip = True
        elif one.startswith("--headway-") and "=" not in one:
            skip = one not in _FLAGS
        elif one not in positional and one not in _ALONE and not one.startswith(_PREFIXES) and not one.startswith("-n"):
            kept.append(one)
    return kept


def launch_all(
    tests: Sequence[str],
    launches: int,
    arguments: Sequence[str],
    positional: Sequence[str],
    folder: Path,
    *,
    trace: bool,
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
                    sys.executable,
                    "-m",
                    "pytest",
                    *options,
                    test,
                    f"{CHILD_OPTION}={answer}",
                    "-p",
                    "no:cacheprovider",
                ]
                command += ["--headway-trace"] if trace else []
                done = subprocess.run(
                    command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
                )
                _take(found[test], answer, done)
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
        lines = [line.strip() for line in done.stdout.splitlines() if line.startswith(("E ", "FAILED", "ERROR"))]
        launched.failures.append(": ".join([f"exit code {done.returncode}", *lines[:1]]))
