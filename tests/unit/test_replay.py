"""From a trace to a model: bursts, calls, wake-ups, sleeps and peers, on traces small enough to compute by hand."""

import numpy as np
import pytest
from made_turns import MS, US, ran, trace_of, turn

from headway.errors import ScenarioError
from headway.native_sim import GOES_ON, OF_PORT, OpKind
from headway.sim.machine import load
from headway.sim.replay.bursts import see
from headway.sim.replay.change import NOTHING, Change, Shorten, parse_shorten, role_named, specify
from headway.sim.replay.computing import computing
from headway.sim.replay.learn import learn
from headway.sim.replay.outside import asked_sleeps, find_peer
from headway.sim.replay.wakes import find_wakes
from headway.traces.calls import Call, call_at, sleep_ns_at
from headway.traces.model import Frame, Kind
from headway.traces.sources import changed_since

COSTS = load("preset")


# ---------------------------------------------------------------------------- bursts
def test_a_burst_goes_over_the_holds_that_it_was_interrupted_into():
    """A burst's running time is the sum of its holds, and its turn begins with its first wait."""
    rows = [
        (0, 0, Kind.ACQUIRE, 0),
        (500, 1, Kind.WAIT, 2),
        (5000, 0, Kind.RELEASE, 1, True),
        (5001, 1, Kind.ACQUIRE, 0),
        (5002, 0, Kind.WAIT, 1),
        (5101, 1, Kind.RELEASE, 2),
        (5102, 0, Kind.ACQUIRE, 0),
        (6102, 0, Kind.RELEASE, 1),
        (7000, 0, Kind.ACQUIRE, 0),
        (7500, 0, Kind.RELEASE, 1),
    ]
    seen = see(trace_of(rows), 0, 0, 1000 * MS)
    main, other = seen.bursts[0], seen.bursts[1]
    assert main.run_ns.tolist() == [6000 * US, 500 * US]
    assert main.want_ns.tolist() == [0, 7000 * US]
    assert main.end_ns.tolist() == [6102 * US, 7500 * US]
    assert main.away_ns.tolist() == [898 * US, -1]
    assert main.holds.tolist() == [2, 1]
    assert not main.goes_on
    assert other.turn_ns.tolist() == [4601 * US]
    assert seen.interval_ns == 5 * MS


def test_a_thread_that_never_lets_go_by_itself_goes_on():
    """A thread that never releases by itself has no burst that ended, and computes in the model."""
    rows = [
        (0, 0, Kind.ACQUIRE, 0),
        (5000, 0, Kind.RELEASE, 1, True),
        (5200, 0, Kind.ACQUIRE, 0),
    ]
    bursts = see(trace_of(rows, until_ns=10 * MS), 0, 0, 10 * MS).bursts[0]
    assert len(bursts) == 0
    assert bursts.goes_on
    assert bursts.unfinished_ns == 9800 * US
    model = learn(trace_of(rows, until_ns=10 * MS), COSTS)
    assert model.actors[0].ops["kind"].tolist() == [OpKind.COMPUTE]


# ---------------------------------------------------------------------------- computing without the GIL
def calls_of(shares, *, away_us=1000, **process):
    """Return a trace of a thread that is away for `away_us` after each hold of 100 us, with the measured CPU shares."""
    rows, flags = [], []
    for index, share in enumerate([None, *shares]):
        at = index * (100 + away_us)
        rows += [(at, 0, Kind.ACQUIRE, 0), (at + 100, 0, Kind.RELEASE, 1)]
        flags += [0 if share is None else ran(share), 0]
    end_us = len(rows) // 2 * (100 + away_us)
    trace = trace_of(rows, until_ns=end_us * US, **process)
    trace.events["flags"] |= np.array(flags, dtype=np.uint16)
    return trace


def operations(trace):
    """Return the kinds and times of the thread's operations between its holds."""
    ops = learn(trace, COSTS).actors[0].ops
    return [(OpKind(op["kind"]), int(op["value"])) for op in ops if op["kind"] in {OpKind.RUN, OpKind.BLOCK}][1:]


def test_a_time_away_has_what_was_measured_of_it_and_others_of_its_place_are_like_it():
    """A time away has its measured share, and one that was not measured has its place's mean.

    The shares are 1, a half and a quarter; the fourth was not measured. The length of the last one is unknown.
    """
    trace = calls_of([1.0, 0.5, 0.25, None], core_count=2)
    seen = see(trace, 0, 0, trace.end_ns)
    assert seen.bursts[0].away_cpu_ns.tolist() == [MS, MS // 2, pytest.approx(MS / 4, abs=3 * US), -1, -1]
    found = computing(seen, 2)
    assert found.ran_ns[0].tolist() == [
        MS, MS // 2, pytest.approx(MS / 4, abs=3 * US), pytest.approx(1.75 / 3 * MS, abs=3 * US), -1
    ]  # fmt: skip
    assert found.places == {1}
    assert not found.crowded


def test_a_call_that_was_not_measured_is_like_those_that_took_as_long():
    """A call that was not measured computes as much as calls of its length did.

    The calls compute for 100 us, and some of them waited 20 ms for a core.
    """
    rows, shares, at = [], [], 0
    for index in range(60):
        away_us = 20_000 if index % 3 == 2 else 100
        rows += [(at, 0, Kind.ACQUIRE, 0), (at + 10, 0, Kind.RELEASE, 1)]
        shares += [(0.005 if away_us == 20_000 else 1.0) if index % 2 else None]
        at += 10 + away_us
    rows += [(at, 0, Kind.ACQUIRE, 0), (at + 10, 0, Kind.RELEASE, 1)]
    trace = trace_of(rows, core_count=2)
    acquires = np.flatnonzero(trace.events["kind"] == Kind.ACQUIRE)
    for index, share in zip(acquires[1:], shares, strict=True):
        trace.events["flags"][index] = 0 if share is None else ran(share)
    found = computing(see(trace, 0, 0, 1000 * MS), 2)
    known = found.ran_ns[0][:-1]
    assert np.all((known > 70 * US) & (known < 130 * US))
    assert found.places == {1}


def test_the_wait_before_a_hold_has_it_too():
    """A thread that finds the GIL held wants it from the WAIT on."""
    trace = trace_of([*turn(0, 0, holds_us=100, stack=1), *turn(1100, 0, waits_us=50, holds_us=100, stack=1)])
    trace.events["flags"][trace.events["kind"] == Kind.WAIT] = ran(0.5)
    assert see(trace, 0, 0, 1000 * MS).bursts[0].away_cpu_ns.tolist() == [MS // 2, -1]


def test_what_a_call_computes_is_told_from_what_it_waits():
    """A call computes for the measured time, and is blocked for the rest, apart from its wake-up."""
    trace = calls_of([0.25] * 40, core_count=2)
    ops = learn(trace, COSTS).actors[0].ops
    runs = ops["kind"] == OpKind.RUN
    assert set(ops["flags"][runs]) == {GOES_ON}  # the GIL is not acquired in between
    assert set(ops["kind"][1:][runs[:-1]]) == {OpKind.BLOCK}
    found = operations(trace)
    assert {kind for kind, _ in found} == {OpKind.RUN, OpKind.BLOCK}
    for kind, value_ns in found[:-2]:
        low, high = (240 * US, 260 * US) if kind is OpKind.RUN else (650 * US, 760 * US)
        assert low < value_ns < high


def test_a_call_that_computes_beside_too_many_others_waits_for_a_core_only():
    """A call that computes beside too many others waits only for a core.

    The simulator makes it wait for a core. If it were also replayed as blocked, it would wait twice.
    """
    rows = []
    for thread in range(3):
        for index in range(40):
            at = thread * 200 + index * 1100
            rows += [(at, thread, Kind.ACQUIRE, 0), (at + 100, thread, Kind.RELEASE, 1)]
    for cores, blocked in ((2, False), (3, True)):
        trace = trace_of(rows, names=("one", "two", "three"), until_ns=45 * MS, core_count=cores)
        trace.events["flags"][trace.events["kind"] == Kind.ACQUIRE] = ran(0.7)
        model = learn(trace, COSTS)
        kinds = {int(kind) for actor in model.actors for kind in actor.ops["kind"][2:-2]}
        assert OpKind.RUN in kinds
        assert (OpKind.BLOCK in kinds) == blocked


def test_a_trace_in_whose_middle_nothing_happens_is_too_short():
    """A trace without events in its middle is refused as too short, because there is nothing to measure."""
    with pytest.raises(ScenarioError, match="too short"):
        learn(trace_of(turn(0, 0, holds_us=10, stack=1), until_ns=500 * MS), COSTS)


def test_a_call_that_never_computes_is_blocked():
    """A call that never computes is blocked, as in a trace in which nothing was measured."""
    assert {kind for kind, _ in operations(calls_of([0.0] * 40, core_count=1))} == {OpKind.BLOCK}
    assert {kind for kind, _ in operations(calls_of([None] * 40, core_count=1))} == {OpKind.BLOCK}


# ---------------------------------------------------------------------------- calls
@pytest.mark.parametrize(
    ("frame", "call"),
    [
        (Frame("/usr/lib/python3.13/threading.py", 359, "Condition.wait"), Call.LOCK),
        (Frame("/usr/lib/python3.13/queue.py", 180, "Queue.get"), Call.LOCK),
        (Frame("/usr/lib/python3.13/concurrent/futures/thread.py", 90, "_worker"), Call.LOCK),
        (Frame("/usr/lib/python3.13/selectors.py", 468, "EpollSelector.select"), Call.POLL),
        (Frame("/usr/lib/python3.13/socket.py", 300, "socket.accept"), Call.RECEIVE),
        (Frame("/nowhere/app.py", 3, "serve"), Call.UNKNOWN),
        (Frame("", 0, "?"), Call.UNKNOWN),
        (None, Call.UNKNOWN),
    ],
)
def test_the_standard_librarys_frames_tell_the_call(frame, call):
    """The module and the function of a frame tell its call."""
    assert call_at(frame) is call


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("time.sleep(0.01)", Call.SLEEP),
        ("data = conn.recv(4096)", Call.RECEIVE),
        ("conn.sendall(data)", Call.SEND),
        ("with self._lock:", Call.LOCK),
        ("item = items.get()", Call.LOCK),
        ("hashlib.sha256(data).digest()", Call.RUN),
        ("np.dot(a, b)", Call.RUN),
        ("conn.sendall(conn.recv(10))", Call.UNKNOWN),  # the line does not tell which of the two
        ("total += 1", Call.UNKNOWN),
    ],
)
def test_a_programs_own_line_tells_the_call(tmp_path, line, call):
    """A line of a program's own file tells its call, but two kinds of call in one line are not told apart."""
    path = tmp_path / "app.py"
    path.write_text(f"{line}\n", encoding="utf-8")
    assert call_at(Frame(str(path), 1, "work")) is call


def test_a_file_that_was_edited_since_tells_nothing(tmp_path):
    """A file that was edited since the trace, or is gone, tells nothing."""
    program, gone = tmp_path / "app.py", str(tmp_path / "gone.py")
    program.write_text("time.sleep(0.5)\n")
    frame = Frame(str(program), 1, "f")
    now_ns = program.stat().st_mtime_ns
    assert changed_since([str(program), gone, "<string>"], now_ns) == {gone}
    changed = changed_since([str(program)], now_ns - 1)
    assert (call_at(frame), call_at(frame, changed)) == (Call.SLEEP, Call.UNKNOWN)
    assert (sleep_ns_at(frame), sleep_ns_at(frame, changed)) == (500 * MS, None)


@pytest.mark.parametrize(
    ("line", "asked_ns"),
    [("time.sleep(0.25)", 250 * MS), ("sleep(1e-3)", MS), ("time.sleep(pause)", None), ("time.sleep(2 * x)", None)],
)
def test_a_line_tells_how_long_it_sleeps(tmp_path, line, asked_ns):
    """A sleep's time is taken from a line only if it is a number."""
    path = tmp_path / "app.py"
    path.write_text(f"{line}\n", encoding="utf-8")
    assert sleep_ns_at(Frame(str(path), 1, "work")) == asked_ns


# ---------------------------------------------------------------------------- wake-ups
def test_whoever_has_the_gil_a_wake_up_earlier_woke_the_thread():
    """The thread that held the GIL one wake-up's time earlier woke the thread: its burst posts at that point."""
    rows = [
        *turn(0, 1, holds_us=10, stack=2),  # sleeps on a lock
        (1000, 0, Kind.ACQUIRE, 0),
        (1500, 1, Kind.WAIT, 2),  # woken while main holds
        (2000, 0, Kind.RELEASE, 1),
        (2001, 1, Kind.ACQUIRE, 0),
        (2011, 1, Kind.RELEASE, 2),
        *turn(9000, 0, holds_us=10, stack=1),
    ]
    seen = see(trace_of(rows), 0, 0, 1000 * MS)
    wakes = find_wakes(seen, {0: Call.UNKNOWN, 1: Call.RUN, 2: Call.LOCK}, 40 * US)
    assert wakes.takes == {(1, 0): 0}
    assert wakes.posts == {(0, 0): ((460 * US, 0),)}
    assert wakes.count == 1
    assert find_wakes(seen, {0: Call.UNKNOWN, 1: Call.RUN, 2: Call.SLEEP}, 40 * US).count == 0


def test_whoever_has_the_gil_when_it_is_wanted_need_not_have_woken_the_thread():
    """The waker is the holder of one wake-up's time earlier.

    It is not the thread that has acquired the GIL since, nor one that never releases by itself.
    """
    rows = [
        *turn(0, 1, holds_us=10, stack=2),  # sleeps on a lock
        *turn(1000, 0, holds_us=20, stack=1),  # wakes it
        *turn(1025, 2, holds_us=30, stack=1),
        (1060, 3, Kind.ACQUIRE, 0),  # computes without end
        *turn(1065, 1, waits_us=5000, holds_us=10, stack=2),
        (6064, 3, Kind.RELEASE, 1, True),
        *turn(9000, 0, holds_us=10, stack=1),
        *turn(9100, 2, holds_us=10, stack=1),
    ]
    seen = see(trace_of(rows, names=("main", "other", "third", "cpu")), 0, 0, 1000 * MS)
    kinds = {0: Call.UNKNOWN, 1: Call.RUN, 2: Call.LOCK}
    wakes = find_wakes(seen, kinds, 50 * US)
    assert wakes.takes == {(1, 0): 0}
    assert wakes.posts == {(0, 0): ((15 * US, 0),)}
    assert find_wakes(seen, kinds, 5 * US).posts == {(2, 0): ((30 * US, 0),)}


def test_nobody_woke_a_thread_that_comes_back_long_after_the_last_hold():
    """A thread that comes back long after the last hold was woken from outside."""
    rows = [
        *turn(0, 1, holds_us=10, stack=2),
        *turn(1000, 0, holds_us=10, stack=1),
        *turn(5000, 1, holds_us=10, stack=2),
    ]
    assert find_wakes(see(trace_of(rows), 0, 0, 1000 * MS), {1: Call.RUN, 2: Call.LOCK}, 40 * US).count == 0


# ---------------------------------------------------------------------------- sleeps and peers
def test_a_sleep_was_asked_for_less_than_it_took():
    """The timer's slack and the wake-up are subtracted from a sleep, and a number in the line is taken as it is."""
    rows = [row for n in range(20) for row in turn(n * 2000, 1, holds_us=10, stack=2)]
    seen = see(trace_of(rows), 0, 0, 1000 * MS)
    kinds = {0: Call.UNKNOWN, 2: Call.SLEEP}
    asked = asked_sleeps(seen, 1, seen.bursts[1], kinds, COSTS, {}, 2)
    assert len(set(asked.tolist())) == 1
    assert 1800 * US < asked[0] < 1990 * US - 50 * US
    assert set(asked_sleeps(seen, 1, seen.bursts[1], kinds, COSTS, {2: 1500 * US}, 2).tolist()) == {1500 * US}


def echo(count, *, answer_us, waits_us=0, send_us=5):
    """Return the rows of a server that receives (stack 1) and sends (stack 2); its peer answers after `answer_us`."""
    rows, at = [], 0
    for _ in range(count):
        rows += turn(at, 0, waits_us=waits_us, holds_us=1, stack=2)  # releases to send
        at += waits_us + 1 + send_us
        rows += turn(at, 0, waits_us=waits_us, holds_us=1, stack=1)  # releases to receive
        at += waits_us + 1 + max(1, answer_us - 1 - send_us - waits_us)
    return rows


KINDS = {0: Call.UNKNOWN, 1: Call.RECEIVE, 2: Call.SEND}


def test_sends_after_a_long_wait_tell_what_cold_ones_take():
    """Sends after a long wait tell the cost of cold ones, and sends after no wait tell nothing.

    The cost is the program's own, so that warm sends take as long as the machine's.
    """
    for waits_us, told in ((5000, True), (0, False)):
        rows = echo(60, answer_us=400, send_us=200, waits_us=waits_us)
        trace = trace_of(rows, until_ns=rows[-1][0] * US + MS, core_count=1)
        turns = np.flatnonzero(trace.events["kind"] == (Kind.WAIT if waits_us else Kind.ACQUIRE))
        trace.events["flags"][turns[1::2]] = ran(1.0)  # the thread is back from a send
        own = learn(trace, COSTS, KINDS).own_costs
        assert ("cold_send" in own) == told
        assert "cold_receive" not in own
        if told:
            hot_ns = COSTS.median("send") + COSTS.median("send_end")
            assert np.median(own["cold_send"]) == pytest.approx(200 * US - hot_ns, rel=0.02)


def peer_of(rows):
    seen = see(trace_of(rows), 0, 0, 1000 * MS)
    return find_peer(seen, 0, seen.bursts[0], KINDS, COSTS)


def test_a_peer_that_takes_its_time_answers_after_that():
    """The time of a peer's answers is that of the trace without the wake-up."""
    peer = peer_of(echo(50, answer_us=20_000))
    assert not peer.simulated
    assert 19_000 * US < np.median(peer.answers) < 20_000 * US


def test_a_peer_that_is_as_quick_as_one_on_this_machine_is_simulated():
    """A peer as quick as one on this machine is simulated, and answers sooner if it is asked sooner."""
    assert peer_of(echo(50, answer_us=100)).simulated


def test_in_a_convoy_the_peers_time_does_not_show():
    """A convoy hides the peer's time, and the model says what it assumes."""
    peer = peer_of(echo(50, answer_us=100, waits_us=5000))
    assert peer.simulated
    assert "the trace does not show how soon peers send" in peer.assumed


def test_requests_that_wait_already_are_no_peers_time():
    """A receive that finds its data right after the last answer has more than one request to take."""
    peer = peer_of(echo(50, answer_us=7))
    assert peer.always_there


@pytest.mark.parametrize("until_us", range(4000, 4120, 20))
def test_each_request_of_a_simulated_client_is_answered(until_us):
    """Each request is answered, also one that the window's end left open.

    Otherwise the client would wait for ever, and the thread with it.
    """
    model = learn(trace_of(echo(50, answer_us=100), until_ns=until_us * US), COSTS, KINDS)
    actor = model.actors[0]
    assert model.ports[actor.port].connections == 1
    kinds = actor.ops["kind"].tolist()
    assert 20 <= kinds.count(OpKind.RECEIVE) <= kinds.count(OpKind.REPLY)
    assert set(actor.ops["flags"][np.isin(kinds, (OpKind.RECEIVE, OpKind.REPLY))].tolist()) == {OF_PORT}


def test_how_a_program_starts_is_not_replayed():
    """The start of a program is not replayed.

    Imports beside a thread that computes take a second, and other code releases the GIL in that time.
    """
    rows = [row for at in range(0, 500_000, 1000) for row in turn(at, 0, holds_us=10, stack=1)]
    rows += [row for at in range(500_000, 1_000_000, 1000) for row in turn(at, 0, holds_us=10, stack=2)]
    model = learn(trace_of(rows), COSTS)
    assert model.seen.since_ns == 500 * MS
    assert learn(trace_of(rows[: len(rows) // 2], until_ns=500 * MS), COSTS).seen.since_ns == 50 * MS


@pytest.mark.parametrize("answering", [0, 1])
def test_requests_that_another_thread_answers_are_outside_the_model(answering):
    """Requests that another thread answers are outside the model, because a peer's return depends on both threads."""
    rows = []
    for at in range(0, 900_000, 10_000):
        rows += turn(at, 0, holds_us=10, stack=1)
        rows += turn(at + 100, answering, holds_us=10, stack=2)
    found = learn(trace_of(rows), COSTS, KINDS).outside
    assert any("another answers them" in one for one in found) == (answering == 1)


# ---------------------------------------------------------------------------- the model, and changes of it
@pytest.mark.parametrize(("last_ms", "low", "high"), [(1000, 0, 0.05), (500, 0.3, 0.5)])
def test_how_sure_a_rate_is_shows_in_the_parts_of_the_window(last_ms, low, high):
    """The rate of a thread that works all the time is surer than that of one that works in the first half."""
    rows = [row for at in range(0, last_ms * 1000, 1000) for row in turn(at, 0, holds_us=10, stack=1)]
    rows += turn(990_000, 1, holds_us=10, stack=1)  # so that the window reaches up to here
    assert low <= learn(trace_of(rows), COSTS, KINDS).measured["main"].turns_error <= high


def test_threads_with_numbers_are_a_role():
    """Threads whose names differ in numbers are one role, which a user may name by its plain part."""
    rows = [row for thread in range(3) for row in turn(thread * 1000, thread, holds_us=10, stack=1)]
    rows += [row for thread in range(3) for row in turn(500_000 + thread * 1000, thread, holds_us=10, stack=1)]
    model = learn(trace_of(rows, names=("worker 0", "worker 1", "loop")), COSTS)
    assert model.roles == ("worker *", "loop")
    assert role_named(model, "worker") == "worker *"
    assert role_named(model, "Loop") == "loop"
    with pytest.raises(ScenarioError, match="'o' fits several roles"):
        role_named(model, "o")


@pytest.mark.parametrize("has_gil", [True, False])
def test_nothing_to_replay_is_told(has_gil):
    """A trace without a GIL gives no prediction, and the error says so."""
    rows = [] if has_gil else [(0, 0, Kind.PARK, 0)]
    with pytest.raises(ScenarioError, match="shows no GIL"):
        learn(trace_of(rows, has_gil=has_gil), COSTS)


def test_what_a_change_tells_the_simulator():
    """Each change appears in the specification, and nothing else does."""
    rows = [row for n in range(40) for row in turn(n * 20_000, n % 2, holds_us=10, stack=1 + n % 2)]
    model = learn(trace_of(rows), COSTS)
    spec, replayed = specify(model, NOTHING, COSTS, 7, MS, cores=2)
    assert [one.role for one in replayed] == ["main", "other"]
    assert (spec.seed, spec.core_count, spec.gils[0].policy, spec.gils[0].interval_ns) == (7, 2, 0, 5 * MS)
    change = Change(policy="fair", interval_ns=MS, threads=(("other", 3),), cores=4, without=("main",))
    spec, replayed = specify(model, change, COSTS, 7, MS, cores=2)
    assert [one.role for one in replayed] == ["other", "other", "other"]
    assert (spec.core_count, spec.gils[0].interval_ns) == (4, MS)
    assert spec.gils[0].policy != 0
    spec, _ = specify(model, Change(gil=False), COSTS, 7, MS, cores=2)
    assert (spec.gils[0].enabled, spec.gils[0].slow_down) == (False, 0.1)
    spec, _ = specify(model, Change(shorten=(Shorten("app.py", 1, 0.5),)), COSTS, 7, MS, cores=2)
    plain, _ = specify(model, NOTHING, COSTS, 7, MS, cores=2)
    holds = [role.ops["value"][role.ops["kind"] == OpKind.HOLD] for role in (*spec.roles, *plain.roles)]  # type: ignore[call-overload]
    assert holds[0].sum() * 2 == pytest.approx(holds[2].sum(), rel=0.01)
    assert holds[1].sum() == holds[3].sum()


def test_a_change_in_words():
    """A change is written as on the command line."""
    change = Change(
        policy="fair",
        options=(("latency_us", 20000),),
        interval_ns=500_000,
        threads=(("cpu", 8),),
        cores=4,
        processes=True,
        gil=False,
        without=("burner",),
        shorten=(parse_shorten("app.py:42=0.5"),),
    )
    assert str(change) == (
        "--policy fair --option latency_us=20000 --switch-interval 0.0005 --threads cpu:8 --cores 4 --processes --no-gil "
        "--without burner --shorten app.py:42=0.5"
    )
    assert str(NOTHING) == "no change"
    dashes = Change(threads=(("-x", 3),), without=("-y z",), shorten=(parse_shorten("-a.py:1=0.5"),))
    assert str(dashes) == "--threads=-x:3 --without='-y z' --shorten=-a.py:1=0.5"


@pytest.mark.parametrize("text", ["app.py", "app.py:x=1", "app.py:3", "app.py:3=-1", "app.py:3=1e9", "app.py:3=e"])
def test_what_is_no_shortening(text):
    """The message says what is expected."""
    with pytest.raises(ScenarioError, match="expected FILE:LINE=FACTOR"):
        parse_shorten(text)
