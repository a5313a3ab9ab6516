"""The verdict on functions that change something which another process has only a copy of."""

from dataclasses import replace

import pytest
from test_advice import FUNCTION, contender, verdict

IN_PLACE = replace(
    FUNCTION, cpu_share=0.02, changes_arguments=True, effects=(("arguments", "changes its arguments: each sample has"),)
)
LOGS = replace(FUNCTION, cpu_share=0.02, effects=(("globals", "app.LOG changes"), ("globals", "app.N is bound anew")))
WITHIN = ("globals", "app.CURRENT is bound within a call (app.py:3)")


@pytest.mark.parametrize(
    ("function", "changes", "is_lost"),
    [
        (IN_PLACE, ("its arguments",), True),
        (LOGS, ("app.LOG", "app.N"), True),
        (replace(LOGS, effects=(("globals", "n (of its closure) is made"),)), ("n (of its closure)",), True),
        (replace(IN_PLACE, effects=(("network", "connects to x"),)), ("its arguments",), True),
        (replace(LOGS, effects=(*LOGS.effects, ("files", "writes x"))), ("app.LOG", "app.N"), False),
        (replace(FUNCTION, effects=(WITHIN, ("random", "random's global state"))), (), False),
        (FUNCTION, (), False),
    ],
)
def test_changes_are_the_work_of_a_function_that_returns_nothing(function, changes, is_lost):
    """A change of globals beside a file may be a counter; what a call takes back is changed for nobody."""
    assert function.changes == changes
    assert replace(function, returns_nothing=True).is_lost_in_copies is is_lost
    assert not function.is_lost_in_copies


@pytest.mark.parametrize("model", ["processes-forkserver", "interpreters"])
def test_a_model_that_sends_copies_is_advised_for_the_results_alone(model):
    """The first line has the condition, and the next ones do not call a certain loss a possible difference."""
    found = verdict(contender("serial", 1), contender(model, 4), function=IN_PLACE, holds=None)
    each = "process" if model != "interpreters" else "interpreter"
    assert (found.outcome, found.model) == ("faster", model)
    assert found.sentence.endswith(" times as fast as serial calls, if the program needs only the results")
    assert found.lines == (f"each {each} changes a copy of its arguments: the program never sees these changes",)


def test_threads_change_the_programs_own_objects():
    """Nothing is lost in them, and calls that run at the same time may meet."""
    found = verdict(contender("serial", 1), contender("threads", 4), function=LOGS, holds=None)
    assert found.sentence.endswith(" times as fast as serial calls")
    assert found.lines == ("check the side effects (globals): concurrent calls may behave differently",)


def test_a_cache_in_a_global_leaves_processes_advised():
    """The program may live without these changes, so they are told and are no condition."""
    names = tuple(("globals", f"app.{name} changes") for name in "ABCD")
    caches = replace(FUNCTION, cpu_share=0.02, effects=(*names, WITHIN, ("environment", "HOME")))
    found = verdict(contender("serial", 1), contender("processes-forkserver", 4), function=caches, holds=None)
    assert found.sentence.endswith(" times as fast as serial calls")
    assert found.lines == (
        "each process changes app.A, app.B, app.C and 1 more of its own: the program never sees these changes",
        "check the side effects (environment): concurrent calls may behave differently",
    )


def test_serial_calls_that_stand_alone_are_compared_with_nothing():
    """Without another model that can run the function, none of them is called slower."""
    assert verdict(contender("serial", 1)).sentence == "serial calls: no other model can run the function"
