"""Which receives and sends of a trace belong to one client, and the number of its connections."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_turns import FRAMES, MS, US, trace_of, turn

from headway.native_sim import OF_PORT, OpKind
from headway.sim.machine import load
from headway.sim.replay.change import NOTHING, Change, specify
from headway.sim.replay.learn import learn
from headway.sim.replay.ports import Part, _possible
from headway.traces.calls import Call
from headway.traces.model import Frame

COSTS = load("preset")
KINDS = {0: Call.UNKNOWN, 1: Call.RECEIVE, 2: Call.SEND}
MORE_FRAMES = (*FRAMES, Frame("app.py", 3, "three"))
MORE_KINDS = {**KINDS, 3: Call.LOCK}


def served(rows, calls=MORE_KINDS):
    """Return the model of a program with four stacks; by default, the third waits for a lock."""
    trace = trace_of(rows, frames=MORE_FRAMES, until_ns=rows[-1][0] * US)
    trace = dataclasses.replace(trace, stack_parent=np.zeros(4, dtype=np.int64), stack_frame=np.arange(4))
    return learn(trace, COSTS, calls)


def pooled(count):
    """Return the rows of a server whose thread 0 takes requests, and whose thread 1 answers each by two sends."""
    rows = []
    for at in range(0, count * 1000, 1000):
        rows += turn(at, 0, holds_us=10, stack=1)  # waits for the next request
        rows += turn(at + 100, 1, holds_us=50, stack=2)
        rows += turn(at + 940, 1, holds_us=20, stack=2)
        rows += turn(at + 965, 1, holds_us=5, stack=3)  # waits for more to do
    return rows


def test_requests_that_another_thread_answers_are_a_port():
    """A request that another thread answers uses a port, and the second of its two sends is the answer.

    The next request comes when the last one is answered.
    """
    model = served(pooled(200))
    (port,) = model.ports
    assert (port.threads, port.connections) == ({0, 1}, 1)
    assert {one.port for one in model.actors} == {0}
    taker, answerer = (one.ops[(one.ops["flags"] & OF_PORT) != 0]["kind"].tolist() for one in model.actors)
    assert set(taker) == {OpKind.RECEIVE}
    assert set(answerer) == {OpKind.REPLY}
    assert len(taker) == len(answerer) > 150
    assert not any("another answers them" in one for one in model.outside)
    spec, _ = specify(model, NOTHING, COSTS, 1, MS, cores=2)
    assert [one.connections for one in spec.clients] == [1]


def test_what_cannot_be_counted_is_no_port():
    """Two and a half sends to a request give no port, because it is unknown which belong together."""
    rows = pooled(200) + [row for at in range(500, 200_000, 2000) for row in turn(at, 1, holds_us=5, stack=2)]
    model = served(sorted(rows, key=lambda row: row[0]))
    assert model.ports == ()
    assert any("another answers them" in one for one in model.outside)


def test_an_event_loop_has_as_many_connections_as_it_takes_requests_at_a_time():
    """An event loop has as many connections as it takes requests at a time, and each of them is answered.

    The poll that slept takes the first request.
    """
    rows = []
    for at in range(0, 200_000, 1000):
        rows += turn(at, 0, holds_us=10, stack=3)
        for nth in range(3):
            rows += turn(at + 100 + 20 * nth, 0, holds_us=10, stack=1)
        for nth in range(3):
            rows += turn(at + 160 + 210 * nth, 0, holds_us=200, stack=2)
    model = served(rows, {**KINDS, 3: Call.POLL})
    (port,) = model.ports
    assert port.connections == 3
    counts = Counter(port.parts.values())
    assert counts[Part.REQUEST] == counts[Part.REPLY] > 400
    assert counts[Part.MORE] > 150


def polled(pause_us):
    """Return the rows of an event loop that answers two requests, and whose next one comes a pause later."""
    rows = []
    for at in range(0, 200 * (1000 + pause_us), 1000 + pause_us):
        rows += turn(at, 0, holds_us=10, stack=1)
        rows += turn(at + 11, 0, holds_us=10, stack=1)
        rows += turn(at + 30, 0, holds_us=400, stack=2)
        rows += turn(at + 450, 0, holds_us=400, stack=2)
        rows += turn(at + 860, 0, holds_us=130, stack=3)
    return rows


def test_an_event_loop_whose_clients_pause_is_outside_the_model():
    """A poll that sleeps for a request long after the last answer shows a client that pauses, unlike the model's."""
    calls = {**KINDS, 3: Call.POLL}
    pausing, prompt = served(polled(2000), calls), served(polled(20), calls)
    assert [one.connections for one in pausing.ports] == [one.connections for one in prompt.ports] == [2]
    assert pausing.ports[0].pause_ns > 2 * MS
    (text,) = [one for one in pausing.outside if "peers pause" in one]
    assert "main" in text
    assert prompt.ports[0].pause_ns == 0
    assert not any("peers pause" in one for one in prompt.outside)


@pytest.mark.parametrize(("pause_us", "work_us"), [(300, (380, 430)), (20, (0, 0)), (2000, (0, 0))])
def test_clients_of_an_event_loop_compute_between_an_answer_and_a_request(pause_us, work_us):
    """In a short pause, the time beyond a peer's wake-up is the client's own work; a long one is not known to be work."""
    model = served(polled(pause_us), {**KINDS, 3: Call.POLL})
    (port,) = model.ports
    assert work_us[0] * US <= port.work_ns <= work_us[1] * US
    assert port.connections == 2
    for others, factor in ((0.0, 0), (2.0, 0.5)):
        # The client is one thread for all connections, and a calm machine is replayed without its work.
        spec, _ = specify(dataclasses.replace(model, others=others), NOTHING, COSTS, 1, MS, cores=2)
        assert [one.work_ns for one in spec.clients] == [int(factor * port.work_ns)]


@pytest.mark.parametrize("cores", [1, 2])
def test_the_core_of_a_client_has_other_programs_too(cores):
    """The client of a program on one core has a core of its own, on which other programs are as many."""
    model = served(polled(20), {**KINDS, 3: Call.POLL})
    spec, _ = specify(dataclasses.replace(model, others=2.0 * cores), Change(cores=1), COSTS, 1, MS, cores=cores)
    assert [(one.threads, one.cores) for one in spec.roles if one.gil == -1] == [(2, 0b01), (2, 0b10)]


def behind(hold_us):
    """Return the rows of an event loop that waits for the GIL after its answer, and then polls for less than 0.1 ms."""
    rows = []
    for at in range(0, 200 * (hold_us + 400), hold_us + 400):
        rows += turn(at, 0, holds_us=10, stack=1)  # receives
        rows += turn(at + 11, 0, holds_us=200, stack=2)  # sends
        rows += turn(at + 215, 0, waits_us=hold_us, holds_us=100, stack=3)  # then polls
    return rows


def test_a_loop_that_waited_for_the_gil_has_no_clients_that_pause():
    """The time from an answer to the loop's own next poll is not the clients', even if that poll slept for a little."""
    (port,) = (model := served(behind(5000), {**KINDS, 3: Call.POLL})).ports

    slept_ns = model.seen.bursts[0].away_ns[model.seen.bursts[0].stack == 3]
    assert np.median(slept_ns) > 50 * US
    assert port.pause_ns == 0
    assert not any("peers pause" in one for one in model.outside)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=60),
    st.integers(1, 4),
)
def test_an_exchange_can_be_replayed_for_ever(calls, connections):
    """An exchange never has more requests than connections, never an answer to nothing, and no request at its end.

    That holds even if the calls were recognised wrongly.
    """
    exchange = [(at, (thread, at), Part.REQUEST if takes else Part.REPLY) for at, (takes, thread) in enumerate(calls)]
    found = _possible(exchange, {key: part for _, key, part in exchange}, connections)
    is_open = 0
    for _, key, _ in exchange:
        is_open += {Part.REQUEST: 1, Part.REPLY: -1}.get(found[key], 0)
        assert 0 <= is_open <= connections
    assert is_open == 0


UVLOOP = Frame("/usr/lib/python3.11/asyncio/runners.py", 118, "Runner.run")


def looping(least_us, most_us, *, count=400):
    """Return the rows of a thread that works, and then releases the GIL at stack 1 for any time between these."""
    rng = np.random.default_rng(1)
    rows, at = [], 0
    for _ in range(count):
        work_us = int(rng.integers(20, 200))
        rows += turn(at, 0, holds_us=work_us, stack=1)
        at += work_us + int(rng.integers(least_us, most_us))
    return rows


def ticking():
    """Return the rows of a thread that does work of many lengths at each stroke of a clock, and releases the GIL at stack 1."""
    rng = np.random.default_rng(1)
    starts_us = (10_000 * np.arange(200) + rng.integers(50, 90, 200)).tolist()
    works_us = rng.integers(20, 2000, 200).tolist()
    return [
        row for at, work_us in zip(starts_us, works_us, strict=True) for row in turn(at, 0, holds_us=work_us, stack=1)
    ]


@pytest.mark.parametrize(
    ("frame", "rows", "is_unseen"),
    [
        (UVLOOP, looping(2, 14), True),
        (UVLOOP, looping(2, 2500), True),
        (FRAMES[1], looping(2, 14), False),
        (UVLOOP, looping(9000, 21_000, count=45), False),
        (UVLOOP, ticking(), False),
    ],
    ids=["work always waits", "it waits for work", "no loop", "few polls", "a clock"],
)
def test_an_event_loop_in_c_has_requests_that_no_trace_shows(frame, rows, is_unseen):
    """A loop such as uvloop's sends and receives at the stack of its poll; only its timers show, if they keep a clock."""
    trace = trace_of(rows, frames=(FRAMES[0], frame, FRAMES[2]), until_ns=rows[-1][0] * US)

    told = [one for one in learn(trace, COSTS).outside if "event loop of main is written in C" in one]

    assert bool(told) == is_unseen
