"""Render the output of `headway whatif`: a table of one change, or the ranked changes, best first."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from headway.printable import printable
from headway.report import Table, render_table
from headway.sim.ranking import WORTH, missed
from headway.traces.analysis.words import duration

if TYPE_CHECKING:
    from headway.report.html import schema
    from headway.sim.ranking import Ranked
    from headway.sim.whatif import Prediction
    from headway.traces.model import Trace

__all__ = ["headline", "one_change", "page", "ranking"]

_Note = tuple[Literal["rests on", "outside the model", "note"], str]

_LEAST_TURNS = 10
"""For a role with fewer turns in the trace, no rate and no percentile is shown."""
_LEAST_RUNS = 0.05
_TELLS = 3
"""The most roles in a headline."""
_HEAD = ("role", "", "in the trace", "predicted", "80 % interval")
_PREDICTED = "predicted"
_ONE_RUN = (
    "the predicted timeline is one simulated run, without the correction by the trace that the table has; its first tenth "
    "of a second is the warm-up of the simulation"
)
_NO_TIMELINE = "no thread waits for a GIL under this change, so the predicted run has no timeline"
_TURN = "from the first attempt to acquire the GIL until the thread yields it"
_CAPTION = f"turns: {_TURN}; runs: time on a core with the GIL, as a share of one core's time"
_UNCHANGED = "replayed without a change"
_OF_TURNS = f"turn: {_TURN}; one request may take many turns"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _rate(value: float) -> str:
    return f"{_number(value)}/s"


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


_FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("turns_per_s", "turns", _rate),
    ("p50_ns", "p50", duration),
    ("p99_ns", "p99", duration),
    ("run_share", "runs", _percent),
)


def _rows(prediction: "Prediction") -> Iterator[tuple[str, ...]]:
    for one in prediction.roles:
        for name, word, say in _FIGURES:
            seen, span = getattr(one.measured, name), getattr(one, name)
            if seen is None or (name != "run_share" and one.measured.turns < _LEAST_TURNS):
                continue
            role = printable(one.role)
            if span is None:
                yield role, word, say(seen), "too few turns", ""
            else:
                yield role, word, say(seen), say(span.value), f"{say(span.low)} - {say(span.high)}"


def _table(prediction: "Prediction") -> Table:
    return Table(_CAPTION, _HEAD, tuple(_rows(prediction)), names=2)


def _notes(prediction: "Prediction") -> "list[_Note]":
    notes: list[_Note] = [("rests on", printable(text)) for text in prediction.rests_on]
    return notes + [("outside the model", printable(text)) for text in prediction.outside]


def _title(prediction: "Prediction") -> str:
    """Return the change, with the condition of the prediction: figures that are read first must not be read without it."""
    condition = f", {prediction.provided}" if prediction.provided else ""
    return printable(f"what if: {prediction.change}{condition}")


def one_change(prediction: "Prediction") -> RenderableType:
    """Return the predicted figures of a change, beside those of the trace."""
    return Group(
        Text(_title(prediction), style="bold"),
        Text(""),
        render_table(_table(prediction)),
        *(Text(f"{kind}: {text}") for kind, text in _notes(prediction)),
    )


def page(
    prediction: "Prediction", real: "Trace", window: tuple[int | None, int | None], predicted: "Trace"
) -> "tuple[schema.Page, dict[str, bytes]]":
    """Return a change's page: its table, and the timeline of the trace above that of one predicted run.

    Args:
        prediction: The prediction of the change.
        real: The recorded trace.
        window: The part of the recorded trace that is shown, in its times; None: from its beginning, to its end.
        predicted: The trace of the predicted run.
    """
    from headway import __version__
    from headway.report.html import schema, simulation_page
    from headway.traces.analysis import analyse

    since_ns, until_ns = window
    launches = [("in the trace", [(real, analyse(real, since_ns=since_ns, until_ns=until_ns))])]
    notes = _notes(prediction)
    if len(predicted.events):
        launches.append((_PREDICTED, [(predicted, analyse(predicted))]))
        notes.append(("note", _ONE_RUN))
    else:
        notes.append(("note", _NO_TIMELINE))
    if predicted.loss.dropped_events:
        notes.append(("note", f"the predicted run's timeline ends early, after {len(predicted.events):,} events"))
    program = printable(real.process.program or real.process.executable or "?")
    return simulation_page(
        f"{program}, {_title(prediction)}",
        __version__,
        sections=[schema.Section("Roles", (_table(prediction),))],
        notes=notes,
        launches=launches,
    )


def headline(prediction: "Prediction", about: "Sequence[str]" = ()) -> str:
    """Return the figures that a change affects most, in one line; first those of the roles in `about`, in their order."""
    told: list[tuple[int, float, str]] = []
    for one in prediction.roles:
        measured = one.measured
        rank = -about.index(one.role) if one.role in about else -len(about)
        if measured.turns >= _LEAST_TURNS and one.turns_per_s is not None:
            text = f"{one.role} {_number(measured.turns_per_s)} -> {_number(one.turns_per_s.value)} turns/s"
            if one.p99_ns is not None and measured.p99_ns:
                text += f", p99 {duration(measured.p99_ns)} -> {duration(one.p99_ns.value)}"
            told.append((rank, abs(one.turns_per_s.value / measured.turns_per_s - 1), text))
        elif one.run_share is not None and measured.run_share > _LEAST_RUNS:
            change = one.run_share.value / measured.run_share
            told.append((rank, abs(change - 1) / 10, f"{one.role} computes {change:.2f} of what it did before"))
    return "; ".join(text for _, _, text in sorted(told, reverse=True)[:_TELLS])


def _indented(text: str) -> RenderableType:
    return Padding(Text(printable(text)), (0, 0, 0, 3))


def ranking(ranked: "Sequence[Ranked]", name: str, untried: "Sequence[str]" = ()) -> RenderableType:
    """Return the changes, best first, and the command that shows the best one in full.

    Args:
        ranked: The changes.
        name: The name of the trace's file.
        untried: Reasons why a change that a user may expect is not among them.
    """
    told = [headline(one.prediction) for one in ranked]
    if ranked and not any(told):
        least = f"{_LEAST_TURNS} turns, or runs for {_LEAST_RUNS:.0%} of the time".replace("%", " %")
        return Text(f"the trace has too little to predict from: no thread has {least}", style="bold")
    if why := missed(ranked):
        return _no_ranking(ranked, why, name)
    helps = sum(one.worth > WORTH for one in ranked)
    which = "changes that" if helps == len(ranked) else f"{helps} of {len(ranked)} changes"
    first = f"{which} would help, best first" if helps else "no change is predicted to help; the least harmful first"
    if helps and any(one.outside for one in ranked):
        first += "; those outside the model come later, since their figures are less sure"
    if not helps and any(one.outside_all for one in ranked):
        first = "no change is predicted to help, but the model lacks something of this program: see the last lines"
    if not ranked:
        first = "there is no change to try here"
    lines: list[RenderableType] = [Text(first, style="bold"), Text("")]
    for place, (one, figures) in enumerate(zip(ranked, told, strict=True), 1):
        verdict = "" if one.worth > WORTH else " (no sure gain)" if one.worth > -WORTH else " (a loss)"
        lines.append(Text(printable(f"{place}. {one.prediction.change}{verdict}"), style="bold"))
        lines.append(_indented(figures or "too few turns"))
        lines += [_indented(f"outside the model: {text}") for text in one.outside]
    if ranked:
        lines += [Text(""), Text(_OF_TURNS)]
        lines += [Text(printable(f"outside the model, all of them: {text}")) for text in ranked[0].outside_all]
        lines += [Text(printable(f"rests on: {text}")) for text in _rests_on(ranked)]
        lines += [Text(printable(f"not tried: {text}")) for text in untried]
        lines.append(
            Text(printable(f"with intervals: headway whatif {shlex.quote(name)} {ranked[0].prediction.change}"))
        )
    return Group(*lines)


def _rests_on(ranked: "Sequence[Ranked]") -> dict[str, None]:
    """Return what any of the predictions rests on, once: not every assumption matters for every change, as without a GIL."""
    return dict.fromkeys(text for one in ranked for text in one.prediction.rests_on)


def _no_ranking(ranked: "Sequence[Ranked]", why: "Sequence[str]", name: str) -> RenderableType:
    """Return the reasons why changes are not ranked, and the commands that tell of the program and of one change."""
    change = ranked[0].prediction.change
    again = tuple(  # what the reasons tell of a role already
        f"{_UNCHANGED}, {one.role} {verb} "
        for one in ranked[0].prediction.roles
        for verb in ("has", "computes")
        if any(text.startswith(f"{_UNCHANGED}, {one.role} has ") for text in why)
    )
    others = [text for text in ranked[0].outside_all if not text.startswith(again)]
    lines = [
        *(f"outside the model: {text}" for text in (*why, *others)),
        *(f"rests on: {text}" for text in _rests_on(ranked)),
        f"whether the GIL slows the program down: headway report {shlex.quote(name)}",
        f"the figures of one change, and what they rest on: headway whatif {shlex.quote(name)} {change}",
    ]
    first = "no ranking: the replay without a change is far from the trace, so no effect of a change can be promised"
    return Group(Text(first, style="bold"), Text(""), *(Text(printable(line)) for line in lines))
