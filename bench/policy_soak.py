"""What gets lost, and whether memory grows, in one process under a policy that does a bit of everything for long.

Threads that compute, echo over sockets, pass items on, meet in locks, begin and end, fork, start programs, collect
garbage and run sub-interpreters, side by side; each checks what it gets. Every load has to get on between any two
reports. Memory is compared between the middle and the end. Where the machine was stopped for a while, so was this.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from headway.lab import discover, select
from headway.live.launch import scheduled_environment
from headway.native import policies

WORKLOAD = Path(__file__).with_name("policy_soak_workload.py")
MOST_GROWTH = 0.02


class Course:
    """What a workload has reported so far, and what follows from it."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.stuck: set[str] = set()

    def take(self, line: str) -> str:
        """Take a line of its output; return what is to be shown of it."""
        if not line.startswith("{"):
            self.said.append(line.strip())
            return line.rstrip()
        found = json.loads(line)
        before = self.reports[-1]["done"] if self.reports else {}
        self.stuck |= {name for name, times in found["done"].items() if times == before.get(name, 0)}
        self.reports.append(found)
        return (
            f"{found['s']:6} s  {found['rss_kib'] / 1024:6.1f} MiB  {found['threads']:3} threads  "
            f"{found['descriptors']:3} descriptors  {sum(found['done'].values()):12,} done  {found['wrongs']} wrong  "
            f"{'; '.join(found['wrong'])}"
        )

    def growth(self, figure: str) -> float:
        """By how much of itself memory grew from the middle to the end."""
        second = [one[figure] for one in self.reports[len(self.reports) // 2 :]]
        quarter = max(1, len(second) // 4)
        grown: float = min(second[-quarter:]) / max(second[:quarter]) - 1
        return grown


def main() -> int:
    """Print a line per report; 1 if anything was lost or grew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpreter", default="3.13", help="which (default: %(default)s)")
    parser.add_argument("--policy", default="fair", choices=["none", *(one.name for one in policies()[0])])
    parser.add_argument("--minutes", type=float, default=120.0, help="(default: %(default)s)")
    parser.add_argument("--reports", type=int, default=60, help="4 at least (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.reports < 4:
        parser.error("--reports: 4 at least, to compare its second half")
    (interpreter,) = select(discover()[0], [arguments.interpreter])
    seconds = arguments.minutes * 60
    process = subprocess.Popen(
        [interpreter.executable, "-W", "ignore", WORKLOAD, str(seconds), str(seconds / arguments.reports)],
        env=scheduled_environment(None if arguments.policy == "none" else arguments.policy),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # what it says is seen at once, and no pipe fills unread
        text=True,
    )
    print(f"{interpreter.name}, {arguments.policy}, {arguments.minutes:g} minutes", flush=True)
    course = Course()
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            print(course.take(line), flush=True)
    reports = course.reports
    missed = []
    if process.returncode != 0 or not reports or reports[-1]["wrongs"]:
        missed.append(f"it ended with {process.returncode} or something was lost")
    if course.said:
        missed.append(f"it said: {'; '.join(course.said)}")
    if course.stuck:
        missed.append(f"did nothing between two reports: {', '.join(sorted(course.stuck))}")
    if reports:
        growth = course.growth("rss_kib")
        print(f"memory from the middle to the end: {100 * growth:+.1f} %")
        if growth > MOST_GROWTH:
            missed.append("memory grew")
        for name, times in sorted(reports[-1]["done"].items()):
            print(f"  {name:16} {times:14,}")
    print("\n".join(missed) or "nothing lost, nothing grew")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
