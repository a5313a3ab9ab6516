"""Further calls of a function, of which the first input may be one with nothing to do."""

from types import SimpleNamespace
from typing import Any

import pytest
from headway_agent import proc
from headway_agent.strangers import repeated, timed
from headway_agent.strangers.supply import Supply


class Sorter:
    """A function that sorts lists in place, on clocks of its own: a second for each element, none if it is sorted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns, self.begun, self.given = 0, 0, {}
        clocks = SimpleNamespace(
            perf_counter_ns=lambda: self.now_ns,
            process_time_ns=lambda: self.now_ns,
            thread_time_ns=lambda: self.now_ns,
            monotonic=lambda: self.now_ns / 1e9 / 100,
        )
        monkeypatch.setattr(timed, "time", clocks)
        monkeypatch.setattr(repeated, "time", clocks)
        monkeypatch.setattr(proc, "queued_ns", lambda: 0)

    def median(self, values: list[int]) -> int | None:
        """Sort in place, which takes a millisecond if there is nothing to do."""
        self.now_ns += 1_000_000 if values == sorted(values) else len(values) * 1_000_000_000
        values.sort()
        return values[len(values) // 2] if values else None

    def again(self, inputs: list[list[int]]) -> dict[str, Any]:
        """Return the answer about calls with these inputs."""
        talk: Any = SimpleNamespace(
            begin=lambda *_: None, give=lambda stage, **values: self.given.update({stage: values})
        )
        task = self.median  # one object, as a name of a module gives it
        given: list[Any] = [((one,), {}) for one in inputs]
        supply = Supply({"inputs": {"kind": "none"}}, task, given)
        first = task(inputs[0])
        supply.called_once(task, [args for args, _ in given], None, lambda make: make())
        effects = SimpleNamespace(
            end=list,
            leave_processes=bool,
            called_once=lambda: None,
            apart=lambda make: make(),
            unseen=lambda make: make(),
        )
        watch = SimpleNamespace(watched=[], over=lambda _wall_ns: [])
        repeated.again(talk, effects, task, supply, first, lambda: watch)
        return self.given["again"]


@pytest.mark.parametrize("inputs", [[[], [3, 2, 1], [6, 5, 4]], [[3, 2, 1], [6, 5, 4], []]])
def test_a_change_of_any_input_gives_each_call_new_arguments(
    monkeypatch: pytest.MonkeyPatch, inputs: list[list[int]]
) -> None:
    """The empty list, which a call leaves as it is, may be the first one; the times are those of lists to sort."""
    again = Sorter(monkeypatch).again(inputs)

    assert again["changes_arguments"]
    assert again["effects"] == [["arguments", "changes its arguments: each sample has new ones"]]
    assert again["mean_s"] == pytest.approx(2.0, rel=0.1)
    assert not again["returns_nothing"]


def test_inputs_that_no_call_changes_stay_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are sorted already."""
    again = Sorter(monkeypatch).again([[], [1, 2, 3]])

    assert not again["changes_arguments"]
    assert again["effects"] == []


def test_an_input_that_takes_about_the_mean_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the first one if that is near enough."""
    for first, place in ([], 1), ([9, 8], 0):
        assert Sorter(monkeypatch).again([first, [2, 1], [5, 4, 3]])["typical"] == place
