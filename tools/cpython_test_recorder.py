"""Run inside the interpreter under test: its own `python -m test`, with the outcome of every case written to a file.

    python cpython_test_recorder.py OUTCOMES ARGUMENTS-OF-REGRTEST ...

Each line of OUTCOMES is JSON: [case, "started"] or [case, outcome, reason]. regrtest's own report (--junit-xml) would
not do: it is written at the end, so a test that kills or hangs the process takes the outcomes of all others with it.

Runs on CPython 3.11 and later, by path, and imports nothing of ours.
"""

import json
import os
import runpy
import sys
import unittest
from typing import Any

# Where regrtest's own result class lives, by version: a test that runs tests of its own does so with another.
RESULT_MODULES = ("test.support.testresult", "test.libregrtest.testresult")
# unittest's method -> what it says about the case.
OUTCOMES = {
    "startTest": "started",
    "addSuccess": "passed",
    "addExpectedFailure": "passed",
    "addUnexpectedSuccess": "failed",
    "addSkip": "skipped",
    "addFailure": "failed",
    "addError": "failed",
}
REASON_LIMIT = 400


class Recorder:
    """Writes outcomes of this process, not of those that a test forks.

    The file is opened for each line: an open descriptor would be seen by tests that count theirs.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.pid = os.getpid()

    def record(self, result: object, case: Any, outcome: str, reason: object = "") -> None:
        """Write a line; a subtest counts as the case that it belongs to."""
        if os.getpid() != self.pid or type(result).__module__ not in RESULT_MODULES:
            return
        whole = getattr(case, "test_case", case)
        # By the class: some tests keep a number in self.id. What stands for a setUpClass that failed is no TestCase.
        name = unittest.TestCase.id(whole) if isinstance(whole, unittest.TestCase) else whole.id()
        if isinstance(reason, tuple):  # what sys.exc_info() returns
            reason = f"{reason[0].__name__}: {reason[1]}"
        if outcome == "passed":  # failing as expected needs none
            reason = ""
        line = json.dumps([name, outcome, str(reason)[:REASON_LIMIT]]) + "\n"
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(line)

    def watch(self, name: str, outcome: str) -> None:
        """Make unittest's method `name` record `outcome` before it does its own work."""
        original = getattr(unittest.TestResult, name)

        def method(result: Any, case: Any, *details: Any) -> None:
            self.record(result, case, outcome, *details)
            original(result, case, *details)

        setattr(unittest.TestResult, name, method)

    def watch_subtests(self) -> None:
        """Record subtests that fail; those that pass say nothing about their case."""
        original = unittest.TestResult.addSubTest

        def method(result: Any, case: Any, subtest: Any, error: Any) -> None:
            if error is not None:
                self.record(result, case, "failed", error)
            original(result, case, subtest, error)

        setattr(unittest.TestResult, "addSubTest", method)  # noqa: B010 mypy has no wish for a method to be replaced


def main() -> None:
    """Record, and then be `python -m test`, also to spawned children, which look at how this process was started."""
    recorder = Recorder(sys.argv.pop(1))
    for name, outcome in OUTCOMES.items():
        recorder.watch(name, outcome)
    recorder.watch_subtests()
    sys.path[0] = os.getcwd()  # as -m has it; this file's folder is not the tests' business
    runpy.run_module("test", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
