"""A policy of the user's own: the guide's example is a lottery, simulated and in a real program."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from real_programs import LIMIT_S, unobserved

ROOT = Path(__file__).parents[2]
LOTTERY = ROOT / "docs" / "guides" / "examples" / "lottery.c"
HEADWAY = [str(Path(sys.executable).with_name("headway"))]

pytestmark = pytest.mark.slow

SCENARIO = """
cores = 2
duration_s = 20
[role.first]
program = [{compute = true}]
[role.second]
program = [{compute = true}]
[role.favoured]
priority = -5
program = [{compute = true}]
[role.tick]
program = [{begin = true}, {sleep_ms = 10}, {hold_us = 20}, {done = true}]
"""

COMPUTES = """
import threading, time
until = time.monotonic() + 4
rounds = [0] * 3
def compute(place):
    while time.monotonic() < until:
        for _ in range(2000): pass
        rounds[place] += 1
threads = [threading.Thread(target=compute, args=(place,)) for place in range(3)]
for thread in threads: thread.start()
while time.monotonic() < until: time.sleep(0.01)
for thread in threads: thread.join()
print(*rounds)
"""


def run(*arguments):
    """Run the command line."""
    return subprocess.run(
        [*HEADWAY, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False, env=unobserved()
    )


def built(source, library):
    """Compile a policy against the public header, and return its path."""
    compiler = shutil.which("cc")
    assert compiler
    headers = str(ROOT / "native" / "include")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-I", headers, "-o", str(library), str(source)], check=True)
    return str(library)


@pytest.fixture(scope="module")
def lottery(tmp_path_factory):
    """Return the path of the guide's example, compiled."""
    return built(LOTTERY, tmp_path_factory.mktemp("lottery") / "lottery.so")


def test_each_waiter_of_the_lottery_has_the_chance_of_its_weight(lottery, tmp_path):
    """In virtual time equal threads have equal shares, priority -5 has its weight of them, and no thread starves."""
    file = tmp_path / "scenario.toml"
    file.write_text(SCENARIO)

    done = run("simulate", str(file), "--policy", lottery, "--calibration", "preset", "--seeds", "1", "--json")

    parts = json.loads(done.stdout)["points"][0]["parts"]
    held = {name: parts[name]["held_share"]["median"] for name in ("first", "second", "favoured")}
    assert held["second"] == pytest.approx(held["first"], rel=0.1)
    assert held["favoured"] == pytest.approx(1.25**5 * held["first"], rel=0.1)
    assert max(part["worst_wait_ms"]["median"] for part in parts.values()) < 300


def test_the_lottery_starves_no_thread_of_a_real_program(lottery):
    """The watchdog does not remove the policy, and three CPU-bound threads have about equal shares."""
    done = run("run", "--policy", lottery, "--python", sys.executable, "-c", COMPUTES)

    rounds = [int(word) for word in done.stdout.split()]
    assert done.stderr == ""
    assert min(rounds) > 0.5 * max(rounds)
