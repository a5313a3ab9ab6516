"""Rows of the results store: a run with the numbers of its launches, and a launch."""

import json
from dataclasses import dataclass
from typing import Any, final

from headway.lab.kept.launched import Launch
from headway.lab.kept.settings import Settings
from headway.printable import printable

__all__ = ["RunHeader", "StoredLaunch", "Unreadable", "header_of", "settings_text"]


def settings_text(settings: Settings) -> str:
    """Return the text of settings to store.

    The text is read back first: a row that cannot be read would be found only when it is too late.

    Raises:
        TypeError, ValueError: The settings have a value that `Settings` does not declare.
    """
    text = json.dumps(settings.to_json())
    Settings.from_json(json.loads(text))
    return text


@final
@dataclass(frozen=True)
class RunHeader:
    """A run as `headway runs` lists it.

    Attributes:
        id: The run's id.
        started_at, ended_at: UTC, ISO 8601; `ended_at` is None while the run goes on, or if it was cut short.
        settings: The settings of the run.
        planned: Planned launches. None in a run with a budget, whose claims decide how many launches there are.
        done: Launches stored, failed ones included.
        failed: Failed launches among those.
    """

    id: str
    started_at: str
    ended_at: str | None
    settings: Settings
    planned: int | None
    done: int
    failed: int

    @property
    def complete(self) -> bool:
        """Whether every planned launch is stored, or, with a budget, whether the run has ended."""
        if self.planned is None:
            return self.ended_at is not None
        return self.done >= self.planned

    @property
    def launches(self) -> str:
        """The launches that are there, and the planned ones if their number is known: `40 of 60 launches`."""
        if self.planned is not None:
            return f"{self.done} of {self.planned} launches"
        return "1 launch" if self.done == 1 else f"{self.done} launches"


@final
@dataclass(frozen=True)
class Unreadable:
    """A run whose row cannot be read: another program, or an older version with an error, wrote it.

    Attributes:
        id: The run's id.
        why: The error.
    """

    id: str
    why: str


def header_of(
    run_id: Any, started_at: Any, ended_at: Any, text: Any, cells: int, done: int, failed: int
) -> RunHeader | Unreadable:
    """Return a run from its row. One row that cannot be read leaves the other runs readable."""
    try:
        settings = Settings.from_json(json.loads(text))
        planned = cells * settings.launches if settings.budget_s is None else None
        if not (isinstance(run_id, str) and isinstance(started_at, str) and isinstance(ended_at, str | None)):
            return Unreadable(str(run_id), f"it began at {printable(repr(started_at))}")
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
        return Unreadable(str(run_id), printable(" ".join(repr(error).split())))
    return RunHeader(run_id, started_at, ended_at, settings, planned, done, failed)


@final
@dataclass(frozen=True)
class StoredLaunch:
    """A launch read back from the store: its cell's key, its block, and its results."""

    key: str
    block: int
    launch: Launch
