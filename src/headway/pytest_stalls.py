"""`pytest --headway-stalls`: shows which tests had a stalled event loop, for how long and why.

A process beside pytest watches the session in the way of a service (`headway.watch`). At the end, each stall is
reported with the test that was running when it began. Under xdist, each worker watches itself, and the controller reports.
The log of a worker that ends early, as by a crash, is read by the controller, which has made the worker's folder.
"""

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import pytest

from headway.errors import HeadwayError
from headway.printable import printable

if TYPE_CHECKING:
    from headway.live.watching import Watch

__all__ = ["StallWatch", "over_s"]

_RING_BYTES: Final = 64 << 20
"""The size of the ring. A busy test may fill 4 MB within the two seconds between two recordings."""
_KEEP: Final = 4
_PATIENCE_S: Final = 30.0
"""How long a watcher may take to report what it has."""
_UNITS: Final = {"ms": 1e-3, "s": 1.0}
_NOTES: Final = "worker.jsonl"
"""A worker's file for the controller: the watcher's id and log, then the time at which each test began."""
_FOLDER: Final = "headway_stalls_folder"
_FOUND: Final = "headway_stalls"


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
        self._watch: Watch | None = None
        self._reasons: list[str] = []
        """Why some or all stalls are not known."""
        self._tests: list[tuple[int, str]] = []
        """For each test, the time when it began (CLOCK_MONOTONIC, ns) and its node id."""
        self._notes = -1
        self._workers: dict[str, Path] = {}
        """The folders of xdist's workers whose stalls have not come in."""
        self._found: list[tuple[str, float, str]] = []
        """For each stall, the test, the stall's length in s, and the text that is shown."""

    def pytest_sessionstart(self) -> None:
        """Start the watch."""
        from headway.live.watching import watch

        given = Path(getattr(self._config, "workerinput", {}).get(_FOLDER) or os.devnull)
        if not given.is_dir():
            self._folder = tempfile.TemporaryDirectory(prefix="headway-stalls-", ignore_cleanup_errors=True)
        try:
            self._watch = watch(
                given if self._folder is None else self._folder.name,
                name="pytest",
                over_s=self._least_s,
                ring_bytes=_RING_BYTES,
                keep=_KEEP,
                quiet=True,
                sparing=False,
                required=True,
            )
        except (HeadwayError, OSError) as error:
            self._add_reason(str(error))
        else:
            if not self._watch.watcher:
                self._watch = None
                self._add_reason("this process is already recorded")
            elif self._folder is None:
                self._notes = os.open(given / _NOTES, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                self._note([self._watch.watcher, str(self._watch.log)])

    def _add_reason(self, why: str) -> None:
        if why and why not in self._reasons:
            self._reasons.append(why)

    def _note(self, row: list[int | str]) -> None:
        if self._notes >= 0:
            os.write(self._notes, json.dumps(row).encode() + b"\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note when a test begins."""
        self._tests.append((time.monotonic_ns(), nodeid))
        self._note([*self._tests[-1]])

    @pytest.hookimpl(trylast=True)  # xdist ends its workers first
    def pytest_sessionfinish(self) -> None:
        """End the watch, and assign the stalls to the tests."""
        if self._watch is not None:
            self._take(self._watch, self._tests, _PATIENCE_S)
        until_s = time.monotonic() + _PATIENCE_S
        for worker, folder in self._workers.items():
            self._take_of_crashed(worker, folder, max(0.0, until_s - time.monotonic()))
        if self._folder is not None:
            self._folder.cleanup()
        if self._notes >= 0:
            os.close(self._notes)
            self._notes = -1
        output = getattr(self._config, "workeroutput", None)
        if output is not None:  # under xdist: the controller reports
            output[_FOUND] = (self._found, self._reasons)

    def _take(self, watch: "Watch", tests: list[tuple[int, str]], timeout_s: float) -> None:
        """End a watch, or wait for its end if it is that of another process, and take the stalls that it found."""
        from headway.live.marks import killed_watchers
        from headway.live.stall_log import gap_in

        if not watch.finish(timeout_s):
            self._add_reason("the watcher did not end in time: some stalls may be missing")
        if watch.log is None:
            return
        gap = gap_in(watch.log)
        if gap is not None:
            self._add_reason(gap[1])
        if any(killed_watchers(watch.log)):
            self._add_reason("the watcher was killed: some stalls may be missing")
        self._found += _told(watch.log, tests)

    def _take_of_crashed(self, worker: str, folder: Path, timeout_s: float) -> None:
        """Take the stalls of a worker that has ended without a report."""
        from headway.live.watching import Watch

        try:
            watcher, log, tests = _noted(folder / _NOTES)
        except (OSError, ValueError):
            self._add_reason(f"worker {worker} ended early: its stalls are not known")
            return
        self._take(Watch(folder, watcher, log=log), tests, timeout_s)

    @pytest.hookimpl(optionalhook=True)  # of pytest-xdist, which may be missing
    def pytest_configure_node(self, node: Any) -> None:
        """Make the folder of a worker on this machine."""
        if node.gateway.spec.popen and self._folder is not None:
            self._workers[node.gateway.id] = folder = Path(self._folder.name) / node.gateway.id
            folder.mkdir(mode=0o700)
            node.workerinput[_FOLDER] = str(folder)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the stalls that a worker of xdist found; those of one that crashed are read at the end."""
        worker = node.gateway.id
        if _FOUND in getattr(node, "workeroutput", {}):
            if worker in self._workers:
                shutil.rmtree(self._workers.pop(worker), ignore_errors=True)
            found, reasons = node.workeroutput[_FOUND]
            self._found += [tuple(one) for one in found]
            for why in reasons:
                self._add_reason(why)
        elif worker not in self._workers:
            self._add_reason(f"worker {worker} ended early: its stalls are not known")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the stalls, by test."""
        tell = terminalreporter.write_line
        for why in self._reasons:
            tell(f"headway: some or all stalls are not known: {printable(why)}")
        if not self._found:
            if not self._reasons:
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


def _told(log: Path, tests: list[tuple[int, str]]) -> Iterator[tuple[str, float, str]]:
    """Yield, for each stall in a log, the test, the stall's length in s, and the text that is shown."""
    from headway.traces.analysis.stall_model import StallKind
    from headway.traces.analysis.stall_sums import told_rows

    if not log.exists():
        return
    with log.open(encoding="utf-8", errors="replace") as file:
        rows = told_rows(file)[0]
    for row in rows:
        if row["kind"] == StallKind.LOOP.value and not row["goes_on"]:
            test = _test_at(tests, row["since_ns"])
            yield test, float(row["length_s"]), str(row["line"]).partition(": ")[2]


def _test_at(tests: list[tuple[int, str]], time_ns: int) -> str:
    """Return the test that began last before a time, or "" if none did."""
    return next((test for begun_ns, test in reversed(tests) if begun_ns <= time_ns), "")


def _noted(notes: Path) -> tuple[int, Path, list[tuple[int, str]]]:
    """Return what a worker has noted: its watcher's id and log, and when its tests began. Raises OSError, ValueError."""
    rows = [json.loads(line) for line in notes.read_text().splitlines(keepends=True) if line.endswith("\n")]
    if not rows:
        raise ValueError("the worker has not noted its watcher")
    (watcher, log), *tests = rows
    return int(watcher), Path(log), [(int(begun_ns), str(test)) for begun_ns, test in tests]
