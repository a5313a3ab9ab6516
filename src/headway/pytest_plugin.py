"""The pytest plugin: the fixture `headway`, its marker and options, and the table at the end. It has only hooks.

The code that measures is in `headway.measure` and is imported if a collected test measures. A session without a
benchmark therefore imports only this file, the options, and what holds a session's results.
"""

import contextlib
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headway.errors import HeadwayError, UsageError
from headway.pytest_options import FORKED, UNDER_XDIST, add_options
from headway.pytest_session import UNMEASURED, Session

if TYPE_CHECKING:
    from headway.measure.against import Sides
    from headway.measure.bench import Bench
    from headway.measure.journal import Journal, Options

__all__: list[str] = []

_FIXTURE = "headway"
_ELSEWHERE = (UNDER_XDIST, FORKED)
"""Why nothing is measured in a process that runs tests for the one that reports."""
_KEY = pytest.StashKey[Session]()
_MINE = pytest.StashKey[list[pytest.Item]]()
"""The test of a launch."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Check the options before anything runs."""
    config.addinivalue_line(
        "markers",
        "headway(seconds=0.5, rounds=None, calls=None, setup=None, teardown=None, trace=False, name='', group='', "
        "loop='', switch_interval_s=None, gc=True, precision=None): how the fixture `headway` measures",
    )
    session = config.stash[_KEY] = Session(config)
    try:
        session.check()
    except HeadwayError as error:
        hint = f"; {error.hint}" if error.hint else ""
        raise pytest.UsageError(f"{error.message}{hint}") from None
    if config.getoption("headway_stalls"):
        from headway.pytest_stalls import StallWatch, over_s

        config.pluginmanager.register(
            StallWatch(config, over_s(config.getoption("headway_stalls_over"))), "headway-stalls"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """In a launch, collect the launched test alone: `addopts` and other plugins may have added files and folders."""
    launched = session.config.stash[_KEY].launched_test
    if launched:
        session.config.args[:] = [launched]


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Note a benchmark's name before other plugins change it: a command line knows the test by this one only."""
    item.config.stash[_KEY].collected.add(_file(item))
    if _measures(item):
        item.stash[_NAME] = _path(item)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Note the files whose benchmarks do not all run."""
    for item in items:
        if _measures(item):
            item.config.stash[_KEY].in_part.add(_file(item))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests with the fixture, or those without it, as the options say; in a launch, all but its test."""
    ours = config.stash[_KEY]
    if ours.launched_test:
        # One name may stand for several tests, such as all those with parameters.
        mine = config.stash[_MINE] = [item for item in items if _is_launched(item, ours)][:1]
        config.hook.pytest_deselected(items=[item for item in items if item not in mine])
        items[:] = mine
        return
    if not ours.option("only") and not ours.option("skip"):
        return
    benchmarks: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        benchmarks[_measures(item)].append(item)
    kept = bool(ours.option("only"))
    config.hook.pytest_deselected(items=benchmarks[not kept])
    items[:] = benchmarks[kept]


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _measures(item: pytest.Item) -> bool:
    """Tell whether a test has our fixture among its arguments, or asks for it by name in its own code."""
    if _FIXTURE in getattr(item, "fixturenames", ()):
        return True
    code = getattr(getattr(item, "function", None), "__code__", None)
    return code is not None and "getfixturevalue" in code.co_names and _FIXTURE in code.co_consts


def pytest_collection_finish(session: pytest.Session) -> None:
    """Import the code that measures, if a test does; in a launch, take its test back if another plugin deselected it."""
    # The session has chosen the test: a plugin that splits tests into groups puts a single one into the first.
    if not session.items:
        mine: list[pytest.Item] = session.config.stash.get(_MINE, [])
        session.items.extend(mine)
    if not session.config.option.collectonly and any(map(_measures, session.items)):
        session.config.stash[_KEY].prepare()


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item) -> bool | None:
    """Let pytest-timeout set no timer where a test waits for the other tree's turns: its launcher has a limit for each."""
    return True if item.config.stash[_KEY].option("turn_files") else None


@pytest.fixture(name=_FIXTURE)
def _bench(request: pytest.FixtureRequest) -> Iterator["Bench"]:
    """Measure functions: `headway(function, *args)`, in an async test `await headway(function, *args)`.

    Also `headway.serial`, `.concurrent`, `.open`, `.compare` and `.options`; see `headway.measure.bench.Bench`.
    """
    from headway.measure.bench import Bench
    from headway.measure.journal import Journal

    session = request.config.stash[_KEY]
    test = _path(request.node)
    sides = session.sides.get(test)
    launched = sides.here if sides is not None else session.launched.get(test)
    options = _options(session, request.node)
    file, _, name = request.node.nodeid.partition("::")
    inner, bracket, parameters = name.partition("[")
    journal = Journal(
        test=inner.replace("::", ".") + bracket + parameters,
        group=file,
        why_not=session.why_not,
        launches=launched.measured if launched is not None else None,
        failures=tuple(launched.failures) if launched is not None else (),
        missing=launched.missing if launched is not None else {},
        broken=launched.broken if launched is not None else "",
        provisional=session.child is not None,
    )
    if session.with_reference:
        from headway.measure.baseline import reference

        journal.reference = reference
    journal.at_turn = session.at_turn
    yield Bench(journal, options)
    session.untaken.append(partial(_take, session, request.node, journal, sides))


def _take(session: Session, node: pytest.Item, journal: "Journal", sides: "Sides | None") -> None:
    """Take the results of a test that has ended."""
    if session.option("turn_files"):
        from headway.measure.trees import refuse_taken_code, refuse_wrong_code

        # By now everything is imported that a function imports when it is called.
        refuse_wrong_code(session.option("turn_files"), session.config.invocation_params.dir)
        refuse_taken_code(node.path)
    if session.child is not None and _is_launched(node, session):
        from headway.measure.children import write_launch

        write_launch(session.child, journal)
    session.add(node.nodeid, journal)
    if sides is not None and session.revision is not None:
        sides.shown.update(journal.entries)
        session.revision.take(journal, sides.there)
    if not _measures(node):
        session.skip_launches(node.nodeid)
    _notice(node, journal)
    journal.close()


def _notice(node: pytest.Item, journal: "Journal") -> None:
    """Note on the test that it was not measured, for the process that reports, if that is another one."""
    if journal.why_not in _ELSEWHERE and journal.entries:
        node.user_properties.append((_FIXTURE, journal.why_not))


def _options(session: Session, node: pytest.Item) -> "Options":
    """Return the options that the markers set; the nearest marker wins."""
    from headway.measure.journal import Options

    options = Options(trace=bool(session.option("trace")))
    for marker in reversed(list(node.iter_markers("headway"))):
        if marker.args:
            raise UsageError(f"@pytest.mark.headway{marker.args!r}: options have names", hint="`headway(seconds=2)`")
        options = options.changed(marker.kwargs)
    return options


def _path(item: pytest.Item) -> str:
    """Return a test's name with its full path, so that a command line in any folder can name it."""
    _, _, inner = item.nodeid.partition("::")
    return item.stash.get(_NAME, f"{item.path}::{inner}")


_NAME = pytest.StashKey[str]()


def _is_launched(item: pytest.Item, session: Session) -> bool:
    """Tell whether this process is the launch of a test; the test's file may have another name here, through a link."""
    file, _, name = session.launched_test.partition("::")
    return _path(item).partition("::")[2] == name and item.path.resolve() == Path(file).resolve()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Run the benchmarks in fresh processes first, if that is wanted; the tests then use the results of these."""
    stopped: KeyboardInterrupt | None = None
    try:
        _launch(session)
    except KeyboardInterrupt as stop:
        stopped = stop
        _limit_to_launched(session, stop)
    ended = yield
    if stopped is not None:
        raise stopped
    # Ctrl-C, `-x`, `pytest.exit` and whatever else stops the loop raise an exception here.
    session.config.stash[_KEY].ended = True
    return ended


def _limit_to_launched(session: pytest.Session, stop: KeyboardInterrupt) -> None:
    """After Ctrl-C, leave the tests that have finished launches, so that these are shown and stored; raise if none has."""
    ours = session.config.stash[_KEY]
    launched = ours.launched | {test: both.here for test, both in ours.sides.items()}
    done = {test for test, one in launched.items() if one.measured}
    session.items[:] = [one for one in session.items if _path(one) in done]
    if not session.items:
        raise stop
    ours.complaints.append("the launches were stopped early")


def _launch(session: pytest.Session) -> None:
    ours = session.config.stash[_KEY]
    if (
        (ours.launches < 2 and not ours.option("against"))
        or ours.child is not None
        or ours.why_not
        or _spread(session.config)
    ):
        return
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        return
    tests = [_path(item) for item in session.items if _measures(item)]
    if not tests:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")

    def say(line: str) -> None:
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"headway: {line}")

    from headway.measure.children import Launching, expanded, launch_all, nothing_left_behind

    parameters = session.config.invocation_params
    how = Launching(
        arguments=expanded([str(one) for one in parameters.args], session.config.args, parameters.dir),
        positional=session.config.args,
        folder=parameters.dir,
        trace=bool(ours.option("trace")),
        besides=ours.besides,
        reference=ours.with_reference,
        say=say,
        least_s=sum(ours.start_s + _least_s(ours, item) for item in session.items if _measures(item)),
        beside=ours.beside,
        caches=session.config.pluginmanager.hasplugin("cacheprovider"),
    )
    revision = ours.option("against")
    if not revision:
        with nothing_left_behind():
            launch_all(ours.launched, how, tests, ours.launches)
        return
    from headway.measure.against import measure_against, worktree
    from headway.measure.copies import EDITABLE, copied_package
    from headway.measure.trees import UNBUILT, unbuilt

    try:
        if copied := copied_package(session.config.rootpath):
            raise UsageError(copied, hint=EDITABLE)
        with nothing_left_behind(), worktree(revision, session.config.rootpath) as tree:
            if built := unbuilt(tree.here, tree.there):
                raise UsageError(built, hint=UNBUILT)
            measure_against(ours.sides, tree, how, tests, ours.launches, session.config.rootpath)
    except HeadwayError as error:
        hint = f"; {error.hint}" if error.hint else ""
        raise pytest.UsageError(f"--headway-against {revision}: {error.message}{hint}") from None


def _least_s(session: Session, item: pytest.Item) -> float:
    """Return the time that the rounds of a test take by its options; a test may have several benchmarks, or none."""
    try:
        options = _options(session, item)
    except HeadwayError:  # the test itself tells it
        return 0.0
    # The reference has as many rounds.
    return 0.0 if options.rounds else options.seconds * (2 if session.with_reference else 1)


def _spread(config: pytest.Config) -> bool:
    """Tell whether this process distributes its tests to xdist's workers."""
    return config.pluginmanager.hasplugin("dsession")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that another process ran, and did not measure."""
    for why in _ELSEWHERE:
        if (_FIXTURE, why) in report.user_properties:
            UNMEASURED[report.nodeid] = why


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the files that the options ask for; fail the session if that fails, or if a benchmark regressed."""
    ours = session.config.stash.get(_KEY, None)
    if ours is None:
        return
    # Ctrl-C leaves a test's tear-down to the end of the session, where nothing reports an error of a test.
    with contextlib.suppress(HeadwayError):
        ours.settle()
    if ours.child is not None:
        return
    ours.finish(session)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Remove our own frames from the tracebacks that a failing test shows."""
    __tracebackhide__ = True
    try:
        return (yield)
    except BaseException as error:
        _hide_ours(item, error)
        raise


def _hide_ours(item: pytest.Item, error: BaseException) -> None:
    if _measures(item):
        from headway.measure.seen import hide_ours

        hide_ours(error)


# The fixture refuses options before the test.
pytest_runtest_setup = pytest_runtest_call


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Take a test's results, and refuse benchmarks that were not awaited; remove our own frames as well."""
    __tracebackhide__ = True
    try:
        try:
            return (yield)
        finally:
            item.config.stash[_KEY].settle()
    except BaseException as error:
        _hide_ours(item, error)
        raise


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Show the tables."""
    ours = config.stash.get(_KEY, None)
    if ours is None or ours.child is not None:
        return
    unmeasured = Counter(UNMEASURED.values())
    UNMEASURED.clear()
    if unmeasured or ours.entries:
        terminalreporter.section("benchmarks (Headway)")
    for why, tests in unmeasured.items():
        terminalreporter.write_line(f"{tests} not measured: {why}")
    if not ours.entries:
        for line in (*ours.complaints, *ours.regressed):
            terminalreporter.write_line(f"Headway: {line}")
        return
    if not any(entry.result.measured or entry.result.failed for entry in ours.entries):
        why = ours.entries[0].result.why_not
        for line in (f"{len(ours.entries)} not measured: {why}", *ours.complaints, *ours.regressed):
            terminalreporter.write_line(line)
        return
    from headway.pytest_table import table_lines

    for line in table_lines(ours.groups, ours.earlier, ours.shown):
        terminalreporter.write_line(line)
    if any(entry.result.measured and not entry.result.of_launches for entry in ours.entries):
        rounds = (
            "one process of each tree; `--headway-launches 6` measures in six"
            if ours.sides
            else "this process; `--headway-launches 5` measures in fresh processes"
        )
        terminalreporter.write_line(f"intervals are of rounds within {rounds}")
    if ours.kept is not None:
        terminalreporter.write_line(
            f"stored as {ours.kept.run_id}: `headway report {ours.kept.run_id} --html FILE` shows it"
        )
    failed = [f"! {line}" for line in ours.revision.failed] if ours.revision is not None else []
    for line in (*failed, *ours.complaints, *ours.regressed):
        terminalreporter.write_line(line)
