"""Attach to a process as `headway attach` does, and collect its events until `close`."""

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
