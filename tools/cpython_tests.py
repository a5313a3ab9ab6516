#!/usr/bin/env python3
"""Run CPython's own thread tests on each interpreter, plainly and traced by Headway, and print the difference.

    python tools/cpython_tests.py [--interpreter 3.13 ...] [--tests test_thread ...] [--short] [--policy none fair ...]

With --policy, the traced run is repeated under each of those policies, which schedule its GIL ("none": tracing alone).
The plain run of a module is made once and serves all policies.
Exit status: 0 every case has the same outcome both ways; 1 some case is worse under tracing, a traced run was not
traced, or a module passes no case plainly; 2 wrong usage. The table (or JSON) goes to stdout, progress to stderr.

Method: each test module runs in a process, a session and a temporary folder of its own, with an environment of a few
variables, as `python -m test -v MODULE`. cpython_test_recorder.py starts it and records each case's outcome. Cases that
differ run twice more each way, alone, before they count as a difference; see `verdict`. Resources are enabled except
those that need a network, a screen, a sound card or gigabytes.
The makefiles of 3.11.7 and 3.12.1 do not install two test packages (test_concurrent_futures and the folders of
multiprocessing's start methods). These versions run the packages of the next newer interpreter on this machine. Some of
the tests fail on the older version, but in the same way with and without tracing, and only this is compared.

test_concurrent_futures may hang, bare or traced, on 3.11.7, 3.12.1 and 3.13.0. In ProcessPoolExecutor the manager's
thread holds the executor's shutdown lock while it joins the call queue's feeder thread (_join_executor_internals). If
an item cannot be pickled, the feeder waits for that lock (_on_queue_feeder_error; 3.14 does so without it). The output
of a run that did not end shows both stacks; it is then not a difference.
Rejected: --junit-xml (see the recorder); regrtest's -j (it starts its workers in ways of its own).
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from compared_tests import (
    ABSENT,
    PROCESS,
    SOMETIMES_WORSE,
    WORSE,
    Difference,
    ExitCodes,
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

from headway.errors import HeadwayError
from headway.lab import Interpreter, discover
from headway.library import library_path
from headway.live.collect import collecting
from headway.live.launch import environment, scheduled_environment
from headway.live.schedule import check
from headway.provision import may_have_tests

RECORDER = Path(__file__).with_name("cpython_test_recorder.py")
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
# Modules that take seconds, which CI runs. The longest is test_interpreters: 11 s on a quiet machine, 30 s on a busy
# one.
SHORT = (
    "test_thread", "test_threading_local", "test_threadsignals", "test_queue", "test_fork1", "test__interpreters",
    "test__interpchannels", "test__xxsubinterpreters", "test__xxinterpchannels", "test_interpreters",
)  # fmt: skip
# The names of the tests of sub-interpreters have changed often; each interpreter has some of them.
MODULES = (
    *SHORT, "test_threading", "test_signal", "test_subprocess", "test_socket", "test_concurrent_futures",
    "test_asyncio", "test_multiprocessing_spawn",
)  # fmt: skip
# Packages that `make install` of 3.11.7 and 3.12.1 left out.
BORROWED = frozenset({"test_concurrent_futures", "test_multiprocessing_spawn"})
# (pattern, replacement) that adapt 3.13's copies of these packages to the test.support of 3.11 and 3.12, which lacks
# Py_GIL_DISABLED and cannot be asked for the thread sanitizer.
FOR_OLDER = (
    (r"from test\.support import Py_GIL_DISABLED", "Py_GIL_DISABLED = False"),
    (r"(sanitizer\(.*)\bthread=True", r"\1memory=True"),
)
# (interpreter, or "" for any; module) -> patterns of cases that hang without Headway, too, and would prevent all later
# cases. In some virtual machines, nothing answers on the socket between guest and host. On 3.11.7 a thread that makes
# or ends a sub-interpreter waits for ever.
_SUBINTERPRETERS_OF_THREADS = ("*.CreateTests.test_in_thread*", "*.test_from_other_thread")
LEFT_OUT = {
    ("", "test_socket"): ("*.ThreadedVSOCKSocketStreamTest.*",),
    ("3.11", "test__xxsubinterpreters"): _SUBINTERPRETERS_OF_THREADS,
    ("3.11", "test_interpreters"): _SUBINTERPRETERS_OF_THREADS,
}
RESOURCES = "all,-network,-urlfetch,-largefile,-gui,-audio"
RERUNS = 2
# Stands for tracing alone: CPython schedules its GIL itself.
NO_POLICY = "none"
# On two busy cores, test_multiprocessing_spawn takes up to half of it, and every other module up to a sixth.
TIMEOUT_S = 900.0
# The limit of the trace of one process: these tests start thousands of processes.
TRACE_BYTES = 64 << 20
# The exit statuses of regrtest. It runs nothing if a module is skipped as a whole.
EXIT_CODES = ExitCodes(ok=0, failed=2, nothing_ran=4)


@dataclass
class Report:
    """The results of one test module on one interpreter under one policy."""

    interpreter: str
    module: str
    policy: str = NO_POLICY
    borrowed_from: str = ""
    plain: Run | None = None
    traced: Run | None = None
    differences: list[Difference] = field(default_factory=list)
    error: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether tracing made some case worse, or there is no verdict."""
        return bool(self.error) or any(one.verdict in (WORSE, SOMETIMES_WORSE) for one in self.differences)


# ---- one run ----


@dataclass(frozen=True)
class Job:
    """A test module to be run on an interpreter.

    Attributes:
        tests: The folder of the test modules.
        borrowed_from: The id of the interpreter that the folder belongs to, or "" if it is this one's own.
        logs: The folder for each run's output, or None.
        policies: The policies that schedule the GIL of the traced runs, in turn; NO_POLICY may be among them.
    """

    interpreter: Interpreter
    module: str
    tests: Path
    borrowed_from: str
    timeout_s: float
    logs: Path | None
    policies: tuple[str, ...] = (NO_POLICY,)

    @property
    def title(self) -> str:
        """The name of the job in progress lines."""
        return f"{self.interpreter.id} {self.module}"


def traced_environment(folder: Path, variables: Mapping[str, str], policy: str = NO_POLICY) -> dict[str, str]:
    """Return `plain_environment` with what makes a collector with these variables record every Python process in it.

    Raises:
        NativeError: The native library is missing or does not fit.
    """
    found = environment(variables, base=plain_environment(folder))
    return found if policy == NO_POLICY else scheduled_environment(policy, base=found)


def run(job: Job, name: str, *, policy: str | None = None, only: Collection[str] = ()) -> Run:
    """Run the module, or `only` some of its cases: plainly, or traced with a policy. `name` is the name of the log.

    Raises:
        NativeError: The native library, for tracing, is missing or does not fit.
    """
    with run_folder() as folder:
        command = command_line(job, folder, only)
        begun_s = time.monotonic()
        with (
            (folder / "output.txt").open("wb") as output,
            collecting(folder / "traces/test.hwt", max_bytes=TRACE_BYTES) as door,
        ):
            env = traced_environment(folder, door.environment(), policy) if policy else plain_environment(folder)
            ending = run_session(command, env, folder, output.fileno(), job.timeout_s)
        seconds = time.monotonic() - begun_s
        outcomes = read_outcomes(folder / "outcomes.jsonl")
        text = (folder / "output.txt").read_text("utf-8", errors="replace")
        is_skipped = re.search(rf"\b{job.module}(\.\w+)? skipped", text) is not None
        outcomes[PROCESS] = process_outcome(ending, outcomes, job.timeout_s, EXIT_CODES, is_skipped=is_skipped)
        if job.logs is not None:
            shutil.copy(folder / "output.txt", job.logs / f"{job.interpreter.id}-{job.module}-{name}.txt")
        return Run(outcomes, seconds, len(list((folder / "traces").glob("*.hwt"))))


def command_line(job: Job, folder: Path, only: Collection[str]) -> list[str]:
    """Return the command that runs the module's cases, or `only` those."""
    modules = [job.module]
    options = ["-v", "-u", RESOURCES]
    if job.borrowed_from:
        package = folder / "borrowed" / job.module
        package.parent.mkdir()
        borrow(job.tests / job.module, package)
        options += ["--testdir", str(package.parent)]
        # Modules are named one by one: regrtest finds the tests of a package only in the folder of its installation.
        modules = [f"{job.module}.{file.stem}" for file in sorted(package.glob("test_*.py"))]
    for version in ("", job.interpreter.name):
        for pattern in LEFT_OUT.get((version, job.module), ()):
            options += ["--ignore", pattern]
    if only:
        patterns = folder / "only.txt"
        patterns.write_text("\n".join(only) + "\n", "utf-8")
        options += ["--matchfile", str(patterns)]
    return [job.interpreter.executable, str(RECORDER), str(folder / "outcomes.jsonl"), *options, *modules]


def borrow(package: Path, copy: Path) -> None:
    """Copy a package of tests, and adapt it so that an older interpreter can run it."""
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for file in copy.glob("*.py"):
        text = file.read_text("utf-8")
        for pattern, replacement in FOR_OLDER:
            text = re.sub(pattern, replacement, text)
        file.write_text(text, "utf-8")


# ---- both ways ----


def compare(job: Job, *, plain_only: bool = False) -> list[Report]:
    """Run the module plainly, and traced with each policy; return a report for each policy."""
    plain = run(job, "plain")
    talk(job, "plain", plain)
    report = Report(job.interpreter.id, job.module, borrowed_from=job.borrowed_from, plain=plain)
    if plain.count("passed") == 0 and plain.outcomes[PROCESS].is_bad:
        report.error = f"no case passes plainly: {plain.outcomes[PROCESS].reason}"
    if plain_only or report.error:
        return [report]
    return [compare_with(job, plain, policy) for policy in job.policies]


def compare_with(job: Job, plain: Run, policy: str) -> Report:
    """Run the module traced with a policy, and repeat the cases that differ from the plain run."""
    way = "traced" if policy == NO_POLICY else f"traced-{Path(policy).stem}"  # a policy may be the path of a library
    traced = run(job, way, policy=policy)
    talk(job, way, traced)
    report = Report(job.interpreter.id, job.module, policy, job.borrowed_from, plain, traced)
    plain_runs, traced_runs = [plain], [traced]
    cases = differing(plain, traced)
    # regrtest cannot look for names such as "setUpClass (x.Y)" or PROCESS; with one, the whole module runs again.
    only = cases if all(re.fullmatch(r"[\w.]+", case) for case in cases) else ()
    for attempt in range(1, RERUNS + 1) if cases else ():
        for runs, name, one in (
            (plain_runs, f"plain-beside-{way}-{attempt}", None),
            (traced_runs, f"{way}-again-{attempt}", policy),
        ):
            runs.append(run(job, name, policy=one, only=only))
            talk(job, name, runs[-1])
    for case in cases:
        outcomes = [tuple(outcome_of(done, case) for done in runs) for runs in (plain_runs, traced_runs)]
        report.differences.append(Difference(case, verdict(*outcomes), *outcomes))
    if not all(done.trace_files for done in traced_runs):
        report.error = "was not traced: a traced run left no trace"
    return report


def talk(job: Job, name: str, done: Run) -> None:
    """Report on stderr that a run has ended."""
    process = done.outcomes[PROCESS]
    ending = "" if process.result == "passed" else f", {process.reason}"
    traces = f", {done.trace_files} traces" if done.trace_files else ""
    counts = ", ".join(f"{done.count(result)} {result}" for result in ("passed", "skipped", "failed"))
    print(f"{job.title}: {name}: {counts}{ending}{traces}, {done.seconds:.1f} s", file=sys.stderr, flush=True)


# ---- which tests, on what ----


def tests_folder(interpreter: Interpreter) -> Path:
    """Return the folder of the interpreter's test modules."""
    code = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    done = subprocess.run([interpreter.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip()) / "test"


def has_module(tests: Path, module: str) -> bool:
    """Return whether a folder of tests has the module, as a file or as a package."""
    return (tests / f"{module}.py").exists() or (tests / module / "__init__.py").exists()


def interpreters_for(versions: Sequence[str] = ()) -> list[Interpreter]:
    """Return the interpreters of these names ("3.13") or ids ("3.13.0"), for each the first that has its test modules.

    Without versions, the interpreters are those of `VERSIONS` that this machine has; a line on stderr names the others.

    Raises:
        LookupError: An interpreter that was named is not on this machine, or has no tests; or none of `VERSIONS` has.
    """
    found = discover()[0]
    if versions:
        return [with_tests(version, found) for version in versions]
    chosen = []
    for version in VERSIONS:
        try:
            chosen.append(with_tests(version, found))
        except LookupError as error:
            print(f"leaving out {version}: {error}", file=sys.stderr, flush=True)
    if not chosen:
        raise LookupError(f"none of CPython {', '.join(VERSIONS)} is here with its own tests")
    return chosen


def with_tests(version: str, found: Sequence[Interpreter]) -> Interpreter:
    """Return the first interpreter of a name or id that has its test modules.

    Raises:
        LookupError: There is none; the message says what to do.
    """
    named = [one for one in found if version in (one.name, one.id)]
    remedy = (
        f"`headway interpreters --add {version} --with-tests` may add it"
        if may_have_tests(version)
        else "a build of its source has them"
    )
    if not named:
        raise LookupError(f"there is no CPython {version} with its own tests on this machine; {remedy}")
    chosen = next((one for one in named if has_module(tests_folder(one), "test_thread")), None)
    if chosen is None:
        raise LookupError(f"{named[0].executable} lacks CPython's own tests; {remedy}")
    return chosen


def jobs_for(
    interpreter: Interpreter,
    modules: Sequence[str],
    *,
    timeout_s: float = TIMEOUT_S,
    logs: Path | None = None,
    policies: Sequence[str] = (NO_POLICY,),
) -> Iterator[Job]:
    """Yield a job for each of `modules` that the interpreter has, or can borrow."""
    tests = tests_folder(interpreter)
    for module in modules:
        if has_module(tests, module):
            yield Job(interpreter, module, tests, "", timeout_s, logs, tuple(policies))
        elif module in BORROWED:
            lender = next(iter(lenders(interpreter, module)), None)
            if lender is not None:
                yield Job(interpreter, module, tests_folder(lender), lender.id, timeout_s, logs, tuple(policies))


def lenders(interpreter: Interpreter, module: str) -> Iterator[Interpreter]:
    """Return the newer interpreters that have the module, in the order of versions."""

    def order(one: Interpreter) -> list[int]:
        return [int(number) for number in one.name.split(".")]

    newer = [one for one in discover()[0] if not one.free_threaded and order(one) > order(interpreter)]
    return (one for one in sorted(newer, key=order) if has_module(tests_folder(one), module))


# ---- the command ----


def table(reports: Sequence[Report]) -> str:
    """Return a table with a line for each interpreter, module and policy, followed by the cases that differ."""
    form = "{:<8} {:<27} {:<8} {:>6} {:>6} {:>7} {:>6} {:>6} {:>8} {:>8}  {}"
    lines = [
        form.format(
            "CPython", "tests", "policy", "cases", "passed", "skipped", "failed", "worse", "plain s", "traced s", ""
        )
    ]
    for report in reports:
        plain, traced = report.plain, report.traced
        assert plain is not None
        verdicts = Counter(one.verdict for one in report.differences)
        remarks = [f"{count} {name}" for name, count in verdicts.items()]
        remarks += [f"tests of {report.borrowed_from}"] if report.borrowed_from else []
        process = plain.outcomes[PROCESS]
        remarks += [f"plainly: {process.reason}"] if process.result != "passed" else []
        remarks += [f"error: {report.error}"] if report.error else []
        worse = verdicts[WORSE] + verdicts[SOMETIMES_WORSE]
        lines.append(
            form.format(
                report.interpreter, report.module, report.policy, len(plain.outcomes) - 1, plain.count("passed"),
                plain.count("skipped"), plain.count("failed") + plain.count("did not end"),
                "-" if traced is None else worse, f"{plain.seconds:.1f}",
                "-" if traced is None else f"{traced.seconds:.1f}", "; ".join(remarks),
            ).rstrip()
        )  # fmt: skip
        unreached = [one for one in report.differences if all(outcome == ABSENT for outcome in one.traced)]
        if len(unreached) > 1:
            lines.append(
                f"    {len(unreached)} cases were never reached with Headway, beginning with {unreached[0].case}"
            )
        for one in report.differences:
            if len(unreached) > 1 and one in unreached:
                continue
            lines.append(f"    {one.verdict}: {one.case}")
            lines += [
                f"        {way}: {shown(outcomes)}" for way, outcomes in (("plain ", one.plain), ("traced", one.traced))
            ]
        if traced is None:
            failed = [(case, end) for case, end in plain.outcomes.items() if end.is_bad and case != PROCESS]
            lines += [f"    fails plainly: {case}: {end.result}: {first_line(end.reason)}" for case, end in failed]
    return "\n".join(lines)


def parse_command_line(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the options; end the program with status 2 if they make no sense."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--interpreter", nargs="+", default=[], metavar="3.X",
        help=f"default: those of {' '.join(VERSIONS)} that this machine has",
    )  # fmt: skip
    parser.add_argument("--tests", nargs="+", choices=MODULES, metavar="test_X", help=f"some of {' '.join(MODULES)}")
    parser.add_argument("--short", action="store_true", help="only the modules that take seconds")
    parser.add_argument("--plain-only", action="store_true", help="without tracing: what fails on this machine anyway")
    parser.add_argument(
        "--policy", nargs="+", default=[NO_POLICY], metavar="NAME",
        help=f"schedule the GIL too, by each of these in turn; {NO_POLICY}: trace alone (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON, with the outcome of every case")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="modules at once (default: 1)")
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT_S, metavar="S", help="per run of a module (default: %(default)s s)"
    )
    parser.add_argument("--logs", type=Path, metavar="DIR", help="leave the output of every run here")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, not {options.jobs}")
    if options.timeout <= 0:
        parser.error(f"--timeout must be more than 0 s, not {options.timeout}")
    if options.logs is not None:
        options.logs = options.logs.absolute()
        options.logs.mkdir(parents=True, exist_ok=True)
    return options


def compare_all(jobs: Sequence[Job], *, at_once: int = 1, plain_only: bool = False) -> list[Report]:
    """Compare each job, `at_once` at a time; an interruption also ends their runs."""
    found = all_of([functools.partial(compare, job, plain_only=plain_only) for job in jobs], at_once=at_once)
    return [report for reports in found for report in reports]


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the command line and return the exit status."""
    options = parse_command_line(arguments)
    prepare_process()
    modules = options.tests or (SHORT if options.short else MODULES)
    try:
        if not options.plain_only:
            library_path()  # a missing library is reported now, and not after the first plain run
            for policy in set(options.policy) - {NO_POLICY}:
                check(policy, {})
        jobs = [
            job
            for interpreter in interpreters_for(options.interpreter)
            for job in jobs_for(
                interpreter, modules, timeout_s=options.timeout, logs=options.logs, policies=options.policy
            )
        ]
        reports = compare_all(jobs, at_once=options.jobs, plain_only=options.plain_only)
    except (LookupError, HeadwayError) as error:
        print(f"error: {error}", file=sys.stderr)
        if isinstance(error, HeadwayError) and error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 2
    print(json.dumps([asdict(report) for report in reports], indent=1) if options.json else table(reports))
    return int(any(report.is_bad for report in reports))


if __name__ == "__main__":
    sys.exit(main())
