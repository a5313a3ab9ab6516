"""The arguments of further calls, from the user's own function of inputs, which may fail when it is called again."""

import sys
from itertools import chain, repeat
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from headway_agent.strangers.effects import Effects
from headway_agent.strangers.failed import FailedError
from headway_agent.strangers.renewing import Anew
from headway_agent.strangers.repeated import next_of
from headway_agent.strangers.supply import Supply


def generators(count: int) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return arguments that cannot be pickled, and that a call uses up."""
    return [(((one for one in range(3)),), {}) for _ in range(count)]


def maker(monkeypatch: pytest.MonkeyPatch, *counts: int, error: BaseException | None = None) -> Any:
    """Let a supply's function of inputs give so many inputs, call by call, and then raise if an error is given."""
    left = iter(counts)

    def make() -> list[Any]:
        count = next(left, None)
        if count is None:
            assert error is not None
            raise error
        return generators(count)

    monkeypatch.setattr("headway_agent.strangers.supply.maker_of", lambda *_: make)
    return make


def called_once(given: list[Any], apart: Any = lambda make: make()) -> Supply:
    """Return a supply after the first call, which has used up its arguments."""
    supply = Supply({}, sum, given)
    sum(given[0][0][0])
    supply.called_once(sum, [args for args, _ in given], SimpleNamespace(own_s=1.0), apart)
    return supply


@pytest.mark.parametrize("error", [FileExistsError("rows.db"), SystemExit(3)])
def test_a_function_of_inputs_that_fails_the_second_time_makes_none_anew(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """The reason is told with that of the pickle."""
    maker(monkeypatch, error=error)
    supply = called_once(generators(2))

    assert not supply.changes
    assert f"fails if it is called again: {type(error).__name__}: {error}" in supply.used_up()


def test_a_function_of_inputs_that_gives_none_the_second_time_makes_none_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator that has been used up gives nothing."""
    maker(monkeypatch, 0)

    assert "used up" in called_once(generators(2)).used_up()


def test_fewer_inputs_than_before_are_used_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call has one that no other call has had, by its place among those that there are."""
    source = Anew(maker(monkeypatch, *chain([3, 2], repeat(1, 6))))

    assert [sum(source.given(place)[0][0]) for place in range(7)] == [3] * 7


def test_inputs_that_end_later_are_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's function gives none, or raises, after some calls."""
    said: list[Any] = []
    talk = SimpleNamespace(give=lambda stage, **values: said.append((stage, values["error"], values["about"])))
    for counts, error in (((2, 0), None), ((2,), KeyError("a"))):
        maker(monkeypatch, *counts, error=error)
        supply = called_once(generators(2))
        assert supply.changes
        for place in range(2):
            next_of(supply, place, talk)
        with pytest.raises(FailedError):
            next_of(supply, 2, talk)
    beginning = "its arguments cannot be made anew: "
    assert said == [
        ("again", f"{beginning}ValueError: the function of the inputs gives none if it is called again", "used up"),
        ("again", f"{beginning}KeyError: 'a'", "used up"),
    ]


def test_what_the_function_of_inputs_changes_is_no_effect_of_the_calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """It is called between two calls under observation; what the first call changes is told all the same."""
    module = ModuleType("observed_inputs")
    module.__file__ = str(tmp_path / "observed_inputs.py")
    exec("MADE, CALLS = [], []\ndef call(): CALLS.append(1)\n", vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def make() -> str:
        module.MADE.append(1)
        (tmp_path / "left").touch()
        return "made"

    effects = Effects(module.call)
    effects.begin()
    module.call()
    effects.called_once()
    assert effects.apart(make) == "made"
    seen = effects.end()

    assert ["globals", "observed_inputs.CALLS changes"] in seen
    assert not [words for _, words in seen if "MADE" in words or "left" in words]


def test_inputs_are_made_apart_from_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supply has one set for the second call, and makes none within the observed time."""
    made: list[str] = []

    def make() -> list[Any]:
        made.append("inputs")
        return generators(2)

    monkeypatch.setattr("headway_agent.strangers.supply.maker_of", lambda *_: make)

    def apart(make: Any) -> Any:
        made.append("begun")
        found = make()
        made.append("ended")
        return found

    supply = called_once(generators(2), apart)
    supply.next(0)
    supply.next(1)

    assert made == ["begun", "inputs", "ended"]
