"""The results of a pytest session with benchmarks: what becomes of them after each test, and at the session's end."""

import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import pytest

from headway.errors import HeadwayError
from headway.pytest_options import FORKED, Asked

if TYPE_CHECKING:
    from headway.measure.against import Sides
    from headway.measure.children import Launched
    from headway.measure.journal import Entry, Journal
    from headway.measure.keep import Kept

__all__ = ["UNMEASURED", "Session"]

_FILES = ("json", "pyperf", "benchmark_json", "save", "add")
"""The options that name a file to write."""

UNMEASURED: dict[str, str] = {}
"""Why tests that another process ran were not measured there (a worker of xdist, a fork), in the process that reports."""


@final
class Session(Asked):
    """The results of the benchmarks of this pytest session, and where they are written.

    `start_s` is the CPU time of this process's start: each launch starts in the same way. `ended` tells that the
    session's tests came to their end, `unwritten` that a file could not be written, and `has_benchmarks` that a collected
    test is one. `at_turn` is called before each turn with the other tree's process. `untaken` are the tests whose results are to be taken (see `settle`), and
    `unlaunched` those that were to be launched, and could not.
    """

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config)
        self.entries: list[Entry] = []
        self.launched: dict[str, Launched] = {}
        self.sides: dict[str, Sides] = {}
        self.regressed: list[str] = []
        self.kept: Kept | None = None
        self.complaints: list[str] = []
        self.start_s = time.process_time()
        self.ended = self.unwritten = self.has_benchmarks = False
        self.at_turn: Callable[[], None] | None = None
        self.untaken: list[Callable[[], None]] = []
        self.unlaunched: dict[str, None] = {}

    def prepare(self) -> None:
        """Import the code that measures, and open what it needs of files.

        A test may have a file system of its own later, in which files are not found (pyfakefs), or another import path.
        """
        import headway.measure.bench

        self.has_benchmarks = True
        if self.with_reference:
            import headway.measure.baseline  # noqa: F401
        if self.option("turn_files"):
            from headway.measure.against import turn_taker

            self.at_turn = turn_taker(self.option("turn_files"))

    def settle(self) -> None:
        """Take the results of the test that has ended. Its fixtures are torn down, so the file system is the real one."""
        while self.untaken:
            self.untaken.pop(0)()

    def skip_launches(self, test: str) -> None:
        """Note a test that was to be launched, and was not found to be a benchmark before it ran."""
        if self.child is None and not self.why_not and (self.launches > 1 or self.option("against")):
            self.unlaunched[test] = None
            self.complaints.append(f"! {test}: not launched; name `headway` among its arguments")

    def add(self, test: str, journal: "Journal") -> None:
        """Add a test's results, and store them at once."""
        from headway.measure.journal import entered

        for entry in entered(self.entries, journal.keyed()):
            if self.child is not None or not entry.result.measured or self.option("no_store"):
                continue
            try:
                if self.kept is None:
                    from headway import __version__
                    from headway.host.paths import default_store
                    from headway.measure.keep import Kept

                    self.kept = Kept(self.store or default_store(), self.launches, __version__)
                self.kept.add(test, entry)
            except HeadwayError as error:
                self.complaints.append(f"not stored: {error.message}")
                self.options["headway_no_store"] = True

    @property
    def groups(self) -> dict[str, list["Entry"]]:
        """The results by their group."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.group, []).append(entry)
        return found

    def finish(self, session: pytest.Session) -> None:
        """Write the files that the options ask for; fail the session if that fails, or if a benchmark regressed."""
        if self.kept is not None:
            try:
                self.kept.close()
            except HeadwayError as error:
                self.complaints.append(f"the end of the run is not stored: {error.message}")
        self._judge(session)
        if not any(entry.result.measured for entry in self.entries):
            asked = [f"--headway-{name.replace('_', '-')}" for name in _FILES if self.option(name)]
            if asked:
                self.complaints.append(f"{' and '.join(asked)}: nothing was measured, so nothing is written")
            return
        from headway.report import benchmarks

        groups, top = self.groups, session.config.rootpath
        makers: dict[str, Callable[[], dict[str, Any]]] = {
            "json": lambda: benchmarks.results_to_json(groups, top, self.earlier),
            "pyperf": lambda: benchmarks.to_pyperf(groups),
            "benchmark_json": lambda: benchmarks.to_pytest_benchmark(groups, top),
        }
        for name, make in makers.items():
            path = self.option(name)
            if path is not None:
                self._write(path, partial(_write_bytes, path, benchmarks.dump(make())))
        for name in ("save", "add"):
            if self.option(name) and not self.ended:
                # A part of the benchmarks would replace all of them, and a comparison would take the others for new ones.
                self.complaints.append(
                    f"--headway-{name}: the tests were stopped early, so nothing is stored; "
                    "store a session that runs them all (without `-x` or `--maxfail`)"
                )
            elif self.option(name) and self.regressed and self.is_baseline(self.option(name)):
                # The next session would pass, as it would be compared with the regression.
                self.complaints.append(
                    f"--headway-{name}: the session failed the comparison with {self.option('compare')}, so nothing is "
                    "stored there; if its figures are to be the new ones, store a session without --headway-compare"
                )
            elif self.option(name):
                path, values = self.kept_file(self.option(name)), benchmarks.session_to_json(groups, top)
                self._write(path, partial(benchmarks.store_session, path, values, add=name == "add"))
        if self.unwritten and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _write(self, path: Path, write: Callable[[], object]) -> None:
        try:
            write()
        except (OSError, HeadwayError) as error:
            self.unwritten = True
            why = f"{path} cannot be written: {error.strerror}" if isinstance(error, OSError) else error.message
            self.complaints.append(why)
        else:
            self.complaints.append(f"wrote {path}")

    def _judge(self, session: pytest.Session) -> None:
        """Fail the session if a benchmark regressed beyond its limit, or if there were benchmarks and none was compared."""
        if self.earlier is None or self.why_not not in {"", FORKED}:
            return
        lost = self.lost({one.key for one in self.entries}, self.sides) if self.ended else []
        self.complaints += lost
        # All benchmarks of a session may be skipped, or removed; one that was stopped may not have reached them.
        if not (self.entries or UNMEASURED or (self.ended and self.has_benchmarks) or lost):
            return
        if self.sessions is not None:
            import platform

            from headway.host.machine import this_machine

            self.complaints += self.sessions.apart(platform.python_version(), this_machine().cpu)
        copied = ""
        if self.revision is not None:
            from headway.measure.copies import EDITABLE, copied_package

            # A test may have imported the copy only when it ran.
            copied = copied_package(session.config.rootpath)
            if copied:
                self.complaints.append(f"! {copied}; {EDITABLE}")
        if self.fail_limit is None:
            return
        from headway.report.benchmarks import regressions

        self.regressed, compared = regressions(self.groups, self.earlier, self.fail_limit)
        if not compared or copied:
            self.regressed = [f"--headway-compare-fail: nothing could be compared with {self.earlier.name}"]
        missed = [*(self.unlaunched if self.revision is not None else ()), *(UNMEASURED if compared else ())]
        if missed:
            self.regressed.append(f"--headway-compare-fail: not compared: {', '.join(missed)}")
        if self.regressed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _write_bytes(path: Path, data: bytes) -> None:
    """Write a file; a new one that cannot be written whole is removed, as an empty one looks like a result."""
    is_new = not path.exists()
    try:
        path.write_bytes(data)
    except OSError:
        if is_new:
            with contextlib.suppress(OSError):
                path.unlink()
        raise
