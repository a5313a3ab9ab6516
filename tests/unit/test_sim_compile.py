"""The exact specification that a scenario gives the simulator."""

import pytest

from headway import native
from headway.errors import ScenarioError
from headway.native_sim import COSTS, OF_CLOCK, OF_DIST, OF_LOCK, Client, Gil, Op, OpKind, Role
from headway.sim import machine
from headway.sim.compile import compile_scenario
from headway.sim.parameters import change
from headway.sim.parse import parse
from headway.sim.times import Times

COST = machine.load(machine.PRESET)


def compiled(text, seed=1, **more):
    return compile_scenario(parse(text, name="app"), COST, seed, **more)


def test_a_program_becomes_operations():
    """A step is an operation with the step's number, a loop is two around its body, and distributions are shared."""
    spec = compiled(
        """
locks = ["state"]
[semaphore.turn]
initial = 2
[role.a]
program = [
    {receive = "r"}, {hold_us = {uniform = [1, 2]}}, {call_us = {exponential = 2}}, {run_us = {exponential = 2}},
    {every_ms = 4}, {loop = 3, do = [{sleep_ms = 1}, {block_ms = 2}, {every_ms = 3}]},
    {lock = "state"}, {unlock = "state"}, {take = "turn"}, {post = "turn"},
    {begin = true}, {done = true}, {reply = true}, {send = true}, {answer_us = 7}, {exit = true},
]
[client.c]
port = "r"
"""
    ).spec

    assert [(op.kind, op.value, op.index, op.where, op.flags) for op in spec.roles[0].ops] == [
        (OpKind.RECEIVE, 0, 0, 1, 0),
        (OpKind.HOLD, 0, 0, 2, OF_DIST),
        (OpKind.CALL, 0, 1, 3, OF_DIST),
        (OpKind.RUN, 0, 1, 4, OF_DIST),
        (OpKind.SLEEP, 4_000_000, 0, 5, OF_CLOCK),
        (OpKind.LOOP, 3, 0, 6, 0),
        (OpKind.SLEEP, 1_000_000, 0, 7, 0),
        (OpKind.BLOCK, 2_000_000, 0, 8, 0),
        (OpKind.SLEEP, 3_000_000, 1, 9, OF_CLOCK),
        (OpKind.END, 0, 0, 6, 0),
        (OpKind.TAKE, 0, 0, 10, 0),
        (OpKind.POST, 0, 0, 11, OF_LOCK),
        (OpKind.TAKE, 0, 1, 12, 0),
        (OpKind.POST, 0, 1, 13, 0),
        (OpKind.BEGIN, 0, 0, 14, 0),
        (OpKind.DONE, 0, 0, 15, 0),
        (OpKind.REPLY, 0, 0, 16, 0),
        (OpKind.SEND, 0, 0, 17, 0),
        (OpKind.ANSWER, 7_000, 0, 18, 0),
        (OpKind.EXIT, 0, 0, 19, 0),
    ]
    assert spec.dists == (
        Times("uniform", (1000.0, 2000.0)).quantiles(),
        Times("exponential", (2000.0,)).quantiles(),
    )
    assert spec.semaphores == (1, 2)
    assert spec.port_count == 1


def test_queues_are_semaphores():
    """A queue with a capacity is two semaphores, free places and items; one without is its items."""
    spec = compiled(
        """
[queue.small]
capacity = 5
[queue.large]
[role.a]
program = [{hold_us = 1}, {put = "small"}, {put = "large"}]
[role.b]
program = [{get = "small"}, {get = "large"}]
"""
    ).spec

    assert spec.semaphores == (0, 5, 0)
    assert spec.roles[0].ops[1:] == (
        Op(OpKind.TAKE, index=1, where=2),
        Op(OpKind.POST, index=0, where=2),
        Op(OpKind.POST, index=2, where=3),
    )
    assert spec.roles[1].ops == (
        Op(OpKind.TAKE, index=0, where=4),
        Op(OpKind.POST, index=1, where=4),
        Op(OpKind.TAKE, index=2, where=5),
    )


@pytest.mark.parametrize(("placement", "role", "client"), [("free", 0, 0), ("split", 0b01, 0b10), ("same", 0b01, 0b01)])
def test_placements_are_the_labs(placement, role, client):
    """Roles and clients go to the placement's cores, unless they name their own."""
    text = f"""
placement = "{placement}"
cores = 4
[role.s]
program = [{{receive = "r"}}, {{reply = true}}]
[role.own]
cores = [1, 3]
program = [{{compute = true}}]
[client.c]
port = "r"
"""
    spec = compiled(text).spec

    assert (spec.roles[0].cores, spec.clients[0].cores) == (role, client)
    assert spec.roles[1].cores == 0b1010
    assert spec.core_count == 4


PER_CONNECTION = """
[role.other]
program = [{receive = "x"}, {reply = true}]
[role.server]
program = [{receive = "r"}, {reply = true}]
[client.first]
port = "x"
[client.c]
port = "r"
connections = 3
thread_per_connection = true
rate_per_s = 10
"""


def test_a_thread_per_connection_has_a_port_of_its_own():
    """The role has as many threads as there are connections, and the n-th of both use the n-th port."""
    found = compiled(PER_CONNECTION)

    assert found.spec.port_count == 4
    assert [(role.threads, role.port_step) for role in found.spec.roles] == [(1, 0), (3, 1)]
    assert found.spec.roles[1].ops[0].index == 1
    assert found.spec.clients == (Client(1, 0), Client(3, 1, port_step=1, rate_per_s=10.0))
    assert found.parts == {"other": (0,), "server": (1,), "first": (2,), "c": (3,)}
    assert [place.name for place in found.threads] == ["other", "server 0", "server 1", "server 2"]


def test_connections_take_their_threads_along():
    """The parameter `connections` sets both."""
    found = change(parse(PER_CONNECTION, name="app"), "c.connections", "5")

    assert compile_scenario(found, COST, 1).spec.roles[1].threads == 5


def test_processes_are_gils():
    """Each process with threads has a GIL; a role with `processes` has one per thread, and other programs have none."""
    found = compiled(
        """
switch_interval_ms = 1
[process.web]
gil = false
slow_down = 0.5
[process.idle]
[role.a]
process = "web"
program = [{hold_us = 1}]
[role.b]
threads = 2
processes = true
begin_us = 3
stagger_us = 4
program = [{hold_us = 1}]
[role.c]
process = "none"
program = [{run_us = 1}]
[role.none]
threads = 0
program = [{hold_us = 1}]
"""
    )
    plain = Gil(interval_ns=1_000_000)

    assert found.gils == ("web", "b 0", "b 1")
    assert found.spec.gils == (Gil(enabled=False, interval_ns=1_000_000, slow_down=0.5), plain, plain)
    assert [role.gil for role in found.spec.roles] == [0, 1, 2, -1]
    assert [(role.threads, role.begin_ns) for role in found.spec.roles[1:3]] == [(1, 3_000), (1, 7_000)]
    assert found.parts == {"a": (0,), "b": (1, 2), "c": (3,), "none": ()}
    assert [(place.name, place.begin_ns) for place in found.threads] == [
        ("a", 0),
        ("b 0", 3_000),
        ("b 1", 7_000),
        ("c", 0),
    ]


def test_the_rest_of_the_specification():
    """The seed, the times, the costs in the library's order and the room for events are as given."""
    spec = compiled(
        "duration_s = 2\nwarm_ms = 1\n[role.a]\nrepeats = false\nurgent = true\npriority = -3\nprogram = [{hold_us = 1}]\n",
        seed=7,
        max_events=99,
    ).spec

    assert (spec.seed, spec.max_events, spec.warm_ns, spec.end_ns) == (7, 99, 1_000_000, 2_001_000_000)
    assert spec.costs == tuple(COST.costs[name] for name in COSTS)
    assert (spec.tick_ns, spec.slice_ns, spec.migration_ns) == (COST.tick_ns, COST.slice_ns, COST.migration_ns)
    assert spec.roles == (Role((Op(OpKind.HOLD, value=1_000, where=1),), 0, repeats=False, urgent=True, priority=-3),)


def test_a_policy_has_its_options_in_order():
    """Options that are not given are preset, and the engine's own are told apart."""
    policy = next(one for one in native.policies()[0] if one.name == "fair")
    preset = {one.name: one.preset for one in policy.options}
    gil = compiled(
        "policy = 'fair'\noptions = {latency_us = 20000, spin_us = 7, yield = 0}\n[role.a]\nprogram = [{hold_us = 1}]\n"
    ).spec.gils[0]

    assert gil.policy == native.find_policy("fair")[0] != 0
    assert gil.options == tuple((preset | {"latency_us": 20000}).values())
    assert (gil.spin_ns, gil.yields) == (7_000, False)


@pytest.mark.parametrize(
    ("policy", "message", "hint"),
    [
        ("policy = 'fiar'", "there is no policy 'fiar'", "did you mean `fair`?"),
        ("policy = '/none/mine.so'", "/none/mine.so", "name your own policy by a path"),
        ("policy = 'fair'\noptions = {latency = 1}", "the policy fair has no option 'latency'", "`latency_us`"),
        ("policy = 'fair'\noptions = {latency_us = 1}", "latency_us is 1, expected a whole number from 1000 to ", ""),
        ("policy = 'fair'\noptions = {os_batch = 1}", "the option os_batch is not simulated", "leave it out"),
    ],
)
def test_policies_that_are_not_there(policy, message, hint):
    """The error names the policy or the option."""
    with pytest.raises(ScenarioError) as caught:
        compiled(f"{policy}\n[role.a]\nprogram = [{{hold_us = 1}}]\n")

    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("[]", "the calibration x.json has no `costs`"),
        ('{"costs": {}}', "costs.switch of the calibration x.json is None, expected rising quantiles in ns"),
        ("{", "the calibration .*x.json cannot be read"),
    ],
)
def test_calibrations_that_are_none(tmp_path, values, message):
    """The error says what is missing."""
    path = tmp_path / "x.json"
    path.write_text(values)

    with pytest.raises(ScenarioError, match=message):
        machine.load(str(path))


def test_a_calibration_has_every_cost():
    """The preset has all that the simulator wants, and rising quantiles."""
    assert list(COST.costs) == list(COSTS)
    assert all(list(one) == sorted(one) for one in COST.in_order())
