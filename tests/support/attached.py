"""Attaching as `headway attach` does: a process is recorded, and what it records is collected, until that is closed."""

import contextlib

from headway.live import attach as live
from headway.live.collect import DEFAULT_MAX_BYTES, collecting


class Attached:
    """What holds a process recorded; closed, the trace is complete."""

    def __init__(self, target, file, *, max_bytes=DEFAULT_MAX_BYTES, patience_s=10.0):
        with contextlib.ExitStack() as stack:
            door = stack.enter_context(collecting(file, max_bytes=max_bytes, at_once=True, only=target.pid))
            self._held = live.attach(target, door, patience_s=patience_s)
            stack.callback(self._held.close)
            self._stack = stack.pop_all()

    @property
    def ended(self):
        return self._held.ended

    def let_go(self):
        """Renew the lease no more, but go on collecting."""
        self._held.close()

    def close(self):
        self._stack.close()
