"""A function's profile: holds by the parts of C calls, and waits for a core, which are nobody's holds."""

import itertools
import sys
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from headway_agent import proc
from headway_agent.strangers import holds as agent

from headway.advice import holds
from headway.advice.asking import Answer
from headway.advice.target import parse_target


class AlwaysHeld:
    """A recorder whose thread never lets go of the GIL."""

    def __init__(self):
        self._asked_ns = agent.time.perf_counter_ns()

    def times(self):
        return agent.time.perf_counter_ns(), 0

    def longest(self):
        now_ns, before_ns = agent.time.perf_counter_ns(), self._asked_ns
        self._asked_ns = now_ns
        return now_ns - before_ns, 0


def looked_at(task, *, calls_s=0.1, inputs=1):
    """Return the places of calls without arguments by the name of the C call."""
    looker = agent._Looker(AlwaysHeld(), agent.time.monotonic() + calls_s)
    tracing, profiling = sys.gettrace(), sys.getprofile()
    try:
        looker.run(task, SimpleNamespace(at=lambda _: (), count=inputs))
    finally:
        sys.settrace(tracing)
        sys.setprofile(profiling)
    return {one["call"]: one for one in looker.places()[0]}


def test_a_c_call_that_calls_python_holds_the_gil_in_parts(monkeypatch):
    """`sum` of a generator does not hold the GIL from begin to end, and its own time is that between the parts.

    Time goes on by 1 us whenever it is read: on a busy machine, one part could be paused for longer than the others take.
    """
    reads = itertools.count()
    clock = SimpleNamespace(perf_counter_ns=lambda: next(reads) * 1000, monotonic=lambda: next(reads) / 1e6)
    monkeypatch.setattr(agent, "time", clock)
    places = looked_at(lambda: sum(number & 3 for number in range(3000)))
    whole_s = sum(one["wall_s"] for one in places.values()) / places["sum"]["calls"]
    assert places["sum"]["wall_s"] > 0
    assert all(one["longest_s"] < whole_s / 4 for one in places.values()), places


@pytest.mark.parametrize(("queued", "longest_s"), [(lambda: 0, 0.01), (time.perf_counter_ns, 0.0)])
def test_a_wait_for_a_core_is_no_hold_of_the_call(monkeypatch, queued, longest_s):
    """The longest hold of a C call leaves out the time in which its thread waited for a core."""
    monkeypatch.setattr(proc, "queued_ns", queued)
    (place,) = (one for name, one in looked_at(lambda: time.sleep(0.01)).items() if name == "time.sleep")
    assert place["longest_s"] == 0 if longest_s == 0 else place["longest_s"] >= longest_s


class LosesItsCore(AlwaysHeld):
    """A recorder in which the thread waits 5 ms for a core, at its 100th reading."""

    def __init__(self):
        super().__init__()
        self._readings = 0

    def times(self):
        self._readings += 1
        held_ns, waited_ns = super().times()
        return held_ns + 5_000_000 * (self._readings >= 100), waited_ns


def test_a_wait_for_a_core_between_two_readings_of_clocks_is_no_hold(monkeypatch):
    """A line holds the GIL for no longer than the line takes."""
    reads = itertools.count()
    clock = SimpleNamespace(perf_counter_ns=lambda: next(reads) * 1000, monotonic=lambda: next(reads) / 1e6)
    monkeypatch.setattr(agent, "time", clock)
    monkeypatch.setitem(globals(), "AlwaysHeld", LosesItsCore)
    places = looked_at(lambda: [number & 3 for number in range(3000)], calls_s=0.01)

    assert max(one["longest_s"] for one in places.values()) < 0.001


def test_a_call_of_c_during_which_the_time_ran_out_is_booked(monkeypatch):
    """A function that is in one long call of C all the time has that call's row with its time."""
    hours: list[None] = []
    clock = SimpleNamespace(perf_counter_ns=lambda: len(hours) * 3600 * 10**9, monotonic=lambda: len(hours) * 3600.0)
    monkeypatch.setattr(agent, "time", clock)
    monkeypatch.setattr(proc, "queued_ns", lambda: 0)
    assert looked_at(lambda: hours.append(None))["list.append"]["wall_s"] == 3600


@pytest.mark.parametrize(
    ("owner", "module", "name"),
    [
        (object(), "shop", "shop.price"),  # as pybind11 makes functions
        (sys, "shop", "shop.Internal.price"),
        (dict, "shop", "shop.Internal.price"),
        (object(), None, "Internal.price"),
    ],
)
def test_the_name_of_a_function_of_a_module_has_no_type_of_its_library(owner, module, name):
    """A function in C that has a module is no method of the object that its library binds to it."""
    parts = {"__qualname__": "Internal.price", "__name__": "price", "__module__": module, "__self__": owner}
    assert agent._name(SimpleNamespace(**parts)) == name


def booked(*parts):
    """Return the account of a place with these parts: (time, time with the GIL, time without a core) in ms."""
    found = agent._Booked()
    for took_ms, kept_ms, queued_ms in parts:
        found.own_ns += (took_ms - queued_ms) * 10**6
        found.add(took_ms * 10**6, kept_ms * 10**6, calm=queued_ms == 0)
    return found


def test_a_call_that_lost_its_core_while_it_held_the_gil_does_not_hold_it_longer():
    """The share of a place's time with the GIL comes from the parts without a wait for a core, if they are most of it."""
    assert booked((8, 6, 6)).held() == 0.75
    assert booked((8, 6, 6), (2, 0.02, 0)).held() == 0.01


def test_short_calls_do_not_tell_how_long_ones_hold_the_gil():
    """A call that keeps the GIL when it is short, and releases it when it is long, holds it for a little of its time."""
    assert booked((8, 0.1, 4), (0.01, 0.01, 0)).held() < 0.02


def test_a_wait_for_a_core_is_no_time_of_a_place(monkeypatch):
    """The time of a place leaves out the waits for a core, so its share and its time without the GIL do, too."""
    calls: list[None] = []
    clock = SimpleNamespace(perf_counter_ns=lambda: len(calls) * 10**7, monotonic=lambda: len(calls) / 100)
    monkeypatch.setattr(agent, "time", clock)
    monkeypatch.setattr(proc, "queued_ns", lambda: len(calls) * 9 * 10**6)
    place = looked_at(lambda: calls.append(None))["list.append"]
    assert place["wall_s"] / place["calls"] == pytest.approx(0.001)


@pytest.mark.parametrize(("inputs", "seen"), [(1, 50), (40, 80), (1000, 200)])
def test_no_more_calls_are_profiled_than_tell_their_holds(monkeypatch, inputs, seen):
    """Fifty calls, two with each input, are enough before the time is up."""
    calls: list[None] = []
    clock = SimpleNamespace(perf_counter_ns=lambda: len(calls) * 10**7, monotonic=lambda: len(calls) / 100)
    monkeypatch.setattr(agent, "time", clock)
    monkeypatch.setattr(proc, "queued_ns", lambda: 0)
    place = looked_at(lambda: calls.append(None), calls_s=2.0, inputs=inputs)["list.append"]
    assert place["calls"] == pytest.approx(seen, abs=1)


def test_a_hold_that_hardly_any_call_has_is_the_machines(monkeypatch):
    """A pause of the machine in one call is no operation of the function; what each call does, or one of many inputs, is."""
    # On a busy machine, a wait for a core just before a call would be taken from the call's time.
    monkeypatch.setattr(proc, "queued_ns", lambda: 0)
    count = itertools.count()

    def paused():
        if next(count) == 5:
            time.sleep(0.02)

    assert looked_at(paused, calls_s=10.0)["time.sleep"]["longest_s"] < 0.0002
    count = itertools.count()
    assert looked_at(paused, calls_s=10.0, inputs=600)["time.sleep"]["longest_s"] >= 0.02
    assert looked_at(lambda: [hold(0.02) for hold in (time.sleep,)])["time.sleep"]["longest_s"] >= 0.02


# In seconds: a call that takes 4 ms on a calm machine, a tenth of it with the GIL held.
COMPUTES = {"wall_s": 0.004, "held_s": 0.0004, "cpu_s": 0.004, "queued_s": 0.0, "preempted": 0.0}
SLEEPS = {**COMPUTES, "cpu_s": 0.0008}


@pytest.mark.parametrize(
    ("calm", "busy", "waits"),
    [
        # It lost its core several times, for a tenth of that time with the GIL held.
        (COMPUTES, {"wall_s": 0.01, "held_s": 0.001, "queued_s": 0.006, "preempted": 1.0}, 0.0),
        # It slept, and then found no core; it held no GIL.
        (SLEEPS, {"wall_s": 0.01, "queued_s": 0.006}, 0.8),
        # It holds the GIL while it sleeps.
        ({**SLEEPS, "held_s": 0.004}, {"wall_s": 0.01, "held_s": 0.01, "queued_s": 0.006, "preempted": 1.0}, 0.0),
        # The account of the waits began before the clock of the calls.
        (COMPUTES, {"wall_s": 0.01, "held_s": 0.001, "queued_s": 0.007, "preempted": 1.0}, 0.0),
    ],
)
def test_a_wait_for_a_core_is_no_time_of_the_function(monkeypatch, calm, busy, waits):
    """A busy machine changes neither a function's shares nor the time of its call."""
    place: Any = SimpleNamespace(interpreter=SimpleNamespace(executable="python3"), paths=())
    function: Any = SimpleNamespace(call_s=0.01, kind="plain", changes_arguments=False, file="app.py")
    monkeypatch.setattr(holds, "library_path", lambda: "libheadway.so")
    found = []
    for seen in (calm, {**calm, **busy}):
        sums = {"took": 0.0, "released": 0.0}
        answer = Answer({"holds": {**seen, "places": [], "sums": sums, "whole": True}})
        monkeypatch.setattr(holds, "ask", lambda *_, answer=answer, **__: answer)
        told = holds.look(parse_target("app:f"), place, function, [0])
        assert isinstance(told, holds.Holds)
        found.append((told.held, told.computes_without, told.waits, told.call_s))
    assert found[0] == pytest.approx(found[1])
    assert found[0][2] == pytest.approx(waits)


def test_the_kernel_tells_how_long_a_thread_waited_for_a_core(monkeypatch):
    """The second figure of schedstat is the wait; a kernel without it tells none."""
    monkeypatch.setattr(proc, "read", lambda path: "81 4000 3\n" if path == "/proc/thread-self/schedstat" else "")
    assert proc.queued_ns() == 4000
    monkeypatch.setattr(proc, "read", lambda path: "")
    assert proc.queued_ns() == 0


def test_a_line_that_once_paused_has_no_long_operation_in_c():
    """`j = i` with 5 ms was the machine's pause; a product of matrices takes 5 ms at each visit."""
    line = holds.Spot(
        at="app.py:3", by="", call="", calls=10_000, share=0.5, released=0.0, longest_s=0.005, visit_s=1e-6
    )
    seen = holds.Holds(held=1.0, computes_without=0.0, waits=0.0, call_s=0.004, spots=(line,), whole=True)
    assert seen.longest is None
    product = replace(line, at="app.py:4", visit_s=0.004)
    assert replace(seen, spots=(line, product)).longest == product
    call = replace(line, at="app.py:5", call="sorted")
    assert replace(seen, spots=(line, call)).longest == call


def _place(line, call, wall_s, held_s):
    return {
        "file": "/app.py", "line": line, "call": call, "calls": 10, "wall_s": wall_s, "held_s": held_s, "longest_s": 0.0,
        "trail": [],
        "reached": True,
    }  # fmt: skip


def _sums(places):
    took_s, held_s = (sum(one[name] for one in places) for name in ("wall_s", "held_s"))
    return {"took": took_s, "released": took_s - held_s}


def test_a_profile_that_slows_python_down_does_not_hide_a_wait():
    """A function that waits for 39 % of its time has that share at its `time.sleep`, though the profile saw 2 %."""
    places = [_place(26, "", 0.52, 0.52), _place(25, "", 0.46, 0.46), _place(58, "time.sleep", 0.02, 0.0)]

    def spots(places, held):
        return holds._spots(places, _sums(places), "/app.py", held)

    shares = {one.words: round(one.share, 2) for one in spots(places, 0.61)}
    assert shares == {"app.py:58 time.sleep": 0.39, "app.py:26": 0.32, "app.py:25": 0.29}
    assert list(shares) == ["app.py:58 time.sleep", "app.py:26", "app.py:25"]
    # Nothing is without the GIL, or all is: the shares are the profile's.
    assert [one.share for one in spots(places[:2], 0.9)] == pytest.approx([0.53, 0.47], abs=0.01)
    assert [one.share for one in spots(places[2:], 0.02)] == [1.0]
    assert spots(places, None)[0].share == pytest.approx(0.52)


def test_places_that_are_not_sent_keep_their_share():
    """A flat profile of 54 places, of which the agent sends 40, has no line with a larger share than it took."""
    places = [_place(line, "", 0.015, 0.015) for line in range(52)]
    places += [_place(line, "time.sleep", 0.11, 0.0) for line in (90, 91)]
    sent = [*places[:39], places[-1]]
    for held in (0.78, None):
        found = holds._spots(sent, _sums(places), "/app.py", held)
        assert [one.share for one in found] == pytest.approx([0.11, *([0.015] * 39)])


def test_the_sums_of_a_profile_are_over_all_of_its_places(monkeypatch):
    """The sums hold the places that are not sent, too; a line that lets go of the GIL for a moment only seems to."""
    monkeypatch.setattr(agent, "_MOST_PLACES", 1)
    looker = agent._Looker(AlwaysHeld(), 0.0)
    looker._booked["/app.py", 1, ""] = booked((100, 95, 0))
    looker._booked["/app.py", 2, ""] = booked((50, 40, 0))
    looker._booked["/app.py", 3, "zlib.crc32"] = booked((20, 19, 0))

    (place,), sums = looker.places()
    assert (place["wall_s"], place["held_s"]) == (0.1, 0.1)
    assert sums == pytest.approx({"took": 0.17, "released": 0.011})
    sampled = {("/app.py", 2, ""): 0.5, ("/app.py", 3, "zlib.crc32"): 0.25, ("/app.py", 4, ""): 0.125}
    (place,), sums = looker.places(sampled)
    assert (place["line"], place["share"]) == (2, 0.5)
    assert sums == pytest.approx({"took": 0.875, "released": 0.5 * 0.2 + 0.25 * 0.05})
