"""How often a function is called in a sample: by the planner, and by a launch that sees its calls run one after the other."""

import math
import threading
import types
from dataclasses import replace

import pytest
from headway_agent import workloads
from headway_agent.strangers import calls, workload
from hypothesis import given
from hypothesis import strategies as st
from test_advice import FUNCTION

from headway.advice import course, pays_from
from headway.advice.models import sizes_of


def test_calls_that_wait_get_more_workers_and_long_ones_fewer_tasks():
    """Calls that mostly wait get more workers, and long calls fewer tasks."""
    computing, waiting = sizes_of(FUNCTION, 2, None), sizes_of(replace(FUNCTION, cpu_share=0.01), 2, None)
    long = sizes_of(replace(FUNCTION, call_s=1.0, first_s=1.0), 2, None)
    assert computing.workers["threads"] == 2
    assert waiting.workers["threads"] == 32
    assert waiting.workers["processes-forkserver"] <= 8
    assert waiting.tasks >= 2 * 32
    assert long.tasks == 4
    assert (long.samples, long.warmups, long.cold) == (1, 0, False)
    assert sizes_of(replace(FUNCTION, call_s=1.0, first_s=1.0), 2, None, import_s=0.2).cold
    assert sizes_of(FUNCTION, 2, 5).workers["threads"] == 5


@pytest.mark.parametrize("cpu_share", [0.05, 0.4, 0.6, 1.0])
def test_calls_that_wait_have_no_fewer_workers_than_cores(cpu_share):
    """On 64 cores, calls that wait get 64 workers, as those that compute do; 32 would leave half of the cores idle."""
    sizes = sizes_of(replace(FUNCTION, cpu_share=cpu_share), 64, None)
    assert sizes.workers["threads"] == sizes.workers["processes-forkserver"] == 64


def test_memory_bounds_the_calls_at_a_time():
    """32 calls of 1 GiB each must not run at a time in 8 GiB; a number of the user's is kept."""
    waits = replace(FUNCTION, cpu_share=0.01, peak_bytes=1 << 30)
    sizes = sizes_of(waits, 2, None, available_bytes=8 << 30)
    assert sizes.workers["threads"] == sizes.workers["processes-forkserver"] == sizes.calls["asyncio"] == 4
    assert sizes_of(waits, 2, None, available_bytes=1 << 30).workers["threads"] == 1
    assert sizes_of(waits, 2, 16, available_bytes=8 << 30).workers["threads"] == 16
    assert sizes_of(replace(waits, peak_bytes=1 << 20), 2, None, available_bytes=8 << 20).workers["threads"] == 32
    (said,) = course._of_memory(waits, 2, None, 8 << 30)
    assert "no more than 4 calls ran at a time" in said
    # An event loop has more calls at a time than threads.
    assert course._of_memory(waits, 2, None, 64 << 30) == []
    (said,) = course._of_memory(replace(waits, kind="async"), 2, None, 64 << 30)
    assert "no more than 32 calls ran at a time" in said
    assert course._of_memory(waits, 2, 16, 8 << 30) == course._of_memory(waits, 2, None, 64 << 30) == []


def test_long_calls_are_few_alone_and_enough_for_all_workers():
    """Serial samples of long calls stay short, whatever the number of workers; each of these has at least two calls."""
    cores = sizes_of(replace(FUNCTION, call_s=1.0), 15, None)
    assert (cores.tasks, cores.calls["serial"]) == (4, 4)
    assert (cores.workers["processes-forkserver"], cores.calls["processes-forkserver"]) == (15, 30)
    waits = sizes_of(replace(FUNCTION, call_s=1.0, cpu_share=0.01), 2, None)
    assert (waits.tasks, waits.workers["threads"], waits.calls["threads"], waits.calls["asyncio"]) == (4, 32, 64, 64)
    assert (waits.workers["interpreters"], waits.calls["interpreters"]) == (8, 16)
    long = sizes_of(replace(FUNCTION, call_s=10.0), 2, None)
    assert (long.tasks, long.calls["threads"]) == (1, 2)


@given(
    call_s=st.floats(1e-7, 50),
    cpu_share=st.floats(0, 1),
    inputs=st.integers(1, 3000),
    cores=st.integers(1, 64),
    workers=st.none() | st.integers(1, 64),
    result_bytes=st.integers(0, 1 << 30),
)
def test_all_workers_have_as_many_calls(call_s, cpu_share, inputs, cores, workers, result_bytes):
    """No model has fewer calls than workers, and few calls are the same number for each of them."""
    function = replace(FUNCTION, call_s=call_s, cpu_share=cpu_share, inputs=inputs, result_bytes=result_bytes)
    sizes = sizes_of(function, cores, workers)
    few_bytes = result_bytes + FUNCTION.input_bytes <= (256 << 20) // 512
    assert sizes.tasks >= 1
    assert sizes.tasks * call_s <= max(4.0, call_s)
    for model in ("threads", "interpreters", "processes-forkserver"):
        calls, count = sizes.calls[model], sizes.workers[model]
        assert calls >= max(count, min(2, calls))
        assert calls >= sizes.tasks
        if few_bytes and calls < 20 * count:
            assert calls % count == 0


def test_results_that_are_large_are_few():
    """Large results reduce the number of tasks, because all results of a sample exist at a time."""
    assert sizes_of(replace(FUNCTION, call_s=1e-7, result_bytes=100 << 20), 2, None).tasks == 2


def test_pools_that_pickle_for_longer_than_they_call_have_few_calls():
    """Half a thousand calls of 160 us would take a pool 5 s, if it pickles for 9 ms; a few show as well that it is slow."""
    large = replace(FUNCTION, call_s=160e-6, inputs=10, pickle_s=9e-3)
    sizes = sizes_of(large, 2, None)
    assert (sizes.tasks, sizes.calls["serial"], sizes.calls["threads"]) == (750, 750, 750)
    for model in ("interpreters", "processes-forkserver"):
        assert sizes.calls[model] == 110
    assert sizes.launch_s == pytest.approx(5 * (750 * 160e-6 + 110 * 9e-3))
    # Pickling that takes less than the call changes nothing: all models have the same calls.
    some = sizes_of(replace(large, pickle_s=100e-6), 2, None)
    assert set(some.calls.values()) == {750}


def test_calls_whose_arguments_are_made_anew_are_few_if_that_takes_longer():
    """Each sample has new arguments for serial calls and threads, too, and the limit of a launch counts that time."""
    changes = replace(FUNCTION, call_s=160e-6, inputs=60, pickle_s=9e-3, changes_arguments=True)
    sizes = sizes_of(changes, 2, None)
    assert sizes.calls == {
        "serial": 60,
        "asyncio": 60,
        "threads": 60,
        "interpreters": 54,
        "processes-forkserver": 54,
    }
    assert sizes.launch_s == pytest.approx(5 * (60 * 160e-6 + 54 * 18e-3))
    assert sizes_of(replace(changes, pickle_s=3.0), 2, None).calls["processes-forkserver"] == 4


def test_an_event_loop_waits_beside_few_calls_that_pickle_for_long():
    """The calls beside a loop take 0.3 s with their pickling, or are those of a sample."""
    large = replace(FUNCTION, call_s=160e-6, inputs=10, pickle_s=9e-3)
    sizes = sizes_of(large, 2, None)
    assert pays_from._beside_a_loop(large, sizes, "processes-forkserver") == 110
    assert pays_from._beside_a_loop(large, sizes, "threads") == 1875


# ---------------------------------------------------------------- a launch


class _Pool:
    """A pool whose calls take a second of virtual time each, `at_once` of them at the same time."""

    def __init__(self, at_once, importing_s, own_s):
        self.at_once, self.importing_s, self.own_s, self.now_s, self.made = at_once, importing_s, own_s, 0.0, []
        self.first_s = 0.0

    def start(self):
        self.first_s = self.own_s

    def run(self, _task, arguments):
        self.made.append(len(arguments))
        self.now_s += math.ceil(len(arguments) / self.at_once) + self.importing_s + self.first_s
        self.importing_s = self.first_s = 0.0
        return []

    def close(self):
        pass


@pytest.fixture
def launched(monkeypatch):
    """Return a function that opens a launch on such a pool and takes a sample; it returns both metrics, and the pool."""
    monkeypatch.setattr(workload, "inputs_of", lambda *_: [((place,), {}) for place in range(3)])

    def launch(at_once, *, model="threads", importing_s=0.0, own_s=0.0, **params):
        pool = _Pool(at_once, importing_s, own_s)
        monkeypatch.setattr(workloads, "open_model", lambda *_: pool)
        monkeypatch.setattr(workload, "find", lambda _target: None)
        clock = type("Clock", (), {"perf_counter_ns": staticmethod(lambda: int(pool.now_s * 1e9))})
        monkeypatch.setattr(workloads, "time", clock)
        job = {"model": model, "params": {"target": {}, "kind": "plain", "call_s": 1.0, **params}}
        calls = workload.Calls(job)
        return {**calls.open(), **calls.sample()}, pool, calls

    return launch


def test_each_worker_gets_calls_where_these_run_beside_each_other(launched):
    """Calls that wait for a second are measured with all 32 threads, though serial samples have only four calls."""
    found, pool, calls = launched(32, tasks=4, calls=64, workers=32, cold=False)
    assert pool.made == [4, 64]
    assert found["call_s"] == 2 / 64
    assert "first_longer_s" not in found
    assert [args for (args,) in calls.arguments[:8]] == [0, 1, 2, 0, 0, 1, 2, 0]


@pytest.mark.parametrize("at_once", [1, 2])
def test_calls_that_run_one_after_the_other_are_cut_down(launched, at_once):
    """A server that serves one call, or two, at a time is not asked 64 times for a second each."""
    found, pool, _ = launched(at_once, tasks=4, calls=64, workers=32, cold=False)
    assert pool.made == [4, 4 * at_once]
    assert found["call_s"] == 1 / at_once


def test_the_first_calls_import_modules_which_is_no_sign_of_turns(launched):
    """The first four calls take 3 s more, for the import, and count as the start, not as calls that take turns."""
    found, pool, _ = launched(15, model="interpreters", importing_s=3.0, tasks=4, calls=30, workers=15)
    assert pool.made == [4, 4, 30]
    assert found["call_s"] == 2 / 30
    assert found["first_longer_s"] == 3.0


def test_short_calls_are_as_many_in_the_first_sample(launched):
    """Where the model has as many calls as a serial sample, the first sample is one like all others."""
    found, pool, _ = launched(2, model="interpreters", importing_s=0.5, tasks=6, calls=6, workers=2)
    assert pool.made == [6, 6]
    assert (found["call_s"], found["first_longer_s"]) == (0.5, 0.5)


def test_what_a_process_does_once_is_no_start_of_threads(launched):
    """Threads share the process, so the first ones in it wait for more than those of a pool that is started anew.

    The start has the time that each pool's threads need for themselves, as to connect.
    """
    found, pool, _ = launched(2, importing_s=3.0, own_s=0.25, tasks=6, calls=6, workers=2)
    assert pool.made == [6, 6, 6]
    assert (found["call_s"], found["first_longer_s"]) == (0.5, 0.25)


def test_one_long_call_is_enough_for_a_serial_sample(launched):
    """A serial sample of one call has one; a pool of two workers has two, which a first look leaves as they are."""
    assert launched(1, tasks=1, calls=1, workers=1, cold=False)[1].made == [1]
    assert launched(2, tasks=1, calls=2, workers=2, cold=False)[1].made == [2]


@pytest.mark.parametrize(
    ("inputs", "gil", "distinct", "shared"),
    [
        ([[1]], False, 8, 0),
        ([[1], [2]], False, 8, 0),
        ([[place] for place in range(4)], False, 4, 0),
        ([[1]], True, 1, 0),  # threads take turns anyway
        ([threading.Lock()], False, 1, 1),  # no copy can be made
    ],
)
def test_threads_without_a_gil_have_inputs_of_their_own(launched, monkeypatch, inputs, gil, distinct, shared):
    """Threads do not contend for one example's object where there is no GIL; a launch tells if they have to."""
    monkeypatch.setattr(workload.proc, "gil_enabled", lambda: gil)
    monkeypatch.setattr(workload, "inputs_of", lambda *_: [((one,), {}) for one in inputs])
    calls = launched(4, tasks=8, calls=8, workers=4, cold=False)[2]
    assert len({id(one) for (one,) in calls.arguments}) == distinct
    if distinct > len(inputs):
        assert [one for (one,) in calls.arguments] == [inputs[place % len(inputs)] for place in range(8)]
    monkeypatch.setattr(workload, "memory_of", dict)
    assert calls.close()["shared_inputs"] == shared


def test_inputs_that_threads_share_are_told():
    """The note says how many inputs the threads had to share."""
    launch = types.SimpleNamespace(facts={"details": {"shared_inputs": 2}})
    result = types.SimpleNamespace(ok=[types.SimpleNamespace(launch=launch)])
    (said,) = course._shared_inputs([result])
    assert "the threads shared 2 inputs, which cannot be copied" in said
    launch.facts["details"] = {"shared_inputs": 0}
    assert course._shared_inputs([result]) == []


class _Cold:
    """A value whose first pickle takes long, as it does for the first array of a process."""

    def __init__(self) -> None:
        self.took_s = [0.05]
        self.now_s = 0.0

    def __reduce__(self):
        self.now_s += self.took_s.pop() if self.took_s else 0.001
        return dict, ()


def test_the_time_of_a_pickle_is_that_of_a_warm_one(monkeypatch):
    """The time that only the first pickle in a process takes is no cost of each call."""
    value = _Cold()
    monkeypatch.setattr(calls, "time", types.SimpleNamespace(perf_counter=lambda: value.now_s))
    size, took_s = calls.sent(value)
    assert size > 0
    assert took_s == pytest.approx(0.001)
