"""Puts the bound of the waiting that a trace cannot have into one line."""

from headway.traces.analysis.missing import Missing, Part, Unseen
from headway.traces.analysis.words import duration, number, share

__all__ = ["bound"]

_FELT = 0.01
"""A share of the wall time: waiting that cannot be more than this matters to nobody. Nothing unbounded is known to be less."""
_MOST_REASONS = 2
_WORTH = 0.1
"""A share of the bound: a further reason with less of it is not told."""


def bound(missing: Missing, wall_ns: int) -> str:
    """Return, in a line, how much waiting may be missing at most, and why; "" if that does not matter.

    Args:
        missing: The bound.
        wall_ns: The length of the window that it is for.
    """
    is_felt = missing.waited_ns + missing.most_ns >= _FELT * wall_ns
    if not missing.parts or (missing.bounded and not is_felt):
        return ""
    unbounded = [one for one in missing.parts if one.most_ns is None]
    bounded = [one for one in missing.parts if one.most_ns is not None]
    told = [one for one in bounded[:_MOST_REASONS] if (one.most_ns or 0) >= _WORTH * missing.most_ns]
    of_all = (
        f"{share(missing.most_ns, missing.waited_ns + missing.most_ns)} of the waiting ({duration(missing.most_ns)})"
    )
    most = of_all if missing.waited_ns else f"{duration(missing.most_ns)} of waiting"
    if not unbounded:
        return f"at most {most} may be missing: {_reasons(told)}"
    rest = f"; for other reasons, at most {most}" if missing.most_ns and is_felt else ""
    return f"nothing bounds the waiting that may be missing: {_reasons(unbounded)}{rest}"


def _reasons(parts: list[Part]) -> str:
    return ", ".join(_reason(one.why, one.count) for one in parts)


def _reason(why: Unseen, count: int) -> str:
    """Return a reason in words."""
    texts = {
        Unseen.WAY: f"the first moment of {number(count, 'wait')}",
        Unseen.MUTEX: f"{number(count, 'wait')} for the GIL's mutex, unwatched after one thread had used the GIL alone",
        Unseen.PREEMPTED: f"the begin of {number(count, 'wait')} after a release on request",
        Unseen.BEGIN: f"waits of {number(count, 'thread')} from before the recording",
        Unseen.DROPPED: f"{number(count, 'gap')} in the events of threads",
        Unseen.THREADS: f"{number(count, 'thread')} without an event in the file",
        Unseen.FORKED: f"{number(count, 'wait')} from before a forked child was recorded",
        Unseen.SPINS: f"the last spin of {number(count, 'thread')}",
        Unseen.DAMAGED: f"{number(count, 'byte')} damaged or missing",
        Unseen.UNPLACED: f"{number(count, 'event')} of unknown threads not recorded",
    }
    return texts[why]
