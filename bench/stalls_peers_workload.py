"""Other tools that watch the stalls of stalls_workload.py in the same process, and their reports after each stall.

The tools are a watchdog by faulthandler, which dumps all threads if the loop does not reset it in time; asyncio's debug
mode, which logs slow callbacks; and gilknocker's contention metric for the time of the stall.
"""

import asyncio
import contextlib
import faulthandler
import logging
import os
import tempfile
import time


class _Messages(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


class Peers:
    """All three tools, in the running loop."""

    def __init__(self, over_s):
        from gilknocker import KnockKnock

        self._over_s = over_s
        self._file = tempfile.TemporaryFile("w+")  # noqa: SIM115 it is open as long as the process lives
        self._messages = _Messages()
        logging.getLogger("asyncio").addHandler(self._messages)
        loop = asyncio.get_running_loop()
        loop.set_debug(True)
        loop.slow_callback_duration = over_s
        self._knocker = KnockKnock(polling_interval_micros=1000)
        self._knocker.start()
        self.beat()

    def beat(self):
        """Reset the watchdog, because the loop runs."""
        faulthandler.dump_traceback_later(self._over_s, file=self._file)

    def begin(self):
        """Prepare the tools for a stall."""
        self.beat()
        self._at = os.fstat(self._file.fileno()).st_size
        self._messages.texts.clear()
        self._knocker.reset_contention_metric()

    async def end(self):
        """Return the report of each tool on the stall."""
        knocked = self._knocker.contention_metric
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)  # asyncio logs a slow callback after its end
        size = os.fstat(self._file.fileno()).st_size
        dump = os.pread(self._file.fileno(), size - self._at, self._at).decode(errors="replace")
        return {"faulthandler": dump, "asyncio debug": "\n".join(self._messages.texts), "gilknocker": knocked}

    def close(self):
        faulthandler.cancel_dump_traceback_later()
        self._knocker.stop()
        time.sleep(0)
