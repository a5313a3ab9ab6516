"""The values that a workload gives are checked where they come in: they are stored, or fail the launch with the reason."""

import json
import math

import pytest
from synthetic import make_cell, make_settings

from headway.lab.kept.store import Store
from headway.lab.launching.answers import Listener

STARTED = {"kind": "started", "started_monotonic_ns": 1, "pid": 1}
END = {"kind": "end", "part": 0}


def heard(*answers):
    """Return a listener of one cell that was given these answers, as the agent writes them."""
    listener = Listener(0, 1)
    listener.feed(b"".join(json.dumps(one).encode() + b"\n" for one in answers))
    return listener


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None"),
        ("fast", "'fast'"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        ([], "[]"),
        ([[1.0]], "[1.0]"),
        ([0.5, None], "None"),
        ({"p50": 1}, "{'p50': 1}"),
        (10**400, "1000"),
    ],
)
@pytest.mark.parametrize(("kind", "method"), [("setup", "open"), ("sample", "sample")])
def test_what_is_no_finite_number_is_refused_with_its_name(kind, method, value, shown):
    """The reason names the method, the value and the metric, and nothing of the value is kept."""
    listener = heard(STARTED, {"kind": kind, "part": 0, "metrics": {"work_s": value}}, END)

    assert listener.refused.startswith(f"the workload's {method}() gave {shown}")
    assert listener.refused.endswith(" for work_s, expected a finite number")
    assert listener.launches[0].samples.keys() == {"interpreter_start_s"}
    assert listener.ended
    assert not listener.garbled


@pytest.mark.parametrize("metrics", [None, [], 1.0, "work_s"])
def test_metrics_are_a_dict(metrics):
    """A method that returns nothing, or a bare number, is named."""
    listener = heard(STARTED, {"kind": "sample", "part": 0, "metrics": metrics}, END)

    assert listener.refused == f"the workload's sample() gave {metrics!r}, expected a dict of metrics"


@pytest.mark.parametrize("name", ["\ud800", "a\nb_s", "\x1b[31m"])
def test_a_metric_has_a_name_that_can_be_shown_and_stored(name):
    """A lone surrogate could not be stored, and a table cannot show a control character."""
    listener = heard(STARTED, {"kind": "sample", "part": 0, "metrics": {name: 1.0}}, END)

    assert listener.refused == f"the workload's sample() gave a metric called {name!a}, expected a printable name"


@pytest.mark.parametrize("details", [{"x": math.nan}, {"x": [{"y": -math.inf}]}, [1], "all", 3])
def test_details_are_what_json_can_hold(details):
    """A report as JSON has no NaN, and details have names."""
    listener = heard(STARTED, {**END, "details": details})

    assert "the workload's close() gave" in listener.refused
    assert listener.launches[0].facts == {}


def test_whole_numbers_of_any_size_are_stored(tmp_path):
    """SQLite holds no integer of more than 64 bits; the value is stored as the nearest float."""
    cell = make_cell("x", "a", "i")
    listener = heard(STARTED, {"kind": "sample", "part": 0, "metrics": {"bytes": [2**70, 3], "work_s": 1}}, END)
    with Store(tmp_path / "s.db", create=True) as store:
        run = store.new_run(make_settings(), [cell])
        store.add_launch(run, cell.key, 0, listener.launches[0])

        (stored,) = store.launches(run)

    assert listener.refused == ""
    assert (stored.launch.samples["bytes"], stored.launch.samples["work_s"]) == ([2.0**70, 3.0], [1.0])


@pytest.mark.parametrize(
    "line", [b"5", b"[]", b'"x"', b"null", b"[" * 100_000, b'{"kind": "sample", "part": 7}', b"\xff"]
)
def test_what_is_no_answer_is_damage(line):
    """A process of the launch may write anything to the agent's descriptor: the lab goes on."""
    listener = Listener(0, 1)

    listener.feed(line + b"\n")

    assert listener.garbled
