"""Compare the fixture's time for an empty coroutine with a loop written by hand, and with other ways to benchmark one.

Each launch is a pytest run of its own with one test after the other. The fixture takes turns with loops written by hand
in the same event loop: one over `itertools.repeat`, as timeit has it, and one over a `range`, which makes an int for
each await. The others are pytest-benchmark's fixture around a loop in a second thread, which is the known workaround;
the same fixture with the coroutine function as it is; and pytest-async-benchmark's fixture. Target: the fixture's
figure is that of the loop written by hand within 5 %, and does not contain the cost of a task or of starting a loop.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from headway.lab.stats import level_interval, paired_ratio_interval
from headway.report.figures import level, ratio

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from provision.locked_environment import kept, make_environment

PACKAGES = (
    *("pytest", "pytest-asyncio", "pytest-benchmark", "pytest-async-benchmark==0.2.0"),
    *("numpy", "scipy", "rich"),
)
TOLERANCE = 0.05

SUITE = """
import asyncio, itertools, json, statistics, threading, time
import pytest

ROUNDS, CALLS = 60, 20_000
found = {}


async def nothing():
    pass


@pytest.fixture(scope="module", autouse=True)
def written():
    yield
    with open("found.json", "w") as file:
        json.dump(found, file)


@pytest.mark.asyncio
async def test_fixture_and_by_hand(headway):
    by_hand, ranged, ours = [], [], []
    function = nothing
    for _ in range(ROUNDS):
        ours.append((await headway.options(rounds=1, calls=CALLS)(nothing)).launches[0])
        each = itertools.repeat(None, CALLS)
        begun = time.perf_counter_ns()
        for _ in each:
            await function()
        by_hand.append((time.perf_counter_ns() - begun) / CALLS / 1e9)
        begun = time.perf_counter_ns()
        for _ in range(CALLS):
            await function()
        ranged.append((time.perf_counter_ns() - begun) / CALLS / 1e9)
    found["headway"] = statistics.median(value for one in ours for value in one.values_s)
    found["by hand"] = statistics.median(by_hand)
    found["by hand, over a range"] = statistics.median(ranged)
    found["loop's task"] = ours[0].loop_s


def test_from_a_plain_test(headway):
    found["headway, plain test"] = statistics.median(headway.options(rounds=ROUNDS, calls=CALLS)(nothing).launches[0].values_s)


def test_second_thread(benchmark):
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    benchmark(lambda: asyncio.run_coroutine_threadsafe(nothing(), loop).result())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    found["second thread"] = benchmark.stats.stats.median


@pytest.mark.filterwarnings("ignore")
def test_as_it_is(benchmark):
    benchmark(nothing)
    found["pytest-benchmark, never awaited"] = benchmark.stats.stats.median


@pytest.mark.asyncio
async def test_rival(async_benchmark):
    result = await async_benchmark(nothing, rounds=200, iterations=1)
    found["pytest-async-benchmark"] = result["median"]
"""


def rival_python() -> str:
    """Return a Python with the other plugins and the packages of this one; it is made once and kept in the cache."""
    own = Path(sys.executable).parent.parent
    name = f"bench-pytest-{hashlib.sha256(f'{PACKAGES}|{sys.version}|{own}'.encode()).hexdigest()[:12]}"

    def fill(folder: Path) -> None:
        pip = make_environment(sys.executable, folder)
        python = str(folder / "bin" / "python")
        subprocess.run([*pip, "install", "--compile-bytecode", "--python", python, *PACKAGES], check=True)

    return str(kept(name, fill) / "bin" / "python")


def launch(python: str) -> dict[str, float]:
    """Run the suite once in a fresh process; return the seconds for each call by name."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_nothing.py").write_text(SUITE)
        source = Path(__file__).resolve().parent.parent / "src"
        environment = {**os.environ, "PYTHONPATH": str(source), "HEADWAY_STORE": str(Path(folder) / "results.sqlite")}
        command = [python, "-m", "pytest", "-q", "-p", "headway.pytest_plugin", "-p", "no:cacheprovider"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"the suite failed:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
        found: dict[str, float] = json.loads(Path(folder, "found.json").read_text())
        return found


def main() -> int:
    """Print the table; return 1 if the target is missed beyond doubt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=5, help="fresh processes (default: 5)")
    launches = parser.parse_args().launches
    python = rival_python()
    rows: list[dict[str, float]] = []
    for number in range(launches):
        print(f"launch {number + 1} of {launches}", file=sys.stderr, flush=True)
        rows.append(launch(python))
    print(f"an empty coroutine, awaited; {launches} fresh launches, ratio to the loop written by hand [95 % interval]")
    for name in rows[0]:
        values = [row[name] for row in rows]
        found = paired_ratio_interval([(row[name], row["by hand"]) for row in rows])
        print(f"  {name:34} {level(level_interval(values), 's'):>18}   {ratio(found)}")
    ours = paired_ratio_interval([(row["headway"], row["by hand"]) for row in rows])
    within = ours.low > 1 - TOLERANCE and ours.high < 1 + TOLERANCE
    missed = ours.low > 1 + TOLERANCE or ours.high < 1 - TOLERANCE
    print(f"target: within {TOLERANCE:.0%}: {'missed' if missed else 'met' if within else 'undecided'}")
    print(
        f"median of the launches' differences: {statistics.median(row['headway'] - row['by hand'] for row in rows) * 1e9:.2f} ns"
    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
