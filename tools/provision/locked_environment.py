"""Install packages for interpreters with uv, once, and keep them in the cache: `locked_python` a whole lock."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from headway.host.interpreters import Interpreter
from headway.host.own_folders import mark, remove_own
from headway.host.paths import libraries_folder
from headway.lab.beside.environments import find_uv

__all__ = ["kept", "locked_python", "make_environment"]

COMPLETE = "complete"
"""The file that a folder has once it is filled."""


def kept(name: str, fill: Callable[[Path], object]) -> Path:
    """Return a folder of the cache; if it is not there, have `fill` make its content in a new folder first.

    An incomplete folder never has this name. If `fill` raises an exception, nothing is kept, and the next call tries
    again.
    """
    folder = libraries_folder() / name
    if (folder / COMPLETE).is_file():
        return folder
    partial = folder.with_name(f"{name}.{os.getpid()}")
    remove_own(partial)
    partial.mkdir(parents=True)
    mark(partial)
    try:
        fill(partial)
        (partial / COMPLETE).touch()
        if not (folder / COMPLETE).is_file():  # another process may have made it meanwhile, and use it now
            remove_own(folder)
            partial.rename(folder)
    finally:
        remove_own(partial)
    return folder


def make_environment(python: str, folder: Path) -> list[str]:
    """Make an environment for an interpreter, which may be moved; return the words of uv that install into it.

    Raises:
        subprocess.CalledProcessError: The environment cannot be made; uv has printed the reason.
    """
    uv = [find_uv(), "--quiet", "--no-config"]
    made = [*uv, "venv", "--allow-existing", "--no-python-downloads", "--relocatable", "--python", python, str(folder)]
    subprocess.run(made, check=True, env=_environment(), timeout=120)
    return [*uv, "pip"]


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in {"VIRTUAL_ENV", "XDG_CACHE_HOME"}}


def locked_python(interpreter: Interpreter, lock: Path, kind: str) -> str:
    """Return the Python of an environment with the packages of `lock`; the folder's name begins with `kind`.

    Raises:
        subprocess.CalledProcessError: The environment cannot be made; uv has printed the reason.
    """
    identity = f"{interpreter.executable}|{interpreter.version}|{lock.read_text('utf-8')}"

    def fill(folder: Path) -> None:
        pip = make_environment(interpreter.executable, folder)
        python = str(folder / "bin" / "python")
        filled = [*pip, "sync", "--compile-bytecode", "--require-hashes", "--python", python, str(lock)]
        subprocess.run(filled, check=True, env=_environment(), timeout=600)

    name = f"{kind}-{interpreter.name}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    return str(kept(name, fill) / "bin" / "python")
