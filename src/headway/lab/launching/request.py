"""The request for a run, and the check of its values."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from headway.arguments import as_texts, check_number, check_text, check_whole
from headway.errors import UsageError
from headway.lab.design import PLACEMENTS, SIZES, Placement, Size
from headway.lab.experiments import experiment, experiments

__all__ = ["Request", "budget_s", "check"]

_MOST_LAUNCHES = 10_000
_MOST_S = 7 * 24 * 3600
_QUICK_BUDGET_S = 600.0
_LEAST_BUDGET_S = 60.0
_PREPARING_S = 30.0
"""What building further interpreters may take beside the default budget."""


@final
@dataclass(frozen=True, kw_only=True)
class Request:
    """The choices for a run, as the command line or a caller gives them; `check` checks them.

    Attributes:
        experiments: Names; none means all.
        size: "quick", "standard" or "published".
        interpreters: Interpreters, as `interpreters.select` takes them; none means the newest patch of every minor and
            build.
        models: Only these models; none means all.
        placement: Only this placement; None means each variant's own.
        launches: Launches per cell; None means the size's default.
        budget_s: The time for all launches, spent where claims are not decided (see `lab.launching.agenda`). None means
            a default: at quick size, without `launches`, 10 minutes for all experiments, in proportion less for fewer,
            and one minute at least; otherwise no budget. If interpreters are built in the middle of the run for more
            than half a minute, the default is shorter by what is beyond that, but not by more than half.
        seed: The seed of the order; None draws one.
        limit_s: The most seconds that a launch may take; None means the size's default.
        memory_limit_bytes: The limit of the address space of a launch's processes; None means no limit.
        store: The results store; None means the user's own.
        redis_url: A Redis to use instead of the lab's own; "" means `$REDIS_URL`. The URL is never stored: it may hold
            a password.
    """

    experiments: Sequence[str] = ()
    size: Size = "quick"
    interpreters: Sequence[str] = ()
    models: Sequence[str] = ()
    placement: Placement | None = None
    launches: int | None = None
    budget_s: float | None = None
    seed: int | None = None
    limit_s: float | None = None
    memory_limit_bytes: int | None = None
    store: Path | None = None
    redis_url: str = ""


def check(request: Request) -> None:
    """Raise UsageError for values that no run can have, on any machine."""
    for named, texts in (("interpreters", request.interpreters), ("models", request.models)):
        as_texts(named, texts)
    for name in as_texts("experiments", request.experiments):
        experiment(name)
    if request.size not in SIZES:
        raise UsageError(
            f"the size is `{request.size}`, expected one of {', '.join(SIZES)}", hint="see `headway lab --help`"
        )
    if request.placement is not None and request.placement not in PLACEMENTS:
        raise UsageError(
            f"the placement is `{request.placement}`, expected one of {', '.join(PLACEMENTS)}",
            hint="see `headway lab --help`",
        )
    hint = "leave it out for the default, or use, for example, 10"
    for named, number, most in (
        ("the budget in seconds", request.budget_s, _MOST_S),
        ("the time limit in seconds", request.limit_s, _MOST_S),
    ):
        if number is not None:
            check_number(named, number, 0, most, above=True, expected=f"more than 0 and at most {most}", hint=hint)
    for named, whole, most in (
        ("the number of launches", request.launches, _MOST_LAUNCHES),
        ("the memory limit in bytes", request.memory_limit_bytes, sys.maxsize),
    ):
        if whole is not None:
            check_whole(named, whole, 1, most, expected=f"more than 0 and at most {most}", hint=hint)
    if request.seed is not None:
        check_whole("the seed", request.seed)
    check_text("the URL of the Redis", request.redis_url, hint="leave it out for the lab's own Redis")
    if request.store is not None and not isinstance(request.store, Path):
        raise UsageError(
            f"the store is {request.store!r}, expected a path", hint=f"write pathlib.Path({str(request.store)!r})"
        )

    if request.launches is not None and request.budget_s is not None:
        raise UsageError(
            f"{request.launches} launches of each cell and a budget of {request.budget_s:g} s exclude each other",
            hint="leave one of them out; with a budget each claim gets the launches that it needs",
        )


def budget_s(request: Request, chosen: int, waited_s: float = 0.0) -> float | None:
    """Return the budget for the number of chosen experiments; None means a fixed number of launches for every cell.

    `waited_s` is the time for which the run has waited for interpreters that were built.
    """
    if request.budget_s is not None or request.launches is not None or request.size != "quick":
        return request.budget_s
    whole_s = max(_LEAST_BUDGET_S, _QUICK_BUDGET_S * chosen / len(experiments()))
    return max(whole_s / 2, whole_s - max(0.0, waited_s - _PREPARING_S))
