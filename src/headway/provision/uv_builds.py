"""Install uv's builds of CPython (python-build-standalone), if their host can be reached."""

import os
import re
import subprocess
from pathlib import Path

from headway.provision.archive import ProvisionError

__all__ = ["install"]

_LIMIT_S = 600
# Without this, uv retries for 15 s, although a host name without an address fails at the next attempt, too.
_ONCE = {"UV_HTTP_RETRIES": "0"}
_NAME = re.compile(r"3\.\d+t?")


def install(uv: str, name: str) -> None:
    """Install the newest CPython of a name ("3.14t") into uv's own folder; no command is added to the user's PATH.

    Raises:
        ProvisionError: uv has no such build, or cannot reach its host; the reason is the last line of uv's output.
    """
    if not _NAME.fullmatch(name):
        raise ProvisionError(f"{name!r} is no CPython's name", hint="name a version, as 3.14 or 3.14t")
    if not uv:
        raise ProvisionError("uv is not on this machine", hint="install uv, or put it on PATH")
    command = [uv, "python", "install", "--no-config", "--no-bin", "--no-progress", name]
    # uv looks for a project in its working folder, and a project may pin versions or forbid downloads.
    try:
        done = subprocess.run(
            command,
            cwd=Path("/"),
            env={**os.environ, **_ONCE},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProvisionError(f"`uv python install {name}` did not end: {error}") from error
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        causes = [line.removeprefix("Caused by: ").removeprefix("cause: ") for line in lines]
        raise ProvisionError(f"uv cannot install {name}: {causes[-1] if causes else 'it says nothing'}")
