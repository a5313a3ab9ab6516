"""The progress of `headway lab` while it measures: one line on stderr, results as they come, and signals that stop it."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType

from headway import lab
from headway.cli import console

__all__ = ["SIGNALLED", "ProgressLine", "interruptible", "stoppable"]

SIGNALLED = 128
"""A signal's number above this is the exit code of a command that the signal ended, as in shells."""


@contextlib.contextmanager
def stoppable(stopped: Callable[[int], None]) -> Iterator[Callable[[], None]]:
    """Treat SIGTERM and SIGHUP as Ctrl-C, so that no launch and no lock is left, here or on another machine.

    Only the exit code differs: `stopped` is called with the first signal's number. Python discards an exception that a
    handler raises during a `__del__` or a callback. The block is therefore given a function that raises
    KeyboardInterrupt again, to be called before each launch.
    """
    interrupted = False

    def interrupt(number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        if not interrupted:
            stopped(number)
        interrupted = True
        raise KeyboardInterrupt

    def stop_if_interrupted() -> None:
        if interrupted:
            raise KeyboardInterrupt

    # A signal that is ignored stays ignored, so that `nohup headway lab` goes on after a hang-up.
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in signals if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield stop_if_interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def interruptible(report: "ProgressLine") -> Iterator[Callable[[lab.Progress], None]]:
    """Make the lab of this machine stoppable; yield a function that takes the place of `report`."""

    def stopped(number: int) -> None:
        report.stopped_by = number

    with stoppable(stopped) as stop_if_interrupted:

        def report_unless_interrupted(progress: lab.Progress) -> None:
            if progress.cell is not None:
                stop_if_interrupted()
            report(progress)

        yield report_unless_interrupted


def _print_finished(progress: lab.Progress) -> None:
    """Print the results of an experiment that has just had its launches."""
    from headway.report import render_decided, render_experiment

    results = progress.results
    assert results is not None
    experiment = results.experiment(progress.finished)
    if progress.news is None:
        console.print_rendered(render_experiment(results, experiment, goes_on=progress.budget_s is not None))
    else:
        console.print_rendered(render_decided(results, experiment, progress.news))


def _left(progress: lab.Progress) -> str:
    """Return what is left of the run; of one with a budget, no more than is certain."""
    if progress.left_s is None or progress.cell is None:
        return ""
    if progress.budget_s is None:
        return f", about {progress.left_s:.0f} s left"
    if progress.left_s <= 0:
        return f", the time is up, {progress.due} {'launch' if progress.due == 1 else 'launches'} to come"
    return f", {progress.left_s:.0f} s of the budget left"


class ProgressLine:
    """One line on stderr with the current cell, the number of launches and the time; it is rewritten where the terminal can.

    If `brief`, the results of each experiment are printed to stdout as soon as it has had its launches.
    """

    _QUIET_S = 60.0

    def __init__(self, *, brief: bool) -> None:
        self.run: str | None = None
        self.stopped_by: int = signal.SIGINT
        """The signal that stopped the run, if one did."""
        self._told: set[str] = set()
        self._brief = brief
        self._rewrites = console.can_rewrite()
        self._last_s = -self._QUIET_S
        self._open = False
        self._begun_s = time.monotonic()

    def __call__(self, progress: lab.Progress) -> None:
        """Show a step of the run; see `lab.Progress`."""
        if self.run is None:
            self.run = progress.run
            again = f", {progress.done} of them already done" if progress.done else ""
            planned = f"{progress.planned} launches"
            if progress.budget_s is not None:
                planned = (
                    f"up to {planned} in first looks, and more where claims are open, with a budget of "
                    f"{progress.budget_s:.0f} s"
                )
            console.say(f"run {progress.run}: {planned}{again}")
            self._last_s = time.monotonic()
            if progress.cell is None and not progress.finished:
                console.say("nothing to do: the run is complete")
                return
        if progress.finished:
            self.end()
            self._told.add(progress.finished)
            if self._brief:
                _print_finished(progress)
                self._last_s = time.monotonic()
            return
        now_s = time.monotonic()
        # If stderr is not a terminal, one line per `_QUIET_S` is enough; the last line is always printed.
        if not self._rewrites and progress.cell is not None and now_s - self._last_s < self._QUIET_S:
            return
        self._last_s = now_s
        failed = f", {progress.failed} failed" if progress.failed else ""
        what = ", done" if progress.cell is None else f": {progress.cell.key.replace('|', ' ')}"
        line = f"{progress.done} launches, {now_s - self._begun_s:.0f} s{_left(progress)}{failed}{what}"
        if self._rewrites:
            console.rewrite(line)
            self._open = True
        else:
            console.say(line)

    def print_unfinished(self, results: lab.Run) -> None:
        """Print the results of the experiments that had some launches when the run was stopped."""
        from headway.report import render_experiment

        for one in results.experiments():
            if self._brief and one.name not in self._told and any(result.launches for result in results.of(one.name)):
                console.print_rendered(render_experiment(results, one))

    def end(self) -> None:
        """End the line on the terminal, so that other output begins on a new one."""
        if self._open:
            console.end_line()
            self._open = False
