"""The tools that trace every line while a benchmark is measured, and the frames that a failure shows."""

import datetime as dt
import traceback
import types

import pytest

from headway.measure.bench import Bench
from headway.measure.journal import Journal, Options
from headway.measure.seen import tracing_tools, without_ours


def test_a_tracer_in_c_has_the_name_of_its_types_module(monkeypatch):
    """A tracer whose type is written in C, as that of coverage, is named by the module of its type."""
    tracer = dt.timedelta()
    monkeypatch.setattr(
        "headway.measure.seen.sys", types.SimpleNamespace(gettrace=lambda: tracer, getprofile=lambda: None)
    )
    assert tracing_tools() == "datetime"


def failing(count):
    """Return a function that fails at a call after the first one."""
    left = iter(range(count))

    def work():
        if next(left, None) is None:
            raise ValueError("mine")

    return work


@pytest.mark.parametrize(
    "measure",
    [
        lambda headway, work: headway(work),
        lambda headway, work: headway.compare({"one": work, "other": work}),
        lambda headway, work: headway.concurrent(work, tasks=2, model="threads"),
        lambda headway, work: headway.serial(work, 3),
    ],
)
def test_no_frame_of_a_failure_is_ours(measure):
    """A function that fails while it is timed, in a thread or not, shows the test's frames and its own."""
    with pytest.raises(ValueError, match="mine") as error:
        measure(Bench(Journal(test="test"), Options(rounds=3, calls=3)), failing(5))

    files = [one.filename for one in traceback.extract_tb(without_ours(error.value.__traceback__))]
    # Pools of threads raise the error of a call in frames of their own.
    assert {file for file in files if "concurrent/futures" not in file} == {__file__}
    assert len(files) < len(traceback.extract_tb(error.value.__traceback__))
