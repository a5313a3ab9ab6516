"""Check that a traced program behaves like the bare one: rates, p50 and p99, traced and bare in turns.

    bench/trace_shift.py [--interpreter 3.13] [--launches 11] [--seconds 1.5] [--only 'convoy*'] [--side trace stock] [--keep FILE]

Cells are convoys, and programs of the policies' corpus (`policy_corpus.py`), nine of them servers. A convoy is an echo
server with one connection beside 0 to 8 CPU-bound threads, in one process. It runs on one core with its client on
another ("split") and where the system puts them ("free"), with three switch intervals. Each launch is a fresh process;
the launches of a cell take turns in random order.

Sides: `trace`, as `headway trace` starts it; `bare again`, which is bare under another name, so that its changes are
noise; or the name of a policy, where `stock` is the hooks alone.

A figure is the median ratio to bare of the same block, with the interval of the sign test. The figure agrees if the
interval holds 1, or lies within 0.97 to 1.03 (rates) and 0.9 to 1.1 (p50, p99). Below six launches the interval is the
range. Rows appear on stderr as they come; in the tables, figures that do not agree come first.

Exit status: 0; 1, `trace` does not agree somewhere; 2, a launch failed.
"""

import argparse
import contextlib
import fnmatch
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from doubt import median_interval
from policy_corpus import LEAST_LAUNCHES, LOCK, Bench, LaunchError, Program, corpus, interpreter_of

from headway.errors import HeadwayError
from headway.library import library_path
from headway.live.collect import collecting
from headway.live.launch import environment

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from headway_agent.load import LoadClient
from provision.locked_environment import locked_python

BARE, AGAIN, TRACE = "bare", "bare again", "trace"
WITHIN = {"rate": (0.97, 1.03), "p50_s": (0.9, 1.1), "p99_s": (0.9, 1.1)}
INTERVALS_S = (0.005, 0.0005, 0.00001)
REAL = (
    "waitress-4", "waitress-4-beside-1", "gunicorn-16", "gunicorn-4-beside-1", "django-4", "uvicorn-to-thread-4-beside-1", "tornado-4-beside-1",
    "aiohttp-4", "http.server-4", "map", "pipeline", "sqlite", "sqlite-4", "dask-threads", "jupyter-beside-1", "writes",
    "stat-2", "stat-8", "stat-32", "yields-16",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A program, its placement, and the switch interval that it sets."""

    program: Program
    placement: str
    interval_s: float | None = None

    @property
    def name(self) -> str:
        """The name of the cell."""
        if self.interval_s is None:
            return f"{self.program.name}, {self.placement}"
        return f"convoy, {self.program.computing} computing, {self.placement}, {1000 * self.interval_s:g} ms"


def cells() -> list[Cell]:
    """Return all cells."""
    convoys = [
        Cell(Program(f"echo-1-beside-{n}", "convoy", n, "echo", 1), placement, interval_s)
        for placement in ("split", "free")
        for interval_s in INTERVALS_S
        for n in ((0, 1, 2, 4, 8) if interval_s == INTERVALS_S[0] else (1, 2, 4))
    ]
    known = {program.name: program for program in corpus()}
    return convoys + [Cell(known[name], "free") for name in REAL]


@dataclass
class Launcher(Bench):
    """Makes the launches of one cell."""

    interval_s: float | None = None
    door: dict[str, str] = field(default_factory=dict)

    def _environment(self, side: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HEADWAY_"))}
        if side == TRACE:
            return environment(self.door, base=kept)
        return kept if side in (BARE, AGAIN) else super()._environment(side)

    def _command(self, *arguments: str, side: str) -> list[str]:
        interval = [] if self.interval_s is None else ["--switch-interval", str(self.interval_s)]
        return [*super()._command(*arguments, side=side), *interval]

    def measure(self, program: Program, side: str) -> dict[str, float]:
        """Return the figures of a launch. Raises LaunchError."""
        with self._collector(side):
            return self.launch(program, side)

    @contextlib.contextmanager
    def _collector(self, side: str) -> Iterator[None]:
        if side != TRACE:
            yield
            return
        with tempfile.TemporaryDirectory(prefix="trace-shift-") as folder:
            # The collector has a process of its own, as under `headway trace`.
            reads, writes = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(reads)
                collect(Path(folder) / "launch.hwt", writes)
            os.close(writes)
            try:
                with os.fdopen(reads) as told:
                    self.door = json.loads(told.readline())
                    yield
            finally:
                os.kill(child, signal.SIGTERM)
                os.waitpid(child, 0)


def collect(file: Path, tell: int) -> None:
    """Collect until SIGTERM; do not return."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    with collecting(file, at_once=True) as door:
        os.write(tell, json.dumps(dict(door.environment())).encode() + b"\n")
        while True:
            signal.pause()


@dataclass(frozen=True)
class Found:
    """A figure's ratio to bare, and whether it agrees."""

    value: float
    low: float
    high: float
    agrees: bool

    def __str__(self) -> str:
        return f"{'' if self.agrees else '!'}{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def found(figure: str, blocks: list[dict[str, dict[str, float]]], side: str) -> Found | None:
    """Return a figure's ratio by blocks; None if there is none."""
    ratios = [
        block[side][figure] / block[BARE][figure]
        for block in blocks
        if block.get(side, {}).get(figure) and block.get(BARE, {}).get(figure)
    ]
    if not ratios:
        return None
    if len(ratios) >= LEAST_LAUNCHES:
        value, low, high = median_interval(ratios)
    else:
        value, low, high = statistics.median(ratios), min(ratios), max(ratios)
    least, most = WITHIN[figure]
    return Found(value, low, high, low <= 1 <= high or least <= low <= high <= most)


def main() -> int:
    """Print a row for each cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpreter", default="3.13")
    parser.add_argument("--launches", type=int, default=11, metavar="N", help="a side (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of a launch (default: %(default)s)")
    parser.add_argument("--side", nargs="+", default=[AGAIN, TRACE])
    parser.add_argument("--only", nargs="+", metavar="PATTERN", default=["*"])
    parser.add_argument("--keep", type=Path, metavar="FILE", help="append a line of JSON for each launch")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = [cell for cell in cells() if any(fnmatch.fnmatch(cell.name, pattern) for pattern in arguments.only)]
    usable = sorted(os.sched_getaffinity(0))
    if not chosen or arguments.launches < 1 or len(usable) < 2:
        parser.error("nothing to launch: --only fits no cell, --launches is below 1, or there is one core only")
    try:
        interpreter = interpreter_of(arguments.interpreter)
        python = locked_python(interpreter, LOCK, "corpus")
    except (HeadwayError, ValueError) as error:
        parser.error(f"--interpreter: {error}")
    except subprocess.CalledProcessError:
        return 2  # uv has printed the reason
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"{interpreter.version}, {arguments.launches} launches a side of {arguments.seconds:g} s, load averages {load}",
        flush=True,
    )
    failed, rows = 0, []
    sides = [BARE, *arguments.side]
    for cell in chosen:
        cores = (usable[0], usable[-1]) if cell.placement == "split" else None
        blocks: list[dict[str, dict[str, float]]] = []
        with LoadClient(library_path(), [cores[1]] if cores else None) as client:
            launcher = Launcher(python, arguments.seconds, cores, client, cell.interval_s)
            for _ in range(arguments.launches):
                blocks.append({})
                for side in random.sample(sides, len(sides)):
                    try:
                        blocks[-1][side] = launcher.measure(cell.program, side)
                    except LaunchError as error:
                        failed += 1
                        print(f"{cell.name}, {side} failed: {error}", file=sys.stderr, flush=True)
                        continue
                    if arguments.keep:
                        with arguments.keep.open("a", encoding="utf-8") as file:
                            file.write(json.dumps({"cell": cell.name, "side": side, **blocks[-1][side]}) + "\n")
        for side in sides[1:]:
            row = {figure: one for figure in WITHIN if (one := found(figure, blocks, side))}
            bare = statistics.median(block[BARE]["rate"] for block in blocks if BARE in block)
            figures = "  ".join(f"{name.removesuffix('_s')} {one}" for name, one in row.items())
            text = f"  {cell.name:44} {side:11} {figures}  bare {bare:,.4g}/s"
            rows.append((all(one.agrees for one in row.values()), side, text))
            print(text, file=sys.stderr, flush=True)
    for side in sides[1:]:
        alike, unlike = ([text for agrees, of, text in rows if of == side and agrees is told] for told in (True, False))
        print(f"\n{side}: {len(unlike)} of {len(chosen)} cells do not agree", *unlike, sep="\n")
        print(" agree:", *alike, sep="\n")
    return 2 if failed else int(any(not agrees for agrees, side, _ in rows if side == TRACE))


if __name__ == "__main__":
    sys.exit(main())
