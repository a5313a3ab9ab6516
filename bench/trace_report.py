"""Measure the report of a long trace: time and peak memory of reading, analysing, rendering.

One process writes a trace of 10 million events of 50 threads to a file. Then another process does what `headway report`
does, several times. The fastest time counts, because the machine slows the others down, and so does the highest memory.
Target: 10 s and 1 GB in all; the analysis may take 6 s of these.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests" / "support"
TARGET_S = 10.0
ANALYSIS_TARGET_S = 6.0
TARGET_MB = 1000.0
STEPS = ("read", "analyse", "render", "json")


def write(path: str, events: int, threads: int) -> None:
    """Write a made trace to a file."""
    from headway.traces import writer

    sys.path.insert(0, str(TESTS))
    from made_traces import made_trace  # type: ignore[import-not-found]

    writer.write(made_trace(events=events, threads=threads), Path(path), short_holds=True)


def report(path: str) -> None:
    """Run the steps of the command; print the time of each step and the peak of memory so far, as JSON."""
    from rich.console import Console

    from headway.report.trace.terminal import render_traces
    from headway.traces.analysis import analyse, as_json
    from headway.traces.family import read_family

    figures: dict[str, float] = {}

    def timed(name: str, step: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = step()
        figures[f"{name}_s"] = time.perf_counter() - started
        figures[f"{name}_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        return result

    def render() -> str:
        console = Console(width=120, highlight=False)
        with console.capture() as captured:
            console.print(render_traces(analyses))
        return captured.get()

    traces = timed("read", lambda: read_family(path))
    analyses = timed("analyse", lambda: [analyse(trace) for trace in traces])
    timed("render", render)
    timed("json", lambda: json.dumps([as_json(one) for one in analyses]))
    print(json.dumps(figures))


def _in_process(*arguments: object) -> str:
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600).stdout


def main() -> int:
    """Print a line for each step; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000_000, help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=50, help="default: %(default)s")
    parser.add_argument("--repeats", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--write", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--report", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(options.write, options.events, options.threads)
        return 0
    if options.report:
        report(options.report)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.hwt"
        _in_process("--write", path, "--events", options.events, "--threads", options.threads)
        print(f"{options.events:,} events of {options.threads} threads, {path.stat().st_size / 1e6:,.0f} MB")
        runs = [json.loads(_in_process("--report", path)) for _ in range(options.repeats)]
    for name in STEPS:
        best, most = min(run[f"{name}_s"] for run in runs), max(run[f"{name}_mb"] for run in runs)
        print(f"{name:<8} {best:6.2f} s   at most {most:5,.0f} MB so far")
    whole_s = min(sum(run[f"{name}_s"] for name in STEPS[:3]) for run in runs)
    analysis_s = min(run["analyse_s"] for run in runs)
    peak_mb = max(run["render_mb"] for run in runs)
    missed = whole_s > TARGET_S or analysis_s > ANALYSIS_TARGET_S or peak_mb > TARGET_MB
    verdict = "MISSED" if missed else "met"
    print(
        f"report   {whole_s:6.2f} s, {peak_mb:,.0f} MB "
        f"(target: {TARGET_S:g} s, of it {ANALYSIS_TARGET_S:g} s to analyse, {TARGET_MB:g} MB): {verdict}"
    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
