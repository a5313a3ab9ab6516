"""Measure how long a Python child of a traced or scheduled program takes to start and end, beside one of a bare program.

Each repetition runs a program three times: bare, under `headway run` and under `headway trace`. The program starts
children that do nothing, one after the other, and prints the median of their times, and of their CPU times.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from headway.lab.stats import level_interval
from headway.report import seconds

PROGRAM = """
import resource, statistics, subprocess, sys, time
def used():
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime
def once():
    begun_s, before_s = time.perf_counter(), used()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - begun_s, used() - before_s
print(*map(statistics.median, zip(*(once() for _ in range(int(sys.argv[1]))))))
"""


def child_s(before: list[str], program: Path, python: str, children: int) -> tuple[float, float]:
    """Return the median seconds, and CPU seconds, of a child of a program that the words `before` start."""
    command = [*before, python, str(program), str(children)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=program.parent)
    wall, cpu = done.stdout.split()[-2:]
    return float(wall), float(cpu)


def main() -> int:
    """Print the figures of each way; there is no target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the program's interpreter (default: this one)")
    parser.add_argument("--repeats", type=int, default=10, help="(default: %(default)s)")
    parser.add_argument("--children", type=int, default=20, help="children of each program (default: %(default)s)")
    arguments = parser.parse_args()
    headway = [sys.executable, "-m", "headway"]
    found: dict[str, list[tuple[float, float]]] = {"bare": [], "run": [], "trace": []}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(PROGRAM)
        for number in range(arguments.repeats):
            ways = {"bare": [], "run": [*headway, "run"], "trace": [*headway, "trace", "-o", f"{number}.hwt"]}
            for name, before in ways.items():
                found[name].append(child_s(before, program, arguments.python, arguments.children))
    print(f"a child `{os.path.basename(arguments.python)} -c pass`, {arguments.repeats} repeats")
    for name, figures in found.items():
        wall, cpu = (level_interval(column) for column in zip(*figures, strict=True))
        print(
            f"{name:5}  {seconds(wall.value)} [{seconds(wall.low)}, {seconds(wall.high)}], "
            f"CPU {seconds(cpu.value)} [{seconds(cpu.low)}, {seconds(cpu.high)}]"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
