"""The request for advice, and the user's own interpreter."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from headway.advice.target import Target
from headway.arguments import as_texts, check_flag, check_number, check_text, check_whole
from headway.errors import UsageError
from headway.host.interpreters import Interpreter, probe

__all__ = ["AdviceRequest", "check", "own_interpreter"]

_LEAST_BUDGET_S, _MOST_BUDGET_S = 5.0, 1e7
_MOST_SEED = 2**63
_MOST_WORKERS = 1024


@final
@dataclass(frozen=True, kw_only=True)
class AdviceRequest:
    """A request for advice.

    Attributes:
        target: The function, with its inputs.
        interpreters: The interpreters to try besides the user's own, as `interpreters.select` takes them; None: the
            newest free-threaded one, if the function's imports are available there.
        python: The user's own interpreter; "" for that of the active virtual environment, or else the one that runs us.
        workers: The number of workers; None: one for each core, more if calls wait.
        budget_s: The time after which no further launch begins; the first look at the function, and one launch of each
            model, are made in any case. None: a minute, or three for a function that takes long.
        store: The results store; None: the user's own.
        seed: The seed of the order of launches; None draws one.
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


def check(request: AdviceRequest) -> None:
    """Raise UsageError for values that no advice can have, on any machine."""
    if request.interpreters is not None:
        as_texts("interpreters", request.interpreters)
    check_text("python", request.python)
    if request.workers is not None:
        check_whole("workers", request.workers, 1, _MOST_WORKERS, expected=f"1 to {_MOST_WORKERS}")
    if request.budget_s is not None:
        expected = f"{_LEAST_BUDGET_S:g} to {_MOST_BUDGET_S:,.0f} seconds"
        check_number("budget_s", request.budget_s, _LEAST_BUDGET_S, _MOST_BUDGET_S, expected=expected)
    if request.store is not None and not isinstance(request.store, Path):
        raise UsageError(f"store is {request.store!r}, expected a path")
    if request.seed is not None:
        check_whole("seed", request.seed, 0, _MOST_SEED, expected=f"0 to {_MOST_SEED}")
    check_flag("install", request.install)


def own_interpreter(python: str = "") -> Interpreter:
    """Return the user's interpreter: the one named, else that of the active virtual environment, else our own.

    Raises InterpreterError.
    """
    active = os.environ.get("VIRTUAL_ENV", "")
    in_environment = Path(active) / "bin" / "python" if active else None
    if not python and in_environment is not None and in_environment.is_file():
        python = str(in_environment)
    return probe(python or sys.executable)
