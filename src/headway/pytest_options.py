"""The options of the pytest plugin, and their values. Imports nothing heavy before an option needs it."""

import argparse
import itertools
import json
import os
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.measure.against import Revision, Sides
    from headway.measure.baseline import Stored
    from headway.report.benchmarks import Earlier, Shown

__all__ = ["FORKED", "UNDER_XDIST", "Asked", "add_options"]

_FOLDER = ".headway"
UNDER_XDIST = "under xdist other workers share the machine (`-n 0` measures)"
FORKED = "a process that is forked for its test (`--forked`) takes the results with it"
_DISABLED = "`--headway-disable`"
_NOT_RUN = "`--collect-only`"
_LIKE_A_PATH = {
    "--headway-add",
    "--headway-against",
    "--headway-benchmark-json",
    "--headway-compare",
    "--headway-json",
    "--headway-pyperf",
    "--headway-save",
    "--headway-store",
}
"""The options whose value may be the path of something that exists."""
_LAUNCHES_TO_COMPARE = 6
_ENDING = len(".json.new")
_NAMED = 5
"""The most names in a line of names."""


def add_options(parser: pytest.Parser) -> None:
    """Declare the options."""
    about = "benchmarks (Headway); before a FILE write `=`, as pytest may take one after a space for a path of tests"
    group = parser.getgroup("headway", about)
    option = group.addoption
    text = "measure each benchmark in this number of fresh processes, in turns (default: 1, in this process; 6 for comparisons of sessions or revisions)"
    option("--headway-launches", type=int, metavar="N", help=text)
    option("--headway-only", action="store_true", help="run only tests that use the fixture")
    option("--headway-skip", action="store_true", help="run only tests that do not use the fixture")
    option(
        "--headway-disable", action="store_true", help="call the functions of each benchmark once, and measure nothing"
    )
    option("--headway-trace", action="store_true", help="trace holds of the GIL and waits for it in every benchmark")
    option("--headway-json", type=Path, metavar="FILE", help="write all measurements as JSON")
    option("--headway-pyperf", type=Path, metavar="FILE", help="write a suite that pyperf loads")
    option("--headway-benchmark-json", type=Path, metavar="FILE", help="write the JSON format of pytest-benchmark")
    option(
        "--headway-save",
        metavar="NAME",
        help=f"store this session, with {_LAUNCHES_TO_COMPARE} launches of each test, as {_FOLDER}/NAME.json, replacing an older one",
    )
    option(
        "--headway-add",
        metavar="NAME",
        help="add this session to those stored under that name: several sessions show how they drift",
    )
    option(
        "--headway-compare",
        metavar="NAME",
        help="show the ratio to stored sessions; its interval includes the drift between sessions",
    )
    option(
        "--headway-against",
        metavar="REV",
        help="measure the code of another git revision in turns with this code, and show the ratio",
    )
    option(
        "--headway-compare-fail",
        metavar="5%",
        help="fail if a benchmark takes longer beyond doubt, by more than this limit, than with --headway-compare or "
        "--headway-against, or if each of its launches crashes or hangs here, and not there",
    )
    option("--headway-columns", metavar="NAMES", help="columns of the tables, such as `time,p99`")
    option("--headway-sort", metavar="ORDER", help="order of rows: time (default), name, given")
    option("--headway-unit", metavar="UNIT", help="unit of times: s, ms, us, ns (default: chosen for each time)")
    option("--headway-store", type=Path, metavar="FILE", help="the results store (default: the lab's)")
    option("--headway-no-store", action="store_true", help="write nothing to the results store")
    option("--headway-stalls", action="store_true", help="list tests in which an event loop stalled, with the cause")
    option(
        "--headway-stalls-over", metavar="TIME", default="100ms", help="least length of a stall (default: %(default)s)"
    )
    option("--headway-launch-file", type=Path, help=argparse.SUPPRESS)
    option("--headway-launch-test", help=argparse.SUPPRESS)
    option("--headway-turn-files", help=argparse.SUPPRESS)
    option("--headway-with-reference", action="store_true", help=argparse.SUPPRESS)


class Asked:
    """The values of the plugin's options.

    Attributes:
        config: The configuration object of pytest.
        options: All options by name.
        store: The results store; None for the user's own.
        earlier: The results that this session is compared with; None if there is no comparison.
        sessions: The same object, if the comparison is with stored sessions.
        revision: The same object, if the comparison is with another revision of this tree.
        fail_limit: The ratio to `earlier` beyond which the session fails.
        shown: How the tables are shown.
        collected: The files of which tests were collected.
        in_part: The files of which benchmarks were deselected.
        pid: The process of this session.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.options: dict[str, Any] = vars(config.option)
        self.store: Path | None = None
        self.earlier: Earlier | None = None
        self.sessions: Stored | None = None
        self.revision: Revision | None = None
        self.fail_limit: float | None = None
        self.shown: Shown | None = None
        self.collected: set[str] = set()
        self.in_part: set[str] = set()
        self.pid = os.getpid()

    def option(self, name: str) -> Any:
        """Return the value of one of our options; `name` is without `headway_`."""
        return self.options.get(f"headway_{name}")

    @property
    def why_not(self) -> str:
        """The reason why nothing is measured; "" if benchmarks are measured."""
        if self.option("disable"):
            return _DISABLED
        if hasattr(self.config, "workerinput"):
            return UNDER_XDIST
        # A marker may have a single test forked; the option is known before anything is launched.
        if self.options.get("forked") or os.getpid() != self.pid:
            return FORKED
        return _NOT_RUN if self.config.option.collectonly else ""

    @property
    def besides(self) -> list[str]:
        """Options for launches by which other plugins, which the configuration may switch on, let them measure."""
        plugins, found = self.config.pluginmanager, []
        if plugins.hasplugin("logging"):
            # The file of the session's log may be named by the configuration, and a launch would begin it anew.
            found.append(f"--log-file={os.devnull}")
        if plugins.hasplugin("xdist"):
            found += ["-n", "0"]
        if plugins.hasplugin("pytest_cov"):
            found.append("--no-cov")
        seed = self.options.get("randomly_seed")
        if isinstance(seed, int):
            # pytest-randomly would give each launch, and each of two trees, random inputs of its own.
            found.append(f"--randomly-seed={seed}")
        return found

    @property
    def beside(self) -> Path | None:
        """The folder beside the user's `--basetemp`, where launches have temporary files of their own; None without it.

        Each process removes what is in its folder before it begins, so no two processes may share one.
        """
        given = self.config.option.basetemp
        folder = (self.config.invocation_params.dir / given).parent if given else None
        return folder if folder is not None and folder.is_dir() else None

    def lost(self, keys: Collection[str], sides: "Mapping[str, Sides]") -> list[str]:
        """Return a line about the benchmarks that only the earlier results have.

        Of stored sessions, these are benchmarks of files that were collected whole, or are not there any more.

        Args:
            keys: Those that this session has.
            sides: The launches of each test in both trees, if the earlier results are of another revision.
        """
        found: list[str] = []
        if self.revision is not None:
            found = [
                _key(test, name) for test, both in sides.items() for name in both.there.measured.keys() - both.shown
            ]
        # `--lf` leaves tests out without a word.
        elif (
            self.sessions is not None
            and not any("::" in one for one in self.config.args)
            and not self.options.get("lf")
        ):
            lost = self.sessions.keys - set(keys)
            files = {one.partition("::")[0] for one in lost}
            gone = {one for one in files if not (self.config.rootpath / one).exists()}
            whole = gone | (self.collected - self.in_part)
            found = [one for one in lost if one.partition("::")[0] in whole]
        if self.earlier is None or not found:
            return []
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        names = ", ".join(map(_short, sorted(found)[:_NAMED]))
        return [f"! in {self.earlier.name}, and not in this session: {names}{more}"]

    @property
    def with_reference(self) -> bool:
        """True if each benchmark is measured beside the reference by which sessions are compared."""
        return bool(
            self.option("save") or self.option("add") or self.option("compare") or self.option("with_reference")
        )

    @property
    def launches(self) -> int:
        """The number of fresh processes in which each benchmark is measured."""
        given: int | None = self.option("launches")
        if given is not None:
            return given
        return _LAUNCHES_TO_COMPARE if self.with_reference or self.option("against") else 1

    @property
    def child(self) -> Path | None:
        """The file to which this process, if it is a launch, writes what it measured; None if it is not a launch."""
        path: Path | None = self.option("launch_file")
        return path

    @property
    def launched_test(self) -> str:
        """The test for which this process, if it is a launch, was started; "" if it is not a launch."""
        return self.option("launch_test") or ""

    def check(self) -> None:
        """Check and resolve the options' values before anything runs. Raises UsageError for invalid ones."""
        if self.child is None:
            self._check_root()
        if self.launches < 1:
            raise UsageError(f"--headway-launches {self.launches}: expected a whole number of at least 1")
        files: dict[str, str] = {}
        for name in ("json", "pyperf", "benchmark_json"):
            path = self.option(name)
            # A launch writes none of these files, and the other tree may lack the folder.
            if path is not None and self.child is None:
                option = f"--headway-{name.replace('_', '-')}"
                _check_can_be_written(f"{option} {path}", path)
                first = files.setdefault(os.path.realpath(path), option)
                if first != option:
                    raise UsageError(
                        f"{first} and {option} name the same file {path}", hint="use another name for one of them"
                    )
        for name in ("save", "add"):
            given = self.option(name)
            if given is not None and (not given or os.sep in given):
                raise UsageError(f"--headway-{name} {given}: expected a name, and not a path")
            if given is not None and len(os.fsencode(given)) + _ENDING > os.pathconf(
                self.config.rootpath, "PC_NAME_MAX"
            ):
                raise UsageError(f"--headway-{name} {given}: the name of its file would be too long")
            if given is not None and self.child is None and self.kept_file(given).is_dir():
                raise UsageError(f"--headway-{name} {given}: {self.kept_file(given)} is a folder; choose another name")
        for name, what in (("against", "a revision"), ("compare", "the name of stored sessions")):
            if self.option(name) == "":
                raise UsageError(
                    f"--headway-{name}: expected {what}, and nothing is given",
                    hint="a variable in the command may be empty",
                )
        for one, other in (("save", "add"), ("only", "skip"), ("compare", "against")):
            if self.option(one) and self.option(other):
                raise UsageError(
                    f"--headway-{one} and --headway-{other} exclude each other", hint="leave one of them out"
                )
        if self.option("store") is not None:
            # Resolve the path now: a test may change the current folder.
            self.store = self.option("store").absolute()
            if not self.option("no_store") and self.child is None:
                _check_can_be_written(f"--headway-store {self.option('store')}", self.store)
        # A launch compares nothing, and may have the option from PYTEST_ADDOPTS or a file of options.
        if self.option("compare_fail") is not None and self.child is None:
            from headway.measure.baseline import limit_of

            if not self.option("compare") and not self.option("against"):
                raise UsageError(
                    "--headway-compare-fail needs a comparison, and none is given",
                    hint="add --headway-against REV or --headway-compare NAME",
                )
            self.fail_limit = limit_of(self.option("compare_fail"))
        if any(self.option(name) for name in ("columns", "sort", "unit")):
            self.shown = self._shown()
        if self.option("compare"):
            self.earlier = self.sessions = self.stored("compare", self.option("compare"))
        if self.option("add") and self.child is None and self.kept_file(self.option("add")).exists():
            self.stored("add", self.option("add"))
        if self.option("against") and self.child is None:
            from headway.measure.against import Revision

            self.earlier = self.revision = Revision(self.option("against"))

    def _check_root(self) -> None:
        """Raise UsageError if a value after a space has moved pytest's root folder.

        pytest looks for that folder, and for its configuration, before it knows the options of plugins: a value that exists
        as a file or folder is a path of tests to it. The code of another tree may be measured then.
        """
        config = self.config
        if config.option.rootdir or config.option.inifilename:
            return
        here = config.invocation_params.dir
        top = config.inipath.parent.resolve() if config.inipath is not None else None
        places = [here, *(here / one.partition("::")[0] for one in config.args)]
        if top is not None and any(one.resolve().is_relative_to(top) for one in places):
            return
        given = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *map(str, config.invocation_params.args)]
        for option, value in itertools.pairwise(given):
            file = here / value
            # A name may be too long for a path: `Path.exists` would raise an error.
            if option not in _LIKE_A_PATH or not os.path.exists(file):
                continue
            if top is not None or not file.resolve().is_relative_to(here.resolve()):
                raise UsageError(
                    f"{option} {value}: pytest takes what exists there for a path of tests, and its root folder is "
                    f"{config.rootpath} for that reason",
                    hint=f"write {option}={value}",
                )

    def _shown(self) -> "Shown":
        from headway.report.benchmarks import COLUMNS, ORDERS, UNITS, Shown

        columns = tuple(filter(None, (self.option("columns") or "").split(",")))
        order, unit = self.option("sort") or ORDERS[0], self.option("unit") or ""
        for option, given, known in (
            ("columns", columns, COLUMNS),
            ("sort", (order,), ORDERS),
            ("unit", (unit,), ("", *UNITS)),
        ):
            for one in given:
                if one not in known:
                    raise UsageError(f"--headway-{option} {one}: expected one of {', '.join(filter(None, known))}")
        return Shown(columns, order, unit)

    def kept_file(self, name: str) -> Path:
        """Return the file that stores the sessions with this name."""
        return self.config.rootpath / _FOLDER / f"{name}.json"

    def _found(self, option: str, name: str) -> Path | None:
        """Return the file of the stored sessions that an option names; None without one."""
        given = [self.config.invocation_params.dir / name] if option == "compare" else []
        return next((one for one in (self.kept_file(name), *given) if one.is_file()), None)

    def is_baseline(self, name: str) -> bool:
        """Tell whether sessions stored under a name are those that this session is compared with."""
        compared = self._found("compare", self.option("compare")) if self.option("compare") else None
        return compared is not None and compared.resolve() == self.kept_file(name).resolve()

    def stored(self, option: str, name: str) -> "Stored":
        """Return the sessions that are stored under a name. Raises UsageError if there are none."""
        from headway.measure.baseline import Stored, why_unreadable

        kept = self.kept_file(name)
        try:
            path = self._found(option, name)
        except OSError as error:
            raise UsageError(f"--headway-{option} {name}: {error.strerror}") from None
        if path is None:
            if kept.is_dir():
                raise UsageError(f"--headway-{option} {name}: {kept} is a folder; expected a file of stored sessions")
            there = sorted(one.stem for one in kept.parent.glob("*.json") if one.is_file())
            names = f"; stored names are {', '.join(there)}" if there else "; `--headway-save NAME` stores one"
            raise UsageError(f"--headway-{option} {name}: nothing is stored under that name in {kept.parent}{names}")
        try:
            return Stored.from_json(name, json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(
                f"--headway-{option} {name}: {why_unreadable(path, error)}",
                hint="delete it, and store the session again with `--headway-save NAME`",
            ) from None


def _check_can_be_written(what: str, path: Path) -> None:
    """Raise UsageError if an option names a file that cannot be written: a measurement for it would be in vain."""
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{what}: {path.parent} does not exist; create it first")
    if path.is_dir():
        raise UsageError(f"{what}: that is a folder; name a file in it")


def _key(test: str, name: str) -> str:
    """Return a key for a benchmark of a test, which is given with its file's path, as in messages."""
    file, _, inner = test.partition("::")
    return f"{Path(file).name}::{inner.replace('::', '.')}: {name}"


def _short(key: str) -> str:
    """Return a benchmark's key without its name, if that is its test's."""
    file, _, test = key.partition("::")
    name = test[len(test) // 2 + 1 :]
    return f"{file}::{name}" if test == f"{name}: {name}" else key
