"""The sizes from which pools pay, where nothing has to be measured for them."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headway.advice import pays_from


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (None, "not known, because the use of the GIL is not known"),
        (
            SimpleNamespace(held=1.0, waits=0.0, computes_without=0.0, stretch_s=0.0, call_s=0.01),
            "the function holds the GIL all the time, so threads take turns for tasks of any size",
        ),
    ],
    ids=["not known", "held"],
)
def test_threads_that_hold_the_gil_are_told_from_those_that_are_not_known(monkeypatch, seen, why):
    """A function whose own threads take the GIL, too, is not said to hold it all the time."""
    monkeypatch.setattr(pays_from, "level", lambda _: 1.0)
    given: dict[str, Any] = {
        "session": SimpleNamespace(name="advice"),
        "home": SimpleNamespace(interpreter=SimpleNamespace(id="3.13.0"), gil=True),
        "function": SimpleNamespace(cpu_share=1.0),
        "sizes": SimpleNamespace(workers={"threads": 2}),
        "cells": [SimpleNamespace(interpreter="3.13.0", series="threads", key="threads")],
    }

    found = pays_from.break_evens(
        **{name: cast(Any, value) for name, value in given.items()},
        seen=cast(Any, seen),
        results={"threads": cast(Any, None)},
        budget_s=60,
    )

    assert [(one.model, one.why) for one in found] == [("threads", why)]


@pytest.mark.parametrize(
    ("high", "why"),
    [
        (0.9, "not measured, because asyncio is faster and needs no pool"),
        (1.1, "not measured, because the time was up"),
    ],
)
def test_a_pool_that_asyncio_beats_is_not_looked_at(monkeypatch, high, why):
    """The size from which a pool beats serial calls tells nothing where coroutines beat both; a doubtful gain is none."""
    monkeypatch.setattr(pays_from, "level", lambda _: 1.0)
    monkeypatch.setattr(pays_from.break_even, "parts_of", lambda *_: {"shares": {"held": 0.1}})
    monkeypatch.setattr(pays_from.break_even, "find_tasks", lambda *_: (None, ""))
    gathered = SimpleNamespace(ratio_to=lambda other, _: SimpleNamespace(high=high) if other == "pool" else None)
    home = SimpleNamespace(interpreter=SimpleNamespace(id="3.13.0"), gil=True)
    cells = [
        SimpleNamespace(interpreter="3.13.0", series=series, key=series) for series in ("serial", "asyncio", "threads")
    ]

    found = pays_from.break_evens(
        session=cast(Any, SimpleNamespace(name="advice", spent_s=61)),
        home=cast(Any, home),
        function=cast(Any, None),
        seen=cast(Any, SimpleNamespace()),
        sizes=cast(Any, SimpleNamespace(workers={"threads": 2})),
        results=cast(Any, {"serial": None, "asyncio": gathered, "threads": "pool"}),
        cells=cast(Any, cells),
        budget_s=60,
    )

    assert [(one.model, one.why) for one in found] == [("threads", why)]
