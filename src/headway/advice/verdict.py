"""Decides on a model, with how sure the decision is, and puts it into words."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

from headway.advice.examined import Function, Refusal
from headway.advice.holds import ALWAYS, Holds
from headway.advice.models import POOLS, SENDING, SHORT, SIMPLICITY
from headway.advice.racing import MARGIN
from headway.advice.shared import MOVES, excluded, lost, proviso, turns, wrong
from headway.advice.values import BreakEven, Contender, Outcome, Verdict
from headway.lab import stats
from headway.report.figures import number, ratio, seconds

__all__ = ["decide", "interval", "is_telling"]

_PERHAPS = 0.8
"""A speed-up whose most likely value is below this counts as none, unless its interval reaches `_STILL`, or is too wide to be shown."""
_STILL = 1.5

_HOPELESS = 0.2
"""A speed-up of several launches whose most likely value is below this counts as none, however little its interval tells."""

_POOLED_S = 5e-6
"""The least time that a pool costs per call: a submit, a queue, a wake-up and a future, in whatever it runs the call."""

_MORE = "more time (--budget) or a quieter machine"

_TELLING = 50
"""An interval whose ends are further apart than this factor is shown by its middle, and by its lower end if that is a gain."""

_HIT = 20
"""A call of a function that keeps results is a hit of its cache if the first call took this many times as long."""

_HITS = {
    "cache": "the measured calls are hits of a cache: for the cost of a miss, ask about the function without it (`__wrapped__`)",
    "helper's cache": (
        "the measured calls are hits of the cache of a function that they call: give inputs that differ as much as those of "
        "the program"
    ),
    "globals": "if the function keeps results in globals, the measured calls are hits of that cache: ask about it without one",
}
"""The lines about calls whose results earlier ones have kept, by the kind of the effect that tells it."""

_WAITS = 0.5
"""A share of the time: a function that computes for less of it mostly waits."""

_SURE_OF_NOTHING = 1 + MARGIN
"""A speed-up whose whole interval is below this counts as none."""


def interval(value: stats.Interval) -> str:
    """Return a speed-up with its interval as text: "3.1 [2.9, 3.3]"."""
    if _once(value):
        return f"{number(value.value)} (one launch)"
    if is_telling(value):
        return ratio(value)
    return f"about {number(value.value)}" + (f" (at least {number(value.low)})" if value.low > 1 else "")


def _once(value: stats.Interval) -> bool:
    """Tell whether a speed-up comes from one launch, which bounds nothing."""
    return not math.isfinite(value.high)


def is_telling(value: stats.Interval) -> bool:
    """Tell whether the ends of an interval are near enough to each other to tell something."""
    return value.high < _TELLING * value.low


def _measured(value: stats.Interval) -> str:
    """Return a speed-up with its interval, or with the words that one launch has none."""
    return f"{number(value.value)} in one launch only: no interval" if _once(value) else interval(value)


def _best(home: Sequence[Contender], between: Mapping[tuple[str, str], stats.Interval]) -> Contender:
    """Return the quickest of those that are no slower than serial calls, or a simpler one that does not differ from it.

    A gain that may be none is no reason for a model: it may be named in the answer, but it is not advised.
    """
    running = [
        one
        for one in home
        if one.call_s is not None and (one.model == "serial" or (one.speed_up and one.speed_up.low > 1))
    ]
    quickest = min(running, key=lambda one: one.call_s.value if one.call_s else math.inf)
    for model in SIMPLICITY:
        for one in running:
            if one.model != model:
                continue
            ratio = between.get((one.model, quickest.model))
            if one is quickest or (ratio is not None and ratio.high < 1 + MARGIN):
                return one
    return quickest


def decide(
    home: Sequence[Contender],
    elsewhere: Sequence[Contender],
    between: Mapping[tuple[str, str], stats.Interval],
    function: Function,
    holds: Holds | None,
    refusals: Sequence[Refusal],
    break_even: Sequence[BreakEven],
    interpreter: str,
    *,
    without: Mapping[str, str] | None = None,
) -> Verdict:
    """Return the verdict.

    Args:
        home: The models on the user's own interpreter, one call after the other first.
        elsewhere: The models on other interpreters.
        between: For (model, other), the ratio of the first one's time to the other's, on the user's interpreter.
        function: The function.
        holds: Who holds the GIL; None if it is not known.
        refusals: The models that cannot run the function.
        break_even: Where pools begin to pay.
        interpreter: The short name of the user's own interpreter.
        without: Models that were measured but cannot be advised, with the reason.
    """
    without = {**wrong(function), **(without or {})}
    advisable = [one for one in home if one.model not in without]
    pays = {one.model: one for one in break_even}
    failed = [one for one in home if one.call_s is None]
    outcome, best, named, sentence = _conclude(home, advisable, between, function, holds, pays)
    others = sorted(
        (one for one in home if one not in (best, named) and one.model != "serial" and one.speed_up is not None),
        key=_slowness,
    )
    worthy = [
        one
        for one in others
        if one.model not in without and one.speed_up is not None and one.speed_up.low >= _SURE_OF_NOTHING
    ]
    lines = [words for kind, words in _HITS.items() if _keeps_results(function, kind)]
    lines += lost((named or best).model, function)
    lines += [_runner_up(worthy, best, between)] if worthy else []
    if holds is not None and _takes_turns(best, holds):
        lines.append(
            f"two measurements disagree: the function holds the GIL for {holds.held:.0%} of its time, and "
            f"{'coroutines' if best.model == 'asyncio' else 'threads'} of such a function take turns"
        )
    unfit = [
        one for one in others if one.model in without and _looks_faster(one, sure=one.model not in wrong(function))
    ]
    lines += [
        _why(one, holds, function, pays)
        for one in others
        if one not in unfit and one.speed_up and one.speed_up.low < _SURE_OF_NOTHING
    ]
    lines += [
        f"{one.words}: {interval(one.speed_up)} times as fast, but {without[one.model]}"
        for one in unfit
        if one.speed_up
    ]
    lines += [f"{one.words}{': far slower, or hanging' * one.too_long or ' failed'}: {one.failed}" for one in failed]
    lines += _elsewhere([one for one in elsewhere if one.model not in without], home[0], best)
    lines += _flips(best, pays, function, refusals, interpreter)
    runner_up = worthy[0].words if worthy else ""
    perhaps = named.model if named is not None else ""
    said = tuple(filter(None, lines))
    return Verdict(outcome, best.model, best.words, best.speed_up, runner_up, sentence, said, perhaps)


@final
class _Conclusion(NamedTuple):
    """The outcome, the model that is advised, the one that may be faster (None: there is none), and the sentence."""

    outcome: Outcome
    best: Contender
    named: Contender | None
    sentence: str


def _conclude(
    home: Sequence[Contender],
    advisable: Sequence[Contender],
    between: Mapping[tuple[str, str], stats.Interval],
    function: Function,
    holds: Holds | None,
    pays: Mapping[str, BreakEven],
) -> _Conclusion:
    """Return the conclusion from the models that can be advised; the first of `home` is one call after the other."""
    best = _best(advisable, between)
    gain = best.speed_up
    if best.model == "serial" or gain is None:
        return _without_gain(home, best, advisable, function, holds)
    crowd = _a_crowd(best, advisable, function, holds)
    if crowd is not None:
        return _beside_a_crowd(home[0], best, gain, crowd)
    sentence = f"{best.words}: {interval(gain)} times as fast as serial calls{proviso(best.model, function)}"
    return _Conclusion("faster", best, None, sentence + _from_where(best, pays))


def _without_gain(
    home: Sequence[Contender],
    best: Contender,
    advisable: Sequence[Contender],
    function: Function,
    holds: Holds | None,
) -> _Conclusion:
    """Return the conclusion if no model is surely faster than serial calls; one of them may be."""
    doubtful = sorted((one for one in advisable if _may_be_faster(one, holds, function)), key=_slowness)
    if doubtful and doubtful[0].speed_up is not None:
        sentence = f"{_doubt(doubtful[0], doubtful[0].speed_up)}; {_MORE} would decide"
        return _Conclusion("unsure", best, doubtful[0], sentence)
    outcome, sentence = _no_gain(home, [one for one in home if one.call_s is None and not one.too_long])
    if any(_keeps_results(function, kind) for kind in ("cache", "helper's cache")):
        times = function.first_s / function.later_s
        sentence += f", where a cache answers: the first call took {times:,.0f} times as long"
    return _Conclusion(outcome, best, None, sentence)


def _beside_a_crowd(serial: Contender, best: Contender, gain: stats.Interval, crowd: Contender) -> _Conclusion:
    """Return the conclusion if the best model may win only because it had fewer calls at a time than `crowd`."""
    if crowd.speed_up is not None and crowd.speed_up.value > gain.value:
        sentence = (
            f"perhaps {crowd.words} ({_measured(crowd.speed_up)}), else {best.words}: {interval(gain)} times as fast as "
            f"serial calls; {_MORE} would decide"
        )
        return _Conclusion("unsure", serial, crowd, sentence)
    sentence = (
        f"perhaps {best.words}: {interval(gain)} times as fast as serial calls; but threads were measured with "
        f"{crowd.workers} calls at a time, which what the calls wait for may not serve: compare with --workers "
        f"{best.workers}"
    )
    return _Conclusion("unsure", serial, best, sentence)


def _no_gain(home: Sequence[Contender], failed: Sequence[Contender]) -> tuple[Outcome, str]:
    """Return the outcome and its sentence if no model is faster than serial calls."""
    if len(home) == 1:
        return "no difference", "serial calls: no other model can run the function"
    if failed and len(failed) == len(home) - 1:
        return "others failed", "serial calls: every other model failed"
    if failed:
        return "no difference", "serial calls: no model that ran is faster here, and others failed"
    return "no difference", "serial calls: no model is faster here"


def _looks_faster(one: Contender, *, sure: bool) -> bool:
    """Tell whether a model's figure is a gain: for certain, or at a glance."""
    return one.speed_up is not None and (one.speed_up.low >= _SURE_OF_NOTHING if sure else one.speed_up.value > 1)


def _keeps_results(function: Function, effect: str) -> bool:
    """Tell whether the measured calls found results that earlier ones have kept, as far as a kind of effect tells it."""
    return effect in {kind for kind, _ in function.effects} and function.first_s >= _HIT * function.later_s


def _doubt(one: Contender, speed_up: stats.Interval) -> str:
    if speed_up.value > 1:
        # No "serial calls, as far as measured": the figure may be 40.
        return f"not decided: {one.words} may be faster than serial calls ({_measured(speed_up)})"
    return (
        f"serial calls, as far as measured: the figure of {one.words} ({_measured(speed_up)}) does not rule out a gain"
    )


def _slowness(one: Contender) -> float:
    return -one.speed_up.value if one.speed_up else 0.0


def _may_be_faster(one: Contender, holds: Holds | None, function: Function) -> bool:
    """Tell whether a model, though its gain is not certain, may be faster than serial calls by the margin that counts."""
    if one.speed_up is None or one.speed_up.high <= _SURE_OF_NOTHING or _in_turn(one, holds, function):
        return False
    costs_s = max(_POOLED_S, function.pickle_s * (one.model in SENDING)) if one.model in POOLS else 0.0
    if costs_s >= function.call_s and one.speed_up.value < _PERHAPS:
        # The process that has the calls spends as long on handing out a call as the call takes: no launch can gain.
        return False
    return _counts(one.speed_up)


def _counts(speed_up: stats.Interval) -> bool:
    """Tell whether a gain that is not certain is worth more time."""
    if _once(speed_up):
        # Other work may have had the cores, so a figure of 0.1 rules out as little as one of 0.9.
        return True
    may_be = speed_up.high >= _STILL or not is_telling(speed_up)
    return speed_up.value > _PERHAPS or (may_be and speed_up.value > _HOPELESS)


def _a_crowd(
    best: Contender, advisable: Sequence[Contender], function: Function, holds: Holds | None
) -> Contender | None:
    """Return a model that leaves the advice open, if processes may win only because they have fewer calls at a time.

    A server with a short queue, a pool of connections or a disk serves only so many of the calls that wait. It is the
    quickest of the models that may be faster still, else the threads; None if no model had more calls at a time.
    """
    if best.model not in POOLS or best.model == "threads" or function.cpu_share >= _WAITS:
        return None
    # If launches failed, the calls disturb each other: fewer of them at a time do so, too.
    threads = [
        one
        for one in advisable
        if one.model == "threads"
        and one.workers > best.workers
        and not one.failures
        and turns(one.model, function) is None
        and not _takes_turns(one, holds)
    ]
    # An event loop has all calls at a time.
    if not threads and all(one.model != "asyncio" for one in advisable):
        return None
    undecided = (
        one
        for one in advisable
        if _may_be_faster(one, holds, function)
        and one.speed_up
        and one.speed_up.low <= 1
        and _slowness(one) < _slowness(best)
    )
    return next(iter([*sorted(undecided, key=_slowness), *threads]), None)


def _takes_turns(one: Contender, holds: Holds | None) -> bool:
    """Tell whether a model cannot help, whatever its undecided gain: threads or coroutines that hold the GIL all the time."""
    return one.model in {"threads", "asyncio"} and holds is not None and holds.held > ALWAYS


def _in_turn(one: Contender, holds: Holds | None, function: Function) -> bool:
    """Tell whether a model cannot help because its calls take turns at the GIL, or at a lock of the user's."""
    return _takes_turns(one, holds) or excluded(one.model, function)


def _from_where(best: Contender, pays: Mapping[str, BreakEven]) -> str:
    found = pays.get(best.model)
    parts = []
    if found is not None and found.size_s is not None:
        parts.append(f"from {seconds(found.size_s.value)} per task")
    if found is not None and found.tasks is not None and found.tasks.value > 2:
        parts.append(f"from {math.ceil(found.tasks.value)} tasks")
    return f"; it pays {' and '.join(parts)} on" if parts else ""


def _runner_up(others: Sequence[Contender], best: Contender, between: Mapping[tuple[str, str], stats.Interval]) -> str:
    one = others[0]
    if one.speed_up is None:
        return ""
    ratio = between.get((one.model, best.model))
    same = ratio is not None and best.model != "serial" and ratio.low <= 1 + MARGIN and ratio.high >= 1 / (1 + MARGIN)
    beside = "; the measurements show no difference" if same else ""
    return f"runner-up: {one.words}, {interval(one.speed_up)} times as fast{beside}"


def _why(one: Contender, holds: Holds | None, function: Function, pays: Mapping[str, BreakEven]) -> str:
    """Return the reason, from the measurements, why a model gives nothing."""
    if one.speed_up is None:
        return ""
    is_one = one.model == "asyncio"  # the words of the others have a number of workers
    in_turn, lock = _in_turn(one, holds, function), turns(one.model, function)
    if _once(one.speed_up) and not in_turn:
        return f"{one.words}: {number(one.speed_up.value)} times (one launch only: no interval)"
    if one.speed_up.low > 1 and not in_turn:
        return f"{one.words} {'shows' if is_one else 'show'} a gain, perhaps a small one ({interval(one.speed_up)})"
    if one.speed_up.high > _SURE_OF_NOTHING and not in_turn:
        if one.speed_up.value >= _STILL:
            return f"{one.words}: perhaps a gain of {interval(one.speed_up)}; {_MORE} would decide"
        # A figure that counts as none leaves the verdict as it is: nothing is left to decide then.
        decides = f": {_MORE} would decide" if _counts(one.speed_up) else ""
        return f"{one.words} {'shows' if is_one else 'show'} no clear gain ({interval(one.speed_up)}){decides}"
    if one.speed_up.high > _SURE_OF_NOTHING:
        # The profile rules a gain out, and not the figure, which may even be well above 1.
        takes, whose = ("takes", "its") if is_one else ("take", "their")
        said = f"{one.words} {takes} turns, so {whose} figure ({_measured(one.speed_up)}) is no gain"
    else:
        none, slower = ("brings no gain", "is slower") if is_one else ("bring no gain", "are slower")
        gives = none if one.speed_up.high > 1 / (1 + MARGIN) else slower
        said = f"{one.words} {gives} ({_measured(one.speed_up)})"
    if lock is not None:
        said += f": the calls take turns at {lock.words}, which is held for {lock.share:.0%} of their time"
    elif one.model in {"threads", "asyncio"} and holds is not None and holds.held > 0.5:
        said += f": the function holds the GIL for {holds.held:.0%} of its time"
        longest = holds.longest
        if longest is not None:
            said += f"; the longest C operation that keeps it is {longest.words}, {seconds(longest.longest_s)}"
    elif (found := pays.get(one.model)) is not None and found.size_s is not None:
        said += f": they pay only if a task takes at least {seconds(found.size_s.value)}"
    return said


def _elsewhere(elsewhere: Sequence[Contender], serial: Contender, best: Contender) -> list[str]:
    lines = []
    for name in dict.fromkeys(one.interpreter for one in elsewhere):
        own = [one for one in elsewhere if one.interpreter == name and one.speed_up is not None]
        quickest = max(own, key=lambda one: one.speed_up.value if one.speed_up else 0.0, default=None)
        if quickest is None or quickest.speed_up is None:
            continue
        than = f", compared with {best.speed_up.value:.3g} for {best.words} here" if best.speed_up is not None else ""
        lines.append(
            f"on {name}, {quickest.words}: {interval(quickest.speed_up)} times as fast as serial calls on "
            f"{serial.interpreter}{than}"
        )
    return lines


def _flips(
    best: Contender,
    pays: Mapping[str, BreakEven],
    function: Function,
    refusals: Sequence[Refusal],
    interpreter: str,
) -> list[str]:
    """Return the changes that would turn the verdict."""
    found = pays.get(best.model)
    lines = []
    if found is not None and found.tasks is not None and found.tasks.value > 2:
        lines.append(
            f"the answer changes if the pool is started anew for fewer than {math.ceil(found.tasks.value)} calls: "
            f"its start takes {seconds(best.start_s)}"
        )
    if (
        found is not None
        and found.size_s is not None
        and found.size_s.low > function.call_s / 3
        and best.model != "serial"
    ):
        lines.append(
            f"the answer changes with smaller inputs: a call takes {seconds(function.call_s)}, and must take at least "
            f"{seconds(found.size_s.value)}"
        )
    if best.model == "serial":
        lines += [
            f"the answer changes with larger inputs: {SHORT[one.model]} pay from {seconds(one.size_s.value)} per task on; a call takes "
            f"{seconds(function.call_s)}"
            for one in pays.values()
            if one.size_s is not None and one.size_s.low > function.call_s
        ]
    blocked = [one for one in refusals if one.module and one.interpreter == interpreter]
    lines += [f"{SHORT[one.model]} cannot run it: {one.reason}" for one in blocked if one.model in SHORT]
    # Only processes are advised for calls that change the working directory, and they share neither that nor objects.
    told = {MOVES, "arguments", "globals"} if best.model in SENDING else {MOVES}
    kinds = ", ".join(dict.fromkeys(kind for kind, _ in function.effects if kind not in told))
    if kinds and best.model != "serial":
        lines.append(f"check the side effects ({kinds}): concurrent calls may behave differently")
    return lines
