"""`pytest --headway-stalls`: shows which tests had a stalled event loop, for how long and why.

A process beside pytest watches the session in the way of a service (`headway.watch`). At the end, each stall is
reported with the test that was running when it began. Under xdist, each worker watches itself.
"""

import re
import tempfile
import time
from pathlib import Path
from typing import Any, Final, final

import pytest

from headway.errors import HeadwayError
from headway.printable import printable

__all__ = ["StallWatch", "over_s"]

_RING_BYTES: Final = 64 << 20
"""The size of the ring. A busy test may fill 4 MB within the two seconds between two recordings."""
_KEEP: Final = 4
_UNITS: Final = {"ms": 1e-3, "s": 1.0}


def over_s(text: str) -> float:
    """Return the time that the option names, in seconds. Raises pytest.UsageError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s)", text.strip())
    found = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0.01 <= found <= 600:
        raise pytest.UsageError(
            f"--headway-stalls-over {text!r} is not a time from 10ms to 600s, expected a form such as 100ms"
        )
    return found


@final
class StallWatch:
    """A pytest plugin that watches a session and reports its stalls at the end."""

    def __init__(self, config: pytest.Config, least_s: float) -> None:
        """Prepare a watch that reports an event loop's laps of at least `least_s`."""
        self._config = config
        self._least_s = least_s
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._watch: Any = None
        self._why_not = ""
        self._tests: list[tuple[int, str]] = []
        """For each test, the time when it began (CLOCK_MONOTONIC, ns) and its node id."""
        self._found: list[tuple[str, float, str]] = []
        """For each stall, the test, the stall's length in s, and the text that is shown."""

    def pytest_sessionstart(self) -> None:
        """Start the watch."""
        from headway.live.watching import watch

        self._folder = tempfile.TemporaryDirectory(prefix="headway-stalls-")
        try:
            self._watch = watch(
                self._folder.name,
                name="pytest",
                over_s=self._least_s,
                ring_bytes=_RING_BYTES,
                keep=_KEEP,
                quiet=True,
                sparing=False,
                required=True,
            )
        except (HeadwayError, OSError) as error:
            self._why_not = str(error)
        else:
            if not self._watch.watcher:
                self._watch, self._why_not = None, "this process is already recorded"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note when a test begins."""
        self._tests.append((time.monotonic_ns(), nodeid))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """End the watch, and assign the stalls to the tests."""
        if self._watch is not None:
            if not self._watch.finish():
                self._why_not = "the watcher did not end in time: some stalls may be missing"
            if self._watch.log is not None:
                self._found += list(self._told(self._watch.log))
        if self._folder is not None:
            self._folder.cleanup()
        output = getattr(self._config, "workeroutput", None)
        if output is not None:  # under xdist: the controller reports
            output["headway_stalls"] = (self._found, self._why_not)

    def _told(self, log: Path) -> "list[tuple[str, float, str]]":
        from headway.traces.analysis.stall_model import StallKind
        from headway.traces.analysis.stall_sums import told_rows

        if not log.exists():
            return []
        with log.open(encoding="utf-8", errors="replace") as file:
            rows = told_rows(file)[0]
        return [
            (self._test_at(row["since_ns"]), float(row["length_s"]), str(row["line"]).partition(": ")[2])
            for row in rows
            if row["kind"] == StallKind.LOOP.value and not row["goes_on"]
        ]

    def _test_at(self, time_ns: int) -> str:
        """Return the test that began last before this time, or "" if none did."""
        return next((test for begun_ns, test in reversed(self._tests) if begun_ns <= time_ns), "")

    @pytest.hookimpl(optionalhook=True)  # of pytest-xdist, which may be missing
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the stalls that a worker of xdist found."""
        found, why_not = getattr(node, "workeroutput", {}).get("headway_stalls", ((), ""))
        self._found += [tuple(one) for one in found]
        self._why_not = self._why_not or why_not

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the stalls, by test."""
        tell = terminalreporter.write_line
        if self._why_not:
            tell(f"headway: some or all stalls were not watched: {printable(self._why_not)}")
        if not self._found:
            if not self._why_not:
                tell(f"headway: no event loop stalled for {self._least_s:g} s or longer")
            return
        terminalreporter.section("tests in which an event loop stalled")
        by_test: dict[str, list[tuple[float, str]]] = {}
        for test, length_s, what in self._found:
            by_test.setdefault(test, []).append((length_s, what))
        for test, stalls in sorted(by_test.items(), key=lambda item: -max(item[1])[0]):
            tell(printable(test or "outside a test"))
            for _, what in sorted(stalls, reverse=True):
                tell(f"    {printable(what)}")
