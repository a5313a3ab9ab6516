"""Check that nothing gets lost and that memory does not grow, in one process that runs for long under a policy.

Threads compute, echo over sockets, pass items on, meet in locks, begin and end, fork, start programs, collect garbage
and run sub-interpreters, side by side. Each checks its own results. Every load must make progress between any two
reports. Memory is compared between the middle and the end. A pause of the whole machine pauses the program, too, and
its clock.
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
    """The reports of a workload so far, and the conclusions from them."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.stuck: set[str] = set()

    def take(self, line: str) -> str:
        """Take a line of the workload's output; return the text to show."""
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
        """Return the relative growth of memory from the middle to the end."""
        second = [one[figure] for one in self.reports[len(self.reports) // 2 :]]
        quarter = max(1, len(second) // 4)
        grown: float = min(second[-quarter:]) / max(second[:quarter]) - 1
        return grown


def main() -> int:
    """Print a line for each report; return 1 if anything was lost, or memory grew."""
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
        stderr=subprocess.STDOUT,  # so that errors are shown at once, and no pipe fills up unread
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
