"""What is advised, as values: the models as they were measured, where a pool begins to pay, the verdict, what else is to know."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, final

from headway.advice.examined import Function, Refusal
from headway.advice.holds import Holds
from headway.lab.stats import Interval

__all__ = ["Advice", "BreakEven", "Contender", "Cores", "Lag", "Outcome", "Verdict", "to_json"]

Outcome = Literal["faster", "no difference", "unsure"]


@final
@dataclass(frozen=True)
class BreakEven:
    """From where on a pool pays.

    Attributes:
        model: Which.
        size_s: What a task must take, one after the other, where the pool is there and tasks are many; None: see `why`.
        tasks: How many tasks of this function it takes to pay for the pool's start, too; None: no number of them.
        why: Why there is no size, in a sentence.
    """

    model: str
    size_s: Interval | None = None
    tasks: Interval | None = None
    why: str = ""


@final
@dataclass(frozen=True)
class Contender:
    """A model on an interpreter.

    Attributes:
        interpreter: Its short name.
        model: The agent's name of it.
        words: With its workers: "4 threads".
        workers: How many.
        launches: How many launches are behind its figures.
        call_s: What a call takes, of many.
        speed_up: How many calls it makes in the time of one, over one after the other on the user's interpreter; None for that itself.
        start_s: What its pool takes to start, with the import of the function's module in each worker.
        pss_bytes: Memory of all its processes.
        worker_pss_bytes: Memory that each further worker costs.
        failures: How many of its launches failed.
        failed: Why the first of them did; "" for none.
    """

    interpreter: str
    model: str
    words: str
    workers: int
    launches: int
    call_s: Interval | None
    speed_up: Interval | None
    start_s: float = 0.0
    pss_bytes: float = 0.0
    worker_pss_bytes: float = 0.0
    failures: int = 0
    failed: str = ""


@final
@dataclass(frozen=True)
class Lag:
    """By how much an event loop is late while calls run beside it.

    Attributes:
        words: How they run: "asyncio.to_thread".
        p99_s: The 99th percentile.
    """

    words: str
    p99_s: Interval


@final
@dataclass(frozen=True)
class Cores:
    """What the simulator says of a machine with other cores.

    Attributes:
        cores: How many.
        model: Which model.
        speed_up: Over one call after the other.
        low, high: Of it, an 80 % interval.
    """

    cores: int
    model: str
    speed_up: float
    low: float
    high: float


@final
@dataclass(frozen=True)
class Verdict:
    """The answer.

    Attributes:
        outcome: "faster", "no difference" (stay with one call after the other), or "unsure".
        model: The model that is advised; "serial" for none.
        words: With its workers.
        speed_up: Its own.
        runner_up: The next best; "" for none.
        sentence: The answer in one sentence.
        lines: What belongs to it: the runner-up, the reasons of the others, what would flip it.
    """

    outcome: Outcome
    model: str
    words: str
    speed_up: Interval | None
    runner_up: str
    sentence: str
    lines: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class Advice:
    """All that is advised about one function.

    Attributes:
        target: As the user named it.
        run: The id of the run in the results store.
        interpreter: The user's own.
        cores: On how many cores it was measured.
        tasks: How many calls a sample has.
        function: The function.
        verdict: The answer.
        contenders: All that was measured; the first is one call after the other.
        refusals: What cannot run it.
        break_even: By model.
        holds: Who holds the GIL; None with `holds_why`.
        lags: The event loop's.
        predicted: On other numbers of cores.
        server: What is predicted for a server's threads beside it, in sentences.
        notes: What else is to know.
        code: To paste.
        test: That guards it.
        spent_s: How long all of it took.
    """

    target: str
    run: str
    interpreter: str
    cores: int
    tasks: int
    function: Function
    verdict: Verdict
    contenders: tuple[Contender, ...]
    refusals: tuple[Refusal, ...]
    break_even: tuple[BreakEven, ...]
    holds: Holds | None
    holds_why: str
    lags: tuple[Lag, ...]
    predicted: tuple[Cores, ...]
    server: tuple[str, ...]
    notes: tuple[str, ...]
    code: str
    test: str
    spent_s: float

    def __str__(self) -> str:
        return "\n".join([self.verdict.sentence, *(f"  {line}" for line in self.verdict.lines)])

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values: attributes by name; what is infinite is null."""
        found: dict[str, Any] = to_json(self)
        return found


def to_json(value: Any) -> Any:
    """Return a value of this module as JSON values."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {one.name: to_json(getattr(value, one.name)) for one in fields(value)}
        if isinstance(value, Holds):
            longest = value.longest
            found |= {"releases": value.releases, "longest": to_json(longest) if longest else None}
        return found
    if isinstance(value, Mapping):
        return {key: to_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
