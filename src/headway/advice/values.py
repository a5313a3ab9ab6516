"""The values of an advice: the measured models, break-even points, the verdict, and everything else to report."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, final

from headway.advice.examined import Function, Refusal
from headway.advice.holds import Holds
from headway.lab.stats import Interval

__all__ = ["Advice", "BreakEven", "Contender", "Cores", "Lag", "Outcome", "Verdict", "to_json"]

Outcome = Literal["faster", "no difference", "unsure", "others failed"]


@final
@dataclass(frozen=True)
class BreakEven:
    """The task size, and the number of tasks, from which a pool pays.

    Attributes:
        model: The model.
        size_s: The least time of a task, one after the other, with a running pool and many tasks; None: see `why`.
        tasks: The number of tasks of this function that also pays for the pool's start; None: no number does.
        why: The reason why there is no size, in a sentence.
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
        model: The agent's name of the model.
        words: The model with its workers: "4 threads".
        workers: The number of workers.
        launches: The number of launches behind its figures.
        call_s: The time of a call, when there are many.
        speed_up: The rate of its calls over the rate of one call after the other on the user's interpreter; None for
            the latter itself.
        start_s: The time that its pool takes to start, with the import of the function's module in each worker.
        pss_bytes: The memory of all its processes, each at its peak while the calls run.
        worker_pss_bytes: The memory of each further worker.
        failures: The number of its launches that failed.
        failed: The reason of the first failure; "" if none failed.
        calls: The number of calls in a sample; a launch makes fewer if they turn out to run one after the other.
        too_long: No launch ended in several times the time that serial calls take: it is far slower, or it hangs.
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
    calls: int = 0
    too_long: bool = False


@final
@dataclass(frozen=True)
class Lag:
    """The lag of an event loop while calls run beside it.

    Attributes:
        words: The way in which the calls run: "asyncio.to_thread".
        p99_s: The 99th percentile.
    """

    words: str
    p99_s: Interval


@final
@dataclass(frozen=True)
class Cores:
    """The simulator's prediction for a machine with another number of cores.

    Attributes:
        cores: The number of cores.
        model: The model.
        speed_up: The speed-up over one call after the other.
        low, high: An 80 % interval of the speed-up.
    """

    cores: int
    model: str
    speed_up: float
    low: float
    high: float


@final
@dataclass(frozen=True)
class Verdict:
    """The answer to the question for a model.

    Attributes:
        outcome: "faster", "no difference" (stay with one call after the other), "unsure", or "others failed" (one call after
            the other is the only model whose launches did not all fail).
        model: The model that is advised; "serial" unless the outcome is "faster".
        words: The model with its workers.
        speed_up: The speed-up of the model.
        runner_up: The next best model; "" if there is none.
        sentence: The answer in one sentence.
        lines: Further lines: the runner-up, the reasons against other models, and changes that would turn the verdict.
        perhaps: The model that may be faster, if the outcome is "unsure"; "" if there is none.
    """

    outcome: Outcome
    model: str
    words: str
    speed_up: Interval | None
    runner_up: str
    sentence: str
    lines: tuple[str, ...] = ()
    perhaps: str = ""


@final
@dataclass(frozen=True)
class Advice:
    """All advice about one function.

    Attributes:
        target: The function as the user named it.
        run: The id of the run in the results store.
        interpreter: The user's own interpreter.
        cores: The number of cores that could be used at a time; a CPU quota counts, rounded up.
        tasks: The number of serial calls in a sample.
        function: The function.
        verdict: The answer.
        contenders: All measured models; the first is one call after the other.
        refusals: The models that cannot run the function.
        break_even: Where pools begin to pay, by model.
        holds, holds_why: Who holds the GIL; None with the reason in `holds_why`, in a sentence.
        lags: The lags of an event loop.
        predicted: Predictions for other numbers of cores.
        server: Predictions for a server's threads beside the function, in sentences.
        notes: Other things that the user should know.
        code: Code to paste.
        test: A test that guards the verdict.
        spent_s: The time that everything took.
        quota_cores: The CPU quota, if it is less than the machine's cores; infinity if there is none.
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
    quota_cores: float = math.inf

    def __str__(self) -> str:
        return "\n".join([self.verdict.sentence, *(f"  {line}" for line in self.verdict.lines)])

    def to_json(self) -> dict[str, Any]:
        """Return the advice as JSON values: attributes by name; infinite numbers become null."""
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
