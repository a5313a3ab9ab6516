"""Render advice for the terminal: the answer first, then the measurements, the reasons, and the code to paste."""

import math
from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from headway.advice.examined import Function
from headway.advice.holds import Holds
from headway.advice.models import SHORT
from headway.advice.values import Advice, BreakEven, Contender
from headway.advice.verdict import interval, is_telling
from headway.lab.stats import Interval
from headway.printable import printable
from headway.report import Table, render_table, seconds
from headway.report.figures import amount
from headway.report.layout import bold, indented

__all__ = ["render_advice", "to_paste"]

_SPOTS = 8
_A_PART = 0.01
"""From this share of the time on, it is told that some of it is in no row."""
_MUCH_LESS = 0.8
"""Below this part of a call's time in the table, the time of the earlier calls without waits for a core is shown, too."""
_MANY_BYTES, _SEVERAL = 64 << 20, 3
"""From this size of all results on, they may be why calls in the table take this many times as long as the earlier ones."""
_A_NAME = 1_000
"""The most bytes of a pickle that has little more than a function's name."""


def render_advice(advice: Advice, store: str = "") -> RenderableType:
    """Return the advice, readable at 80 columns and without colour.

    Args:
        advice: The advice.
        store: The option `--store` as it must stand in a command, with a blank before it; "" without the option.
    """
    verdict = advice.verdict
    cores = f"{advice.cores} core{'s' * (advice.cores != 1)}"
    if math.isfinite(advice.quota_cores):
        cores += f" by a CPU quota of {advice.quota_cores:.2f}"
    parts: list[RenderableType] = [
        Text(f"{advice.target} on CPython {advice.interpreter}, {cores}", style="dim"),
        Text(verdict.sentence, style="bold"),
        *(Text(f"  {printable(line)}") for line in verdict.lines),
        Text(""),
        render_table(_contenders(advice)),
    ]
    parts += _refusals(advice)
    parts += _reasons(advice)
    parts.append(
        Text(
            f"\nmeasured for {advice.spent_s:.0f} s; `headway report {advice.run}{store}` shows the launches",
            style="dim",
        )
    )
    return Group(*parts)


def to_paste(advice: Advice) -> str:
    """Return the code to paste. It must be printed unchanged, because a wrapped line would be another program."""
    text = f"\nCode to paste\n\n{advice.code.rstrip()}"
    if advice.test:
        text += f"\n\nA test that guards the result (pytest with Headway's plugin)\n\n{advice.test.rstrip()}"
    return text


def _contenders(advice: Advice) -> Table:
    rows = [_row(one) for one in advice.contenders]
    pays = {one.model: one for one in advice.break_even}
    for row, one in zip(rows, advice.contenders, strict=True):
        found = pays.get(one.model) if one.interpreter == advice.interpreter else None
        row[5] = seconds(found.size_s.value) if found is not None and found.size_s is not None else "-"
        row[6] = f"{math.ceil(found.tasks.value)}" if found is not None and found.tasks is not None else "-"
    columns = ("CPython", "model", "per call", "speed-up", "start", "pays from", "tasks", "memory", "per worker")
    most = max(one.calls for one in advice.contenders)
    more = f", up to {most} where workers share them" if most > advice.tasks else ""
    caption = (
        f"{advice.tasks} serial calls per sample{more}; each launch is a fresh process; intervals: 95 % for all looks together; "
        "speed-up: over serial calls; pays from: least serial time of a task for which a started pool is faster; "
        "tasks: number of calls that also pays for the start; memory: PSS of all processes at its peak while the calls run"
    )
    return Table(caption, columns, tuple(tuple(row) for row in rows), names=2)


def _row(one: Contender) -> list[str]:
    if one.call_s is None:
        why = "too long" if one.too_long else "failed"
        return [one.interpreter, one.words, why, printable(one.failed), "", "", "", "", ""]
    return [
        one.interpreter,
        one.words,
        seconds(one.call_s.value),
        interval(one.speed_up) if one.speed_up is not None else "1",
        seconds(one.start_s) if one.start_s else "-",
        "-",
        "-",
        amount(one.pss_bytes, "bytes") if one.pss_bytes else "-",
        amount(one.worker_pss_bytes, "bytes") if one.worker_pss_bytes else "-",
    ]


def _refusals(advice: Advice) -> Iterator[RenderableType]:
    if advice.refusals:
        yield bold("Models that cannot run the function")
        for one in advice.refusals:
            who = f"{SHORT.get(one.model, one.model)} on {one.interpreter}" if one.model else one.interpreter
            yield Text(f"  {who}: {printable(one.reason)}")


def _own(function: Function) -> str:
    """Return the size of what goes with each call to a pool besides its arguments, if that is more than a name."""
    if function.own_bytes <= _A_NAME:
        return ""
    return f"the object of the method, {amount(function.own_bytes, 'bytes')}, goes with each call to a process or interpreter; "


def _pickles(function: Function) -> str:
    """Return the sizes of what is pickled, and the time for it, or that it cannot be pickled."""
    said = f"the pickled arguments have {amount(function.input_bytes, 'bytes')}"
    if "its arguments" in function.unpicklable:
        said = "the arguments cannot be pickled"
    result = f"the result ({function.result}) {amount(function.result_bytes, 'bytes')}"
    if "its result" in function.unpicklable:
        result = f"the result ({function.result}) cannot be pickled"
    said = f"{said}, {result}"
    if function.unpicklable:
        return said
    return f"{said}; {_own(function)}pickling and unpickling take {seconds(function.pickle_s)}"


def _call(function: Function, tasks: int = 1) -> str:
    """Return what a call takes, and what it takes without waits for a core if that is much less.

    The results of a sample, which has `tasks` serial calls, exist at the same time: new memory may take longer than the call.
    """
    computes = f"{function.cpu_share:.0%} of it computing"
    if function.own_s >= _MUCH_LESS * function.call_s:
        return f"a call takes {seconds(function.call_s)}, {computes}"
    own = f"earlier calls took {seconds(function.own_s)} each without waits for a core, {computes}"
    kept = ""
    if tasks * function.result_bytes >= _MANY_BYTES and function.own_s * _SEVERAL <= function.call_s:
        kept = f", with {tasks:,} results kept at a time ({amount(tasks * function.result_bytes, 'bytes')})"
    return f"a call takes {seconds(function.call_s)} in the table{kept}; {own}"


def _from_where(holds: Holds) -> str:
    """Return what the table of lines and calls comes from."""
    if holds.samples:
        said = f"the share of the time is from {holds.samples:,} samples, all else from a profiler"
    elif holds.whole:
        said = (
            "from a profiler, with the time scaled to the shares with and without the GIL; it makes short lines and calls "
            "slower than they are"
        )
    else:
        said = "from a profiler, which makes short lines and calls slower than they are"
    if not holds.whole:
        said += "; only the start of the function was profiled"
    if any(one.released is None for one in holds.spots[:_SPOTS]):
        said += ', not the lines with "-" for "releases"'
    return said + _without_row(holds)


def _without_row(holds: Holds) -> str:
    """Return how much of the time the table of lines and calls does not show, and how many of the places."""
    shown = holds.spots[:_SPOTS]
    rest = 1.0 - sum(one.share for one in shown)
    said = f"; {rest:.0%} of the time is in no row" if rest >= _A_PART else ""
    if len(shown) < len(holds.spots):
        said += f"; the table has {len(shown)} of {len(holds.spots)} places"
    return said


def _ends(value: Interval, written: Callable[[float], str]) -> str:
    """Return the ends of an interval, with a blank before them, or why they tell nothing; one launch has no interval."""
    if not math.isfinite(value.high):
        return " (one launch)"
    if not is_telling(value):
        return " (launches far apart: no interval)"
    return f" [{written(value.low)} to {written(value.high)}]"


def _break_even(one: BreakEven) -> str:
    """Return the break-even size and number of tasks with their intervals; "" if neither is known."""
    parts = []
    if one.size_s is not None:
        parts.append(f"{seconds(one.size_s.value)}{_ends(one.size_s, seconds)} per task")
    if one.tasks is not None:
        parts.append(f"{math.ceil(one.tasks.value)}{_ends(one.tasks, lambda count: f'{math.ceil(count):,}')} tasks")
    return " and ".join(parts)


def _reasons(advice: Advice) -> Iterator[RenderableType]:
    function, holds = advice.function, advice.holds
    yield bold("Reasons")
    yield Text(f"  {_call(function, advice.tasks)}; {_pickles(function)}")
    if holds is None:
        yield Text(f"  {printable(advice.holds_why)}")
    else:
        yield Text(
            f"  the function holds the GIL for {holds.held:.0%} of its time, computes without it for "
            f"{holds.computes_without:.0%}, and waits for {holds.waits:.0%}; releases the GIL: {holds.releases}"
        )
        rows = [
            (
                printable(one.words),
                f"{one.share:.0%}",
                f"{one.calls:,}" if one.call else "-",
                one.releases or "-",
                f"{one.released:.0%}" if one.released is not None else "-",
                seconds(one.longest_s) if one.longest_s else "-",
            )
            for one in holds.spots[:_SPOTS]
        ]
        columns = ("line, C call", "of the time", "calls", "releases", "without the GIL", "longest hold")
        yield indented(render_table(Table(_from_where(holds), columns, tuple(rows), names=1)))
    for one in advice.break_even:
        if one.size_s is None and one.why:
            yield Text(f"  break-even of {SHORT[one.model]}: {printable(one.why)}")
        elif said := _break_even(one):
            yield Text(f"  break-even of {SHORT[one.model]}: {said}")
    for lag in advice.lags:
        late = f"{seconds(lag.p99_s.value)}{_ends(lag.p99_s, seconds)}"
        yield Text(f"  an event loop beside the calls, with {lag.words}, is late by {late} (p99)")
    for lock in function.locks:
        yield Text(f"  {printable(lock.words)} is held for {lock.share:.0%} of the calls' time")
    for kind, words in function.effects:
        yield Text(f"  side effect ({kind}): {printable(words)}")
    for note in advice.notes:
        yield Text(f"  {printable(note)}")
    if advice.predicted:
        said = "; ".join(
            f"{SHORT[one.model]} on {one.cores} cores {one.speed_up:.3g} [{one.low:.3g}, {one.high:.3g}]"
            for one in advice.predicted
        )
        yield Text(f"  simulated speed-up: {said}")
    for line in advice.server:
        yield Text(f"  {line}")
