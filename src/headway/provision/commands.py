"""Run the commands that make an interpreter: with a log, with progress, and without the caller's own settings."""

import contextlib
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headway.host.endings import ended_by
from headway.provision.archive import UV_HINT, ProvisionError

__all__ = ["Talk", "find_one", "require_tool", "run_logged", "scratch_folder"]

LOG_TAIL_LINES = 15
_LONG = 5
"""A step of so many moments is a long one."""


@dataclass
class Talk:
    """Reports progress to the user: a step that takes more than a moment, and its time when it has ended.

    Attributes:
        tell: Receives each line; two threads may call it at once.
    """

    tell: Callable[[str], None]
    started_s: float = field(default_factory=time.monotonic)
    moment_s: float = 2.0

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Run the body; announce `text` after a moment, and the end of a long step with its seconds and those in all.

        The announcement and the end have a line each, because two interpreters may be in progress at once.
        """
        announcing = threading.Timer(self.moment_s, self.tell, [f"  {text} ..."])
        announcing.daemon = True
        announcing.start()
        begun_s = time.monotonic()
        outcome = "failed after"
        try:
            yield
            outcome = "done in"
        finally:
            announcing.cancel()
            now_s = time.monotonic()
            if outcome != "done in" or now_s - begun_s >= _LONG * self.moment_s:
                self.tell(f"  {text}: {outcome} {now_s - begun_s:.1f} s (total {now_s - self.started_s:.1f} s)")


def command_environment() -> dict[str, str]:
    """Return the environment for commands: untranslated messages, and no flags that would leak into a build.

    MAKEFLAGS would give this `make` a job server that it cannot reach, and PYTHON* would affect the Python being built.
    """
    leaky = re.compile(
        r"PYTHON.*|MAKEFLAGS|MFLAGS|MAKELEVEL|CFLAGS|CPPFLAGS|LDFLAGS|OPT|DESTDIR|LD_PRELOAD|LD_LIBRARY_PATH"
    )
    kept = {name: value for name, value in os.environ.items() if not leaky.fullmatch(name)}
    return {**kept, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


def run_logged(
    command: Sequence[str | Path], log: Path, *, cwd: Path | None = None, timeout_s: float | None = None
) -> str:
    """Run `command`, append its output to `log`, and return its output.

    Raises:
        ProvisionError: The command could not be started, failed or ran out of time. If it was started, the error has
            the log's path; if it failed, also the log's last lines.
    """
    words = [str(word) for word in command]
    shown = " ".join([Path(words[0]).name, *words[1:2]])
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a+", encoding="utf-8", errors="replace") as output:
        output.write(f"\n$ {' '.join(words)}\n")
        output.flush()
        begin = output.tell()
        try:
            status = subprocess.run(
                words, cwd=cwd, env=command_environment(), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, timeout=timeout_s, check=False,
            ).returncode  # fmt: skip
        except OSError as error:
            raise ProvisionError(f"cannot run `{words[0]}`: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise ProvisionError(f"`{shown}` did not end within {timeout_s:.0f} s", hint=f"see {log}") from error
        output.seek(begin)
        text = output.read()
    if status != 0:
        raise failed_command(shown, status, text, log)
    return text


def failed_command(shown: str, status: int, text: str, log: Path) -> ProvisionError:
    """Return the error for a command that failed, with the first line that gives a reason, or else the last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    reasons = [line for line in lines if re.match(r"E: |.*\berror\b|.*Error:", line)]
    why = (reasons or lines[-1:] or ["no output"])[0].strip()
    return ProvisionError(
        f"`{shown}` failed ({ended_by(status)}): {why}", hint=f"see {log}", tail=tuple(lines[-LOG_TAIL_LINES:])
    )


def require_tool(name: str, *, package: str) -> str:
    """Return the path of a command that must be on PATH."""
    path = shutil.which(name)
    if path is None:
        raise ProvisionError(f"`{name}` is not on this machine", hint=f"install the package {package}; {UV_HINT}")
    return path


def find_one(folder: Path, pattern: str) -> Path:
    """Return the only path below `folder` that matches `pattern`."""
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise ProvisionError(f"expected one {pattern} in {folder}, found {len(found)}")
    return found[0]


@contextlib.contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty `folder` without the files of a killed run, and remove it at the end. The caller must hold the lock."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
