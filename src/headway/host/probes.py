"""The probe: a small program that runs in an interpreter, in a fresh process, and prints its properties.

The answer is cached by the executable's path, size and modification time.
"""

import contextlib
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any, Final, final

from headway.errors import InterpreterError, UsageError
from headway.host.children import clean_environment
from headway.host.paths import cache_path
from headway.host.reaping import end_marked

__all__ = ["NAME", "OLDEST", "ProbeCache", "UnfitError"]

OLDEST: Final = (3, 8)
"""The first version of CPython that Headway measures, records and schedules."""

NAME: Final = re.compile(r"python3(\.\d+t?d?)?$")
"""The name of a file that may be a CPython."""

_LIMIT_S = 20
_VERSION = 5
_MARK = "HEADWAY_PROBE"
_HINT = "name an executable of CPython 3.8 or later; `headway interpreters` lists the interpreters found"

# Runs in the probed interpreter, 3.8 or later; standard library only.
_PROBE = r"""
import json, os, sys, sysconfig
def can(*modules):
    try:
        for module in modules:
            __import__(module)
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)
    return ""
config = sysconfig.get_config_var
missing = {"serial": ""}
missing["threads"] = can("concurrent.futures.thread")
missing["processes-spawn"] = missing["processes-forkserver"] = can("multiprocessing.synchronize", "concurrent.futures.process")
missing["asyncio"] = can("asyncio")
missing["asyncio-threads"] = missing["asyncio"] or missing["threads"]
missing["asyncio-processes"] = missing["asyncio"] or missing["processes-spawn"]
if sys.version_info < (3, 12):
    missing["interpreters"] = "sub-interpreters with a GIL of their own came with CPython 3.12"
else:
    missing["interpreters"] = can("_interpreters") and can("_xxsubinterpreters")
try:
    with open("/proc/self/maps") as maps:
        shared = "libpython" in maps.read()
except OSError:
    shared = bool(config("Py_ENABLE_SHARED"))
arguments = config("CONFIG_ARGS") or ""
jit = getattr(sys, "_jit", None)
print(json.dumps({
    "implementation": sys.implementation.name,
    "version": "%d.%d.%d" % sys.version_info[:3] + {"final": ""}.get(sys.version_info[3], sys.version_info[3][0] + str(sys.version_info[4])),
    "minor": "%d.%d" % sys.version_info[:2],
    "real": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "free_threaded": bool(config("Py_GIL_DISABLED")),
    "gil_enabled": getattr(sys, "_is_gil_enabled", lambda: True)(),
    "jit_available": bool(jit and jit.is_available()),
    "jit_enabled": bool(jit and jit.is_enabled()),
    "debug": bool(config("Py_DEBUG")),
    "shared_libpython": shared,
    "switch_interval_s": sys.getswitchinterval(),
    "optimised": [name for name, flag in (("pgo", "--enable-optimizations"), ("lto", "--with-lto")) if flag in arguments],
    "compiler": sys.version.partition("[")[2].rstrip("]"),
    "ctypes": can("ctypes") == "",
    "cross_interpreter_queue": can("concurrent.interpreters") == "",
    "missing_models": {name: why for name, why in missing.items() if why},
    "missing_modules": {name: why for name, why in ((name, can(name)) for name in ("bz2", "sqlite3", "ssl")) if why},
    "models": [name for name, why in missing.items() if not why],
}))
"""

_IDENTITY: dict[str, type | tuple[type, ...]] = {
    "implementation": str,
    "version": str,
    "minor": str,
    "minor_parts": (list, tuple),
}
_PROPERTIES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("real", "compiler"), str),
    **dict.fromkeys(("free_threaded", "gil_enabled", "jit_available", "jit_enabled", "debug"), bool),
    **dict.fromkeys(("shared_libpython", "ctypes", "cross_interpreter_queue"), bool),
    **dict.fromkeys(("optimised", "models"), list),
    **dict.fromkeys(("missing_models", "missing_modules"), dict),
    "switch_interval_s": (int, float),
}
"""The types of an answer's values: those that tell whether the interpreter fits, and those of one that does."""

_FULL_VERSION = re.compile(r"\d+\.\d+\.\d+([a-z]\d+)?")


def _is_fit(answer: dict[str, Any]) -> bool:
    return answer["implementation"] == "cpython" and tuple(answer["minor_parts"]) >= OLDEST


def _is_answer(answer: Any) -> bool:
    """Tell whether a value is an answer of the probe: another program may have printed it, or written the cache."""

    def has(types: dict[str, type | tuple[type, ...]]) -> bool:
        return all(isinstance(answer.get(key), kind) for key, kind in types.items())

    if (
        not isinstance(answer, dict)
        or not has(_IDENTITY)
        or not all(isinstance(one, int) for one in answer["minor_parts"])
    ):
        return False
    return not _is_fit(answer) or (has(_PROPERTIES) and _FULL_VERSION.fullmatch(answer["version"]) is not None)


def _probed(executable: Path) -> "subprocess.CompletedProcess[str]":
    """Run the probe in `executable`. Raises OSError, and TimeoutExpired if it takes too long twice."""

    def start() -> "subprocess.CompletedProcess[str]":
        mark = f"{os.getpid()}-{time.monotonic_ns()}"
        try:
            return subprocess.run(
                [str(executable), "-I", "-c", _PROBE],
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_LIMIT_S,
                env={**clean_environment(), _MARK: mark},
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            # Its children live on. They are found by their mark: a process group of its own would keep Ctrl-C from the probe.
            end_marked(_MARK, mark)
            raise

    try:
        return start()
    except subprocess.TimeoutExpired:
        # On a busy machine the first start may have read all of its files from the disk.
        return start()


def _does_not_start(executable: Path, error: Exception) -> InterpreterError:
    why = getattr(error, "strerror", None) or "it took too long"
    return InterpreterError(f"the interpreter {executable} does not start: {why}", hint=_HINT)


def _ask(executable: Path) -> dict[str, Any]:
    """Run the probe in `executable`. Raises InterpreterError if it does not start or does not answer."""
    try:
        done = _probed(executable)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _does_not_start(executable, error) from error
    try:
        # The last line: code that runs at an interpreter's start (.pth files, sitecustomize) may print before the
        # probe.
        answer = json.loads((done.stdout.splitlines() or [""])[-1])
        answer["minor_parts"] = [int(part) for part in answer["minor"].split(".")]
        if _is_answer(answer):
            return dict(answer)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass
    last = (done.stderr.strip() or ("no answer" if done.stdout else "no output")).splitlines()[-1][:200]
    if not NAME.match(executable.name):
        # Some other program, whose complaint about the probe would not help.
        last = "its name is not that of a Python"
    raise InterpreterError(
        f"the interpreter {executable} failed the probe (exit code {done.returncode}): {last}", hint=_HINT
    )


def _refuse_others(executable: Path, answer: dict[str, Any]) -> None:
    """Raise an InterpreterError for anything but CPython 3.8 or later."""
    if not _is_fit(answer):
        raise UnfitError(
            f"{executable} is {answer['implementation']} {answer['version']}, expected CPython 3.8 or later",
            hint="`headway interpreters` lists those found",
        )


class UnfitError(InterpreterError):
    """An interpreter that answered, and is too old or no CPython."""


@final
class ProbeCache:
    """Answers of the probe, by executable, size and modification time.

    Anything else in the cache's file counts as absent, so a broken file counts as empty.
    """

    def __init__(self) -> None:
        self._file: Path | None = None
        self._answers: dict[str, dict[str, Any]] = {}
        with contextlib.suppress(UsageError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self._file = cache_path() / "probes.json"
            stored = json.loads(self._file.read_text())
            if stored["version"] == _VERSION:
                self._answers = {key: one for key, one in stored["answers"].items() if _is_answer(one)}
        self._changed = False

    @staticmethod
    def _key(executable: Path) -> str:
        try:
            status = executable.stat()
        except OSError as error:  # it was removed since it was found
            raise _does_not_start(executable, error) from error
        return f"{executable}|{status.st_size}|{status.st_mtime_ns}"

    def get(self, executable: Path) -> dict[str, Any]:
        """Return the answer of an interpreter. Raises InterpreterError if it gives none, or is not for Headway."""
        key = self._key(executable)
        if key not in self._answers:
            # An answer of a too old interpreter is cached, too, but not a failure, which may be repaired.
            self._answers[key] = _ask(executable)
            self._changed = True
        answer = self._answers[key]
        _refuse_others(executable, answer)
        return answer

    def save(self) -> None:
        """Write the cache's file, if there is anything new."""
        if not self._changed or self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            partial = self._file.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps({"version": _VERSION, "answers": self._answers}))
            partial.replace(self._file)
        except OSError:
            pass  # The cache is optional: the next start probes again.
