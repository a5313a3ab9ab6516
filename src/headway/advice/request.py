"""What advice is asked for, and the user's own interpreter."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from headway.advice.target import Target
from headway.host.interpreters import Interpreter, probe

__all__ = ["AdviceRequest", "own_interpreter"]


@final
@dataclass(frozen=True, kw_only=True)
class AdviceRequest:
    """What advice is asked for.

    Attributes:
        target: The function, with its inputs.
        interpreters: Which to try besides the user's own, as `interpreters.select` takes them; None: the newest free-threaded one that
            there is, if the function's imports can be had there.
        python: The user's own interpreter; "" for that of the active virtual environment, or the one that runs us.
        workers: How many; None: one a core, more where calls wait.
        budget_s: The time for all of it; None: a minute, or three for a function that takes long.
        store: The results store; None: the user's own.
        seed: Of the order of launches; None draws one.
        install: Libraries may be installed for other interpreters, into the cache.
    """

    target: Target
    interpreters: Sequence[str] | None = None
    python: str = ""
    workers: int | None = None
    budget_s: float | None = None
    store: Path | None = None
    seed: int | None = None
    install: bool = False


def own_interpreter(python: str = "") -> Interpreter:
    """Return the user's own interpreter: the one named, that of the active virtual environment, or the one that runs us.

    Raises InterpreterError.
    """
    active = os.environ.get("VIRTUAL_ENV", "")
    in_environment = Path(active) / "bin" / "python" if active else None
    if not python and in_environment is not None and in_environment.is_file():
        python = str(in_environment)
    return probe(python or sys.executable)
