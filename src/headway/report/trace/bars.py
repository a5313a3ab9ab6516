"""A GIL's use over time, as lines of small bars that fit the terminal."""

from collections.abc import Collection
from typing import final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from headway.report.figures import amount
from headway.traces.analysis import Analysis, GilSummary
from headway.traces.analysis.utilisation import Timeline
from headway.traces.analysis.words import duration, share

__all__ = ["bars"]

_STEPS = " ▁▂▃▄▅▆▇█"
_THREADS = 4
_LONGEST_NAME = 24
_LONGEST_FIGURE = 14
_LEAST_WAITERS = 0.1
"""A mean number of waiting threads; a smaller one is shown as less than this."""


def _bar(values: NDArray[np.float64], top: float, columns: int) -> str:
    """Return values as bars of eighths; with fewer columns than values, a bar is the mean of several."""
    together = -(-len(values) // max(columns, 1))
    groups = [values[first : first + together].mean() for first in range(0, len(values), together)]
    eighths = [0 if not top else min(8, round(8 * value / top)) for value in groups]
    # A small value still shows as a bar.
    return "".join(_STEPS[max(step, int(value > 0))] for step, value in zip(eighths, groups, strict=True))


@final
class _Bars:
    def __init__(self, rows: list[tuple[str, NDArray[np.float64], float, str]], span: tuple[str, str]) -> None:
        self._rows, self._span = rows, span

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = max(len(name) for name, *_ in self._rows)
        columns = options.max_width - names - _LONGEST_FIGURE - 2
        width = 0
        for name, values, top, figure in self._rows:
            bar = _bar(values, top, columns)
            width = len(bar)
            yield Text(f"{name:<{names}} {bar} {figure}", no_wrap=True)
        begin, end = self._span
        yield Text(f"{'':<{names}} {begin}{end:>{max(width - len(begin), len(end) + 1)}}", style="dim", no_wrap=True)


def _waiters(most: float) -> str:
    """Return the words for the highest of the mean numbers of waiting threads."""
    if not most:
        return "no waiter"
    return f"max mean {amount(most, 'count')}" if most >= _LEAST_WAITERS else f"max mean < {_LEAST_WAITERS}"


def bars(
    analysis: Analysis,
    gil: GilSummary,
    timeline: Timeline,
    *,
    every: bool = False,
    threads: Collection[int] | None = None,
) -> RenderableType:
    """Return a line for the GIL, one for the number of waiting threads, and one per thread or pool that held it longest.

    The number of waiting threads is the mean of each short stretch of the time; its figure is the highest of these.
    Means are of the time for which the GIL existed, as in its heading.
    """
    users = gil.by_thread
    if gil.timeline_by_role is not None and not every and threads is None:
        timeline, users = gil.timeline_by_role, gil.by_role
    of = {one.index: one for one in users}
    most = float(timeline.waiting.max())
    rows = [
        ("held", timeline.held, 1.0, f"mean {share(gil.holds.total_ns, gil.wall_ns)}"),
        ("waiting", timeline.waiting, most, _waiters(most)),
    ]
    chosen = [at for at, thread in enumerate(timeline.threads) if threads is None or int(thread) in threads]
    for at in chosen if every else chosen[:_THREADS]:
        thread = int(timeline.threads[at])
        one = of[thread]
        count = f" x {one.threads:,}" * (one.threads > 1)
        room = _LONGEST_NAME - len(count)
        short = one.label if len(one.label) <= room else f"{one.label[: room - 3]}..."
        rows.append((short + count, timeline.held_by[at], 1.0, f"mean {share(one.holds.total_ns, gil.wall_ns)}"))
    edges_ns = timeline.edges_ns - analysis.origin_ns
    return _Bars(rows, (duration(int(edges_ns[0])), duration(int(edges_ns[-1]))))
