"""The verdict on functions whose calls share something, such as the working directory, or disturb each other."""

from dataclasses import replace

from test_advice import FUNCTION, contender, verdict

from headway.advice.verdict import decide

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


def test_serial_calls_are_advised_if_only_threads_are_faster_and_wrong() -> None:
    """An undecided gain of threads is no reason for more time, either, if their results are wrong."""
    for spread in (0.02, 1.0):
        threads = contender("threads", 3, spread=spread)
        found = verdict(contender("serial", 1), threads, function=MOVES, holds=None)
        assert (found.outcome, found.model, found.perhaps) == ("no difference", "serial", "")


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
