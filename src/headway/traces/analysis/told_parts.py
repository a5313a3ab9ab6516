"""The parts of a stall as they were told while it went on: at its end, the events of that time may be overwritten."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self, final

from headway.traces.analysis.doing import Doing
from headway.traces.analysis.holders import LockHold
from headway.traces.analysis.stall_model import Cause, Kept, Part, Stall
from headway.traces.frames import Frame
from headway.traces.model import Trace

__all__ = ["ToldParts", "told_json"]

_DEPTH = 32
"""The frames of a stack that are kept: those that the words of a part need."""


@final
class ToldParts(NamedTuple):
    """The parts of a stall's begin, up to a time."""

    until_ns: int
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, trace: Trace, text: str) -> Self:
        """Return the parts in a text of `told_json`, from another recording of the same process."""
        indices = {one.serial: number for number, one in enumerate(trace.threads)}
        kept = json.loads(text)
        return cls(kept["until_ns"], tuple(_part(one, indices) for one in kept["parts"]))

    def up_to(self, begun_ns: int, until_ns: int) -> list[Part]:
        """Return the parts from the stall's begin to a time, as if each were spread evenly over the time that was told."""
        told_ns, wanted_ns = max(1, self.until_ns - begun_ns), until_ns - begun_ns
        if wanted_ns >= told_ns:
            return list(self.parts)
        return [replace(one, time_ns=one.time_ns * wanted_ns // told_ns) for one in self.parts]


def told_json(trace: Trace, stall: Stall) -> str:
    """Return the parts of a stall that goes on as JSON: a text, since the watcher keeps it and has little memory.

    Threads stand there by their serials, which are the same in each recording of a process.
    """

    def stack(frames: Sequence[Frame]) -> list[list[Any]]:
        return [[one.filename, one.line, one.function, one.first_line] for one in frames[:_DEPTH]]

    kept = {
        "until_ns": stall.until_ns,
        "parts": [
            {
                "cause": part.cause.value,
                "time_ns": part.time_ns,
                "serial": None if part.thread is None else trace.threads[part.thread].serial,
                "frames": stack(part.frames),
                "kept": None if part.kept is None else part.kept.value,
                "lock": part.lock,
                "idle": part.idle,
                "lost": part.lost,
                "holders": [
                    {
                        "serial": trace.threads[one.threads[0]].serial,
                        "doing": one.doing.value,
                        "stack": stack(one.stack),
                        "blocked_ns": one.blocked_ns,
                        "sure": one.sure,
                    }
                    for one in part.holders
                ],
            }
            for part in stall.parts
        ],
    }
    return json.dumps(kept, separators=(",", ":"))


def _part(kept: Mapping[str, Any], indices: Mapping[int, int]) -> Part:
    return Part(
        Cause(kept["cause"]),
        kept["time_ns"],
        indices.get(kept["serial"]),
        _stack(kept["frames"]),
        None if kept["kept"] is None else Kept(kept["kept"]),
        lock=kept["lock"],
        idle=kept["idle"],
        lost=kept["lost"],
        holders=tuple(
            LockHold(
                (indices[one["serial"]],), Doing(one["doing"]), _stack(one["stack"]), one["blocked_ns"], one["sure"]
            )
            for one in kept["holders"]
            if one["serial"] in indices
        ),
    )


def _stack(frames: Sequence[Sequence[Any]]) -> tuple[Frame, ...]:
    return tuple(Frame(*one) for one in frames)
