"""Find the Chromium that the browser tests drive: HEADWAY_CHROMIUM, one on PATH, or the one of `chromium.py`."""

import os
import re
import shutil
import subprocess

from headway.host.paths import cache_folder

# The smallest program is first. All accept the options that Playwright gives to its own Chromium.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# The one that `chromium.py` adds: <cache>/FOLDER/bin/NAME.
FOLDER = NAME = "chromium"
ANSWER_TIMEOUT_S = 30


def find_chromium() -> str | None:
    """Return the path of a Chromium, or None: `HEADWAY_CHROMIUM`, one on PATH that answers, the one in the cache."""
    named = os.environ.get("HEADWAY_CHROMIUM")
    if named and os.access(named, os.X_OK):
        return named
    for path in filter(None, map(shutil.which, PROGRAMS)):
        if answers(path):
            return path
    ours = cache_folder() / FOLDER / "bin" / NAME
    return str(ours) if os.access(ours, os.X_OK) else None


def answers(path: str) -> bool:
    """Return whether the program tells its version; Ubuntu's chromium-browser may only say where to get one."""
    command = [path, "--version"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 and re.search(rb"\d+\.\d+", done.stdout) is not None
