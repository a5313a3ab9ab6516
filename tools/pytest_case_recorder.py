"""Run pytest inside the interpreter under test, and write the outcome of every case to a file as it comes.

    python pytest_case_recorder.py OUTCOMES SILENCED ARGUMENTS-OF-PYTEST ...

SILENCED is the name of a logger that may log only critical messages, or empty.

Each line of OUTCOMES is JSON: [case, "started"] or [case, outcome, reason]. The program makes the file OUTCOMES.headway
if Headway's library is in this process. --junit-xml would not do: pytest writes it at the end, so a test that kills or
hangs the process loses the outcomes of all other tests.

The program runs by its path on CPython 3.11 and later, and imports no module of Headway.
"""

import json
import logging
import os
import sys
from typing import Any

import pytest

REASON_LIMIT = 400


class Recorder:
    """A pytest plugin that writes the outcomes of this process, not of processes that a test forks."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.pid = os.getpid()

    def record(self, case: str, outcome: str, reason: str = "") -> None:
        """Write a line. The file is opened for each one: tests that count descriptors would see one that stays open."""
        if os.getpid() == self.pid:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps([case, outcome, reason[:REASON_LIMIT]]) + "\n")

    def pytest_sessionstart(self) -> None:
        """Record whether Headway's library is in this process."""
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            if "libheadway" in maps.read():
                open(f"{self.path}.headway", "w").close()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record what could not be collected."""
        if report.failed:
            self.record(report.nodeid, "failed", gist(report.longrepr))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record that a case begins: a case that kills the process reports nothing more."""
        self.record(nodeid, "started")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record how a case, its setup or its teardown went."""
        if report.failed:
            self.record(report.nodeid, "failed", f"{report.when}: {gist(report.longrepr)}")
        elif report.skipped:
            # pytest calls a case that fails as expected skipped, too.
            self.record(report.nodeid, "passed" if hasattr(report, "wasxfail") else "skipped", gist(report.longrepr))
        elif report.when == "call":
            self.record(report.nodeid, "passed")


def gist(what: Any) -> str:
    """Return the most telling line of the reason why something failed or was skipped."""
    if isinstance(what, tuple):  # file, line, reason
        return str(what[2])
    crash = getattr(what, "reprcrash", None)
    lines = str(crash.message if crash is not None else what).strip().splitlines()
    return lines[0] if lines and crash is not None else lines[-1] if lines else ""


def main() -> int:
    """Run pytest with the recorder; return its exit code."""
    recorder = Recorder(sys.argv.pop(1))
    silenced = sys.argv.pop(1)
    if silenced:
        logging.getLogger(silenced).setLevel(logging.CRITICAL)
    sys.path[0] = os.getcwd()  # tests must not see the folder of this file
    return pytest.main(sys.argv[1:], plugins=[recorder])


if __name__ == "__main__":
    sys.exit(main())
