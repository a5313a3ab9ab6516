r"""Folded stacks for flamegraph.pl, inferno and speedscope: a line for each stack, with the time spent in it.

An example: `app.py 4242;MainThread;main (app.py:40);handle (app.py:12) 1500000`. A line has the process, the thread,
the frames from the outermost to the innermost, and after the last space the exact number of nanoseconds
(`flamegraph.pl --countname ns`). The numbers add up to all time held, or waited. On a free-threaded build, the time
waited includes the waits for locks.

Invisible characters and `;` in a name are written as `\x0a` and `\x3b`. The frame `?` stands for an unknown stack.
Stacks in which no time was spent are left out. The frame `attach (<headway>)` stands for the work of `headway attach`
in the process.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from headway.printable import printable
from headway.traces.analysis.intervals import Intervals, recorded
from headway.traces.analysis.words import labels
from headway.traces.export.output import written_whole
from headway.traces.export.parks import Parks, parks
from headway.traces.model import Frame, Trace

__all__ = ["write_holds", "write_waits"]


def write_holds(traces: Sequence[Trace], path: Path) -> None:
    """Write the time for which the GIL was held, by the stack that released it.

    Raises:
        HeadwayError: The file cannot be written.
    """
    _write(path, ((trace, [recorded(trace).holds]) for trace in traces))


def write_waits(traces: Sequence[Trace], path: Path) -> None:
    """Write the time for which threads waited for the GIL or blocked on locks, by the stack that waited.

    Raises:
        HeadwayError: The file cannot be written.
    """
    _write(path, ((trace, [recorded(trace).waits, parks(trace)]) for trace in traces))


def _write(path: Path, of_traces: Iterator[tuple[Trace, Sequence[Intervals | Parks]]]) -> None:
    with written_whole(path) as file:
        for trace, intervals in of_traces:
            for line in _lines(trace, intervals):
                file.write(line.encode())


def _lines(trace: Trace, intervals: Sequence[Intervals | Parks]) -> Iterator[str]:
    stacks = len(trace.stack_frame)
    keys = np.concatenate([one.thread.astype(np.int64) * stacks + one.stack for one in intervals])
    pairs, which = np.unique(keys, return_inverse=True)
    total_ns = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(total_ns, which, np.concatenate([one.end_ns - one.start_ns for one in intervals]))
    process = _escaped(f"{trace.process.program} {trace.process.pid}")
    threads = [_escaped(one) for one in labels(trace.threads)]
    frames = [_escaped(_frame(one)) for one in trace.frames]
    spent_ns: Counter[str] = Counter()
    for pair, time_ns in zip(pairs.tolist(), total_ns.tolist(), strict=True):
        thread, stack = divmod(pair, stacks)
        inner_to_outer = []
        while stack:
            inner_to_outer.append(frames[int(trace.stack_frame[stack])])
            stack = int(trace.stack_parent[stack])
        if time_ns:
            spent_ns[";".join([process, threads[thread], *(inner_to_outer[::-1] or ["?"])])] += time_ns
    for stack_of, time_ns in spent_ns.items():
        yield f"{stack_of} {time_ns}\n"


def _frame(frame: Frame) -> str:
    place = f"{frame.filename}:{frame.line}" if frame.line else frame.filename
    return f"{frame.function} ({place})" if place else frame.function


def _escaped(text: str) -> str:
    return printable(text).replace(";", "\\x3b")
