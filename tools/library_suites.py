#!/usr/bin/env python3
"""Run the test suites of tornado, anyio and trio bare, traced and under a policy, and print the difference.

    python tools/library_suites.py [--interpreter 3.13 ...] [--suite trio ...] [--repeats 5] [--json]

The libraries come from the index, pinned with their hashes (requirements/suites.lock). The wheels of tornado and trio
contain their tests; anyio's tests are in its source archive. Each run has a fresh process, session and folder, with an
environment of a few variables. Tests run one by one.

Each suite runs once each way. The files of the cases that did not end alike then run again, `--repeats` times each way,
in turns. A difference counts if no bare run of the case ended as badly as two runs of the other way.

Exit status: 0 no difference counts; 1 one does, or a run was invalid (Headway was not in the process, or was in the
bare one; no case passes bare); 2 wrong usage. The table (or JSON) goes to stdout, progress to stderr.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from compared_tests import (
    PROCESS,
    SOMETIMES_WORSE,
    WORSE,
    Difference,
    ExitCodes,
    Outcome,
    Run,
    all_of,
    differing,
    first_line,
    outcome_of,
    plain_environment,
    prepare_process,
    process_outcome,
    read_outcomes,
    run_folder,
    run_session,
    shown,
    verdict,
)
from provision.locked_environment import locked_python

from headway.errors import HeadwayError
from headway.host.paths import libraries_folder
from headway.lab import Interpreter, discover, select
from headway.library import library_path

RECORDER = Path(__file__).with_name("pytest_case_recorder.py")
LOCK = Path(__file__).resolve().parent.parent / "requirements" / "suites.lock"
HEADWAY = Path(sys.executable).with_name("headway")
DEFAULT = ("3.11", "3.13")
ALL = ("3.11", "3.12", "3.13", "3.14", "3.15")
BARE = "bare"
# Way -> the words before the program's own command line. {trace} is replaced by the path of the trace file. The way
# BARE has none.
WAYS: dict[str, tuple[str, ...]] = {
    "traced": (str(HEADWAY), "trace", "--no-summary", "--max-size", "64MB", "-o", "{trace}", "--"),
    "fair": (str(HEADWAY), "run", "--policy", "fair", "--"),
}
REPEATS = 5
TIMEOUT_S = 900.0
# The time that the collector, which writes the trace, may outlive the program.
SETTLING_S = 20.0
# The exit statuses of pytest.
EXIT_CODES = ExitCodes(ok=0, failed=1, nothing_ran=5)
# No cache in the folder of the tests, and short output.
ALWAYS = ("-q", "-p", "no:cacheprovider", "--tb=short")
ONCE = "once, and not again"


@dataclass(frozen=True)
class Suite:
    """A library's tests.

    Attributes:
        tests: The folder of the tests, in the library's source archive or among the installed packages.
        options: The options for pytest.
        from_source: Whether only the source archive has the tests.
        silenced: The logger that the suite's own runner silences.
    """

    tests: str
    options: tuple[str, ...] = ()
    from_source: bool = False
    silenced: str = ""


SUITES = {
    "tornado": Suite("tornado/test", ("-o", "python_files=*_test.py", "-p", "no:logging"), silenced="tornado.access"),
    # Tests that need the Internet are left out.
    "anyio": Suite("tests", ("-m", "not network"), from_source=True),
    # Tests that examine every public name with pylint, jedi and mypy are left out: they say nothing about threads, and
    # take minutes.
    "trio": Suite("trio", ("-p", "trio._tests.pytest_plugin", "--run-slow", "--skip-optional-imports")),
}


@dataclass(frozen=True)
class Job:
    """A suite to be run on an interpreter; `python` is the Python of the environment with the libraries."""

    interpreter: Interpreter
    name: str
    python: str
    root: Path
    version: str
    timeout_s: float
    repeats: int
    logs: Path | None

    @property
    def title(self) -> str:
        """The name of the job in progress lines."""
        return f"{self.interpreter.id} {self.name}"


@dataclass
class Report:
    """The results of one suite on one interpreter: a run for each way, and for each way the differences from bare."""

    interpreter: str
    suite: str
    version: str
    runs: dict[str, Run] = field(default_factory=dict)
    differences: dict[str, list[Difference]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def worse(self, way: str) -> list[Difference]:
        """Return the differences that count."""
        return [one for one in self.differences.get(way, []) if one.verdict in (WORSE, SOMETIMES_WORSE)]

    @property
    def is_bad(self) -> bool:
        """Whether some way made a case worse, or there is no verdict."""
        return bool(self.errors) or any(self.worse(way) for way in self.differences)


# ---- what is installed ----


def pinned(name: str) -> str:
    """Return the part of the lock that pins a library."""
    found = re.search(rf"^{name}==.*(?:\n .*)*", LOCK.read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise LookupError(f"{LOCK} pins no {name}; `make lock` renews it")
    return found[0]


def version_of(name: str) -> str:
    """Return the version of a library in the lock."""
    return pinned(name).partition("==")[2].split()[0]


def source_of(name: str, python: str) -> Path:
    """Return the unpacked source archive of a library, fetched once and kept in the cache; the lock has its hash."""
    pin = pinned(name)
    folder = libraries_folder() / f"source-{name}-{version_of(name)}-{hashlib.sha256(pin.encode()).hexdigest()[:12]}"
    if not folder.is_dir():
        partial = folder.with_name(f"{folder.name}.{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        (partial / "pin.txt").write_text(pin + "\n", "utf-8")
        command = [python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-binary", ":all:", "--no-build-isolation", "--require-hashes"]
        command += ["--dest", str(partial), "--requirement", str(partial / "pin.txt")]
        subprocess.run(command, check=True, timeout=600, stdout=sys.stderr)
        (archive,) = partial.glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(partial, filter="data")
        (unpacked,) = (one for one in partial.iterdir() if one.is_dir())
        unpacked.rename(folder)
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def jobs_for(interpreter: Interpreter, options: argparse.Namespace) -> list[Job]:
    """Return the suites as jobs for an interpreter, with their libraries installed."""
    print(f"{interpreter.id}: the libraries are in {libraries_folder()}", file=sys.stderr, flush=True)
    python = locked_python(interpreter, LOCK, "suites")
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip())
    jobs = []
    for name in options.suite:
        root = source_of(name, python) if SUITES[name].from_source else packages
        jobs.append(
            Job(
                interpreter, name, python, root, version_of(name), options.timeout, options.repeats, options.logs,
            )
        )  # fmt: skip
    return jobs


# ---- one run ----


def command_line(job: Job, way: str, folder: Path, files: Sequence[str]) -> list[str]:
    """Return the command that runs the suite, or some files of it, one way."""
    suite = SUITES[job.name]
    options = [*ALWAYS, "--rootdir", str(job.root), *suite.options]
    if not suite.from_source:  # no configuration file of another folder must apply
        (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
        options += ["-c", str(folder / "pytest.ini")]
    paths = [str(job.root / file) for file in files or (suite.tests,)]
    before = [part.format(trace=folder / "traces/suite.hwt") for part in WAYS.get(way, ())]
    recorder = [str(RECORDER), str(folder / "outcomes.jsonl"), suite.silenced]
    return [*before, job.python, *recorder, *options, *paths]


def run(job: Job, way: str, name: str, files: Sequence[str] = ()) -> tuple[Run, bool]:
    """Run the suite, or `files` of it, one way; return the run and whether Headway was there. `name` is the log's."""
    with run_folder() as folder:
        command = command_line(job, way, folder, files)
        settling_s = 0.0 if way == BARE else SETTLING_S
        begun_s = time.monotonic()
        with (folder / "output.txt").open("wb") as output:
            ending = run_session(
                command, plain_environment(folder), folder, output.fileno(), job.timeout_s, settling_s=settling_s
            )
        seconds = time.monotonic() - begun_s
        outcomes = read_outcomes(folder / "outcomes.jsonl")
        outcomes[PROCESS] = process_outcome(ending, outcomes, job.timeout_s, EXIT_CODES)
        if job.logs is not None:
            shutil.copy(folder / "output.txt", job.logs / f"{job.interpreter.id}-{job.name}-{name}.txt")
        is_there = (folder / "outcomes.jsonl.headway").exists()
        done = Run(outcomes, seconds, len(list((folder / "traces").glob("*.hwt"))))
    process = outcomes[PROCESS]
    counts = ", ".join(f"{done.count(result)} {result}" for result in ("passed", "skipped", "failed"))
    ended = "" if process.result == "passed" else f", {process.reason}"
    print(f"{job.title}: {name}: {counts}{ended}, {seconds:.1f} s", file=sys.stderr, flush=True)
    return done, is_there


# ---- all ways ----


def judged(bare: Sequence[Outcome], other: Sequence[Outcome]) -> str:
    """Return the verdict on a case; an end that only one of several runs had does not count."""
    found = verdict(bare, other)
    worst_bare = max(outcome.rank for outcome in bare)
    if found == SOMETIMES_WORSE and sum(outcome.rank > worst_bare for outcome in other) < 2:
        return ONCE
    return found


def compare(job: Job) -> Report:
    """Run the suite each way, repeat the files in which a case differs, and return the report."""
    report = Report(job.interpreter.id, job.name, job.version)
    ways = (BARE, *WAYS)
    done: dict[str, list[Run]] = {way: [] for way in ways}

    def once(way: str, name: str, files: Sequence[str] = ()) -> None:
        found, is_there = run(job, way, name, files)
        done[way].append(found)
        if is_there != (way != BARE):
            report.errors.append(f"{name}: Headway was {'' if is_there else 'not '}in the process")
        if way == "traced" and not found.trace_files:
            report.errors.append(f"{name}: it left no trace")

    for way in ways:
        once(way, way)
        report.runs[way] = done[way][0]
        if way == BARE and not done[way][0].count("passed"):
            report.errors.append(f"no case passes bare: {done[way][0].outcomes[PROCESS].reason}")
            return report
    cases = {way: differing(done[BARE][0], done[way][0]) for way in WAYS}
    files = files_of([case for found in cases.values() for case in found])
    for attempt in range(1, job.repeats + 1) if any(cases.values()) else ():
        for way in ways:
            if way == BARE or cases[way]:
                once(way, f"{way}-again-{attempt}", files)
    for way in WAYS:
        report.differences[way] = [
            Difference(
                case,
                judged([outcome_of(one, case) for one in done[BARE]], [outcome_of(one, case) for one in done[way]]),
                tuple(outcome_of(one, case) for one in done[BARE]),
                tuple(outcome_of(one, case) for one in done[way]),
            )
            for case in cases[way]
        ]
    return report


def files_of(cases: Sequence[str]) -> list[str]:
    """Return the files of cases; an empty list, which means all files, if one of the cases is PROCESS."""
    files = {case.partition("::")[0] for case in cases}
    return [] if PROCESS in files else sorted(files)


def table(reports: Sequence[Report]) -> str:
    """Return a table with a line for each interpreter, suite and way, followed by the cases that differ."""
    form = "{:<8} {:<15} {:<7} {:>6} {:>6} {:>7} {:>6} {:>6} {:>7}"
    lines = [form.format("CPython", "suite", "way", "cases", "passed", "skipped", "failed", "worse", "s")]
    for report in reports:
        for way, done in report.runs.items():
            failed = done.count("failed") + done.count("did not end")
            worse = "-" if way == BARE else str(len(report.worse(way)))
            title = f"{report.suite} {report.version}"
            counts = (len(done.outcomes) - 1, done.count("passed"), done.count("skipped"), failed)
            lines.append(form.format(report.interpreter, title, way, *counts, worse, f"{done.seconds:.1f}"))
            for one in report.differences.get(way, []):
                lines.append(f"    {one.verdict}: {one.case}")
                lines += [f"        {BARE:<6}: {shown(one.plain)}", f"        {way:<6}: {shown(one.traced)}"]
        bare = report.runs.get(BARE)
        for case, outcome in bare.outcomes.items() if bare is not None else ():
            if outcome.is_bad:
                lines.append(f"    fails bare: {case}: {first_line(outcome.reason)}")
        lines += [f"    error: {error}" for error in report.errors]
    return "\n".join(lines)


def parse_command_line(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the options; end the program with status 2 if they make no sense."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--interpreter", nargs="+", default=list(DEFAULT), metavar="3.X", help=f"default: {' '.join(DEFAULT)}"
    )
    chosen.add_argument("--all", action="store_true", help=f"on {', '.join(ALL)}")
    parser.add_argument("--suite", nargs="+", choices=SUITES, default=list(SUITES), help="some of them")
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, metavar="N", help="of what differs, each way (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with the outcome of every case")
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT_S, metavar="S", help="of a run (default: %(default)s s)"
    )
    parser.add_argument("--logs", type=Path, metavar="DIR", help="leave the output of every run here")
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error(f"--repeats is {options.repeats}, expected 1 at least: else nothing can be seen again")
    if options.timeout <= 0:
        parser.error(f"--timeout is {options.timeout}, expected more than 0 s")
    if options.all:
        options.interpreter = list(ALL)
    if options.logs is not None:
        options.logs = options.logs.absolute()
        options.logs.mkdir(parents=True, exist_ok=True)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the command line and return the exit status."""
    options = parse_command_line(arguments)
    prepare_process()
    try:
        library_path()  # a missing library is reported now, and not after the first bare run
        jobs = [job for one in select(discover()[0], options.interpreter) for job in jobs_for(one, options)]
        reports = all_of([functools.partial(compare, job) for job in jobs])
    except (LookupError, HeadwayError, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps([asdict(report) for report in reports], indent=1) if options.json else table(reports))
    return int(any(report.is_bad for report in reports))


if __name__ == "__main__":
    sys.exit(main())
