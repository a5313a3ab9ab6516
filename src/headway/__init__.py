"""Headway measures Python's concurrency models, and says what holds on this machine.

from headway import lab
"""

__all__ = ["__version__", "lab"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # Imported on first use: the command line must not pay for a part that it does not use.
    if name == "lab":
        import importlib

        return importlib.import_module("headway.lab")
    raise AttributeError(f"module 'headway' has no attribute {name!r}")
