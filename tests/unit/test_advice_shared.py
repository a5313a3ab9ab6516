"""The verdict on functions whose calls share something, such as the working directory, or disturb each other."""

from dataclasses import replace
from typing import Any

import pytest
from test_advice import FUNCTION, contender, verdict

from headway.advice import measured
from headway.advice.course import _failed_alone, _limit_s
from headway.advice.examined import Lock
from headway.advice.models import Sizes
from headway.advice.racing import METRIC
from headway.advice.shared import compared
from headway.advice.values import Contender
from headway.advice.verdict import decide
from headway.lab.design import Cell, Variant
from headway.lab.kept.headers import StoredLaunch
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import CellResult
from headway.lab.stats import Interval

MOVES = replace(FUNCTION, cpu_share=0.02, effects=(("working directory", "changes it"), ("network", "connects to x")))


def test_models_of_one_process_are_not_advised_for_calls_that_change_the_working_directory() -> None:
    """Threads that are ten times as fast give wrong results, and processes have a working directory each."""
    found = verdict(
        contender("serial", 1),
        contender("threads", 24, workers=32),
        contender("interpreters", 7, workers=8),
        contender("processes-forkserver", 6, workers=8),
        function=MOVES,
        holds=None,
        elsewhere=[contender("threads", 30, workers=32, interpreter="3.14t")],
    )

    assert (found.outcome, found.model) == ("faster", "processes-forkserver")
    assert "32 threads" not in found.sentence
    wrong = [line for line in found.lines if "each call changes the working directory" in line]
    assert [line.partition(":")[0] for line in wrong] == ["32 threads", "8 interpreters"]
    assert not any("3.14t" in line for line in found.lines)
    assert "check the side effects (network): concurrent calls may behave differently" in found.lines


def test_models_whose_calls_gave_other_results_are_not_advised() -> None:
    """Threads that are thirty times as fast are told with the reason, and not among the runners-up."""
    found = verdict(
        contender("serial", 1),
        contender("threads", 30, workers=32),
        contender("processes-forkserver", 6, workers=8),
        function=replace(FUNCTION, cpu_share=0.02, mixed=("threads",)),
        holds=None,
    )

    assert (found.outcome, found.model, found.runner_up) == ("faster", "processes-forkserver", "")
    assert any(
        line.startswith("32 threads: ") and line.endswith("not those of the same calls one after the other")
        for line in found.lines
    )


@pytest.mark.parametrize(
    ("change", "model", "count"),
    [
        ({"call_s": 0.001}, "threads", 64),
        ({"call_s": 0.1}, "threads", 2),
        ({"call_s": 0.1}, "asyncio", 2),
        ({"call_s": 0.001, "result_bytes": 4 << 20}, "threads", 8),
        ({"call_s": 1.5}, "threads", 0),
        ({"differs": True}, "threads", 0),
        ({"effects": (("random", "random's global state"),)}, "threads", 0),
        ({}, "processes-forkserver", 0),
        ({}, "serial", 0),
    ],
)
def test_the_results_that_are_compared(change: dict[str, Any], model: str, count: int) -> None:
    """As many as a quarter of a second allows, of models whose calls share objects; none of a function of chance."""
    assert compared(replace(FUNCTION, **change), model, 100) == count


def test_serial_calls_are_advised_if_only_threads_are_faster_and_wrong() -> None:
    """An undecided gain of threads is no reason for more time, either, if their results are wrong."""
    for spread in (0.02, 1.0):
        threads = contender("threads", 3, spread=spread)
        found = verdict(contender("serial", 1), threads, function=MOVES, holds=None)
        assert (found.outcome, found.model, found.perhaps) == ("no difference", "serial", "")
        assert "but wrong beside each other: each call changes the working directory" in found.lines[0]


def test_threads_whose_launches_failed_are_no_reason_to_doubt_fewer_processes() -> None:
    """Calls that disturb each other are the cause, and not the thing that they wait for."""
    waits = replace(FUNCTION, cpu_share=0.02)
    models = contender("serial", 1), contender("processes-forkserver", 6, workers=8)
    threads = contender("threads", 3, workers=32)
    assert "compare with --workers 8" in verdict(*models, threads, function=waits, holds=None).sentence
    assert verdict(*models, replace(threads, failures=1), function=waits, holds=None).outcome == "faster"


def test_models_that_failed_are_not_called_slower() -> None:
    """A model whose launches all failed was not compared, and its reason stands beside the answer."""
    fails = [
        replace(contender(model, 1), call_s=None, speed_up=None, failures=2, failed="exit code 1: OSError: busy")
        for model in ("threads", "processes-forkserver")
    ]
    found = decide([contender("serial", 1), *fails], [], {}, FUNCTION, None, [], [], "3.13")
    assert (found.outcome, found.sentence) == ("others failed", "serial calls: every other model failed")
    assert found.lines[0] == "2 threads failed: exit code 1: OSError: busy"
    some = [contender("serial", 1), contender("interpreters", 0.5), fails[0]]
    found = decide(some, [], {}, FUNCTION, None, [], [], "3.13")
    assert (found.outcome, found.model) == ("no difference", "serial")
    assert found.sentence == "serial calls: no model that ran is faster here, and others failed"
    assert decide([contender("serial", 1)], [], {}, FUNCTION, None, [], [], "3.13").outcome == "no difference"


def launched(model: str, launch: Launch) -> CellResult:
    cell = Cell("advise", Variant(series=model, workload="x", model=model), "free", "3.13", "advise")
    return CellResult(cell, (StoredLaunch(cell.key, 0, launch),))


def test_a_model_whose_launches_took_far_too_long_has_not_failed() -> None:
    """Serial calls needed a small part of the time after which its launches were killed: it is no faster, for certain."""

    def killed(serial_s: float, calls: int = 10) -> Contender:
        return measured.contender(
            launched("processes-forkserver", Launch(reason="killed after its limit of 8 s", wall_s=8.0)),
            launched("serial", Launch(status="ok", samples={METRIC: [0.01]}, wall_s=serial_s)),
            Sizes(10, {"serial": 10, "processes-forkserver": calls}, {"processes-forkserver": 2}, 3, 1, True, 1.0),
            "3.13",
        )

    slow = killed(0.9)
    found = decide([contender("serial", 1), slow], [], {}, FUNCTION, None, [], [], "3.13")
    assert (found.outcome, found.sentence) == ("no difference", "serial calls: no model is faster here")
    assert found.lines[0] == (
        "2 processes: far slower, or hanging: killed after its limit of 8 s, where serial calls took 900 ms"
    )
    # A limit that was near, or that had to do for many more calls, tells nothing.
    for open_still in killed(4.0), killed(0.9, calls=100):
        found = decide([contender("serial", 1), open_still], [], {}, FUNCTION, None, [], [], "3.13")
        assert found.outcome == "others failed"
        assert found.lines[0] == "2 processes failed: killed after its limit of 8 s"


LOCK = Lock("LOCK", "/home/me/app.py:17", 0.99)


def test_a_lock_is_why_threads_gain_nothing_and_processes_no_longer_exclude_each_other() -> None:
    """Processes are faster because each has a lock of its own, which may be wrong: the answer says so."""
    takes = replace(FUNCTION, cpu_share=0.02, locks=(LOCK,))
    threads = replace(contender("threads", 0.99, workers=8), speed_up=Interval(0.99, 0.55, 1.8, "paired t"))
    models = contender("serial", 1), threads, contender("processes-forkserver", 6, workers=8)
    found = verdict(*models, function=takes, holds=None)
    assert (found.outcome, found.model) == ("faster", "processes-forkserver")
    assert found.sentence.endswith("times as fast as serial calls, if its calls need not exclude each other")
    own, turns = found.lines[:2]
    assert own.startswith("each process has its own of the lock LOCK (app.py:17): calls in different ones do not")
    assert turns == (
        "8 threads take turns, so their figure (0.99 [0.55-1.80]) is no gain: the calls take turns at the lock LOCK "
        "(app.py:17), which is held for 99% of their time"
    )


def test_more_threads_at_a_lock_leave_no_doubt_about_fewer_processes() -> None:
    """The number of calls at a time is not the reason why threads are slower."""
    takes = replace(FUNCTION, cpu_share=0.02, locks=(replace(LOCK, share=0.7),))
    models = contender("serial", 1), contender("threads", 1.3, workers=32), contender("interpreters", 6, workers=8)
    found = verdict(*models, function=takes, holds=None)
    assert (found.outcome, found.model) == ("faster", "interpreters")
    assert found.lines[0].startswith("each interpreter has its own of the lock")


def test_a_lock_that_is_held_for_a_moment_or_lets_several_in_explains_no_threads() -> None:
    """It is named for processes all the same: a semaphore of four lets in four calls of each process."""
    for lock in (replace(LOCK, share=0.01), replace(LOCK, most=4)):
        takes = replace(FUNCTION, cpu_share=0.02, locks=(lock,))
        slow = verdict(contender("serial", 1), contender("threads", 0.5), function=takes, holds=None)
        assert slow.lines == ("2 threads are slower (0.50 [0.49-0.51])",)
        (line, *_) = verdict(
            contender("serial", 1), contender("processes-forkserver", 2), function=takes, holds=None
        ).lines
        assert line.startswith("each process has its own of the ")
    assert "lets in as many calls as all were meant to" in line


@pytest.mark.parametrize(("failures", "words"), [(2, "launches with 2 threads failed, too"), (0, "return a result")])
def test_serial_calls_that_fail_later_may_have_met_what_others_left(failures: int, words: str) -> None:
    """The function's first calls were serial, too, and returned: a lock file of a killed call is a likely cause."""
    serial = replace(contender("serial", 1), call_s=None, failures=2, failed="exit code 1: FileExistsError: x")
    error = _failed_alone("app:f", [serial, replace(contender("threads", 1), failures=failures)], FUNCTION)
    assert (
        error.message
        == "app:f fails in further processes, though not in the first one: exit code 1: FileExistsError: x"
    )
    assert words in error.hint
    assert "such as a file" in error.hint


def test_serial_calls_that_take_too_long_are_not_explained_by_a_file() -> None:
    """A limit that is over says nothing of what other calls have left, whichever other launches failed."""
    slow = replace(contender("serial", 1), call_s=None, failures=1, failed="killed after its limit of 8 s")
    error = _failed_alone("app:f", [slow, replace(contender("threads", 1), failures=1)], FUNCTION)
    assert error.message.endswith("than its first calls let expect: killed after its limit of 8 s")
    assert "file" not in error.hint
    assert "--budget" in error.hint


@pytest.mark.parametrize(
    ("left_s", "calls_s", "limit_s"), [(40, 1, 40), (7.2, 0.5, 8), (-20, 0.5, 8), (3, 10, 30), (9.3, 1, 10)]
)
def test_the_limit_of_a_launch_follows_the_time_that_is_left(left_s: float, calls_s: float, limit_s: int) -> None:
    """Launches that hang do not take 30 s each from a budget of 12 s; serial calls have the time that they need."""
    assert _limit_s(left_s, calls_s) == limit_s
