"""The times of a function's first calls, on a machine on which they wait for a core."""

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from headway_agent import proc
from headway_agent.strangers import pools, repeated, timed
from test_advice import FUNCTION, contender, verdict

from headway.advice import course
from headway.cli.advise_view import _call
from headway.lab.launching.launch import OVER_LIMIT


class BusyMachine:
    """Clocks of a process whose calls take a while on a core, and wait for one for several times as long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_ns = self.cpu_ns = self.queued_ns = 0
        clocks = SimpleNamespace(
            perf_counter_ns=lambda: self.wall_ns,
            process_time_ns=lambda: self.cpu_ns,
            thread_time_ns=lambda: self.cpu_ns,
            monotonic=lambda: self.wall_ns / 1e9,
        )
        monkeypatch.setattr(timed, "time", clocks)
        monkeypatch.setattr(repeated, "time", clocks)
        monkeypatch.setattr(proc, "queued_ns", lambda: self.queued_ns)

    def call(self) -> int:
        """Compute for 80 ms, and wait for a core for 384 ms."""
        self.wall_ns += 464_000_000
        self.cpu_ns += 80_000_000
        self.queued_ns += 384_000_000
        return 0


def test_a_wait_for_a_core_is_no_waiting_of_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that computes all the time does so on a busy machine, too, in each of its calls."""
    machine, given = BusyMachine(monkeypatch), {}
    talk: Any = SimpleNamespace(begin=lambda _stage: None, give=lambda stage, **values: given.update({stage: values}))
    _, first = repeated.timed_call(machine.call, (), talk)
    assert (first.wall_s, first.own_s) == pytest.approx((0.464, 0.08))
    effects = SimpleNamespace(
        end=list, leave_processes=bool, called_once=lambda: None, apart=lambda make: make(), unseen=lambda make: make()
    )
    watch = SimpleNamespace(watched=[], over=lambda _wall_ns: [])
    supply = SimpleNamespace(
        next=lambda _place: (),
        which=lambda place: place,
        used_up=str,
        may_have_been=bool,
        has_changed=lambda _: False,
        changes=False,
        count=1,
        anew_s=0.0,
    )
    repeated.again(talk, effects, machine.call, supply, 0, lambda: watch)
    again = given["again"]
    assert again["cpu_share"] == pytest.approx(1.0)
    assert (again["mean_s"], again["own_s"]) == pytest.approx((0.464, 0.08))


def test_the_second_call_tells_a_cache_from_first_calls_with_other_inputs() -> None:
    """The mean of the later calls has those with the other inputs, which are as long as the first of all."""
    kept = replace(FUNCTION, first_s=0.2, own_s=0.02, call_s=1e-6, second_s=2e-6)
    assert kept.later_s == pytest.approx(1e-5)
    assert replace(kept, second_s=0.2).later_s == pytest.approx(0.02)


def test_a_first_input_that_is_larger_than_the_others_is_no_miss_of_a_cache() -> None:
    """The second call with it takes as long as the first: nothing has been kept, whatever the mean of all inputs is."""
    counts = replace(
        FUNCTION,
        inputs=61,
        first_s=0.016,
        second_s=0.015,
        own_s=3e-4,
        call_s=3e-4,
        effects=(("globals", "app.CALLS is bound anew"),),
    )
    home: Any = SimpleNamespace(lost=(), place=SimpleNamespace(switched_by=""))
    home.place.interpreter = SimpleNamespace(free_threaded=False)
    assert not [line for line in verdict(contender("serial", 1), function=counts).lines if "cache" in line]
    assert course._notes(home, counts) == []

    kept = replace(counts, second_s=2e-6)
    assert [line for line in verdict(contender("serial", 1), function=kept).lines if "cache" in line]


def test_calls_of_a_microsecond_tell_nothing_of_threads_of_their_own() -> None:
    """The reading of the clocks is in their CPU time and not in their wall time; longer calls tell of several cores."""
    short, long = timed.Took(6e-7, 1.2e-6, 0.0), timed.Took(0.01, 0.019, 0.0)
    assert timed.cores([short] * 100) == 1.0
    assert timed.cores([long, short]) == pytest.approx(1.9, rel=0.01)
    assert timed.cores([timed.Took(6e-7, 3e-7, 0.0)]) == pytest.approx(0.5)


def test_the_computing_of_other_threads_is_told_however_many_cores_there_were() -> None:
    """A thread that computes while the caller waits for it is the function's own; on one core, too."""
    clock = timed.Clock()
    other = threading.Thread(target=lambda: sum(range(3_000_000)))
    other.start()
    other.join()
    sum(range(1_000_000))
    share = timed.by_others([clock.took()])
    clock = timed.Clock()
    sum(range(3_000_000))

    assert 0.5 < share < 0.95
    assert timed.by_others([clock.took()]) < 0.1
    assert timed.by_others([timed.Took(6e-7, 6e-7, 0.0, 6e-7)]) == 0.0


OPENBLAS = (("OpenBLAS", "OPENBLAS_NUM_THREADS"),)


def test_threads_of_a_library_are_told_with_the_variable_that_limits_them() -> None:
    """So is a call that takes longer beside others than its first calls let expect."""
    alone = replace(FUNCTION, cores=0.9, by_others=0.48, pools=OPENBLAS)
    note = (
        "48% of the function's computing is that of its own threads, perhaps OpenBLAS's; with those of a pool they are more than "
        "there are cores, and slow each other down: compare with OPENBLAS_NUM_THREADS=1 in the environment"
    )
    assert course._of_own_threads(alone) == [note]
    assert course._of_own_threads(replace(alone, by_others=0.02)) == []
    busy = replace(alone, cores=1.9)
    assert course._of_own_threads(busy)[0].startswith(
        "the function keeps 1.9 cores busy by itself: it has its own threads, p"
    )
    assert "OpenBLAS" not in course._of_own_threads(replace(busy, pools=()))[0]

    late = replace(contender("serial", 1), failed=f"{OVER_LIMIT} of 13 s")
    assert "OPENBLAS_NUM_THREADS=1" in course._failed_alone("nb:solve", [late], alone).hint
    assert "--budget" in course._failed_alone("nb:solve", [late], replace(alone, pools=())).hint


def test_the_libraries_with_threads_are_found_in_the_process() -> None:
    """NumPy's own OpenBLAS has another name in each release of it."""
    import numpy as np

    np.linalg.inv(np.eye(2))
    assert ["OpenBLAS", "OPENBLAS_NUM_THREADS"] in pools.loaded()


def test_the_account_of_the_waits_began_before_the_call() -> None:
    """A short call before which the thread waited for a core took the time of its cores."""
    assert timed.Took(1e-6, 8e-7, 0.005).own_s >= 8e-7 / (timed.os.cpu_count() or 1)


def test_the_first_call_is_compared_with_later_ones_of_its_process() -> None:
    """A race of calls that wait for a core, or that do not, says nothing about the first call."""
    home: Any = SimpleNamespace(lost=(), place=SimpleNamespace(switched_by=""))
    home.place.interpreter = SimpleNamespace(free_threaded=False)
    same = replace(FUNCTION, first_s=0.11, own_s=0.1, call_s=0.012)
    assert course._notes(home, same) == []
    longer = replace(FUNCTION, first_s=0.5, own_s=0.1, call_s=0.464)
    assert course._notes(home, longer) == ["the first call takes 5.00 times as long as later calls"]
    # Clocks are read around each of the first calls, which takes longer than a call of 25 ns.
    assert replace(FUNCTION, own_s=1e-6, call_s=2.5e-8).later_s == 2.5e-8


def test_a_call_that_mostly_waits_for_a_core_is_told_with_its_own_time() -> None:
    """The time in the table, on a busy machine, is not what a call takes."""
    busy = replace(FUNCTION, call_s=0.464, own_s=0.08)
    assert _call(busy) == (
        "a call takes 464 ms in the table; earlier calls took 80 ms each without waits for a core, 100% of it computing"
    )
    assert _call(replace(FUNCTION, own_s=0.009)) == _call(FUNCTION) == "a call takes 10 ms, 100% of it computing"


def test_calls_that_take_long_beside_the_results_of_others_are_told_with_these() -> None:
    """To make half a megabyte takes 11 us, and several hundred us where 500 such results are kept."""
    huge = replace(FUNCTION, call_s=6e-4, own_s=1.1e-5, result_bytes=500_000)
    assert _call(huge, 500).startswith(
        "a call takes 600 us in the table, with 500 results kept at a time (238 MiB); earlier calls took 11 us each"
    )
    assert "kept" not in _call(huge, 100)
    assert "kept" not in _call(replace(huge, own_s=3e-4), 500)


def test_the_remark_on_a_busy_machine_names_the_waits_in_the_times() -> None:
    """A reader of the table is told why its times may be several times those of a calm machine."""
    session: Any = SimpleNamespace(load=30.1, machine=SimpleNamespace(cores=[0, 1]))
    (note,) = course._load(session)
    assert note.startswith(
        "the machine was busy at the start (load 30.1, 2 cores): the calls' times in the table have waits"
    )
    session.load = 0.5
    assert course._load(session) == []
