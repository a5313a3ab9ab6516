"""Restore signals that the start of the test suite may have left ignored, for the programs that tests start.

`nohup make test &`, a shell's background job and some CI runners ignore signals. An ignored signal stays ignored in
every child, so a test that interrupts a program would wait for its end in vain.
"""

import signal
from types import FrameType

__all__ = ["restore_for_children"]


def _stay(_number: int, _frame: FrameType | None) -> None:
    """Do nothing, as if the signal were ignored. exec() resets a handler, so a child has the default action."""


def restore_for_children() -> None:
    """Give the programs that this process starts from now on the default actions of the signals of a terminal.

    Ctrl-C then ends this process, too. A hangup still does not if its starter wanted that (`nohup`). The main thread
    must make the call.
    """
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGHUP, _stay),
    ):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
