"""uv's builds of CPython (python-build-standalone), where their host can be reached."""

import os
import re
import subprocess
from pathlib import Path

from headway.provision.archive import ProvisionError

__all__ = ["install"]

_LIMIT_S = 600
# uv tries again for a quarter of a minute otherwise, although a host that has no address has none the next time, either.
_ONCE = {"UV_HTTP_RETRIES": "0"}
_NAME = re.compile(r"3\.\d+t?")


def install(uv: str, name: str) -> None:
    """Install the newest CPython of a name ("3.14t") into uv's own folder; no command is added to the user's PATH.

    Raises:
        ProvisionError: uv has no such build, or cannot reach its host; the reason is the last that uv says.
    """
    if not _NAME.fullmatch(name):
        raise ProvisionError(f"{name!r} is no CPython's name", hint="name a version, as 3.14 or 3.14t")
    if not uv:
        raise ProvisionError("uv is not on this machine", hint="install uv, or put it on PATH")
    command = [uv, "python", "install", "--no-config", "--no-bin", "--no-progress", name]
    # uv looks for a project in the folder that it runs in, which may pin or forbid downloads.
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
