"""Attach to a process as `headway attach` does, and collect its events until `close`; read what such a command says."""

import contextlib

from headway.live import attach as live
from headway.live.collect import DEFAULT_MAX_BYTES, collecting


class Attached:
    """A process that is being recorded. Its trace is complete after `close`."""

    def __init__(self, target, file, *, max_bytes=DEFAULT_MAX_BYTES, **options):
        with contextlib.ExitStack() as stack:
            door = stack.enter_context(collecting(file, max_bytes=max_bytes, at_once=True, only=target.pid))
            self._held = live.attach(target, door, **options)
            stack.callback(self._held.close)
            self._stack = stack.pop_all()

    @property
    def ended(self):
        return self._held.ended

    def let_go(self):
        """Stop renewing the lease, but go on collecting."""
        self._held.close()

    def close(self):
        self._stack.close()


_WAITS = "waiting up to "
"""A command says that it waits until the process runs Python, if that takes a second: on a busy machine, any process may."""


def next_line(stderr):
    """Return the next line of a running command, but for the one that says that it waits."""
    while (line := stderr.readline()).startswith(_WAITS):
        pass
    return line


def without_waits(said):
    """Return what a command has said, without the lines that say that it waits."""
    return "".join(line for line in said.splitlines(keepends=True) if not line.startswith(_WAITS))
