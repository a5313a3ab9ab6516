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
