"""Signals that the suite's own start may have left ignored: `nohup make test &`, a shell's background job, some CI runners.

An ignored signal stays ignored in every child, so that a test which interrupts a program would wait for it in vain.
"""

import signal
from types import FrameType

__all__ = ["restore_for_children"]


def _stay(_number: int, _frame: FrameType | None) -> None:
    """Do nothing, as where the signal is ignored; but exec() resets a handler, so that a child has the default."""


def restore_for_children() -> None:
    """Give the programs that we start from now on the default action of what ends a program from its terminal.

    Ctrl-C then ends ourselves, too; a hangup does not where whoever started us wanted that (`nohup`). Call it in the main
    thread.
    """
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGHUP, _stay),
    ):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
