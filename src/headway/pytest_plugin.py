"""The pytest plugin: the fixture `headway`, its marker and options, the table at the end. Hooks only.

What measures is in `headway.measure`, and it is imported when a test asks for it: a session without a benchmark pays for
nothing but this file.
"""

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import pytest

from headway.errors import HeadwayError, UsageError

if TYPE_CHECKING:
    from headway.measure.bench import Bench
    from headway.measure.children import Launched
    from headway.measure.journal import Entry, Journal, Options
    from headway.measure.keep import Kept
    from headway.measure.result import Result

__all__: list[str] = []

_FIXTURE = "headway"
_FOLDER = ".headway"
_UNDER_XDIST = "under xdist other workers share the machine (`-n 0` measures)"
_DISABLED = "`--headway-disable`"


@final
class _Session:
    """What the benchmarks of this session gave, and where it goes."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.options: dict[str, Any] = vars(config.option)
        self.entries: list[Entry] = []
        self.launched: dict[str, Launched] | None = None
        self.before: dict[tuple[str, str], Result] = {}
        self.kept: Kept | None = None
        self.complaints: list[str] = []
        self.names: set[tuple[str, str]] = set()
        self.store: Path | None = None

    def option(self, name: str) -> Any:
        return self.options.get(f"headway_{name}")

    @property
    def why_not(self) -> str:
        """Why nothing is measured; "" where it is."""
        if self.option("disable"):
            return _DISABLED
        return _UNDER_XDIST if hasattr(self.config, "workerinput") else ""

    @property
    def child(self) -> Path | None:
        path: Path | None = self.option("launch_file")
        return path

    def add(self, test: str, journal: "Journal") -> None:
        """Take a test's results; they are stored at once."""
        for own in journal.entries.values():
            entry = self._unique(own)
            self.entries.append(entry)
            if self.child is not None or not entry.result.measured or self.option("no_store"):
                continue
            try:
                if self.kept is None:
                    from headway import __version__
                    from headway.host.paths import default_store
                    from headway.measure.keep import Kept

                    self.kept = Kept(self.store or default_store(), self.option("launches"), __version__)
                self.kept.add(test, entry)
            except HeadwayError as error:
                self.complaints.append(f"not stored: {error.message}")
                self.options["headway_no_store"] = True

    def _unique(self, entry: "Entry") -> "Entry":
        """Return an entry under a label that its group has not got yet: several tests may want the same one."""
        from headway.measure.journal import numbered

        label = numbered(entry.label, lambda name: (entry.group, name) in self.names)
        self.names.add((entry.group, label))
        return entry if label == entry.label else replace(entry, label=label)

    @property
    def groups(self) -> dict[str, list["Entry"]]:
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.group, []).append(entry)
        return found


_KEY = pytest.StashKey[_Session]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("headway", "benchmarks (Headway)")
    option = group.addoption
    text = "measure each benchmark in so many fresh processes, in turns (default: 1, in this process)"
    option("--headway-launches", type=int, default=1, metavar="N", help=text)
    option("--headway-disable", action="store_true", help="call each benchmark's functions once, and measure nothing")
    option(
        "--headway-trace", action="store_true", help="look at who holds the GIL and who waits for it in every benchmark"
    )
    option("--headway-json", type=Path, metavar="FILE", help="write all that was measured as JSON")
    option("--headway-pyperf", type=Path, metavar="FILE", help="write a suite that pyperf loads")
    option("--headway-benchmark-json", type=Path, metavar="FILE", help="write what pytest-benchmark writes")
    option("--headway-save", metavar="NAME", help=f"keep the results as {_FOLDER}/NAME.json")
    option("--headway-compare", metavar="NAME", help="show the ratio to kept results, or to those of a JSON file")
    option("--headway-store", type=Path, metavar="FILE", help="the results store (default: the lab's)")
    option("--headway-no-store", action="store_true", help="keep nothing in the results store")
    option("--headway-launch-file", type=Path, help=argparse.SUPPRESS)


def pytest_configure(config: pytest.Config) -> None:
    """Check the options before anything runs."""
    config.addinivalue_line(
        "markers",
        "headway(seconds=0.5, rounds=None, calls=None, setup=None, teardown=None, trace=False, name='', group='', "
        "loop='asyncio', switch_interval_s=None): how the fixture `headway` measures",
    )
    session = config.stash[_KEY] = _Session(config)
    if session.option("launches") < 1:
        raise pytest.UsageError(f"--headway-launches {session.option('launches')}: expected a number from 1")
    for name in ("json", "pyperf", "benchmark_json"):
        path = session.option(name)
        if path is not None and not path.absolute().parent.is_dir():
            raise pytest.UsageError(
                f"--headway-{name.replace('_', '-')} {path}: {path.parent} is not there; make it first"
            )
    name = session.option("save")
    if name is not None and (not name or os.sep in name):
        raise pytest.UsageError(f"--headway-save {name}: expected a name, which is no path")
    if session.option("store") is not None:
        # Before a test changes its folder.
        session.store = session.option("store").absolute()
    wanted = session.option("compare")
    if wanted:
        _load(session, wanted)


def _load(session: _Session, wanted: str) -> None:
    from headway.report.benchmarks import results_from_json

    folder = session.config.rootpath / _FOLDER
    paths = [folder / f"{wanted}.json", session.config.invocation_params.dir / wanted]
    path = next((one for one in paths if one.is_file()), None)
    if path is None:
        there = sorted(one.stem for one in folder.glob("*.json"))
        names = f"; there are {', '.join(there)}" if there else "; `--headway-save NAME` keeps some"
        raise pytest.UsageError(f"--headway-compare {wanted}: nothing is kept under that name{names}")
    try:
        session.before = results_from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise pytest.UsageError(f"--headway-compare {wanted}: {path} holds no results of ours: {error!r}") from None


@pytest.fixture(name=_FIXTURE)
def _bench(request: pytest.FixtureRequest) -> Iterator["Bench"]:
    """Measure functions: `headway(function, *args)`, in an async test `await headway(function, *args)`.

    Also `headway.serial`, `.concurrent`, `.open`, `.compare` and `.options`; see `headway.measure.bench.Bench`.
    """
    from headway.measure.bench import Bench
    from headway.measure.journal import Journal

    session = request.config.stash[_KEY]
    test = _path(request.node)
    launched = session.launched.get(test) if session.launched is not None else None
    options = _options(session, request.node)
    file, _, name = request.node.nodeid.partition("::")
    journal = Journal(
        test=name.replace("::", "."),
        group=file,
        why_not=session.why_not,
        launches=launched.measured if launched is not None else None,
        failures=tuple(launched.failures) if launched is not None else (),
        provisional=session.child is not None,
    )
    yield Bench(journal, options)
    if session.child is not None:
        from headway.measure.children import write_launch

        write_launch(session.child, journal)
    session.add(request.node.nodeid, journal)
    _notice(request.node, journal)
    journal.close()


def _notice(node: pytest.Item, journal: "Journal") -> None:
    """Leave word for the process that reports: with xdist it is another one."""
    if journal.why_not == _UNDER_XDIST and journal.entries:
        node.user_properties.append(("headway", _UNDER_XDIST))


def _options(session: _Session, node: pytest.Item) -> "Options":
    """Return what the markers say, the nearest last."""
    from headway.measure.journal import Options

    options = Options(trace=bool(session.option("trace")))
    for marker in reversed(list(node.iter_markers("headway"))):
        if marker.args:
            raise UsageError(f"@pytest.mark.headway{marker.args!r}: options have names", hint="`headway(seconds=2)`")
        options = options.changed(marker.kwargs)
    return options


def _path(item: pytest.Item) -> str:
    """Return a test as a command line names it, wherever that is given."""
    _, _, inner = item.nodeid.partition("::")
    return f"{item.path}::{inner}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Launch the benchmarks in fresh processes first, where that is wanted; the tests then look at what these measured."""
    ours = session.config.stash[_KEY]
    launches = ours.option("launches")
    if (
        launches < 2
        or ours.child is not None
        or ours.why_not
        or session.config.option.collectonly
        or _spread(session.config)
    ):
        return
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        return
    tests = [_path(item) for item in session.items if _FIXTURE in getattr(item, "fixturenames", ())]
    if not tests:
        return
    from headway.measure.children import launch_all

    reporter = session.config.pluginmanager.get_plugin("terminalreporter")

    def say(line: str) -> None:
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"headway: {line}")

    parameters = session.config.invocation_params
    ours.launched = launch_all(
        tests,
        launches,
        [str(one) for one in parameters.args],
        session.config.args,
        parameters.dir,
        trace=bool(ours.option("trace")),
        spread=session.config.pluginmanager.hasplugin("xdist"),
        say=say,
    )


def _spread(config: pytest.Config) -> bool:
    """Whether this process gives its tests to xdist's workers."""
    return config.pluginmanager.hasplugin("dsession")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Hear of a worker that it measured nothing."""
    if ("headway", _UNDER_XDIST) in report.user_properties:
        _UNMEASURED.append(report.nodeid)


_UNMEASURED: list[str] = []
"""Tests of xdist's workers, in the process that reports."""


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the files that were asked for."""
    ours = session.config.stash.get(_KEY, None)
    if ours is None or ours.child is not None:
        return
    if ours.kept is not None:
        try:
            ours.kept.close()
        except HeadwayError as error:
            ours.complaints.append(f"the run's end is not stored: {error.message}")
    if not any(entry.result.measured for entry in ours.entries):
        return
    from headway.report import benchmarks

    groups = ours.groups
    makers = {
        "json": benchmarks.results_to_json,
        "pyperf": benchmarks.to_pyperf,
        "benchmark_json": benchmarks.to_pytest_benchmark,
    }
    wanted = [(ours.option(name), make) for name, make in makers.items() if ours.option(name) is not None]
    if ours.option("save"):
        wanted.append((session.config.rootpath / _FOLDER / f"{ours.option('save')}.json", benchmarks.results_to_json))
    for path, make in wanted:
        try:
            if path.parent.name == _FOLDER:
                path.parent.mkdir(exist_ok=True)
            path.write_bytes(benchmarks.dump(make(groups)))
        except OSError as error:
            ours.complaints.append(f"{path} cannot be written: {error.strerror}")
        else:
            ours.complaints.append(f"wrote {path}")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Show the tables."""
    ours = config.stash.get(_KEY, None)
    if ours is None or ours.child is not None:
        return
    unmeasured, _UNMEASURED[:] = len(_UNMEASURED), []
    if unmeasured:
        terminalreporter.section("benchmarks (Headway)")
        terminalreporter.write_line(f"{unmeasured} not measured: {_UNDER_XDIST}")
    if not ours.entries:
        return
    terminalreporter.section("benchmarks (Headway)")
    if not any(entry.result.measured or entry.result.failed for entry in ours.entries):
        why = ours.entries[0].result.why_not
        terminalreporter.write_line(f"{len(ours.entries)} not measured: {why}")
        return
    _show(terminalreporter, ours)


def _show(terminalreporter: Any, ours: _Session) -> None:
    import dataclasses
    import io
    import shutil

    from rich.console import Console

    from headway.report import render_table
    from headway.report.benchmarks import benchmark_tables

    width = max(80, shutil.get_terminal_size().columns)
    for table in benchmark_tables(ours.groups, ours.before):
        # The title above its table, unlike the lab's: many of them follow each other here.
        title, *notes = table.caption.splitlines()
        bare = dataclasses.replace(table, caption="")
        terminalreporter.write_line(title)
        console = Console(file=io.StringIO(), width=width, no_color=True, highlight=False, markup=False, emoji=False)
        console.print(render_table(bare))
        for line in console.file.getvalue().rstrip().splitlines():  # type: ignore[attr-defined]
            terminalreporter.write_line(line.rstrip())
        for line in notes:
            terminalreporter.write_line(line)
        terminalreporter.write_line("")
    if any(len(entry.result.launches) == 1 for entry in ours.entries):
        terminalreporter.write_line(
            "intervals are of rounds within this process; `--headway-launches 5` gives those of fresh ones"
        )
    if ours.kept is not None:
        terminalreporter.write_line(
            f"stored as {ours.kept.run_id}: `headway report {ours.kept.run_id} --html FILE` shows it"
        )
    for line in ours.complaints:
        terminalreporter.write_line(line)
