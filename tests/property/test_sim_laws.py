"""Laws of scenarios: every valid scenario compiles, and every simulated trace is sound."""

import numpy as np
import pytest
from fake_simulation import FakeSimulation
from hypothesis import example, given
from hypothesis import strategies as st
from made_traces import in_order

from headway.native_sim import COSTS, OF_DIST, OpKind
from headway.sim import machine
from headway.sim.compile import compile_scenario
from headway.sim.parameters import change
from headway.sim.parse import parse
from headway.sim.scenario import walk
from headway.sim.times import Times
from headway.sim.trace import trace_of
from headway.traces import writer
from headway.traces.invariants import violations
from headway.traces.reader import read

COST = machine.load(machine.PRESET)
# Threads of two GILs begin to wait at one time, and a thread of the first GIL has the higher number.
TIED = """
cores = 2
placement = "free"
duration_ms = 1
warm_ms = 1
[role.first]
threads = 1
begin_us = 100
program = [{hold_us = 1}, {run_us = 1}]
[role.second]
threads = 1
processes = true
program = [{run_us = 1}, {hold_ns = 1}]
"""
QUEUES, LOCKS, PORTS = ("q0", "q1"), ("l0", "l1"), ("p0", "p1")

numbers = st.integers(1, 10**6)
times = st.one_of(
    numbers.map(str),
    st.tuples(numbers, numbers).map(lambda ends: f"{{uniform = [{min(ends)}, {max(ends)}]}}"),
    numbers.map("{{exponential = {}}}".format),
    st.tuples(numbers, st.floats(0, 3)).map(lambda one: f"{{lognormal = {{median = {one[0]}, sigma = {one[1]:.3f}}}}}"),
    st.lists(numbers, min_size=1, max_size=9).map(lambda some: f"{{quantiles = {sorted(some)}}}"),
)
timed = st.tuples(
    st.sampled_from(["hold", "call", "run", "sleep", "block"]), st.sampled_from(["ns", "us", "ms"]), times
).map(lambda one: f"{{{one[0]}_{one[1]} = {one[2]}}}")
named = st.one_of(
    st.tuples(st.sampled_from(["put", "get"]), st.sampled_from(QUEUES)),
    st.tuples(st.sampled_from(["lock", "unlock"]), st.sampled_from(LOCKS)),
    st.tuples(st.just("receive"), st.sampled_from(PORTS)),
).map(lambda one: f'{{{one[0]} = "{one[1]}"}}')
plain = st.sampled_from(["{begin = true}", "{done = true}", "{send = true}"])
step = st.recursive(
    st.one_of(timed, named, plain),
    lambda inner: st.tuples(st.integers(1, 5), st.lists(inner, min_size=1, max_size=3)).map(
        lambda one: f"{{loop = {one[0]}, do = [{', '.join(one[1])}]}}"
    ),
    max_leaves=6,
)


@st.composite
def scenarios(draw):
    """Draw a valid file: every name is defined, queues and ports have both ends, and some role locks each lock."""
    cores = draw(st.integers(2, 8))
    lines = [f"cores = {cores}", f'placement = "{draw(st.sampled_from(["free", "split", "same"]))}"']
    lines += [f"duration_ms = {draw(st.integers(1, 5))}", "warm_ms = 1", f"locks = {list(LOCKS)}"]
    lines += [f"gil = {str(draw(st.booleans())).lower()}"]
    for queue in QUEUES:
        lines += [f"[queue.{queue}]", f"capacity = {draw(st.integers(0, 3))}"]
    ends = [f'{{put = "{queue}"}}' for queue in QUEUES] + [f'{{receive = "{port}"}}' for port in PORTS]
    ends += [f'{{lock = "{lock}"}}' for lock in LOCKS]
    programs = [["{hold_us = 1}", *ends, "{reply = true}"]]
    programs += draw(
        st.lists(st.lists(step, min_size=1, max_size=5).map(lambda some: ["{run_us = 1}", *some]), max_size=3)
    )
    for place, program in enumerate(programs):
        lines += [f"[role.r{place}]", f"threads = {draw(st.integers(0, 3))}"]
        lines += [f"processes = {str(draw(st.booleans())).lower()}", f"begin_us = {draw(st.integers(0, 900))}"]
        lines += ["program = [", *(f"    {one}," for one in program), "]"]
    for port in PORTS:
        lines += [f"[client.c{port}]", f'port = "{port}"', f"connections = {draw(st.integers(1, 4))}"]
        if draw(st.booleans()):
            lines.append(f"think_us = {draw(times)}")
    return "\n".join(lines)


@given(text=scenarios(), seed=st.integers(0, 2**64 - 1))
def test_whatever_is_valid_compiles(text, seed):
    """Indices lie within their tables, loops end, threads add up, and the same text gives the same specification."""
    scenario = parse(text, name="app")
    found = compile_scenario(scenario, COST, seed)
    spec = found.spec

    assert compile_scenario(parse(text, name="app"), COST, seed) == found
    assert len(spec.costs) == len(COSTS)
    assert (
        sum(role.threads for role in spec.roles) == sum(role.threads for role in scenario.roles) == len(found.threads)
    )
    assert len(found.steps) == sum(1 for role in scenario.roles for _ in walk(role.program))
    for role in spec.roles:
        assert -1 <= role.gil < len(spec.gils)
        depth = 0
        for op in role.ops:
            depth += (op.kind == OpKind.LOOP) - (op.kind == OpKind.END)
            assert depth >= 0
            assert 1 <= op.where <= len(found.steps)
            if op.flags & OF_DIST:
                assert op.index < len(spec.dists)
            if op.kind in {OpKind.TAKE, OpKind.POST}:
                assert op.index < len(spec.semaphores)
            if op.kind == OpKind.RECEIVE:
                assert op.index < spec.port_count
        assert depth == 0
    assert sorted(index for part in found.parts.values() for index in part) == list(
        range(len(spec.roles) + len(spec.clients))
    )
    for dist in (*spec.dists, *spec.costs):
        assert list(dist) == sorted(dist)


@given(text=scenarios())
def test_every_step_has_its_line(text):
    """The line of each step contains the step's word, however the file is laid out."""
    lines = text.splitlines()
    for role in parse(text, name="app").roles:
        for one in walk(role.program):
            assert one.word in lines[one.line - 1]


@given(text=scenarios(), threads=st.integers(0, 5), policy=st.sampled_from(["none", "fair", "bfs"]))
def test_changes_are_undone_by_changes(text, threads, policy):
    """A parameter that is changed and changed back leaves the scenario as it was."""
    scenario = parse(text, name="app")

    there = change(change(scenario, "r0.threads", str(threads)), "policy", policy)
    back = change(change(there, "policy", "none"), "r0.threads", str(scenario.roles[0].threads))

    assert back == scenario


@example(text=TIED, room=7)
@given(text=scenarios(), room=st.sampled_from([1, 7, 10**6]))
def test_events_are_a_sound_trace(text, room, tmp_path_factory):
    """A simulated trace keeps all traces' invariants, dropped events included, and its file gives it back.

    Events of several threads at one time have several valid orders; the file gives one of them.
    """
    scenario = parse(text, name="app")
    compiled = compile_scenario(scenario, COST, 3, max_events=room)
    events, dropped = FakeSimulation(compiled.spec).events()

    trace = trace_of(scenario, compiled, events, dropped, until_ns=compiled.spec.end_ns)

    assert violations(trace) == []
    assert trace.loss.dropped_events == dropped
    path = tmp_path_factory.mktemp("trace") / "app.hwt"
    again = read(writer.write(trace, path, short_holds=True))
    assert violations(again) == []
    for name in ("time_ns", "kind", "gil", "flags"):
        assert np.array_equal(again.events[name], in_order(trace)[name])
    assert sorted(thread.name for thread in again.threads) == sorted(thread.name for thread in trace.threads)
    first = path.read_bytes()
    assert writer.write(trace, path, short_holds=True).read_bytes() == first


@given(
    one=st.one_of(
        st.floats(0, 1e9).map(Times.constant),
        st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)).map(lambda ends: Times("uniform", tuple(sorted(ends)))),
        st.floats(1e-3, 1e9).map(lambda mean: Times("exponential", (mean,))),
        st.tuples(st.floats(1e-3, 1e9), st.floats(0, 4)).map(lambda two: Times("lognormal", two)),
    )
)
def test_quantiles_rise(one):
    """The quantiles of any distribution rise, and none is negative or infinite."""
    quantiles = one.quantiles()

    assert list(quantiles) == sorted(quantiles)
    assert 0 <= quantiles[0] <= quantiles[-1] < float("inf")
    assert one.mean() == pytest.approx(
        sum(np.interp(np.linspace(0, 1, 6401), np.linspace(0, 1, len(quantiles)), quantiles)) / 6401, rel=0.02
    )
