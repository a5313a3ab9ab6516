"""Run a program under trace and policy while everything around it goes wrong, for two hours by default.

The program does what `policy_soak_workload.py` does. It also forks from C threads, starts threads by the hundred, sends
itself signals, and has its policy changed and taken off. Meanwhile these faults come in random order: the program is
stopped (SIGSTOP), single threads are stopped (ptrace), it is frozen and its CPU time limited (cgroups), and the file
system of its trace is full, and frozen (fsfreeze). Near the end its trace is removed and the file system becomes
read-only.

These conditions must hold:
  - Each load checks its own results and sequence numbers, and makes progress in every minute.
  - Memory (the process's own pages) does not grow.
  - No wait is longer than the longest injected pause plus a bound, even while the disk is frozen for longer.
  - The trace can be read at the end and keeps its invariants, and lost events are counted.
  - The exit code is the program's.

A fault that this machine cannot inject is left out, with a line. `--bare` does the same without Headway.

Exit status: 0 all held, 1 something did not, 2 wrong usage. The report (or JSON) goes to stdout, progress to stderr.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from chaos_harm import HEADWAY, Cgroups, Disk, Harm
from policy_soak import Course
from slow_disk import Impossible

from headway.errors import TraceError
from headway.host.interpreters import Interpreter
from headway.lab import discover, select
from headway.library import library_path
from headway.traces.invariants import violations
from headway.traces.reader import read

BENCH = Path(__file__).resolve().parent
PACKAGE = BENCH.parent / "src"
CODE = 42
MOST_GROWTH = 0.02
LONG_S = 3600.0
# A shorter run has hardly warmed up. In a still shorter one, growth means nothing: the first hundred sub-interpreters
# leave 30 MB in two minutes.
MOST_GROWTH_SHORT = 0.10
WARM_S = 300.0
LEAST_REPORT_S = 10.0
# The longest time between two reports. The injection of faults begins with the first report, so a late one delays it.
MOST_REPORT_S = 30.0
# On a busy machine, a load that is stopped, frozen and starved in turns may do nothing for 10 s even without Headway.
WINDOW_S = 60.0
SETTLING_S = 30.0


@contextlib.contextmanager
def started(interpreter: Interpreter, trace: Path, folder: Path, options: argparse.Namespace) -> Iterator[Any]:
    """Start the program under trace and policy; none of its processes is left afterwards."""
    helper = build_helper(folder)
    # From 3.14 on the policy is changed from outside; before 3.14 the program changes it itself.
    inside = not is_attachable(interpreter)
    words = [str(HEADWAY), "trace", "--no-summary", "-o", str(trace), "--"]
    if options.bare:
        words, inside = [], False
    elif not inside:
        words = [str(HEADWAY), "run", "--policy", "fair", "--trace", str(trace), "--"]
    words += [interpreter.executable, "-W", "ignore", str(BENCH / "chaos_soak_workload.py"), str(options.duration)]
    words += [str(options.every), helper, str(PACKAGE) if inside else ""]
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HEADWAY_"))}
    with (folder / "stderr.txt").open("wb") as errors:
        process = subprocess.Popen(
            words, env={**env, "HEADWAY_NATIVE": str(library_path())}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_attachable(interpreter: Interpreter) -> bool:
    """Return whether `headway attach --policy` can reach the interpreter's processes."""
    return tuple(map(int, interpreter.version.split(".")[:2])) >= (3, 14)


def build_helper(folder: Path) -> str:
    """Build the library that forks from C threads; return its path, or "" if there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        print("forks from C threads: left out: there is no C compiler", file=sys.stderr, flush=True)
        return ""
    target = folder / "chaos_soak_helper.so"
    source = BENCH / "chaos_soak_helper.c"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-pthread", "-o", target, source], check=True)
    return str(target)


def run(options: argparse.Namespace, interpreter: Interpreter, folder: Path, found: dict[str, Any]) -> list[str]:
    """Run the program and inject faults; return the conditions that did not hold. `found` gets the figures."""
    missed: list[str] = []
    disk = given(lambda: Disk(folder), "the file system's failures")
    cgroups = given(Cgroups, "freezer and CPU quota")
    trace = (disk.mount if disk is not None else folder) / "soak.hwt"
    kept = trace.with_name("kept.hwt")
    course = Course()
    try:
        with started(interpreter, trace, folder, options) as process:
            reading = threading.Thread(target=read_reports, args=(process, course), daemon=True)
            reading.start()
            attachable = not options.bare and is_attachable(interpreter)
            begun_s = time.monotonic()
            harm = harmed(options, process, course, Harm(0, disk, cgroups, attachable, options.bound), trace, kept)
            # The injection of faults ends before the program's time is over.
            left_s = 0.0 if harm.stood_still else max(0.0, begun_s + options.duration - time.monotonic())
            try:
                found["exit_code"] = process.wait(left_s + options.patience)
            except subprocess.TimeoutExpired:
                missed.append(f"it did not end within {options.patience:g} s of its time, or stood still so long")
                found["exit_code"] = None
                print(stacks(harm.pid), file=sys.stderr, flush=True)
            reading.join(5)
        found |= {"harm": dict(harm.done), "longest_pause_s": harm.longest_s, "attach_failures": harm.failures}
        missed += course_held(course, found, options)
        missed += [] if options.bare else trace_held([trace, kept], found)
        # A single attach may be refused: CPython looks for the main thread of a process that starts threads meanwhile.
        if harm.failures and len(harm.failures) >= harm.done["policy changed from outside"]:
            missed.append(f"no attach succeeded: {harm.failures[0]}")
    finally:
        told = (folder / "stderr.txt").read_text(errors="replace") if (folder / "stderr.txt").exists() else ""
        found["stderr"] = told.splitlines()[-20:]
        if cgroups is not None:
            cgroups.end()
        if disk is not None:
            disk.end()
    return missed


def given(make: Callable[[], Any], what: str) -> Any:
    """Return what `make` returns; if this machine cannot provide it, print a line and return None."""
    try:
        return make()
    except Impossible as error:
        print(f"{what}: left out: {error}", file=sys.stderr, flush=True)
        return None


def read_reports(process: "subprocess.Popen[str]", course: Course) -> None:
    """Read the program's reports to the end."""
    assert process.stdout is not None
    for line in process.stdout:
        print(course.take(line), file=sys.stderr, flush=True)


def harmed(
    options: argparse.Namespace, process: "subprocess.Popen[str]", course: Course, harm: Harm, trace: Path, kept: Path
) -> Harm:
    """Inject faults until the program's time is nearly over, or it has ended or makes no progress."""
    begun_s = seen_s = time.monotonic()
    reports, is_late = 0, False
    while process.poll() is None:
        now_s = time.monotonic()
        if len(course.reports) > reports:
            reports, seen_s = len(course.reports), now_s
            if not harm.pid:
                harm.pid = course.reports[0]["pid"]
                if harm.cgroups is not None:
                    harm.cgroups.take(harm.pid)
        harm.stood_still = now_s - seen_s > options.patience
        if harm.stood_still or now_s - begun_s > options.duration * 0.97:
            break
        if not is_late and now_s - begun_s > options.duration * 0.9 and harm.disk is not None and harm.pid:
            is_late = True
            end_disk(harm, trace, kept)
        if harm.pid:
            harm.one()
        time.sleep(random.uniform(0.2, 1.5))
    return harm


def end_disk(harm: Harm, trace: Path, kept: Path) -> None:
    """Remove the trace, which a second name keeps for the check, and then make its file system fail for good."""
    assert harm.disk is not None
    for name in ("disk full", "disk standing still"):
        harm.kinds.pop(name, None)
    try:
        if trace.exists():
            os.link(trace, kept)
            trace.unlink()
            harm.done["trace removed"] += 1
        harm.disk.become_read_only()
        harm.done["disk read-only"] += 1
    except (OSError, Impossible) as error:
        print(f"the disk's end: left out: {error}", file=sys.stderr, flush=True)


def stacks(pid: int) -> str:
    """Return where each thread of a process waits in the kernel."""
    lines = []
    with contextlib.suppress(OSError):
        for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
            with contextlib.suppress(OSError):
                lines.append(f"{task.name}: {(task / 'wchan').read_text()}")
    return "\n".join(lines[:40])


def course_held(course: Course, found: dict[str, Any], options: argparse.Namespace) -> list[str]:
    """Return the conditions on the program's own reports that do not hold."""
    missed = []
    reports = course.reports
    found["reports"] = len(reports)
    if found["exit_code"] is not None and found["exit_code"] != CODE:
        missed.append(f"it ended with {found['exit_code']}, expected {CODE}")
    if not reports or not reports[-1].get("last"):
        missed.append("its last report is missing")
    if not reports:
        return missed
    last = reports[-1]
    found |= {"seconds": last["s"], "done": last["done"], "wrongs": last["wrongs"]}
    found["worst_wait_s"] = max(one["worst_wait_s"] for one in reports)
    if last["wrongs"]:
        missed.append(f"{last['wrongs']} results were wrong: {'; '.join(last['wrong'])}")
    stuck = stood_still(reports)
    if stuck:
        missed.append(f"did nothing for {WINDOW_S:g} s: {', '.join(stuck)}")
    if course.said:
        missed.append(f"it said: {'; '.join(course.said[:3])}")
    if len(reports) >= 4:
        found["growth"] = course.growth("anon_kib")
        most = MOST_GROWTH if options.duration >= LONG_S else MOST_GROWTH_SHORT
        if options.duration >= WARM_S and found["growth"] > most:
            missed.append(f"memory grew by {found['growth']:.1%}, expected {most:.0%} at most")
    bound_s = found["longest_pause_s"] + options.bound
    if found["worst_wait_s"] > bound_s:
        missed.append(f"the worst wait was {found['worst_wait_s']:.2f} s, expected {bound_s:.2f} s at most")
    return missed


def stood_still(reports: list[dict[str, Any]]) -> list[str]:
    """Return the loads that did nothing between two reports at least WINDOW_S apart, and when that was."""
    found: dict[str, str] = {}
    first: dict[str, Any] = {
        "s": -WINDOW_S,
        "done": {},
    }  # compared with the last report: each load must have done something, even in a shorter run
    pairs = [(first, reports[-1])]
    for before in reports:
        later = next((one for one in reports if one["s"] >= before["s"] + WINDOW_S), None)
        if later is not None:
            pairs.append((before, later))
    for before, later in pairs:
        for name, times in later["done"].items():
            if times == before["done"].get(name, 0):
                found.setdefault(name, f"{name} not once" if before is first else f"{name} before {later['s']} s")
    return list(found.values())


def trace_held(candidates: list[Path], found: dict[str, Any]) -> list[str]:
    """Return the conditions on the trace that do not hold; one of its names leads to it after the collector's end."""
    deadline = time.monotonic() + SETTLING_S
    while True:
        missed = []
        for path in candidates:
            if not path.exists():
                continue
            try:
                trace = read(path)
            except TraceError as error:
                missed.append(f"the trace cannot be read: {error.message}")
                continue
            found["trace"] = {
                "events": len(trace.events),
                "threads": len(trace.threads),
                "seconds": (trace.end_ns - trace.start_ns) / 1e9,
                "loss": str(trace.loss),
            }
            return [f"the trace: {one}" for one in violations(trace)[:3]]
        if time.monotonic() > deadline:
            return missed or ["there is no trace"]
        time.sleep(0.5)


def report(found: dict[str, Any], missed: list[str]) -> str:
    """Return the report as text."""
    lines = [f"{found.get('seconds', 0)} s, {found.get('reports', 0)} reports, exit code {found.get('exit_code')}"]
    lines += [f"  {name:30} {times:8,} times" for name, times in sorted(found.get("harm", {}).items())]
    lines += [f"  {name:30} {times:14,} done" for name, times in sorted(found.get("done", {}).items())]
    if "worst_wait_s" in found:
        lines.append(
            f"worst wait of a thread that sleeps 1 ms: {found['worst_wait_s']:.2f} s; our longest pause: "
            f"{found['longest_pause_s']:.2f} s"
        )
    if "growth" in found:
        lines.append(f"its own memory from the middle to the end: {found['growth']:+.1%}")
    if "trace" in found:
        trace = found["trace"]
        lines.append(
            f"trace: {trace['events']:,} events of {trace['threads']} threads, {trace['seconds']:.0f} s; {trace['loss']}"
        )
    lines += [f"attach failed: {times} times: {text}" for text, times in Counter(found["attach_failures"]).items()]
    lines += [f"stderr: {line}" for line in found["stderr"]]
    lines += [f"VIOLATION: {one}" for one in missed] or ["all held"]
    return "\n".join(lines)


def seconds_of(text: str) -> float:
    """Return a duration given as 60s, 10m or 2h, in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration, expected one as 60s, 10m or 2h")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def end_on_signal(number: int, _frame: object) -> NoReturn:
    """Turn SIGTERM into an exception, so that devices and groups are removed."""
    raise SystemExit(128 + number)


def main() -> int:
    """Print the report; return 1 if a condition did not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpreter", default="3.13", help="which (default: %(default)s)")
    parser.add_argument("--duration", type=seconds_of, default="2h", help="as 60s, 10m or 2h (default: %(default)s)")
    parser.add_argument("--bound", type=float, default=8.0, metavar="S", help="of a wait (default: %(default)s)")
    parser.add_argument("--bare", action="store_true", help="without Headway: what this machine does to it anyway")
    parser.add_argument("--seed", type=int, default=None, help="of the order of harm (default: a new one, told)")
    parser.add_argument(
        "--patience", type=float, default=120.0, metavar="S", help="for a report (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.duration < 30:
        parser.error(f"--duration is {options.duration:g} s, expected 30s at least")
    options.every = min(max(LEAST_REPORT_S, options.duration / 60), MOST_REPORT_S, options.duration / 4)
    if options.patience <= 2 * options.every:
        parser.error(
            f"--patience is {options.patience:g} s, expected more than two reports, which come every {options.every:g} s"
        )
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    random.seed(seed)
    signal.signal(signal.SIGTERM, end_on_signal)
    (interpreter,) = select(discover()[0], [options.interpreter])
    print(f"{interpreter.name}, {options.duration:g} s, seed {seed}", file=sys.stderr, flush=True)
    found: dict[str, Any] = {"interpreter": interpreter.id, "seed": seed}
    with tempfile.TemporaryDirectory(prefix="headway-chaos-", ignore_cleanup_errors=True) as folder:
        missed = run(options, interpreter, Path(folder), found)
    print(json.dumps({**found, "violations": missed}, indent=1) if options.json else report(found, missed))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
