"""The interpreters that a request chooses on this machine, and those that were passed over."""

from dataclasses import dataclass
from typing import final

from headway.errors import InterpreterError
from headway.host.interpreters import Interpreter, select, survey
from headway.lab.launching.request import Request

__all__ = ["Chosen", "choose"]


@final
@dataclass(frozen=True)
class Chosen:
    """The interpreters of a run.

    Attributes:
        interpreters: At least one, in order.
        passed_over: A sentence for each executable that gave no answer, and may have been one of them.
    """

    interpreters: tuple[Interpreter, ...]
    passed_over: tuple[str, ...]


def choose(request: Request) -> Chosen:
    """Search for the interpreters of a request.

    Raises:
        InterpreterError: There is no interpreter, none has a name that the request gives, or one does not start.
    """
    found, passed_over = survey()
    chosen = select(found, request.interpreters, passed_over=passed_over)
    failed = tuple(one.why for one in passed_over if one.failed)
    if not chosen:
        raise InterpreterError(
            "; ".join(["no CPython 3.8 or later was found", *failed]),
            hint="install one, or name its path with `--interpreter`",
        )
    # Interpreters that are named are all there.
    everything = not request.interpreters or "all" in request.interpreters
    return Chosen(tuple(chosen), failed if everything else ())
