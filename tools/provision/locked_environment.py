"""Make virtual environments for interpreters from a lock with uv, once, and keep them in the cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from headway.host.interpreters import Interpreter
from headway.host.own_folders import mark, remove_own
from headway.host.paths import libraries_folder
from headway.lab.beside.environments import find_uv

__all__ = ["locked_python"]


def locked_python(interpreter: Interpreter, lock: Path, kind: str) -> str:
    """Return the Python of an environment with the packages of `lock`; the folder's name begins with `kind`.

    Raises:
        subprocess.CalledProcessError: The environment cannot be made; uv has printed the reason.
    """
    identity = f"{interpreter.executable}|{interpreter.version}|{lock.read_text('utf-8')}"
    name = f"{kind}-{interpreter.name}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    folder = libraries_folder() / name
    if not (folder / "complete").is_file():
        partial = folder.with_name(f"{name}.{os.getpid()}")
        uv = [find_uv(), "--quiet", "--no-config"]
        env = {key: value for key, value in os.environ.items() if key not in {"VIRTUAL_ENV", "XDG_CACHE_HOME"}}
        remove_own(partial)
        partial.mkdir(parents=True)
        mark(partial)
        made = [
            *uv,
            "venv",
            "--allow-existing",
            "--no-python-downloads",
            "--relocatable",
            "--python",
            interpreter.executable,
            str(partial),
        ]
        subprocess.run(made, check=True, env=env, timeout=120)
        python = str(partial / "bin" / "python")
        filled = [*uv, "pip", "sync", "--compile-bytecode", "--require-hashes", "--python", python, str(lock)]
        subprocess.run(filled, check=True, env=env, timeout=600)
        (partial / "complete").touch()
        remove_own(folder)
        partial.rename(folder)
    return str(folder / "bin" / "python")
