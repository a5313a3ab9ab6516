"""The tools that trace every line while a benchmark is measured, and the frames that a failure shows."""

import datetime as dt
import importlib
import traceback
import types

import pytest

from headway.measure import work
from headway.measure.bench import Bench
from headway.measure.journal import Journal, Options
from headway.measure.seen import hide_ours, tracing_tools


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

    count = len(traceback.extract_tb(error.value.__traceback__))
    hide_ours(error.value)
    files = [one.filename for one in traceback.extract_tb(error.value.__traceback__)]
    # Pools of threads raise the error of a call in frames of their own.
    assert {file for file in files if "concurrent/futures" not in file} == {__file__}
    assert len(files) < count


def test_a_traceback_may_be_as_long_as_the_stack_is_deep():
    """A RecursionError of a test's function is shown as it is, and hiding our frames in it is no second one."""

    def deep():
        return deep()

    with pytest.raises(RecursionError) as error:
        Bench(Journal(test="test"), Options(rounds=1, calls=1))(deep)
    hide_ours(error.value)

    names = {one.name for one in traceback.extract_tb(error.value.__traceback__)}
    assert names == {"deep", "test_a_traceback_may_be_as_long_as_the_stack_is_deep"}


FAILS_LATER = """
import itertools

calls = itertools.count()

def work():
    if next(calls) == 5:
        raise ValueError("mine")
"""


def test_no_frame_of_a_failure_in_a_worker_process_is_ours(tmp_path, monkeypatch):
    """A failure in another process has the text of a traceback there, which shows the function's frames only."""
    (tmp_path / "fails_in_workers.py").write_text(FAILS_LATER)
    monkeypatch.syspath_prepend(tmp_path)
    function = importlib.import_module("fails_in_workers").work
    with pytest.raises(ValueError, match="mine") as error:
        Bench(Journal(test="test"), Options(rounds=9, calls=3)).concurrent(function, tasks=2, model="processes")

    assert work.__file__ in "".join(traceback.format_exception(error.value))
    hide_ours(error.value)
    told = "".join(traceback.format_exception(error.value))
    assert work.__file__ not in told
    assert "function(*args, **kwargs)" not in told
    assert 'fails_in_workers.py", line 8, in work\n    raise ValueError("mine")\n' in told
    assert "concurrent/futures/process.py" in told


def printed(margin=""):
    """Return the text of a traceback with entries of Headway, and the same without them, both with a margin."""
    lines = [
        (True, "Traceback (most recent call last):"),
        (True, '  File "/lib/interpreter.py", line 11, in do_call'),
        (True, "    return func(*args, **kwargs)"),
        (False, f'  File "{work.__file__}", line 91, in serve'),
        (False, "    function(*args, **kwargs)"),
        (False, "    ~~~~~~~~^^^^^^^^^^^^^^^^^"),
        (False, f'  File "{work.GENERATED}", line 6, in timer'),
        (True, f'  File "/home/{work.__file__}", line 6, in work'),
        (True, '    raise ValueError("mine")'),
        (True, "ValueError: mine"),
    ]
    return (
        "".join(f"{margin}{line}\n" for _, line in lines),
        "".join(f"{margin}{line}\n" for users, line in lines if users),
    )


@pytest.mark.parametrize("margin", ["", "  | ", "    | "])
def test_the_text_of_a_workers_traceback_loses_our_entries(margin):
    """The text is in `tb` for a process and in `excinfo.errdisplay` for a sub-interpreter; a group's has a margin."""
    before, after = printed(margin)
    display = types.SimpleNamespace(errdisplay=before)
    of_process, of_interpreter = RuntimeError(), RuntimeError()
    vars(of_process)["tb"] = before
    vars(of_interpreter)["excinfo"] = display
    error = ExceptionGroup("both", [ValueError("one"), ValueError("two")])
    error.exceptions[0].__cause__, error.exceptions[1].__context__ = of_process, of_interpreter
    of_process.__context__ = error  # a circle
    hide_ours(error)

    assert vars(of_process)["tb"] == display.errdisplay == after


def test_no_frame_of_an_error_that_led_to_a_failure_is_ours():
    """An error of Headway in a function that a failure came from shows no frame of Headway either."""
    with pytest.raises(ValueError, match="mine") as cause:
        Bench(Journal(test="test"), Options())(failing(0))
    error = RuntimeError("mine, too")
    error.__cause__ = cause.value
    hide_ours(error)

    files = [one.filename for one in traceback.extract_tb(cause.value.__traceback__)]
    assert set(files) == {__file__}
