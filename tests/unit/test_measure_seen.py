"""The tools that trace every line while a benchmark is measured."""

import datetime as dt
import types

from headway.measure.seen import tracing_tools


def test_a_tracer_in_c_has_the_name_of_its_types_module(monkeypatch):
    """A tracer whose type is written in C, as that of coverage, is named by the module of its type."""
    tracer = dt.timedelta()
    monkeypatch.setattr(
        "headway.measure.seen.sys", types.SimpleNamespace(gettrace=lambda: tracer, getprofile=lambda: None)
    )
    assert tracing_tools() == "datetime"
