"""Writes the answers of `examine`, and the stacks of a process that hangs."""

import json
import os

__all__ = ["Talk"]

_CLOSED = 86
"""Exit code: the function has closed our answer's descriptor; `headway.advice.asking` has the same value."""


class Talk:
    """Writes the answers. With `stacks_after_s`, all stacks go to stderr if nothing else begins for that time.

    The asker's limit begins anew with each answer, and so does that time: the stacks are those of where the process hangs.
    """

    def __init__(self, fd, stacks_after_s=0):
        self._fd, self._stacks_after_s, self._pid = fd, stacks_after_s, os.getpid()
        self._await_next()

    def _await_next(self):
        # A child that the function has forked lacks the thread of faulthandler, and would wait for its end for ever.
        if not self._stacks_after_s or os.getpid() != self._pid:
            return
        import faulthandler

        try:
            # By its number: the function may have set sys.stderr. A new call takes back the one before.
            faulthandler.dump_traceback_later(self._stacks_after_s, file=2)
        except RuntimeError:
            pass  # no further thread can be started

    def begin(self, stage, which=0):
        """Tell that a stage begins, or its calls with an input, whose number is `which`, from 1."""
        self._await_next()
        self._put({"begun": stage, "which": which} if which else {"begun": stage})

    def give(self, stage, **values):
        self._put(dict(values, stage=stage))

    def _put(self, values):
        data = json.dumps(values, default=str).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            os._exit(_CLOSED)
