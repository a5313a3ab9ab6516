"""Headway measures Python's concurrency models, shows who holds the GIL, and says what holds on this machine.

from headway import lab
with headway.trace() as t: ...
headway.gil_times()
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.live.recording import GilTimes as GilTimes
    from headway.live.recording import Recording as Recording
    from headway.live.recording import gil_times as gil_times
    from headway.live.recording import trace as trace

__all__ = ["GilTimes", "Recording", "__version__", "gil_times", "lab", "trace"]

__version__ = "0.1.0"

_RECORDING = ("GilTimes", "Recording", "gil_times", "trace")


def __getattr__(name: str) -> object:
    # Imported on first use: the command line must not pay for a part that it does not use.
    import importlib

    if name == "lab":
        return importlib.import_module("headway.lab")
    if name in _RECORDING:
        return getattr(importlib.import_module("headway.live.recording"), name)
    raise AttributeError(f"module 'headway' has no attribute {name!r}")
