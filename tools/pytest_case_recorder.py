"""Run inside the interpreter under test: pytest, with the outcome of every case written to a file as it comes.

    python pytest_case_recorder.py OUTCOMES SILENCED ARGUMENTS-OF-PYTEST ...

SILENCED is the name of a logger that is to say nothing short of a critical message, or empty.

Each line of OUTCOMES is JSON: [case, "started"] or [case, outcome, reason]. OUTCOMES.headway is made where Headway's
library is in this process. --junit-xml would not do: it is written at the end, so a test that kills or hangs the process
takes the outcomes of all others with it.

Runs on CPython 3.11 and later, by path, and imports nothing of ours.
"""

import json
import logging
import os
import sys
from typing import Any

import pytest

REASON_LIMIT = 400


class Recorder:
    """A pytest plugin that writes outcomes of this process, not of those that a test forks."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.pid = os.getpid()

    def record(self, case: str, outcome: str, reason: str = "") -> None:
        """Write a line. The file is opened for each: an open descriptor would be seen by tests that count theirs."""
        if os.getpid() == self.pid:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps([case, outcome, reason[:REASON_LIMIT]]) + "\n")

    def pytest_sessionstart(self) -> None:
        """Say whether Headway is here."""
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            if "libheadway" in maps.read():
                open(f"{self.path}.headway", "w").close()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Write down what could not be collected."""
        if report.failed:
            self.record(report.nodeid, "failed", gist(report.longrepr))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write down that a case begins: one that kills the process is heard of no more."""
        self.record(nodeid, "started")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write down how a case, or its preparation or its end, went."""
        if report.failed:
            self.record(report.nodeid, "failed", f"{report.when}: {gist(report.longrepr)}")
        elif report.skipped:
            # One that fails as expected is called skipped, too.
            self.record(report.nodeid, "passed" if hasattr(report, "wasxfail") else "skipped", gist(report.longrepr))
        elif report.when == "call":
            self.record(report.nodeid, "passed")


def gist(what: Any) -> str:
    """The line that says most of why something failed or was skipped."""
    if isinstance(what, tuple):  # file, line, reason
        return str(what[2])
    crash = getattr(what, "reprcrash", None)
    lines = str(crash.message if crash is not None else what).strip().splitlines()
    return lines[0] if lines and crash is not None else lines[-1] if lines else ""


def main() -> int:
    """Record, and be pytest."""
    recorder = Recorder(sys.argv.pop(1))
    silenced = sys.argv.pop(1)
    if silenced:
        logging.getLogger(silenced).setLevel(logging.CRITICAL)
    sys.path[0] = os.getcwd()  # this file's folder is not the tests' business
    return pytest.main(sys.argv[1:], plugins=[recorder])


if __name__ == "__main__":
    sys.exit(main())
