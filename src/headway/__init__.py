"""Headway measures Python's concurrency models, shows who holds the GIL, and schedules it.

from headway import lab
with headway.trace() as t: ...
headway.gil_times()
headway.watch()
headway.advise(resize, [("cat.png", 0.5)])
with headway.schedule("fair"): ...
def test_it(headway: headway.Bench): ...
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway import lab as lab
    from headway.advice.door import advise as advise
    from headway.advice.values import Advice as Advice
    from headway.live.recording import GilTimes as GilTimes
    from headway.live.recording import Recording as Recording
    from headway.live.recording import gil_times as gil_times
    from headway.live.recording import trace as trace
    from headway.live.schedule import Schedule as Schedule
    from headway.live.schedule import schedule as schedule
    from headway.live.schedule import thread_priority as thread_priority
    from headway.live.watching import Watch as Watch
    from headway.live.watching import watch as watch
    from headway.measure.bench import Bench as Bench

__all__ = [
    "Advice",
    "Bench",
    "GilTimes",
    "Recording",
    "Schedule",
    "Watch",
    "__version__",
    "advise",
    "gil_times",
    "lab",
    "schedule",
    "thread_priority",
    "trace",
    "watch",
]

__version__ = "0.1.0"

_PLACES = {
    "Advice": "advice.values",
    "advise": "advice.door",
    "Bench": "measure.bench",
    **dict.fromkeys(("GilTimes", "Recording", "gil_times", "trace"), "live.recording"),
    **dict.fromkeys(("Schedule", "schedule", "thread_priority"), "live.schedule"),
    **dict.fromkeys(("Watch", "watch"), "live.watching"),
}


def __getattr__(name: str) -> object:
    # Parts are imported on first use, so that the command line does not pay for a part that it does not use.
    import importlib

    if name == "lab":
        return importlib.import_module("headway.lab")
    if name in _PLACES:
        return getattr(importlib.import_module(f"headway.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'headway' has no attribute {name!r}")
