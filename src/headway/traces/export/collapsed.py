r"""Folded stacks, as flamegraph.pl, inferno and speedscope read them: a line per stack, with the time in it.

`app.py 4242;MainThread;main (app.py:40);handle (app.py:12) 1500000`: the process, the thread, the frames from the
outermost to the innermost, and after the last space the nanoseconds, exact and whole (`flamegraph.pl --countname ns`).
They add up to all time held, or waited. Control characters and `;` in a name are written as `\x0a` and `\x3b`; a stack
that is not known is the frame `?`. Stacks in which no time was spent are left out.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from headway.traces.analysis.intervals import Intervals, recorded
from headway.traces.analysis.words import labels
from headway.traces.export.output import written_whole
from headway.traces.export.text import clean
from headway.traces.model import Frame, Trace

__all__ = ["write_holds", "write_waits"]

_SPECIAL = re.compile("[;\x00-\x1f\x7f\x85\u2028\u2029]")


def write_holds(traces: Sequence[Trace], path: Path) -> None:
    """Write where the GIL was held, by the stack that let it go.

    Raises:
        HeadwayError: The file cannot be written.
    """
    _write(path, ((trace, recorded(trace).holds) for trace in traces))


def write_waits(traces: Sequence[Trace], path: Path) -> None:
    """Write where the GIL was waited for, by the stack that waited.

    Raises:
        HeadwayError: The file cannot be written.
    """
    _write(path, ((trace, recorded(trace).waits) for trace in traces))


def _write(path: Path, of_traces: Iterator[tuple[Trace, Intervals]]) -> None:
    with written_whole(path) as file:
        for trace, intervals in of_traces:
            for line in _lines(trace, intervals):
                file.write(line.encode())


def _lines(trace: Trace, intervals: Intervals) -> Iterator[str]:
    stacks = len(trace.stack_frame)
    pairs, which = np.unique(intervals.thread.astype(np.int64) * stacks + intervals.stack, return_inverse=True)
    total_ns = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(total_ns, which, intervals.length_ns)
    process = _escaped(f"{trace.process.program} {trace.process.pid}")
    threads = [_escaped(one) for one in labels(trace.threads)]
    frames = [_escaped(_frame(one)) for one in trace.frames]
    for pair, time_ns in zip(pairs.tolist(), total_ns.tolist(), strict=True):
        thread, stack = divmod(pair, stacks)
        inner_to_outer = []
        while stack:
            inner_to_outer.append(frames[trace.stack_frame[stack]])
            stack = int(trace.stack_parent[stack])
        if time_ns:
            yield ";".join([process, threads[thread], *(inner_to_outer[::-1] or ["?"])]) + f" {time_ns}\n"


def _frame(frame: Frame) -> str:
    place = f"{frame.filename}:{frame.line}" if frame.line else frame.filename
    return f"{frame.function} ({place})" if place else frame.function


def _escaped(text: str) -> str:
    def escape(found: re.Match[str]) -> str:
        code = ord(found[0])
        return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"

    return _SPECIAL.sub(escape, clean(text))
