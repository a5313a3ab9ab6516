"""Starts a watcher: beside a program that this process is about to be, or beside this process itself."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from headway.errors import RecordingError, UsageError
from headway.live.door import Door
from headway.live.watcher import Options

__all__ = ["check_address", "check_folder", "start_watcher"]

_PATIENCE_S = 20


def check_folder(folder: Path) -> Path:
    """Return the absolute path of a folder for recordings; it is made where it is missing.

    Raises:
        UsageError: It cannot be made, or cannot be written to.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the folder {folder} cannot be made: {error.strerror}", hint="name another one with -o"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"the folder {folder} cannot be written to", hint="name another one with -o")
    return folder


def check_address(text: str) -> str:
    """Return HOST:PORT of what is to be served. Raises UsageError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"{text!r} is no address", hint="name one as 127.0.0.1:9464")
    try:
        with socket.create_server((host.strip("[]"), int(port))):
            return text
    except OSError as error:
        raise UsageError(f"nothing can be served at {text}: {error.strerror}", hint="name another port") from error


def start_watcher(options: Options) -> tuple[dict[str, str], int]:
    """Start the process that watches; return the variables by which processes find it, and its id.

    Raises:
        RecordingError: There can be no socket, or no such process.
    """
    door = Door()
    command = [sys.executable, "-m", "headway.live.watcher", json.dumps(options.to_json())]
    listener = door.socket.fileno()
    command += [str(listener), str(door.folder), str(door.family)]
    # What a child of this one would record, and where it would call, is none of the watcher's.
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    env |= {"HEADWAY_NATIVE": os.environ["HEADWAY_NATIVE"]} if "HEADWAY_NATIVE" in os.environ else {}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            pass_fds=[listener],
            env=env,
            timeout=_PATIENCE_S,
            check=True,
        )
        pid = int(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        door.close()
        raise RecordingError(f"the watcher does not start: {error}", hint="try `headway doctor`") from error
    with contextlib.suppress(OSError):
        door.socket.close()  # the watcher has it
    return {**door.environment(), "HEADWAY_TRACE_WATCHER": str(pid)}, pid
