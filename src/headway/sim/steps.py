"""Names the steps of a simulated program in its trace, and reads from these names what a thread waits for there.

A recorded program has its source beside its trace, whose lines tell the calls. A scenario's file need not be there, so
the name of each frame tells the step: `server: receive requests` is the role with the step's word and target.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from headway.sim.scenario import Role, Step, walk
from headway.traces.calls import Call, call_at
from headway.traces.model import Frame, Trace

__all__ = ["awaits_a_lock", "call_in", "name_of"]

_CALLS: Final[Mapping[str, Call]] = {
    "sleep": Call.SLEEP,
    "every": Call.SLEEP,
    "run": Call.RUN,
    "receive": Call.RECEIVE,
    "answer": Call.RECEIVE,
    "reply": Call.SEND,
    "send": Call.SEND,
    "lock": Call.LOCK,
    "take": Call.LOCK,
    "put": Call.LOCK,
    "get": Call.LOCK,
}
"""The kind of call of each step that releases the GIL; `block` waits for something that is not known."""
_GIVES_BACK = ", then post"
_NAME = re.compile(rf".+: (?P<word>[a-z]+)(?: (?P<target>.*?)(?P<gives_back>{_GIVES_BACK})?)?")


def name_of(role: Role, step: Step) -> str:
    """Return the name of a step's frame. A semaphore that the role itself posts, as one posts what one took, shows it."""
    name = f"{role.name}: {step.word}" + (f" {step.target}" if step.target else "")
    posted = {one.target for one in walk(role.program) if one.word == "post"}
    return name + (_GIVES_BACK if step.word == "take" and step.target in posted else "")


def call_in(trace: Trace, frame: Frame | None, changed: Collection[str]) -> Call:
    """Return the kind of call that releases the GIL in a frame of a trace; `changed` as for `call_at`."""
    found = _read(trace, frame)
    return call_at(frame, changed) if found is None else _CALLS.get(found["word"], Call.UNKNOWN)


def awaits_a_lock(trace: Trace, frame: Frame) -> bool:
    """Tell whether a simulated thread waits there for a lock, or for a semaphore that it gives back as one does a lock."""
    found = _read(trace, frame)
    return found is not None and (found["word"] == "lock" or found["gives_back"] is not None)


def _read(trace: Trace, frame: Frame | None) -> re.Match[str] | None:
    """Return the parts of the name of a step; None: the frame is of a recorded program, whose names have no `: `."""
    return _NAME.fullmatch(frame.function) if trace.process.simulated and frame is not None else None
