"""Measure each export of a trace: nanoseconds of CPU time per event, the size of the file, and the peak of memory.

Each export runs in a process of its own, several times. The fastest run counts, because the machine slows the others
down. Memory is the allocation beyond the trace, in a run that is not timed. Target: Perfetto, which takes traces of any
length, in under a microsecond per event.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

from rich.console import Console
from rich.table import Table

from headway.traces.export import FORMATS

TESTS = Path(__file__).resolve().parents[1] / "tests" / "support"
TARGET_NS = 1000.0


def measure(name: str, events: int, repeats: int) -> dict[str, float]:
    """Export a made trace, and return the figures."""
    sys.path.insert(0, str(TESTS))
    from made_traces import made_trace  # type: ignore[import-not-found]

    trace = made_trace(threads=8, events=events)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        FORMATS[name]([made_trace(threads=8, events=100)], path)  # so that imports are not timed
        times_s = []
        for _ in range(repeats):
            started = time.process_time()
            FORMATS[name]([trace], path)
            times_s.append(time.process_time() - started)
        tracemalloc.start()
        FORMATS[name]([trace], path)
        peak = tracemalloc.get_traced_memory()[1]
        if name == "parquet":
            import pyarrow as pa

            peak += pa.default_memory_pool().max_memory()
        return {
            "ns": min(times_s) * 1e9 / events,
            "file_mb": path.stat().st_size / 1e6,
            "memory_mb": peak / 1e6,
        }


def main() -> int:
    """Measure every format and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--format", choices=FORMATS, action="append", help="only this one; may be repeated")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_process:
        print(json.dumps(measure(options.format[0], options.events, options.repeats)))
        return 0

    table = Table("format", "ns/event", "MB", "bytes/event", "MB of memory", title=f"{options.events:,} events")
    missed = False
    for name in options.format or FORMATS:
        command = [sys.executable, __file__, "--in-process", "--format", name]
        command += ["--events", str(options.events), "--repeats", str(options.repeats)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        missed |= name == "perfetto" and found["ns"] > TARGET_NS
        bytes_per_event = found["file_mb"] * 1e6 / options.events
        table.add_row(
            name, f"{found['ns']:.0f}", f"{found['file_mb']:.1f}", f"{bytes_per_event:.1f}", f"{found['memory_mb']:.0f}"
        )
    Console().print(table)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
