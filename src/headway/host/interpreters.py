"""Finds every CPython on this machine, each once, and its properties.

Interpreters are searched on `PATH`, under pyenv, uv and the distribution's folders, and in Headway's private prefix. Each
is asked for its properties (`host.probes`); nothing is guessed from the name.
"""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from headway.errors import InterpreterError, UsageError
from headway.host.paths import home_folder, interpreters_folder
from headway.host.probes import NAME, ProbeCache, UnfitError

__all__ = ["Interpreter", "PassedOver", "discover", "executable_of", "probe", "select", "survey"]

_VERSION = re.compile(r"3\.\d+")


@final
@dataclass(frozen=True)
class Interpreter:
    """One CPython: its path and its properties.

    Attributes:
        id: The name in stores and tables: "3.13.5t", with "@" and its folder if there are two of one version.
        executable: The path that starts it.
        origin: "private", "pyenv", "uv", "system" or "path": the place where it was found first.
        version: "3.14.0" or "3.15.0b1".
        minor: "3.14".
        free_threaded: Built with `--disable-gil`.
        gil_enabled: The GIL is on at start; an import may still switch it on later.
        jit_available, jit_enabled: From `sys._jit` (3.14+).
        debug: Built with `--with-pydebug`.
        shared_libpython: The interpreter's code is in a libpython.so rather than in the executable.
        switch_interval_s: `sys.getswitchinterval()` at start.
        optimised: Those of "pgo" and "lto" that it was configured with.
        compiler: The compiler as `sys.version` names it.
        ctypes: `import ctypes` works.
        cross_interpreter_queue: `concurrent.interpreters` exists (3.14+).
        models: Names of the models that it can run.
        missing_models: The reason for each model that it cannot run.
        missing_modules: Those of bz2, sqlite3 and ssl that do not import, with the reason.
    """

    id: str
    executable: str
    origin: str
    version: str
    minor: str
    free_threaded: bool
    gil_enabled: bool
    jit_available: bool
    jit_enabled: bool
    debug: bool
    shared_libpython: bool
    switch_interval_s: float
    optimised: tuple[str, ...]
    compiler: str
    ctypes: bool
    cross_interpreter_queue: bool
    models: tuple[str, ...]
    missing_models: dict[str, str]
    missing_modules: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The short name: "3.13", with "t" for a free-threaded and "d" for a debug build."""
        return self.minor + "t" * self.free_threaded + "d" * self.debug

    @property
    def order(self) -> tuple[int, ...]:
        """The sort key: by version, GIL builds before free-threaded ones; then newest and final releases first."""
        match = re.match(r"(\d+)\.(\d+)\.(\d+)(?:([a-z])(\d+))?", self.version)
        assert match is not None
        major, minor, patch = (int(part) for part in match.group(1, 2, 3))
        level = "abr".find(match[4]) - 3 if match[4] else 0  # Alpha, beta, release candidate; final is 0.
        return (major, minor, self.free_threaded, self.debug, -patch, -level, -int(match[5] or 0))

    def to_json(self) -> dict[str, Any]:
        """Return every attribute and the short name, as JSON values."""
        return {"name": self.name, **asdict(self)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Interpreter":
        """Return the interpreter that `to_json` wrote."""
        fields = {key: value for key, value in values.items() if key != "name"}
        fields["optimised"] = tuple(fields["optimised"])
        fields["models"] = tuple(fields["models"])
        return cls(**fields)


@final
@dataclass(frozen=True)
class PassedOver:
    """An executable that is named like a Python and cannot be measured.

    Attributes:
        executable: The path that starts it.
        why: The reason, as a sentence that names it.
        failed: It gave no answer, and may be a CPython that is damaged or slow; otherwise it is too old, or no CPython.
    """

    executable: str
    why: str
    failed: bool


def _absolute(variable: str) -> Path | None:
    """Return the folder that a variable names; None if it is no absolute path: what is found there is executed."""
    value = os.environ.get(variable, "")
    return Path(value) if value.startswith("/") else None


def _matches(folder: Path, pattern: str) -> list[Path]:
    """Return what a pattern finds in a folder; nothing if this user may not read it, as after `su` with root's variables."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def _folders() -> Iterator[tuple[str, Path]]:
    """Yield (origin, folder) in order of preference: an interpreter that is found twice has the first origin."""
    # The marker is the provisioning script's last step: without it the interpreter is still being built.
    markers: list[Path] = []
    with contextlib.suppress(UsageError):  # there is no home
        markers = _matches(interpreters_folder(), "*/.headway-complete")
    for marker in markers:
        yield "private", marker.parent / "bin"
    home = home_folder()
    pyenv = _absolute("PYENV_ROOT") or (home and home / ".pyenv")
    data = _absolute("XDG_DATA_HOME") or (home and home / ".local/share")
    uv = _absolute("UV_PYTHON_INSTALL_DIR") or (data and data / "uv/python")
    for folder in _matches(pyenv / "versions", "*/bin") if pyenv else ():
        yield "pyenv", folder
    for folder in _matches(uv, "*/bin") if uv else ():
        yield "uv", folder
    for name in ("/usr/bin", "/usr/local/bin"):
        yield "system", Path(name)
    for name in os.environ.get("PATH", "").split(os.pathsep):
        # A shim is a script that chooses an interpreter by the working folder, and is no interpreter itself.
        if name.startswith("/") and not name.rstrip("/").endswith("/shims"):
            yield "path", Path(name)
    # That of an environment which is not activated may be in none of these folders.
    yield "own", Path(sys.base_prefix, "bin")


def _executables() -> Iterator[tuple[str, Path]]:
    """Yield (origin, real path) of every file that may be a CPython, each once."""
    seen: set[Path] = set()
    for origin, folder in _folders():
        try:
            names = sorted((entry for entry in os.listdir(folder) if NAME.match(entry)), key=len, reverse=True)
        except OSError:
            continue
        for name in names:
            path = Path(os.path.realpath(folder / name))  # Path.resolve() fails on a link that loops
            if path in seen or not path.is_file() or not os.access(path, os.X_OK):
                continue
            seen.add(path)
            yield origin, path


def _named(found: Sequence[tuple[str, Path, dict[str, Any]]]) -> list[Interpreter]:
    """Return an interpreter for each answer; its id is its version, with its folder if two have the same version."""

    def tag(answer: dict[str, Any]) -> str:
        return str(answer["version"] + "t" * answer["free_threaded"] + "d" * answer["debug"])

    tags = [tag(answer) for _, _, answer in found]
    interpreters = []
    for (origin, path, answer), own in zip(found, tags, strict=True):
        fields = {key: answer[key] for key in Interpreter.__dataclass_fields__ if key in answer}
        identity = own if tags.count(own) == 1 else f"{own}@{path.parent}"
        interpreters.append(
            Interpreter.from_json({"id": identity, "executable": str(path), "origin": origin, **fields})
        )
    return sorted(interpreters, key=lambda interpreter: (interpreter.order, interpreter.id))


def discover() -> tuple[list[Interpreter], list[str]]:
    """Find every CPython 3.8 or later on this machine.

    Returns:
        The interpreters, oldest version first, and a line for each executable that was passed over, with the reason.
    """
    found, passed_over = survey()
    return found, [one.why for one in passed_over]


def survey() -> tuple[list[Interpreter], list[PassedOver]]:
    """Find every CPython 3.8 or later on this machine, oldest version first, and the executables that are passed over."""
    cache = ProbeCache()
    candidates = list(_executables())
    found: list[tuple[str, Path, dict[str, Any]]] = []
    passed_over: list[PassedOver] = []
    seen: set[str] = set()

    def ask(path: Path) -> dict[str, Any] | InterpreterError:
        try:
            return cache.get(path)
        except InterpreterError as error:
            return error

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=4) as pool:
        answers = list(pool.map(ask, [path for _, path in candidates]))
    for (origin, path), answer in zip(candidates, answers, strict=True):
        if isinstance(answer, InterpreterError):
            passed_over.append(PassedOver(str(path), answer.message, not isinstance(answer, UnfitError)))
        # The python of a virtual environment, or a copy, counts as the interpreter that it was made from.
        elif answer["real"] not in seen:
            seen.add(answer["real"])
            found.append((origin, path, answer))
    cache.save()
    return _named(found), passed_over


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)  # As for `~nobody`: there is no such file either.


def _is_hidden(path: Path) -> bool:
    """Tell whether this user may not run a file, or may not even know whether it is there."""
    try:
        path.stat()
    except OSError as error:
        return isinstance(error, PermissionError)
    return path.is_file() and not os.access(path, os.X_OK)


_ONE = "name one as `headway interpreters` lists it (3.13t), a command on your PATH, or the path of the python executable itself"


def executable_of(python: str) -> str:
    """Return the executable of an interpreter.

    Args:
        python: A path, a command on PATH, or a name or version as `headway interpreters` shows it ("3.13t").

    Raises:
        InterpreterError: There is no such executable, or no interpreter has this name.
    """
    command = shutil.which(python if os.sep not in python else str(_expanded(python)))
    if command:
        return command
    if os.sep not in python and _VERSION.match(python):
        found, passed_over = survey()
        try:
            return select(found, [python], passed_over=passed_over)[0].executable
        except InterpreterError as error:
            raise InterpreterError(error.message, hint=_ONE) from None  # `all` is not one
    if os.sep in python and _is_hidden(_expanded(python)):
        raise InterpreterError(
            f"the interpreter {python!r} cannot be run: permission denied",
            hint="use an interpreter that this user may run, or let this user enter each folder above it",
        )
    raise InterpreterError(
        f"there is no interpreter {python!r}",
        hint=_ONE,
    )


def probe(python: str) -> Interpreter:
    """Return the interpreter of a path, a command or a name.

    Raises:
        InterpreterError: It cannot be measured, or no interpreter has this name.
    """
    path = Path(executable_of(python)).absolute()
    cache = ProbeCache()
    answer = cache.get(path)
    cache.save()
    return _named([("path", path, answer)])[0]


def _newest_of_each(found: Iterable[Interpreter]) -> list[Interpreter]:
    newest: dict[str, Interpreter] = {}
    for interpreter in found:
        newest.setdefault(interpreter.name, interpreter)
    return list(newest.values())


def _may_be(executable: str, name: str) -> bool:
    """Tell whether a path may be that of the interpreter called `name`: both have the same minor version in them."""
    minor = _VERSION.match(name)
    return minor is not None and minor[0] in _VERSION.findall(executable)


def select(
    found: Sequence[Interpreter], wanted: Sequence[str] = (), *, passed_over: Sequence[PassedOver] = ()
) -> list[Interpreter]:
    """Choose interpreters.

    Args:
        found: The interpreters that `discover` found.
        wanted: Names ("3.13t": the newest patch), versions ("3.11.7"), ids, paths, or "all"; none means the newest
            patch of every minor version and build.
        passed_over: What was passed over. The error about a name tells of those that may be the one that is wanted.

    Raises:
        InterpreterError: A name that fits none of `found`, or a path that is no CPython 3.8 or later.
    """
    if not wanted:
        return [interpreter for interpreter in _newest_of_each(found) if not interpreter.debug]
    chosen: list[Interpreter] = []
    for name in wanted:
        if name == "all":
            fitting = list(found)
        elif "/" in name:
            real = os.path.realpath(_expanded(name))
            fitting = [one for one in found if one.executable == real] or [probe(name)]
        else:
            fitting = [one for one in found if name in (one.id, one.version)] or [
                one for one in _newest_of_each(found) if one.name == name
            ]
        if not fitting:
            have = ", ".join(dict.fromkeys(one.name for one in found)) or "none"
            raise InterpreterError(
                f"no interpreter is called `{name}`; found: {have}"
                + "".join(f"; {one.why}" for one in passed_over if one.failed and _may_be(one.executable, name)),
                hint="name a version (3.13, 3.13t, 3.11.7), a path with a slash, or `all`; `headway interpreters` lists them",
            )
        chosen.extend(one for one in fitting if one not in chosen)
    return chosen
