"""Check the claims of the pytest fixture: sessions in fresh processes, of equal functions or with a known difference.

    bench/fixture_truth.py [--sessions 200] [--form compare calls launches baseline against] [--kind plain async]
                           [--effect 0 2 5 10 30] [--bursts] [--keep FILE]

A session is a pytest run of its own with one test. Its two functions repeat the same piece of work, one of them more
often, so the true ratio is known exactly: 50 times and 51 (2 %), 20 and 21 (5 %), 10 and 11 (10 %), 10 and 13 (30 %),
or 20 and 20 (none). The async functions wait, for each piece, for a server on 127.0.0.1 in a process of its own.

Forms: `compare`, in turns; `calls`, one after the other, as most users write it first; `launches`, the same with
`--headway-launches 5`; `baseline`, a session against a stored one, with `--headway-compare-fail 5%`; `against`, this
tree against another revision of it with `--headway-against`.

Peers, for plain functions only: pytest-benchmark, with a test for each function, by its minimum and by its median time;
and pyperf's `bench_func` with `--fast`, by its means, whose difference it calls significant or not. Neither gives an
interval of a ratio.

For each form, kind and effect, the output says how often the claim was wrong, how often the interval covered the truth,
how often the effect was found, and how often the ratio itself was off by more than 1 % and 5 %. Exit status: 1 if more
claims are wrong than chance makes of a true share at the target. A session that fails, except for a regression that it reports, ends the
program with an error.
"""

import argparse
import collections
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from doubt import is_more_often

FALSE_TARGET = 0.05
COUNTS = {0: (20, 20), 2: (50, 51), 5: (20, 21), 10: (10, 11), 30: (10, 13)}
FORMS = ("compare", "calls", "launches", "baseline", "against")
PEERS = ("pytest-benchmark", "pyperf")

WORK = """
import asyncio, json, os

LEFT, RIGHT = map(int, os.environ["TRUTH_COUNTS"].split())


def piece():
    total = 0
    for i in range(300):
        total += i * i
    return total


def work(count):
    for _ in range(count):
        piece()


def left():
    work(LEFT)


def right():
    work(RIGHT)


class Client:
    async def open(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", int(os.environ["TRUTH_PORT"]))

    async def close(self):
        self.writer.close()
        await self.writer.wait_closed()

    async def ask(self, count):
        for _ in range(count):
            self.writer.write(b"x" * 64)
            await self.reader.readexactly(64)

    async def left(self):
        await self.ask(LEFT)

    async def right(self):
        await self.ask(RIGHT)


def note(interval, **more):
    with open(os.environ["TRUTH_FILE"], "a") as file:
        told = {} if interval is None else {"value": interval.value, "low": interval.low, "high": interval.high}
        file.write(json.dumps({**told, **more}) + "\\n")
"""

TESTS = {
    "compare": """
from truth import *

def test_it(headway):
    found = headway.compare({"left": left, "right": right})
    note(found["right"].ratio_to(found["left"]))

async def test_async(headway):
    client = Client()
    await client.open()
    found = await headway.compare({"left": client.left, "right": client.right})
    await client.close()
    note(found["right"].ratio_to(found["left"]))
""",
    "calls": """
from truth import *

def test_it(headway):
    a = headway(left)
    b = headway(right)
    decision = b.faster_than(a)
    note(decision.evidence.interval)

async def test_async(headway):
    client = Client()
    await client.open()
    a = await headway(client.left)
    b = await headway(client.right)
    decision = await b.faster_than(a)
    note(decision.evidence.interval)
    await client.close()
""",
    "baseline": """
from truth import *

def test_it(headway):
    headway(right if os.environ.get("TRUTH_SIDE") == "right" else left)

async def test_async(headway):
    client = Client()
    await client.open()
    await headway(client.right if os.environ.get("TRUTH_SIDE") == "right" else client.left)
    await client.close()
""",
}
TESTS["launches"] = TESTS["calls"]
TESTS["against"] = """
from truth import *
import count

def mine():
    work(count.COUNT)

def test_it(headway):
    headway(mine)

async def test_async(headway):
    client = Client()
    await client.open()
    await headway(client.ask, count.COUNT)
    await client.close()
"""

TESTS["pytest-benchmark"] = """
from truth import *

def test_left(benchmark):
    benchmark(left)

def test_right(benchmark):
    benchmark(right)
"""

PYPERF = """
import pyperf
from truth import left, right

runner = pyperf.Runner()
runner.bench_func("left", left)
runner.bench_func("right", right)
"""

SERVER = """
import asyncio

async def serve(reader, writer):
    try:
        while True:
            writer.write(await reader.readexactly(64))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""

BURSTS = """
import random, time

while True:
    until = time.monotonic() + random.expovariate(20)
    while time.monotonic() < until:
        pass
    time.sleep(random.expovariate(10))
"""
"""A third of a core, in bursts of 50 ms on average."""


@dataclass(frozen=True)
class Case:
    """The kind of a session: its form, plain or async, and its effect in percent."""

    form: str
    kind: str
    effect: int


@contextlib.contextmanager
def beside(code: str, *, says: bool = False) -> Iterator[str]:
    """Run a program beside the block; yield its first line if it prints one."""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE if says else None, text=True) as process:
        try:
            yield process.stdout.readline().strip() if process.stdout is not None else ""
        finally:
            process.kill()


class Sessions:
    """Runs sessions in a folder of their own."""

    def __init__(self, folder: Path, port: str) -> None:
        self._folder, self._port = folder, port
        (folder / "truth.py").write_text(WORK, encoding="utf-8")
        (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n", encoding="utf-8")
        for form, text in TESTS.items():
            (folder / f"test_{form}.py").write_text(text, encoding="utf-8")

    def pytest(self, case: Case, *options: str, where: Path | None = None, **variables: str) -> tuple[int, str]:
        """Return a session's exit status and its output."""
        folder = where or self._folder
        test = "test_it" if case.kind == "plain" else "test_async"
        form = case.form
        environment = {**os.environ, **self._variables(case), **variables}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--headway-no-store"]
        done = subprocess.run(
            [*command, f"test_{form}.py::{test}", *options],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def run(self, case: Case) -> dict[str, object]:
        """Run a session; return its interval of right / left, and in `failed` whether a regression made it fail."""
        if case.form in PEERS:
            return {**vars(case), **(self._pyperf(case) if case.form == "pyperf" else self._pytest_benchmark(case))}
        if case.form in {"baseline", "against"}:
            return {**vars(case), **self._compared(case)}
        told = self._folder / "told.jsonl"
        told.unlink(missing_ok=True)
        kept = self._folder / "kept.json"
        options = [f"--headway-json={kept}", *["--headway-launches=5"] * (case.form == "launches")]
        self._must(case, 0, self.pytest(case, *options))
        rows = [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()]
        raw = json.loads(kept.read_text(encoding="utf-8"))["groups"]
        values = [[launch["values_s"] for launch in one["launches"]] for group in raw.values() for one in group]
        return {**vars(case), **rows[-1], "rounds": values}

    def _pytest_benchmark(self, case: Case) -> dict[str, object]:
        kept = self._folder / "kept.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:headway"]
        self._run([*command, f"--benchmark-json={kept}", "test_pytest-benchmark.py"], case)
        stats = {one["name"]: one["stats"] for one in json.loads(kept.read_text(encoding="utf-8"))["benchmarks"]}
        least, median = (stats["test_right"][name] / stats["test_left"][name] for name in ("min", "median"))
        return {"value": least, "median": median}

    def _pyperf(self, case: Case) -> dict[str, object]:
        import pyperf  # type: ignore[import-untyped]

        (self._folder / "bench_pyperf.py").write_text(PYPERF, encoding="utf-8")
        kept = self._folder / "pyperf.json"
        kept.unlink(missing_ok=True)
        inherit = "--inherit-environ=TRUTH_COUNTS,TRUTH_PORT"
        self._run([sys.executable, "bench_pyperf.py", "--fast", "--quiet", inherit, "-o", str(kept)], case)
        left, right = pyperf.BenchmarkSuite.load(str(kept)).get_benchmarks()
        # The test of `pyperf compare_to` (pyperf, _utils.is_significant): Student's t of the values, at 95 %.
        from scipy.stats import ttest_ind

        differs = bool(ttest_ind(left.get_values(), right.get_values()).pvalue < 0.05)
        return {"value": right.mean() / left.mean(), "claimed": differs}

    def _run(self, command: list[str], case: Case) -> None:
        environment = {**os.environ, **self._variables(case)}
        done = subprocess.run(command, cwd=self._folder, env=environment, capture_output=True, text=True, check=False)
        self._must(case, 0, (done.returncode, done.stdout + done.stderr))

    def _variables(self, case: Case) -> dict[str, str]:
        return {
            "TRUTH_COUNTS": " ".join(map(str, COUNTS[case.effect])),
            "TRUTH_PORT": self._port,
            "TRUTH_FILE": str(self._folder / "told.jsonl"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _compared(self, case: Case) -> dict[str, object]:
        kept = self._folder / "kept.json"
        options = [f"--headway-json={kept}", "--headway-compare-fail=5%"]
        if case.form == "against":
            where = self._repository(case)
            done = self.pytest(case, "--headway-against=HEAD", *options, where=where)
        else:
            self._must(case, 0, self.pytest(case, "--headway-save=base", TRUTH_SIDE="left"))
            done = self.pytest(case, "--headway-compare=base", *options, TRUTH_SIDE="right")
        self._must(case, 1, done)
        (group,) = json.loads(kept.read_text(encoding="utf-8"))["groups"].values()
        values = [[launch["values_s"], launch["reference_s"]] for one in group for launch in one["launches"]]
        return {**group[0]["ratio_to_before"], "failed": done[0] == 1, "rounds": values}

    def _repository(self, case: Case) -> Path:
        """Return a repository with the left count in its commit and the right count in its files."""
        where = self._folder / f"repository-{case.effect}"
        if not where.exists():
            where.mkdir()
            for name in ("truth.py", "pytest.ini", "test_against.py"):
                (where / name).write_bytes((self._folder / name).read_bytes())
            left, right = COUNTS[case.effect]
            (where / "count.py").write_text(f"COUNT = {left}\n", encoding="utf-8")
            author = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
            for command in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "-m", "left"]):
                subprocess.run(["git", *command], cwd=where, check=True)
            (where / "count.py").write_text(f"COUNT = {right}\n", encoding="utf-8")
        return where

    @staticmethod
    def _must(case: Case, most: int, done: tuple[int, str]) -> None:
        if done[0] > most:
            raise RuntimeError(f"{case}: exit status {done[0]}\n{done[1]}")


def judged(rows: list[dict[str, object]], truth: float) -> dict[str, object]:
    """Return how many sessions made claims, made false claims, had the truth in the interval, and had values off."""
    values = [float(str(one["value"])) for one in rows if one.get("value") is not None]
    known = [
        (float(str(one["low"])), math.inf if one["high"] is None else float(str(one["high"])))
        for one in rows
        if one.get("low") is not None
    ]
    told: dict[str, object] = {"sessions": len(rows)}
    if known:
        told |= {
            "silent": len(rows) - len(known),
            "found": sum(not low <= 1 <= high for low, high in known),
            "false": sum(high < 1 if truth > 1 else not low <= 1 <= high for low, high in known),
            "covers": sum(low <= truth <= high for low, high in known),
            "half_width": statistics.median((high / low) ** 0.5 - 1 for low, high in known),
        }
    if any("claimed" in one for one in rows):
        told["found"] = sum(bool(one["claimed"]) for one in rows)
    if any("failed" in one for one in rows):
        told["failed"] = sum(bool(one["failed"]) for one in rows)
    told |= {f"off_by_{by}%": sum(abs(value / truth - 1) > by / 100 for value in values) for by in (1, 5)}
    if any("median" in one for one in rows):
        medians = [float(str(one["median"])) for one in rows]
        told |= {f"median_off_by_{by}%": sum(abs(value / truth - 1) > by / 100 for value in medians) for by in (1, 5)}
    return told


def main() -> int:
    """Run the sessions and print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=200, metavar="N")
    parser.add_argument("--form", nargs="+", choices=(*FORMS, *PEERS), default=list(FORMS))
    parser.add_argument("--kind", nargs="+", choices=("plain", "async"), default=["plain", "async"])
    parser.add_argument("--effect", nargs="+", type=int, choices=list(COUNTS), default=[0])
    parser.add_argument("--bursts", action="store_true", help="beside a process that takes a third of a core in bursts")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="append a JSON line for each session")
    arguments = parser.parse_args()
    cases = [
        Case(f, k, e)
        for f in arguments.form
        for k in arguments.kind
        for e in arguments.effect
        if f in FORMS or k == "plain"
    ]
    found: dict[Case, list[dict[str, object]]] = collections.defaultdict(list)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headway-truth-")))
        sessions = Sessions(folder, stack.enter_context(beside(SERVER, says=True)))
        if arguments.bursts:
            stack.enter_context(beside(BURSTS))
        for number in range(arguments.sessions):
            for case in cases:
                found[case].append(sessions.run(case))
                if arguments.keep is not None:
                    with arguments.keep.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({**found[case][-1], "bursts": arguments.bursts}) + "\n")
            print(f"session {number + 1} of {arguments.sessions}", file=sys.stderr, flush=True)
    missed = False
    for case, rows in found.items():
        right, left = COUNTS[case.effect][::-1]
        told = judged(rows, right / left)
        missed |= is_more_often(int(str(told.get("false", 0))), len(rows), FALSE_TARGET)
        print(
            case.form, case.kind, f"{case.effect} %:", ", ".join(f"{name} {value:.3g}" for name, value in told.items())
        )
    return missed


if __name__ == "__main__":
    sys.exit(main())
