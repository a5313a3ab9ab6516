"""The comparison of the results of calls beside each other with those of the same calls alone."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from headway_agent.strangers import workload
from headway_agent.strangers.alike import may_be_same
from headway_agent.strangers.results import Results

from headway.advice.shared import mixes


class Plain:
    """An object that is equal only to itself."""

    def __init__(self, number: int) -> None:
        self.number = number


class Odd(Plain):
    """An object that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth is ambiguous")

    __hash__ = None


class Table(Odd):
    """An object that is compared by a method of its own."""

    def equals(self, other: Plain) -> bool:
        return self.number == other.number


class Point(NamedTuple):
    """A tuple with names."""

    x: float
    y: float


@dataclass
class Seen:
    """Values of which one does not count."""

    values: Any
    at_s: float = field(default=0.0, compare=False)


class Number(int):
    """A number with attributes."""


@pytest.mark.parametrize(
    ("alone", "beside", "others"),
    [
        ([1, 2], [1, 2], 0),
        ([1, 2], [1, None], 1),
        (["a1 b1", "a2 b2"], ["a1 a2 b2", ""], 2),
        ([[1.0, {"a": 2.0}]], [[1.0 + 1e-12, {"a": 2.0 - 1e-12}]], 0),
        ([[1.0, {"a": 2.0}]], [[1.0, {"a": 2.1}]], 1),
        ([{"a": 1}], [{"b": 1}], 1),
        ([math.nan, (1j,)], [float("nan"), (1j + 1e-12,)], 0),
        ([Plain(1), Plain(2)], [Plain(1), Plain(3)], 1),
        ([Odd(1)], [Odd(2)], 0),
        ([lambda: 1], [lambda: 2], 0),
        ([Point(1.0, 2.0)], [Point(1.0 + 1e-12, 2.0)], 0),
        ([Point(1.0, 2.0)], [Point(1.0, 3.0)], 1),
        ([Seen([1.0], 1.0)], [Seen([1.0 + 1e-12], 2.0)], 0),
        ([Seen([1.0])], [Seen([2.0])], 1),
        ([Plain(1.0), Plain(2.0)], [Plain(1.0 + 1e-12), Plain(3.0)], 1),
        ([Number(1), Number(2)], [Number(1), Number(3)], 1),
        ([ValueError("a"), ValueError("b")], [ValueError("a"), ValueError("c")], 1),
        ([1e308 + 1e308j, 1e308 + 1e308j], [1e308 + 1e308j, 1e307 + 1e308j], 1),
        ([math.inf, complex(math.inf, 0)], [-math.inf, complex(math.inf, 0)], 1),
        ([10**400], [1.0], 1),
    ],
)
def test_a_result_that_is_another_one_counts(alone: list[Any], beside: list[Any], others: int) -> None:
    """Floats may differ a little, objects are compared by what they hold, and what cannot be compared is the same."""
    results = Results(lambda: alone)
    results.beside_others(alone)
    results.beside_others(beside)

    assert (results.count, results.others()) == (2 * len(alone), others)


def test_arrays_of_numpy_are_compared_by_their_elements() -> None:
    """Floats of fewer bits may differ by more, and zeros by a share of the largest element; NaN is the same as NaN."""
    numpy = pytest.importorskip("numpy")
    floats = numpy.array([1.0, 1e-17, math.nan, math.inf])
    few = numpy.array([1, 2], dtype="float32")
    same = [
        (floats, floats * (1 + 1e-12) + numpy.array([0, 3e-17, 0, 0])),
        (few, few * numpy.float32(1 + 1e-6)),
        (few[0], few[0] * numpy.float32(1 + 1e-6)),
        (numpy.complex64(1j), numpy.complex64(1.000001j)),
        (numpy.array([[1], [2]]), numpy.array([[1], [2]])),
        (numpy.array(["NaT"], dtype="datetime64[s]"), numpy.array(["NaT"], dtype="datetime64[s]")),
        (numpy.array([[1.0], None], dtype=object), numpy.array([[1.0 + 1e-12], None], dtype=object)),
        (Seen(floats), Seen(floats.copy())),
    ]
    others = [
        (floats, numpy.array([1.0, 1e-17, math.nan, 1.0])),
        (floats, floats[:3]),
        (few, few.astype("float64")),
        (few[0], few[1]),
        (numpy.arange(3), numpy.arange(3)[::-1]),
        (numpy.array([[1.0], None], dtype=object), numpy.array([[2.0], None], dtype=object)),
        (Seen(floats), Seen(floats + 1)),
    ]

    assert [may_be_same(*both) for both in same] == [True] * len(same)
    assert [may_be_same(*both) for both in others] == [False] * len(others)


def test_tables_are_compared_by_their_own_equals() -> None:
    """`==` of two tables gives a table, which has no truth."""
    assert may_be_same(Table(1), Table(1))
    assert not may_be_same(Table(1), Table(2))


def test_a_result_that_changes_by_itself_tells_nothing() -> None:
    """The calls alone give other results at the end, too: those of the time of day."""
    numbers: Iterator[int] = count()
    results = Results(lambda: [next(numbers)])
    results.beside_others([7])

    assert results.others() == 0


def by_a_global(number: int, held: dict[str, int | None] = {}) -> int | None:  # noqa: B006 (calls share it)
    """Keep the argument where other calls overwrite it, and take it back."""
    held["current"] = number
    time.sleep(0.01)
    found = held["current"]
    held["current"] = None
    return found


def by_itself(number: int) -> int:
    """Return the argument."""
    return number


@pytest.mark.parametrize(("function", "mixed"), [(by_a_global, True), (by_itself, False)])
def test_threads_that_overwrite_each_others_value_are_told(
    monkeypatch: pytest.MonkeyPatch, function: Any, *, mixed: bool
) -> None:
    """The launch tells how many results were others, and the race's result tells that there are such."""
    monkeypatch.setattr(workload, "find", lambda _target: function)
    monkeypatch.setattr(workload, "inputs_of", lambda *_: [((number,), {}) for number in range(1, 5)])
    monkeypatch.setattr(workload, "memory_of", dict)
    params = {"target": {}, "kind": "plain", "call_s": 0.01, "tasks": 8, "workers": 8, "cold": False, "compared": 4}
    calls = workload.Calls({"model": "threads", "params": params})
    calls.open()
    calls.sample()
    calls.sample()
    details = calls.close()

    assert details["compared_results"] == 8
    assert bool(details["other_results"]) == mixed
    result: Any = SimpleNamespace(ok=[SimpleNamespace(launch=SimpleNamespace(facts={"details": details}))])
    assert mixes(result) == mixed
