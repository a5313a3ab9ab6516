"""Pythons in which the pytest plugin runs: an environment for each interpreter, made once and kept in the cache."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from headway.lab.environments import find_uv
from headway.lab.interpreters import Interpreter
from headway.lab.paths import libraries_folder

ROOT = Path(__file__).resolve().parent.parent


def plugin_python(interpreter: Interpreter) -> str:
    """Return a Python with pytest, its async plugins, xdist and what Headway needs; Headway itself comes by its path."""
    lock = ROOT / "requirements" / ("plugin-3.13t.lock" if interpreter.name == "3.13t" else "plugin.lock")
    identity = f"{interpreter.executable}|{interpreter.version}|{lock.read_text()}"
    name = f"pytest-{interpreter.name}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    folder = libraries_folder() / name
    if not (folder / "complete").is_file():
        partial = folder.with_name(f"{name}.{os.getpid()}")
        uv = [find_uv(), "--quiet", "--no-config"]
        environment = {key: value for key, value in os.environ.items() if key not in {"VIRTUAL_ENV", "XDG_CACHE_HOME"}}
        shutil.rmtree(partial, ignore_errors=True)
        made = [*uv, "venv", "--no-python-downloads", "--relocatable", "--python", interpreter.executable, str(partial)]
        subprocess.run(made, check=True, env=environment, timeout=120)
        filled = [
            *uv,
            "pip",
            "sync",
            "--compile-bytecode",
            "--require-hashes",
            "--python",
            str(partial / "bin" / "python"),
            str(lock),
        ]
        subprocess.run(filled, check=True, env=environment, timeout=600)
        (partial / "complete").touch()
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    return str(folder / "bin" / "python")
