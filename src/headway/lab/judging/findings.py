"""Findings of a run in plain words: outcomes of claims, the fastest model, and reversals of the order of series.

A finding is a fact with its evidence. A claim's advice is given only if the claim is supported, no interpreter by
itself refutes it, and each piece of evidence has more than one launch. A claim that nothing decides gives no finding.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

from headway.lab import stats
from headway.lab.design import Experiment
from headway.lab.judging.crossover import Curve, Point, Winner, curves, roughly, sized, winners
from headway.lab.judging.evidence import Evidence
from headway.lab.judging.figures import UNCERTAIN, number, ratio, tells_nothing
from headway.lab.judging.verdicts import Verdict, by_claim, speaking
from headway.lab.kept.results import Run

__all__ = ["Finding", "figure", "findings", "spanned"]


@final
@dataclass(frozen=True)
class Finding:
    """One finding of the run.

    Attributes:
        experiment: The experiment's name.
        claim: The id of the claim that the finding follows from; "" where it follows from none.
        text: The finding in plain words.
        evidence: The figures behind it.
        holds_on: Short names of the interpreters that show it by themselves.
        fails_on: Short names of the interpreters that show the opposite.
        advice: The recommended action; "" where the evidence does not support one.
    """

    experiment: str
    claim: str
    text: str
    evidence: str
    holds_on: tuple[str, ...] = ()
    fails_on: tuple[str, ...] = ()
    advice: str = ""


def figure(one: Evidence) -> str:
    """Return a measured figure as text: a ratio with its interval, or a count."""
    if one.interval is not None:
        return ratio(one.interval)
    return f"{one.count:,.0f}" if one.count is not None else "-"


def spanned(run: Run, ids: Iterable[str]) -> str:
    """Return interpreters' names: `3.12 to 3.15` where none of their kind between is left out, else one by one."""
    wanted = set(ids)
    chosen = [key for key in run.interpreters if key in wanted]
    parts = []
    for free_threaded in (False, True):
        kind = [key for key, one in run.interpreters.items() if one.free_threaded == free_threaded]
        places = [kind.index(key) for key in chosen if key in kind]
        if len(places) > 2 and places == list(range(places[0], places[-1] + 1)):
            parts.append(f"{run.names[kind[places[0]]]} to {run.names[kind[places[-1]]]}")
        else:
            parts += [run.names[kind[place]] for place in places]
    return _listed(parts)


def findings(run: Run, verdicts: Sequence[Verdict]) -> list[Finding]:
    """Return the findings of the run by experiment: its claims, the fastest model, crossings, and the GIL."""
    groups = list(by_claim(verdicts).values())
    found: list[Finding] = []
    for experiment in run.experiments():
        of_claims = (_of_claim(run, group) for group in groups if group[0].experiment == experiment.name)
        found += [one for one in of_claims if one is not None]
        found += _of_winners(run, experiment, list(winners(run, experiment)))
        found += _of_curves(run, experiment, list(curves(run, experiment)))
        found += _of_gil(run, experiment)
    return found


def _of_gil(run: Run, experiment: Experiment) -> list[Finding]:
    """Return the series that ran with a GIL on interpreters without one, because an import switched it on."""
    back: dict[str, list[str]] = {}
    for result in run.of(experiment.name):
        interpreter = run.interpreters.get(result.cell.interpreter)
        if interpreter is not None and not interpreter.gil_enabled and result.gil_came_back():
            back.setdefault(result.cell.interpreter, []).append(result.cell.series)
    return [
        Finding(
            experiment.name,
            "",
            f"An import switches the GIL of {run.names[key]} on again: the interpreter is then not free-threaded.",
            f"{_listed(list(dict.fromkeys(series)))} ran with the GIL on",
            advice="Use a build of the library that declares support for running without the GIL (Py_mod_gil), or leave the library out.",
        )
        for key, series in back.items()
    ]


def _of_claim(run: Run, verdicts: Sequence[Verdict]) -> Finding | None:
    """Return the finding of one claim; None if the claim is undecided, or if its outcome is no news."""
    whole, claim = speaking(verdicts), verdicts[0].claim
    one = whole.deciding
    text = {"supported": claim.says, "refuted": claim.denies}.get(whole.outcome, "")
    if not text or one is None:
        return None
    singles = [verdict for verdict in verdicts if verdict.interpreter in run.interpreters]
    opposite = "refuted" if whole.outcome == "supported" else "supported"
    holds = [verdict.interpreter for verdict in singles if verdict.outcome == whole.outcome]
    fails = [verdict.interpreter for verdict in singles if verdict.outcome == opposite]
    measured = [verdict.interpreter for verdict in singles if verdict.outcome != "not measured"]
    parts = [f"{one.what} {figure(one)}"]
    if whole.interpreter == "all":
        behind = {run.results[key].cell.interpreter for key in one.cells}
        parts[0] += f", mean over {spanned(run, behind)}"
        if holds and len(holds) < len(measured):
            parts.append(f"separately on {spanned(run, holds)}")
    elif whole.interpreter in run.interpreters:
        parts[0] += f" on {run.names[whole.interpreter]}"
        others = [key for key in holds if key != whole.interpreter]
        if others:
            parts.append(f"also on {spanned(run, others)}")
    if fails:
        parts.append(f"not on {spanned(run, fails)}")
    if one.launches < 2:
        parts.append("from one launch")
    several_launches = all(piece.launches > 1 for piece in whole.evidence)
    advised = whole.outcome == "supported" and not fails and several_launches
    return Finding(
        whole.experiment,
        claim.id,
        text.replace("{ratio}", figure(one)).replace("{inverse}", _inverse(one)),
        "; ".join(parts),
        tuple(run.names[key] for key in holds),
        tuple(run.names[key] for key in fails),
        claim.advice if advised else "",
    )


def _inverse(one: Evidence) -> str:
    """Return the inverse of a ratio: `0.50 [0.40-0.63]` gives `2.00 [1.60-2.50]`."""
    if one.interval is None:
        return figure(one)
    # A decided ratio has bounds on both sides, and neither is 0.
    value, low, high = one.interval.value, one.interval.low, one.interval.high
    return ratio(stats.Interval(1 / value, 1 / high, 1 / low, one.interval.method))


def _listed(words: Sequence[str], last: str = "and") -> str:
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _of_winners(run: Run, experiment: Experiment, won: Sequence[Winner]) -> list[Finding]:
    """Return the fastest models, with a GIL and without, over settings: one finding for all settings."""
    said: dict[str, list[str]] = {}
    for free_threaded, name in ((False, "with a GIL"), (True, "without a GIL")):
        settings: dict[str, list[str]] = {}
        for one in won:
            if one.free_threaded == free_threaded:
                settings.setdefault(_winners_named(one, experiment.baseline), []).append(one.setting)
        # The settings are named only if the answers differ between them.
        clauses = [names + f" ({'; '.join(where)})" * (len(settings) > 1) for names, where in settings.items()]
        if clauses:
            said.setdefault(", ".join(clauses), []).append(name)
    if not said:
        return []
    text = "; ".join(f"{_listed(names)}: {clauses}" for clauses, names in said.items())
    evidence = [_shown(run, experiment, one, one.ratio) for one in won if one.ratio is not None]
    unbeaten = [one for one in won if one.ratio is None]
    if unbeaten:
        where = spanned(run, (key for one in unbeaten for key in one.interpreters))
        evidence.append(f"{'elsewhere ' if evidence else ''}no interval lies below 1, on {where}")
    models = "model" if not run.settings.models else "of the measured models"  # --model has left out others
    return [Finding(experiment.name, "", f"fastest {models} {text}", "; ".join(evidence))]


def _winners_named(one: Winner, baseline: str) -> str:
    """Return the names of the fastest series; those that a wide interval leaves open are no winners."""
    if one.series:
        return _listed(sorted([one.series, *one.like]), "or")
    if one.unclear:
        return f"none is shown to be faster than {baseline}, though {_listed(sorted(one.unclear), 'or')} may be"
    return f"none is faster than {baseline}"


def _shown(run: Run, experiment: Experiment, one: Winner, interval: stats.Interval) -> str:
    """Return evidence: `threads 0.49 [0.33-0.74] of serial, on 3.13t, not told apart from processes-spawn`."""
    at = f", {one.setting}," if one.setting else ""
    where = f"{'mean over' if len(one.interpreters) > 1 else 'on'} {spanned(run, one.interpreters)}"
    others = sorted([*one.like, *one.unclear])
    like = f", not distinguishable from {_listed(others)}" if others else ""
    return f"{one.series}{at} {ratio(interval)} of {experiment.baseline}, {where}{like}"


def _of_curves(run: Run, experiment: Experiment, found: Sequence[Curve]) -> Iterator[Finding]:
    """Yield where each series crosses its baseline: one finding per series and setting, over interpreters.

    A series of which no size is decided, on any interpreter, gives none.
    """
    grouped: dict[tuple[str, str], list[Curve]] = {}
    for curve in found:
        grouped.setdefault((curve.series, curve.setting), []).append(curve)
    for (series, setting), together in grouped.items():
        if not any(point.side for curve in together for point in curve.points):
            continue
        said: dict[str, list[str]] = {}
        for curve in together:
            said.setdefault(_course(curve, experiment.sweep), []).append(curve.interpreter)
        courses = [f"on {spanned(run, where)} {course}" for course, where in said.items()]
        against = f"{series} compared with {experiment.baseline}" + (f", {setting}" if setting else "")
        evidence = [_ends(run, curve, experiment.sweep) for curve in together]
        yield Finding(experiment.name, "", f"{against}: {'; '.join(courses)}", "; ".join(evidence))


_WORDS = {1: "ahead", -1: "behind"}
_CLOSE = 1.1
"""An interval between this and its inverse is known, and too close to 1; a wider one that contains 1 is not known."""


def _course(curve: Curve, sweep: str) -> str:
    """Return a curve's course: `behind up to about 512 KiB (between 256 KiB and 1 MiB), then ahead`."""
    crossings = curve.crossings()
    first, last = (sized(point.size, sweep) for point in (curve.points[0], curve.points[-1]))
    if crossings:
        course = ", then ".join(
            f"{_WORDS[one.low.side]} up to about {roughly(one.about, sweep)} "
            f"(between {sized(one.low.size, sweep)} and {sized(one.high.size, sweep)})"
            for one in crossings
        )
        outside = [
            point
            for point in curve.points
            if not point.side and not any(one.low.size < point.size < one.high.size for one in crossings)
        ]
        return ", ".join([f"{course}, then {_WORDS[crossings[-1].high.side]}", *_open(outside, sweep)])
    unsure = [point for point in curve.points if not point.side]
    if len(unsure) == len(curve.points):
        words = {_open_word(point) for point in unsure}
        return f"{words.pop() if len(words) == 1 else 'not decided'} at every size from {first} to {last}"
    side = next(point.side for point in curve.points if point.side)
    if not unsure:
        return f"the order changes at no size from {first} to {last}: {_WORDS[side]} at every size"
    sure = [sized(point.size, sweep) for point in curve.points if point.side]
    return ", ".join([f"{_WORDS[side]} at {_listed(sure)}", *_open(unsure, sweep)])


def _open_word(point: Point) -> str:
    is_close = point.ratio.low > 1 / _CLOSE and point.ratio.high < _CLOSE
    return "too close to decide" if is_close else "not decided"


def _open(points: Sequence[Point], sweep: str) -> Iterator[str]:
    """Yield what the run tells of the sizes at which it decides neither side."""
    said: dict[str, list[str]] = {}
    for point in points:
        said.setdefault(_open_word(point), []).append(sized(point.size, sweep))
    yield from (f"{word} at {_listed(sizes)}" for word, sizes in said.items())


def _ends(run: Run, curve: Curve, sweep: str) -> str:
    """Return the ratios on both sides of every crossing, or at both ends of a curve without crossings."""
    shown = [point for one in curve.crossings() for point in (one.low, one.high)] or [curve.points[0], curve.points[-1]]
    ratios = ", ".join(
        f"{_told(point.ratio)} at {sized(point.size, sweep)}"
        for point in sorted(set(shown), key=lambda point: point.size)
    )
    return f"{run.names[curve.interpreter]} {ratios}"


def _told(interval: stats.Interval) -> str:
    """Return a ratio; an interval whose ends are no figures is replaced by a remark."""
    return f"{number(interval.value)}, {UNCERTAIN}," if tells_nothing(interval) else ratio(interval)
