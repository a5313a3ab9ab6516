"""The settings of a run: all that is needed to read the run, and to continue it."""

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
        version: Headway's version.
        size: "quick", "standard", "published", `ADVICE` or `SESSION`.
        launches: Launches of every cell; in a run with a budget, launches before the first look of each cell that a
            claim or a sweep is about (the other cells have one).
        budget_s: The time for all launches, spent where claims are not decided; None where every cell has `launches`.
        seed: The seed of the order of launches.
        limit_s: Seconds after which a launch is killed.
        memory_limit_bytes: The limit of the address space of each process of a launch; None means no limit.
        experiments: The experiments' names.
        models: The models that were asked for; () means all.
        placement: The placement that was asked for; None means all.
        machine: The machine of the run.
        doctor: The results of the checks at the beginning of the run.
        interpreters: The interpreters of the run, in order.
        skipped: Requested cells that could not run.
        redis: The Redis that the run used; {} means none.
        volumes: Volume -> the folder of its files, and the type of the file system.
        declared: Experiments that the run declares itself.
        unprepared: Experiments whose needs have not been checked yet.
        passed_over: A sentence for each interpreter that gave no answer when the run searched for all that there are.
        cluster: An id that runs have in common if they were made together on several machines; "" for a single run.
        host: The machine of the cluster that the run was made on.
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
    volumes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    declared: tuple[Declared, ...] = ()
    budget_s: float | None = None
    unprepared: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    cluster: str = ""
    host: str = ""

    @property
    def confidence(self) -> float:
        """Coverage of each of the run's intervals, for one look."""
        return confidence_of(sequential=self.budget_s is not None)

    @property
    def names(self) -> dict[str, str]:
        """Interpreter id -> the shortest name that is unique within the run."""
        short = [one.name for one in self.interpreters]
        return {one.id: one.name if short.count(one.name) == 1 else one.id for one in self.interpreters}

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
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
        """Return the settings that `to_json` wrote, also in an older version.

        Raises:
            TypeError, ValueError, KeyError, AttributeError: The values are no settings.
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
        made = typed(cls(**given))
        for volume in made.volumes.values():
            _check_keys(volume, "folder", "type")
        if made.redis:
            _check_keys(made.redis, "server", "whose")
        return made


def _check_keys(values: Mapping[str, str], *keys: str) -> None:
    """Raise KeyError if one of these keys is missing: every report uses them."""
    for key in keys:
        values[key]


def _declared(values: Mapping[str, Any]) -> Declared:
    besides = tuple((str(metric), str(words)) for metric, words in values["besides"])
    return typed(Declared(**{**values, "besides": besides, "said": tuple(map(str, values.get("said", ())))}))
