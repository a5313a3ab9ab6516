"""Who holds the GIL while the function runs, and which calls of C let go of it: what `strangers.holds` saw, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

from headway.advice.asking import ask
from headway.advice.examined import Function, Place
from headway.advice.target import Target
from headway.errors import NativeError
from headway.host.keeper import Keeper
from headway.native import library_path

__all__ = ["ALWAYS", "Holds", "Releases", "Spot", "look", "released_of"]

Releases = Literal["yes", "no", "in part"]

ALWAYS = 0.95
"""Of its time, with the GIL held: threads of such a function take turns."""

_YES, _NO = 0.9, 0.1
"""Of a call's time: with so much of it without the GIL it lets go of it, with so little it does not."""

_KEPT_S = 0.0005
"""A call of C that keeps the GIL for less is nothing that another thread would notice."""

_TELLING = 0.01
"""Of all the time, what a place must have to be named."""

_LIMIT_S = 60.0


@final
@dataclass(frozen=True)
class Spot:
    """A place in the code and what its time went to, over the calls that were looked at.

    Attributes:
        at: The innermost line, "encoder.py:258".
        by: The line of the function's own file that led there, where that is another one; "" else.
        call: The call of C, "re.Pattern.sub"; "" for a line of Python and what it does by operators.
        calls: How many.
        share: Of all the time that was looked at.
        released: Of its own time, the share without the GIL.
        longest_s: The longest that one call kept the GIL.
    """

    at: str
    by: str
    call: str
    calls: int
    share: float
    released: float
    longest_s: float

    @property
    def releases(self) -> Releases:
        """Whether it lets go of the GIL."""
        return released_of(self.released)

    @property
    def words(self) -> str:
        """Names it: "app.py:17 re.Pattern.sub (__init__.py:185)"."""
        return " ".join(filter(None, (self.by or self.at, self.call, f"({self.at})" if self.by else "")))


def released_of(share: float) -> Releases:
    """Return what a share of time without the GIL is called."""
    return "yes" if share >= _YES else "no" if share <= _NO else "in part"


@final
@dataclass(frozen=True)
class Holds:
    """Who holds the GIL.

    Attributes:
        held: Of the calls' time, with the GIL held; measured over calls that nothing looks at.
        computes_without: Of it, computing without the GIL.
        waits: Of it, asleep.
        call_s: What a call took meanwhile.
        spots: The places that took most, calls of C and lines of Python.
        whole: One call was looked at from its begin to its end; else its begin only.
        stretch_s: How long it computes or waits without the GIL at a time, in the mean over calls of C that let go of it.
    """

    held: float
    computes_without: float
    waits: float
    call_s: float
    spots: tuple[Spot, ...]
    whole: bool
    stretch_s: float = 0.0

    @property
    def releases(self) -> Releases:
        """Whether the function lets go of the GIL."""
        return released_of(1 - self.held)

    @property
    def longest(self) -> Spot | None:
        """The operation in C that keeps the GIL longest; None where none does so for long."""
        kept = [one for one in self.spots if one.longest_s >= _KEPT_S]
        return max(kept, key=lambda one: one.longest_s, default=None)


def look(
    target: Target, place: Place, function: Function, cores: Sequence[int], *, keeper: Keeper | None = None
) -> Holds | str:
    """Look at the function on an interpreter with a GIL; return why not, where that cannot be."""
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
    )
    seen = answer["holds"]
    if answer.ended or not seen or seen.get("error"):
        return str(seen.get("error") or answer.ended or "the function was not profiled")
    wall_s = max(seen["wall_s"], 1e-9)
    held = min(1.0, seen["held_s"] / wall_s)
    waits = max(0.0, 1.0 - max(seen["cpu_s"], seen["held_s"]) / wall_s)
    return Holds(
        held,
        max(0.0, 1.0 - held - waits),
        waits,
        wall_s,
        _spots(seen["places"], function.file),
        bool(seen["whole"]),
        _stretch_s(seen["places"]),
    )


def _stretch_s(places: Sequence[Mapping[str, Any]]) -> float:
    letting_go = [one for one in places if one["call"] and one["held_s"] < (1 - _NO) * one["wall_s"]]
    calls = sum(one["calls"] for one in letting_go)
    return sum(one["wall_s"] - one["held_s"] for one in letting_go) / calls if calls else 0.0


def _spots(places: Sequence[Mapping[str, Any]], own: str) -> tuple[Spot, ...]:
    total_s = sum(one["wall_s"] for one in places) or 1.0
    found = []
    for one in places:
        trail = [place for place in one["trail"] if own and place.rpartition(":")[0] == own]
        at = f"{one['file']}:{one['line']}"
        by = _short(trail[0]) if trail and trail[0] != at else ""
        spot = Spot(
            at=_short(at),
            by=by,
            call=one["call"],
            calls=one["calls"],
            share=one["wall_s"] / total_s,
            released=1 - one["held_s"] / one["wall_s"] if one["wall_s"] else 0.0,
            longest_s=one["longest_s"],
        )
        if spot.share >= _TELLING or spot.longest_s >= _KEPT_S:
            found.append(spot)
    return tuple(found)


def _short(place: str) -> str:
    path, _, line = place.rpartition(":")
    return f"{Path(path).name}:{line}"
