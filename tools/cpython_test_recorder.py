"""Run `python -m test` inside the interpreter under test, and write the outcome of every case to a file.

    python cpython_test_recorder.py OUTCOMES ARGUMENTS-OF-REGRTEST ...

Each line of OUTCOMES is JSON: [case, "started"] or [case, outcome, reason]. regrtest's own report (--junit-xml) would
not do: regrtest writes it at the end, so a test that kills or hangs the process loses the outcomes of all other tests.

The program runs by its path on CPython 3.11 and later, and imports no module of Headway.
"""

import json
import os
import runpy
import sys
import unittest
from typing import Any

# The modules of regrtest's own result class, by version: a test that itself runs tests uses another class.
RESULT_MODULES = ("test.support.testresult", "test.libregrtest.testresult")
# Method of unittest's result -> the outcome that it stands for.
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
    """Writes the outcomes of this process, not of processes that a test forks.

    The file is opened for each line: tests that count descriptors would see one that stays open.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.pid = os.getpid()

    def record(self, result: object, case: Any, outcome: str, reason: object = "") -> None:
        """Write a line; a subtest counts as the case that it belongs to."""
        if os.getpid() != self.pid or type(result).__module__ not in RESULT_MODULES:
            return
        whole = getattr(case, "test_case", case)
        # TestCase.id is called by its class, because some tests keep a number in self.id. The object that stands for a
        # setUpClass that failed is not a TestCase, and has an id() of its own.
        name = unittest.TestCase.id(whole) if isinstance(whole, unittest.TestCase) else whole.id()
        if isinstance(reason, tuple):  # the result of sys.exc_info()
            reason = f"{reason[0].__name__}: {reason[1]}"
        if outcome == "passed":  # a case that fails as expected counts as passed and needs no reason
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

        setattr(unittest.TestResult, "addSubTest", method)  # noqa: B010 - mypy rejects the replacement of a method


def main() -> None:
    """Record outcomes, and otherwise be `python -m test`: spawned children look at how this process was started."""
    recorder = Recorder(sys.argv.pop(1))
    for name, outcome in OUTCOMES.items():
        recorder.watch(name, outcome)
    recorder.watch_subtests()
    sys.path[0] = os.getcwd()  # as `python -m` sets it; tests must not see the folder of this file
    runpy.run_module("test", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
