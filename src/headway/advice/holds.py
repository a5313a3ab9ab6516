"""Finds who holds the GIL while the function runs, and which calls of C release it (the agent's `strangers.holds`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

from headway.advice.asking import ask
from headway.advice.examined import Function, Place
from headway.advice.target import Target
from headway.errors import NativeError
from headway.host.keeper import Keeper
from headway.library import library_path

__all__ = ["ALWAYS", "Holds", "Releases", "Spot", "look", "released_of"]

Releases = Literal["yes", "no", "in part"]

ALWAYS = 0.95
"""The share of its time for which a function holds the GIL; beyond it, threads of the function take turns."""

_YES, _NO = 0.9, 0.1
"""Shares of a call's time without the GIL: from `_YES` on it releases the GIL, up to `_NO` it does not."""

_KEPT_S = 0.0005
"""A call of C that keeps the GIL for less than this would not be noticed by another thread."""

_USUAL = 20
"""A line of Python has an operator that keeps the GIL if its longest hold is at most this many times a visit's mean time.

A longer one is a pause of the machine: `j = i` takes a microsecond, and once in a million times 5 ms.
"""

_ROUNDING = 1e-9
"""A part of a sum of floating-point numbers that is no larger than this is none."""

_TELLING = 0.01
"""The least share of all time for a place to be named."""

_LIMIT_S = 60.0


@final
@dataclass(frozen=True)
class Spot:
    """A place in the code and how its time was spent, over the calls that were looked at.

    Attributes:
        at: The innermost line, "encoder.py:258"; "" if the place is the function itself, in C.
        by: The line of the function's own file that led there; "" if it is the same line.
        call: The call of C, "re.Pattern.sub"; "" for a line of Python with its operators.
        calls: The number of calls.
        share: The share of the calls' time; if a whole call was looked at, scaled to the time with and without the GIL.
        released: The share of the place's own time without the GIL; None if the profile did not reach the place, so that
            only its share is known.
        longest_s: The longest time for which one call kept the GIL, without waits for a core.
        visit_s: The mean time of a call, or of a visit of the line.
    """

    at: str
    by: str
    call: str
    calls: int
    share: float
    released: float | None
    longest_s: float
    visit_s: float = 0.0

    @property
    def releases(self) -> Releases | None:
        """Whether the place releases the GIL; None if that is not known."""
        return released_of(self.released) if self.released is not None else None

    @property
    def words(self) -> str:
        """The name of the place: "app.py:17 re.Pattern.sub (__init__.py:185)"."""
        return " ".join(filter(None, (self.by or self.at, self.call, f"({self.at})" if self.by else "")))


def released_of(share: float) -> Releases:
    """Return the word for a share of time without the GIL."""
    return "yes" if share >= _YES else "no" if share <= _NO else "in part"


@final
@dataclass(frozen=True)
class Holds:
    """The function's time with and without the GIL.

    Attributes:
        held: The share of the calls' time with the GIL held, measured over calls that nothing looks at.
        computes_without: The share of the time that it computes without the GIL.
        waits: The share of the time asleep.
        call_s: The time of a call during this measurement, without waits for a core.
        spots: The places that took most, calls of C and lines of Python.
        whole: True if one call was looked at from begin to end; False if only its begin was.
        stretch_s: The mean time without the GIL, computing or waiting, over the calls of C that release it.
        samples: The number of samples from which the shares of the places are; 0 if they are from the profile.
    """

    held: float
    computes_without: float
    waits: float
    call_s: float
    spots: tuple[Spot, ...]
    whole: bool
    stretch_s: float = 0.0
    samples: int = 0

    @property
    def releases(self) -> Releases:
        """Whether the function releases the GIL."""
        return released_of(1 - self.held)

    @property
    def longest(self) -> Spot | None:
        """The operation in C that keeps the GIL longest; None if none keeps it for long."""
        kept = [
            one
            for one in self.spots
            if one.longest_s >= _KEPT_S and (one.call or one.longest_s <= _USUAL * one.visit_s)
        ]
        return max(kept, key=lambda one: one.longest_s, default=None)


def look(
    target: Target, place: Place, function: Function, cores: Sequence[int], *, keeper: Keeper | None = None
) -> Holds | str:
    """Look at the function on an interpreter with a GIL; return the reason if that is not possible."""
    try:
        library = str(library_path())
    except NativeError as error:
        return error.message
    answer = ask(
        "holds",
        target,
        place.interpreter.executable,
        cores,
        limit_s=_LIMIT_S + 4 * function.call_s,
        paths=place.paths,
        keeper=keeper,
        library=library,
        kind=function.kind,
        fresh=function.changes_arguments,
    )
    seen = answer["holds"]
    if answer.ended or not seen or seen.get("error"):
        return str(seen.get("error") or answer.ended or "the function was not profiled")
    own_s, held_s, computes_s = _own(seen)
    return Holds(
        held_s / own_s,
        computes_s / own_s,
        max(0.0, 1.0 - (held_s + computes_s) / own_s),
        own_s,
        _spots(seen["places"], seen["sums"], function.file, held_s / own_s if seen["whole"] else None),
        bool(seen["whole"]),
        _stretch_s(seen["places"]),
        seen.get("samples", 0),
    )


def _own(seen: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return a call's time, that with the GIL held, and that computing without it, as on a machine that is not busy.

    On a busy machine a call also waits for a core, which is neither work nor waiting of the function's own. The thread
    holds the GIL in such a wait if it held it as it lost the core. It held none if it had slept, and found no core.
    """
    queued_s = max(0.0, min(seen["queued_s"], seen["wall_s"] - seen["cpu_s"]))
    own_s = max(seen["wall_s"] - queued_s, 1e-9)
    # A call of C may keep the GIL while it sleeps.
    busy_s = min(own_s, max(seen["cpu_s"], seen["held_s"] - queued_s))
    lost_s = queued_s * seen["preempted"]
    held_s = min(busy_s, seen["held_s"] * busy_s / (busy_s + lost_s)) if busy_s else 0.0
    return own_s, held_s, busy_s - held_s


def _stretch_s(places: Sequence[Mapping[str, Any]]) -> float:
    letting_go = [one for one in places if one["call"] and one["held_s"] < (1 - _NO) * one["wall_s"]]
    calls = sum(one["calls"] for one in letting_go)
    return sum(one["wall_s"] - one["held_s"] for one in letting_go) / calls if calls else 0.0


def _shares(places: Sequence[Mapping[str, Any]], sums: Mapping[str, float], held: float | None) -> list[float]:
    """Return the share of the calls' time that each place has, if the GIL is held for the share `held` of that time.

    `sums` is over all places, and `places` are those that took most.

    The samples of calls without observation give the shares, if there are samples. Else the profile does, which makes
    lines of Python many times as long, and waits not at all: a function that waits for a third of its time seems to wait
    for 2 % of it. So the time with the GIL and that without it are scaled to the measured ones, unless `held` is None, as
    for a profile of a call's begin.
    """
    is_sampled = all(one.get("share") is not None for one in places)
    took: list[float] = [one["share" if is_sampled else "wall_s"] for one in places]
    if held is None and is_sampled:
        return took
    whole, without = sums["took"], sums["released"]
    kept = whole - without
    if held is None or min(kept, without) <= _ROUNDING * whole:
        return [one / (whole or 1.0) for one in took]
    scales = [held / kept * (1 - free) + (1 - held) / without * free for free in map(_free, places)]
    return [one * scale for one, scale in zip(took, scales, strict=True)]


def _free(place: Mapping[str, Any]) -> float:
    """Return the share of a place's own time without the GIL."""
    return float(1 - place["held_s"] / place["wall_s"]) if place["wall_s"] else 0.0


def _spots(
    places: Sequence[Mapping[str, Any]], sums: Mapping[str, float], own: str, held: float | None
) -> tuple[Spot, ...]:
    found = []
    for one, share in zip(places, _shares(places, sums, held), strict=True):
        trail = [place for place in one["trail"] if own and place.rpartition(":")[0] == own]
        at = f"{one['file']}:{one['line']}"
        by = _short(trail[0]) if trail and trail[0] != at else ""
        spot = Spot(
            at=_short(at) if one["file"] else "",
            by=by,
            call=one["call"],
            calls=one["calls"],
            share=share,
            released=_free(one) if one["reached"] else None,
            longest_s=one["longest_s"],
            visit_s=one["wall_s"] / max(1, one["calls"]),
        )
        if spot.share >= _TELLING or spot.longest_s >= _KEPT_S:
            found.append(spot)
    return tuple(sorted(found, key=lambda one: -one.share))


def _short(place: str) -> str:
    path, _, line = place.rpartition(":")
    return f"{Path(path).name}:{line}"
