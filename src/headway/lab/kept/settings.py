"""What a run was run with: enough to read it, and to go on with it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, final

from headway.host.doctor import Check
from headway.host.interpreters import Interpreter
from headway.host.machine import Machine
from headway.lab.design import Declared
from headway.lab.kept.typed import typed
from headway.lab.plan import Skipped
from headway.lab.sequential import confidence_of

__all__ = ["ADVICE", "SESSION", "Settings"]

ADVICE = "advise"
"""The size of a run that is a piece of advice about one function."""

SESSION = "pytest"
"""The size of a run that is the benchmarks of a test session."""


@final
@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a run, as they are stored with it.

    Attributes:
        version: Headway's.
        size: "quick", "standard", "published", or `SESSION`.
        launches: Launches of every cell; in a run with a budget, before its first look.
        budget_s: The time for all launches, spent where claims are not decided; None where every cell has `launches`.
        seed: Of the order of launches.
        limit_s: Seconds after which a launch is killed.
        memory_limit_bytes: Address space of each process of a launch; None leaves it unlimited.
        experiments: Names.
        models: Those that were asked for; () for all.
        placement: The one that was asked for; None for all.
        machine: Where it ran.
        doctor: What the checks said when it began.
        interpreters: Those of the run, in order.
        skipped: What was asked for and could not run.
        redis: Which Redis served it; {} for none.
        volumes: Volume -> where its files were.
        declared: Experiments that the run declares itself.
        unprepared: Experiments of which it was not yet looked for what they need.
        cluster: What the runs have in common that were made together on several machines; "" for a run of its own.
        host: Of these machines, the one that it ran on.
    """

    version: str
    size: str
    launches: int
    seed: int
    limit_s: float
    memory_limit_bytes: int | None
    experiments: tuple[str, ...]
    machine: Machine
    doctor: tuple[Check, ...]
    interpreters: tuple[Interpreter, ...]
    models: tuple[str, ...] = ()
    placement: str | None = None
    skipped: tuple[Skipped, ...] = ()
    redis: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    declared: tuple[Declared, ...] = ()
    budget_s: float | None = None
    unprepared: tuple[str, ...] = ()
    cluster: str = ""
    host: str = ""

    @property
    def confidence(self) -> float:
        """Coverage of each of the run's intervals, looked at once."""
        return confidence_of(sequential=self.budget_s is not None)

    def to_json(self) -> dict[str, Any]:
        """Return them as JSON values."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            **{name: list(value) if isinstance(value, tuple) else value for name, value in values.items()},
            "machine": self.machine.to_json(),
            "doctor": [check.to_json() for check in self.doctor],
            "interpreters": [one.to_json() for one in self.interpreters],
            "skipped": [asdict(one) for one in self.skipped],
            "declared": [asdict(one) for one in self.declared],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return what `to_json` gave, also that of an older version.

        Raises:
            TypeError, ValueError, KeyError, AttributeError: They are no settings.
        """
        known = {one.name for one in fields(cls)}
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items() if name in known
        }
        given["machine"] = typed(Machine.from_json(values["machine"]))
        given["doctor"] = tuple(typed(Check(**one)) for one in values["doctor"])
        given["interpreters"] = tuple(typed(Interpreter.from_json(one)) for one in values["interpreters"])
        given["skipped"] = tuple(typed(Skipped(**one)) for one in values["skipped"])
        given["declared"] = tuple(_declared(one) for one in values.get("declared", ()))
        return typed(cls(**given))


def _declared(values: Mapping[str, Any]) -> Declared:
    besides = tuple((str(metric), str(words)) for metric, words in values["besides"])
    return typed(Declared(**{**values, "besides": besides, "said": tuple(map(str, values.get("said", ())))}))
