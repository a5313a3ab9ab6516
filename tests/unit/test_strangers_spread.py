"""The inputs that calls have where there is no time for all of them: they are spread over all, and the answer says so."""

from dataclasses import replace
from typing import Any

import pytest
from headway_agent.strangers import calls, workload
from headway_agent.strangers.holds import _Arguments
from headway_agent.strangers.renewing import source
from headway_agent.strangers.spread import order, places
from headway_agent.strangers.supply import Supply
from test_advice import FUNCTION, contender

from headway.advice.course import _of_few_inputs
from headway.advice.models import sizes_of

COUNT = 200
SLEEPING = 30
"""The first inputs are unlike the others."""


def identity(number: int) -> int:
    """Return the argument."""
    return number


def given(count: int = COUNT) -> list[Any]:
    return [((number,), {}) for number in range(count)]


def is_spread(numbers: list[int]) -> bool:
    """Tell whether about as many of these are among the first inputs as of all inputs."""
    among_first = sum(number < SLEEPING for number in numbers)
    return abs(among_first - len(numbers) * SLEEPING / COUNT) < 2


@pytest.mark.parametrize("count", [1, 2, 3, 7, 200, 256])
def test_the_order_has_each_input_once_and_the_first_one_first(count: int) -> None:
    """It is the same in every process."""
    assert sorted(order(count)) == list(range(count))
    assert order(count)[0] == 0


@pytest.mark.parametrize("calls_made", [32, 64, 100, 150])
def test_each_beginning_of_the_order_is_spread_over_all_inputs(calls_made: int) -> None:
    """Each eighth of the inputs has its share, and so have inputs that come by turns."""
    some = order(COUNT)[:calls_made]
    for low in range(0, COUNT, 25):
        assert sum(low <= one < low + 25 for one in some) == pytest.approx(calls_made / 8, abs=2)
    for kinds in 2, 3, 4, 5:
        for kind in range(kinds):
            assert sum(one % kinds == kind for one in some) == pytest.approx(calls_made / kinds, abs=8)


def test_more_calls_than_inputs_have_all_of_them_and_the_rest_spread() -> None:
    """The inputs keep the user's order."""
    found = places(COUNT, 2 * COUNT + 20)

    assert found[: 2 * COUNT] == [*range(COUNT), *range(COUNT)]
    assert found[2 * COUNT :] == sorted(order(COUNT)[:20])


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that returns the inputs of the calls in a sample of a launch."""
    monkeypatch.setattr(workload, "find", lambda _target: identity)
    monkeypatch.setattr(workload, "inputs_of", lambda *_: given())

    def inputs(model: str, **params: Any) -> list[int]:
        job = {"model": model, "params": {"target": {}, "kind": calls.PLAIN, "workers": 2, **params}}
        made = workload.Calls(job)
        made._make_fresh()
        return [number for (number,) in made.arguments]

    return inputs


def test_a_launch_with_fewer_calls_than_inputs_has_some_that_are_spread_over_all(launched: Any) -> None:
    """Every model has the same ones, or, with fewer calls, some of these."""
    serial = launched("serial", tasks=26)
    more = launched("threads", tasks=26, calls=64)
    fewer = launched("threads", tasks=26, calls=10)

    assert len(set(serial)) == 26
    assert set(more) == set(serial) >= set(fewer)
    assert len(set(fewer)) == 10
    assert all(map(is_spread, [serial, more, fewer]))


@pytest.mark.parametrize("is_copied", [True, False])
def test_new_arguments_are_those_of_the_same_inputs(
    launched: Any, monkeypatch: pytest.MonkeyPatch, *, is_copied: bool
) -> None:
    """They are copies, or what the user's function of inputs makes anew."""
    if not is_copied:
        monkeypatch.setattr(calls, "Copies", lambda *_: 1 / 0)
        monkeypatch.setattr("headway_agent.strangers.renewing.maker_of", lambda *_: given)

    for model, called in ("serial", 26), ("threads", 64):
        fresh = launched(model, tasks=26, calls=called, fresh=True)
        assert fresh == launched(model, tasks=26, calls=called)


def test_threads_without_a_gil_share_no_input_beyond_its_copies(monkeypatch: pytest.MonkeyPatch, launched: Any) -> None:
    """An input that several calls have is copied for them, also where there are more inputs than threads but few calls."""
    monkeypatch.setattr("headway_agent.proc.gil_enabled", lambda: False)
    values = [[number] for number in range(8)]
    monkeypatch.setattr(workload, "inputs_of", lambda *_: [((one,), {}) for one in values])

    first, second = launched("threads", tasks=1, calls=2)

    assert first == second == [0]
    assert first is not second


@pytest.mark.parametrize("fresh", [False, True])
def test_the_profile_calls_inputs_that_are_spread_over_all(*, fresh: bool) -> None:
    """A profile of seconds has few calls of a function that takes a tenth of one."""
    anew = source({}, identity, given()) if fresh else None
    arguments = _Arguments([args for args, _ in given()], anew, identity, identity)
    by_place = [arguments.at(place)[0] for place in range(COUNT)]
    batch = next(arguments.batches())

    assert sorted(by_place) == list(range(COUNT))
    assert by_place[0] == batch[0][0] == 0
    for calls_made in 13, 40:
        assert is_spread(by_place[:calls_made])
        assert is_spread([number for (number,) in batch[:calls_made]])


@pytest.mark.parametrize("changes", [False, True])
def test_the_first_calls_have_inputs_that_are_spread_over_all(*, changes: bool) -> None:
    """The place of each among the inputs is known: an error, and the test that guards an advice, name it."""
    supply = Supply({"inputs": {"kind": "none"}}, identity, given())
    supply.called_once(identity, [args for args, _ in given()], None, lambda make: make())
    if changes:
        supply.begin_new()
    called = [supply.next(place)[0] for place in range(26)]

    assert called[0] == 0
    assert is_spread(called)
    assert [supply.which(place) for place in range(26)] == called


def test_an_input_that_a_call_has_changed_is_found_where_it_stands() -> None:
    """The calls before it have had others."""
    inputs: list[Any] = [(([number],), {}) for number in range(COUNT)]
    supply = Supply({"inputs": {"kind": "none"}}, identity, inputs)
    supply.called_once(identity, [args for args, _ in inputs], None, lambda make: make())
    supply.next(5)[0].append(1)

    assert not supply.has_changed(5)
    assert supply.has_changed(6)


def test_an_answer_from_fewer_inputs_than_were_given_says_so() -> None:
    """A pool whose pickling takes long has still fewer."""
    serial, threads, processes = (contender(model, 1.0) for model in ("serial", "threads", "processes-forkserver"))
    serial, threads, processes = (
        replace(one, calls=called) for one, called in ((serial, 26), (threads, 64), (processes, 10))
    )

    assert _of_few_inputs(COUNT, [serial, threads, processes]) == [
        "26 of 200 inputs were measured, spread over all",
        "2 processes: 10 of 200 inputs were measured, spread over all",
    ]
    assert _of_few_inputs(26, [serial, threads]) == []


@pytest.mark.parametrize(("call_s", "inputs", "tasks"), [(0.15, 200, 26), (0.15, 20, 20), (0.15, 4, 4), (1.0, 200, 4)])
def test_long_calls_have_as_many_inputs_as_there_is_time_for(call_s: float, inputs: int, tasks: int) -> None:
    """Four seconds of serial calls stand for all inputs, where a call with each takes longer."""
    assert sizes_of(replace(FUNCTION, call_s=call_s, inputs=inputs), 2, None).tasks == tasks
